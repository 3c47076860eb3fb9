from datetime import UTC, datetime
from itertools import product

import pytest

from installer.hub.admission.baremetalhost import problems
from installer.hub.baremetal import pairing
from installer.hub.baremetal.states import Credentials, Fault, Host, Operational, State, Wanted
from installer.hub.baremetal.status import conditions_of, credentials_of, host_of, status_of, wanted_of
from installer.hub.kube.kinds import BARE_METAL_HOST, Key

NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
# hub.md §8.
REASONS = {
    "Manageable": {"Manageable", "NotManaged", "Registering", "RegistrationFailed", "PowerFailure"},
    "AvailableForProvisioning": {"Available", "NotAvailable"},
    "Provisioned": {"Provisioned", "NotProvisioned"},
    "Ready": {"Provisioned", "NotProvisioned", "Error", "Detached"},
    "Progressing": {
        "Registering", "Inspecting", "Preparing", "Provisioning", "Deprovisioning", "PoweringOffBeforeDelete",
        "Deleting", "NotProgressing", "Detached",
    },
    "Healthy": {"Healthy", "Warning", "CriticalError", "Unknown"},
}  # fmt: skip


def bmh(status=None, annotations=None, **spec):
    spec = {"online": True, "bmc": {"address": "redfish://bmc", "credentialsName": "login"}, **spec}
    obj = BARE_METAL_HOST.new(Key("ns", "a"), spec=spec, status=status or {})
    obj["metadata"]["annotations"] = annotations or {}
    return obj


def test_conditions_have_the_reasons_of_the_reference_and_each_is_reached():
    seen: dict[str, set[str]] = {kind: set() for kind in REASONS}
    for state, fault, operational in product(State, Fault, Operational):
        host = Host(
            state, operational=Operational.ERROR if fault else operational, fault=fault, message="why" * bool(fault)
        )
        for health in ("OK", "Warning", "Critical", "Odd"):
            for condition in conditions_of(host, health=health):
                seen[condition.type].add(condition.reason)
    assert seen == REASONS


def test_a_problem_of_the_pairing_is_said_where_people_wait():
    host = Host(State.PROVISIONED, operational=Operational.OK)
    [ready] = [item for item in conditions_of(host, problem="InfraEnv env is not there") if item.type == "Ready"]
    assert (ready.status, ready.reason, ready.message) == ("False", "Error", "InfraEnv env is not there")


@pytest.mark.parametrize("fault", Fault)
def test_a_status_is_read_as_it_was_written(fault):
    host = Host(
        State.PROVISIONED, operational=Operational.ERROR if fault else Operational.OK, fault=fault,
        message="why" * bool(fault), errors=3, provisioning_failures=1, image="http://service/x.iso", powered_on=True,
    )  # fmt: skip
    assert host_of(bmh(status_of(bmh(), host, conditions_of(host), NOW))) == host


def test_a_status_that_says_the_same_is_the_same():
    host = Host(State.REGISTERING, operational=Operational.OK)
    status = status_of(bmh(), host, conditions_of(host), NOW, version="7", worked=True)
    assert status_of(bmh(status), host, conditions_of(host), LATER, version="7", worked=True) == status
    assert credentials_of(bmh(status), "7") is Credentials.GOOD
    assert credentials_of(bmh(status), "8") is Credentials.CHANGED
    assert (
        credentials_of(bmh(status, bmc={"address": "redfish://bmc", "credentialsName": "new"}), "7")
        is Credentials.CHANGED
    )
    assert credentials_of(bmh(status), "") is Credentials.MISSING
    after = status_of(bmh(status), Host(State.PREPARING), [], LATER)
    assert after["operationHistory"] == {"register": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}}


def test_wishes_of_annotations():
    def wanted(annotations, **spec):
        return wanted_of(bmh(annotations=annotations, **spec))

    plain = wanted({})
    assert plain == Wanted()
    assert wanted({"reboot.metal3.io": '{"mode": "hard"}'}).hard
    assert wanted({"reboot.metal3.io/other": ""}) == Wanted(held_off=True)
    assert wanted({"reboot.metal3.io": "no JSON"}) == Wanted(reboot=True)
    assert wanted({"baremetalhost.metal3.io/detached": "anybody"}) == Wanted(detached=True)
    arguments = '{"deleteAction": "delay", "force": true}'
    forced = wanted({"baremetalhost.metal3.io/detached": arguments})
    assert forced == Wanted(detached=True, deletion_delayed=True, detach_forced=True)
    assert wanted({"inspect.metal3.io": "disabled"}) == Wanted(inspection=False)
    assert wanted({"inspect.metal3.io": ""}) == Wanted(inspect_again=True)
    assert wanted({}, inspectionMode="disabled") == Wanted(inspection=False)
    assert not wanted({}, bmc={"address": ""}).managed
    for name, state in (("ready", State.AVAILABLE), ("match profile", State.PREPARING), ("odd", State.NONE)):
        assert host_of(bmh({"provisioning": {"state": name}})).state is state


def test_a_host_without_a_spec_is_one_without_a_bmc():
    obj = BARE_METAL_HOST.new(Key("ns", "a"))
    assert wanted_of(obj) == Wanted(managed=False, online=False)
    assert problems(None, obj) == []
    assert pairing.mac_of(obj) == ""
    assert pairing.bmh_change(obj, None, None, is_quiet=True) == {
        "metadata": {"finalizers": [pairing.METAL3_FINALIZER]}
    }
