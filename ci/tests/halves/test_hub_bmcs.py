"""The hub's machines behind the lab's BMCs, which behave like vendors' (docs/bmcs.md)."""

import gc

import msgspec
import pytest
from sushy import connector

from installer.common.redfish import connection, media
from installer.hub.baremetal import redfish
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.provisioner import Account, Busy, Done, Failed, Power
from installer.testing.hub.bmc_kit import served_iso
from lab.bmcs.profile import profile, working
from lab.daemons import httpd
from lab.testing.bmcs import PASSWORD, USER, Clock, running

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (connection, media, redfish, connector):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def bmc(request, tmp_path, clock):
    """Provide the BMC of a profile, with its delays; the power-off of one that takes its time is a timer's."""
    slow = profile(request.param)
    quick = msgspec.structs.replace(slow, power=msgspec.structs.replace(slow.power, off_seconds=0.1))
    changed = quick if slow.power.off_seconds else slow
    with running(request.param, tmp_path, changed, encrypted=False, clock=clock.monotonic) as bmc:
        yield bmc


@pytest.fixture
def iso(bmc, tmp_path):
    """Provide the URL of an ISO, in a form that this BMC reads."""
    schemes = bmc.profile.media.schemes
    (tmp_path / "state/some.iso").write_bytes(b"no image at all")
    with served_iso(tmp_path) as url:
        if "http" in schemes:
            yield url
        elif "nfs" in schemes:
            yield "nfs://files.example/export/some.iso"
        else:
            with httpd.serving(tmp_path, "127.0.0.1", 0, (tmp_path / "server.crt", tmp_path / "server.key")) as port:
                yield f"https://127.0.0.1:{port}/some.iso"


def machine_of(bmc, mode=""):
    address = parse(f"redfish-virtualmedia+{bmc.url}")
    return redfish.RedfishMachine(address, Account(USER, PASSWORD), verify=False, boot_mode=mode)


def finished(act, clock, seconds=300.0):
    """Call as the controller does: again while it is under way or the BMC is not ready."""
    end, seen = clock.monotonic() + seconds, []
    while True:
        outcome = act()
        seen.append(outcome)
        if isinstance(outcome, Done) or (isinstance(outcome, Failed) and not outcome.passing):
            return outcome
        assert clock.monotonic() < end, seen
        clock.sleep(outcome.seconds if isinstance(outcome, Busy) else 10.0)


@pytest.mark.parametrize("bmc", working(), indirect=True)
def test_a_machine_boots_the_iso_once_and_then_what_was_installed(bmc, iso, clock):
    machine = machine_of(bmc)
    nics = {"nics": [{"mac": "52:54:00:00:00:01"}]}
    assert machine.register() == Done(powered=False, health="OK", hardware=nics)
    assert nics.items() <= machine.inspect().hardware.items()
    assert finished(machine.prepare, clock) == Done()
    # It runs something else before.
    assert finished(lambda: machine.power(Power.ON), clock).powered
    assert finished(lambda: machine.provision(iso), clock) == Done(powered=True)
    assert bmc.machine.booted == ["nothing", "cdrom"]
    assert finished(lambda: machine_of(bmc).provision(iso), clock) == Done(powered=True)
    bmc.machine.installed = True
    bmc.machine.boot()
    assert bmc.machine.booted == ["nothing", "cdrom", "hd"]
    assert finished(machine.deprovision, clock) == Done(powered=False)
    assert finished(lambda: machine.power(Power.OFF), clock).powered is False
    # A host that is unbound boots the ISO again, though it is installed.
    assert finished(lambda: machine.provision(iso), clock) == Done(powered=True)
    assert bmc.machine.booted[3:] == ["cdrom"]
    machine.delete()


@pytest.mark.parametrize("bmc", ["liar", "bare"], indirect=True)
def test_a_bmc_that_cannot_boot_an_iso_says_why(bmc, iso, clock):
    outcome = finished(lambda: machine_of(bmc).provision(iso), clock)
    assert isinstance(outcome, Failed)
    assert ("the drive holds nothing" if bmc.profile.media.drives else "no virtual CD drive") in outcome.message


@pytest.mark.parametrize("bmc", ["lab"], indirect=True)
def test_a_boot_mode_that_the_machine_cannot_have_is_refused_before_it_starts(bmc, iso, clock):
    outcome = finished(lambda: machine_of(bmc, "legacy").provision(iso), clock)
    assert isinstance(outcome, Failed)
    assert "400" in outcome.message
    assert bmc.machine.booted == []
    assert finished(lambda: machine_of(bmc, "UEFI").provision(iso), clock) == Done(powered=True)


@pytest.mark.parametrize("bmc", ["nobody"], indirect=True)
def test_a_session_is_ended_when_it_is_asked_for_and_by_no_garbage_collector(bmc):
    """That runs in any thread: one that serves others would wait for the BMC. Here it was the BMC's own."""
    machine = machine_of(bmc)
    machine.register()
    answers = len(bmc.statuses)
    del machine
    gc.collect()
    assert len(bmc.statuses) == answers
    machine = machine_of(bmc)
    machine.register()
    answers = len(bmc.statuses)
    machine.delete()
    assert len(bmc.statuses) == answers + 1
