"""BareMetalHosts from their creation on, before an API server in memory and a BMC that is not ours."""

import base64
import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import endpoint
from installer.common.ports import free_port
from installer.hub.baremetal.pairing import LIVE
from installer.hub.baremetal.provisioner import Done
from installer.hub.conditions import condition
from installer.hub.controllers.bmh import BareMetalHostController
from installer.hub.controllers.hostparts import DataImageController
from installer.hub.controllers.preprovisioning import PreprovisioningImageController
from installer.hub.kube.kinds import (
    AGENT,
    BARE_METAL_HOST,
    DATA_IMAGE,
    EVENT,
    HARDWARE_DATA,
    INFRA_ENV,
    PREPROVISIONING_IMAGE,
    SECRET,
    Key,
)
from installer.hub.kube.manager import Manager
from installer.hub.operator import KINDS
from installer.hub.service import HubClient
from installer.testing.hub.apiserver import api_server
from installer.testing.hub.bmc_kit import MAC, PASSWORD, USER, emulated_bmc, served_iso
from installer.testing.service.rendezvous_kit import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]
LABELS = {"infraenvs.agent-install.openshift.io": "env"}
BMAC = "bmac.agent-install.openshift.io"


@pytest.fixture(scope="module")
def bmc(tmp_path_factory):
    with emulated_bmc(tmp_path_factory.mktemp("bmc"), is_quick=True) as running:
        yield running


@pytest.fixture
def iso(tmp_path):
    with served_iso(tmp_path) as url:
        yield url


@contextmanager
def operator(server, *, is_converged=False):
    """Run the controllers, as a process of its own would."""
    stop, api = threading.Event(), server.api()
    client = HubClient(endpoint(f"http://127.0.0.1:{free_port()}/"), Scheme.USER, "token")
    manager = Manager(api, client, KINDS)
    hub = manager.hub
    hosts = BareMetalHostController(hub, is_converged=lambda: is_converged)
    controllers = [hosts, DataImageController(hub), PreprovisioningImageController(hub)]
    thread = threading.Thread(target=manager.run, args=(controllers, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(15)


@pytest.fixture
def server():
    with api_server() as running:
        yield running


@pytest.fixture
def api(server):
    with operator(server):
        api = server.api()
        yield api
        api.close()


def secret(api, name="login", password=PASSWORD):
    words = {"username": USER, "password": password}
    data = {key: base64.b64encode(word.encode()).decode() for key, word in words.items()}
    return api.create(SECRET, SECRET.new(Key("ns", name), data=data))


def host(api, bmc, name="a", *, labels=None, annotations=None, **spec):
    spec = {
        "online": True, "bootMACAddress": MAC.upper(), "inspectionMode": "disabled",
        "bmc": {"address": bmc.address, "credentialsName": "login", "disableCertificateVerification": True}, **spec,
    }  # fmt: skip
    obj = BARE_METAL_HOST.new(Key("ns", name), spec=spec)
    obj["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return api.create(BARE_METAL_HOST, obj)


def infra_env(api):
    return api.create(INFRA_ENV, INFRA_ENV.new(Key("ns", "env"), spec={}))


def made(api, url):
    condition = {"type": "ImageCreated", "status": "True", "reason": "InfraEnvAvailable"}
    env = api.get(INFRA_ENV, Key("ns", "env"))
    api.update_status(INFRA_ENV, {**env, "status": {"isoDownloadURL": url, "conditions": [condition]}})


def seen(api, name="a"):
    """Return state, errorType and conditions of a host."""
    obj = api.get(BARE_METAL_HOST, Key("ns", name)) or {}
    status = obj.get("status") or {}
    reasons = {item["type"]: item["reason"] for item in status.get("conditions", [])}
    return (status.get("provisioning") or {}).get("state"), status.get("errorType"), reasons


def until(api, state, name="a", error=None, seconds=40.0):
    wait_for(f"{name} {state} {error}", lambda: seen(api, name)[:2] == (state, error), seconds)
    return api.get(BARE_METAL_HOST, Key("ns", name))


def agent(api, name="agent-0", stage="", bound=""):
    disks = [
        {"id": f"/dev/disk/by-id/{name}", "path": f"/dev/{name}", "serial": name, "driveType": "SSD",
         "installationEligibility": {"eligible": True}} for name in ("sda", "sdb")
    ]  # fmt: skip
    inventory = {"hostname": "master-0", "interfaces": [{"name": "eth0", "macAddress": MAC}], "disks": disks}
    obj = api.get(AGENT, Key("ns", name)) or api.create(AGENT, AGENT.new(Key("ns", name), spec={"approved": False}))
    conditions = [{"type": "Bound", "status": "False", "reason": bound}] if bound else []
    status = {"inventory": inventory, "progress": {"currentStage": stage}, "conditions": conditions}
    return api.update_status(AGENT, {**obj, "status": status})


def test_a_host_boots_is_paired_handed_over_and_deleted(server, api, bmc, iso):
    annotations = {
        f"{BMAC}/role": "master", f"{BMAC}.node-label.zone": "x", f"{BMAC}.agent-label.site": "y",
        f"{BMAC}/cluster-reference": "other/cluster",
    }  # fmt: skip
    host(api, bmc, labels=LABELS, annotations=annotations, rootDeviceHints={"serialNumber": "sdb"})
    until(api, "registering", error="registration error")
    assert "Secret login is not in namespace ns" in api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["errorMessage"]
    infra_env(api)
    secret(api)
    until(api, "available")
    made(api, iso)
    booted = until(api, "provisioned")
    assert booted["spec"]["image"] == {"url": iso, "format": "live-iso"}
    assert booted["spec"]["automatedCleaningMode"] == "disabled"
    assert booted["status"]["poweredOn"] is True
    assert seen(api)[2] == {
        "Manageable": "Manageable", "AvailableForProvisioning": "NotAvailable", "Provisioned": "Provisioned",
        "Ready": "Provisioned", "Progressing": "NotProgressing", "Healthy": "Healthy",
    }  # fmt: skip
    agent(api)
    paired = wait_for("approval", lambda: (obj := api.get(AGENT, Key("ns", "agent-0")))["spec"]["approved"] and obj)
    assert paired["spec"] == {
        "approved": True, "role": "master", "installation_disk_id": "/dev/disk/by-id/sdb", "nodeLabels": {"zone": "x"},
        "clusterDeploymentName": {"namespace": "other", "name": "cluster"},
    }  # fmt: skip
    assert paired["metadata"]["labels"] == {"agent-install.openshift.io/bmh": "a", "site": "y"}
    wait_for("hardware", lambda: api.get(HARDWARE_DATA, Key("ns", "a")))
    agent(api, stage="Rebooting")
    paused = "baremetalhost.metal3.io/paused"
    wait_for("pause", lambda: paused in api.get(BARE_METAL_HOST, Key("ns", "a"))["metadata"]["annotations"])
    detached = api.get(BARE_METAL_HOST, Key("ns", "a"))
    assert detached["status"]["operationalStatus"] == "detached"
    status = json.loads(detached["metadata"]["annotations"]["baremetalhost.metal3.io/status"])
    assert status["provisioning"]["state"] == "provisioned"
    # Its host was unbound after the installation: discovery again.
    agent(api, bound="UnbindingPendingUserAction")
    wait_for("deprovisioning", lambda: "Deprovisioning" in seen(api)[2].values())
    again = until(api, "provisioned")
    assert not again["metadata"]["annotations"].keys() & {paused, "baremetalhost.metal3.io/detached"}
    # The Agent of its live system is deleted: the same, once more.
    agent(api)
    wait_for("pairing", lambda: LIVE in api.get(BARE_METAL_HOST, Key("ns", "a"))["metadata"]["annotations"])
    api.delete(AGENT, Key("ns", "agent-0"))
    wait_for("deprovisioning", lambda: "Deprovisioning" in seen(api)[2].values())
    assert LIVE not in until(api, "provisioned")["metadata"]["annotations"]
    api.delete(BARE_METAL_HOST, Key("ns", "a"))
    wait_for("deletion", lambda: api.get(BARE_METAL_HOST, Key("ns", "a")) is None)
    assert bmc.machine().register().powered is False
    written = json.dumps(
        [obj for kind in server.store.objects if kind is not SECRET for obj in server.store.objects[kind].values()]
    )
    assert PASSWORD not in written
    reasons = {event["reason"] for event in api.list(EVENT, "ns")[0]}
    assert {"BMCCredentialError", "Registered", "ProvisioningStarted", "DeprovisioningComplete"} <= reasons


def test_hardware_of_an_annotation_is_taken_where_nothing_is_inspected_and_text_is_not(api, bmc):
    hardware = "inspect.metal3.io/hardwaredetails"
    host(api, bmc, annotations={hardware: '{"hostname": "typed"}'}, online=False)
    secret(api)
    until(api, "available")
    assert api.get(HARDWARE_DATA, Key("ns", "a"))["spec"]["hardware"]["hostname"] == "typed"
    annotation = {"metadata": {"annotations": {hardware: "no JSON"}}}
    api.patch(BARE_METAL_HOST, Key("ns", "a"), annotation)
    wait_for("removal", lambda: hardware not in api.get(BARE_METAL_HOST, Key("ns", "a"))["metadata"]["annotations"])
    assert api.get(HARDWARE_DATA, Key("ns", "a"))["spec"]["hardware"]["hostname"] == "typed"
    wait_for(
        "events",
        lambda: {"UpdateHardwareDetails", "RemoveAnnotation"} <= {item["reason"] for item in api.list(EVENT, "ns")[0]},
    )


def test_a_host_whose_secret_goes_first_is_switched_off(api, bmc, iso):
    """As by `kubectl delete` of a file or a namespace with both."""
    secret(api)
    infra_env(api)
    made(api, iso)
    host(api, bmc, labels=LABELS)
    until(api, "provisioned")
    api.delete(SECRET, Key("ns", "login"))
    until(api, "provisioned", error="provisioned registration error")
    api.delete(BARE_METAL_HOST, Key("ns", "a"))
    wait_for("deletion", lambda: api.get(BARE_METAL_HOST, Key("ns", "a")) is None)
    assert bmc.machine().register().powered is False


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("", "password is missing"),
        ("hid\n", "password has a line break"),
        ("hid€", "password has characters that are not"),
    ],
)
def test_logins_that_are_none_are_not_tried_and_not_shown(api, bmc, password, why):
    secret(api, password=password)
    host(api, bmc)
    message = until(api, "registering", error="registration error")["status"]["errorMessage"]
    assert f"Secret login, of spec.bmc.credentialsName: {why}" in message
    assert "hid" not in message


def test_corrected_credentials_end_the_error_at_once(api, bmc):
    """Though the next try is minutes away after as many errors."""
    old = secret(api, password="wrong")
    host(api, bmc)
    until(api, "registering", error="registration error")
    assert "refuses the account" in api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["errorMessage"]
    failed = api.get(BARE_METAL_HOST, Key("ns", "a"))
    api.update_status(BARE_METAL_HOST, failed | {"status": failed["status"] | {"errorCount": 9}})
    data = old["data"] | {"password": base64.b64encode(PASSWORD.encode()).decode()}
    api.patch(SECRET, Key("ns", "login"), {"data": data})
    until(api, "available", seconds=8)


def test_a_corrected_address_ends_the_error_at_once(api, bmc):
    """Though the next try is minutes away after as many errors."""
    secret(api)
    host(api, replace(bmc, port=free_port()))
    failed = until(api, "registering", error="registration error")
    api.update_status(BARE_METAL_HOST, failed | {"status": failed["status"] | {"errorCount": 9}})
    wait_for("the next try", lambda: api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["errorCount"] == 10)
    api.patch(BARE_METAL_HOST, Key("ns", "a"), {"spec": {"bmc": {"address": bmc.address}}})
    until(api, "available", seconds=8)


def test_a_mac_that_is_on_no_nic_is_said_though_the_host_boots(api, bmc, iso):
    secret(api)
    infra_env(api)
    made(api, iso)
    host(api, bmc, labels=LABELS, bootMACAddress="02:00:00:00:00:01")
    conditions = until(api, "provisioned")["status"]["conditions"]
    [ready] = [item for item in conditions if item["type"] == "Ready"]
    assert ready["reason"] == "Error"
    assert f"02:00:00:00:00:01, by which its Agent is found, is on none of its NICs: {MAC}" in ready["message"]


def test_two_hosts_with_one_mac_both_say_so_until_there_is_one(api, bmc):
    secret(api)
    host(api, bmc, "a")
    until(api, "available")
    host(api, bmc, "b", bootMACAddress=MAC)
    until(api, "registering", "b", error="registration error")
    first = until(api, "available", "a", error="registration error")
    assert "is also that of BareMetalHost b" in first["status"]["errorMessage"]
    api.delete(BARE_METAL_HOST, Key("ns", "b"))
    until(api, "available", "a", seconds=8)


def test_an_operator_that_was_killed_goes_on_where_the_host_is(server, bmc, iso):
    api = server.api()
    secret(api)
    with operator(server):
        host(api, bmc, image={"url": iso, "format": "live-iso"})
        until(api, "provisioning")
    with operator(server):
        until(api, "provisioned")
        api.patch(BARE_METAL_HOST, Key("ns", "a"), {"metadata": {"annotations": {"reboot.metal3.io": ""}}})
        reboots = "reboot.metal3.io"
        wait_for("off", lambda: not api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["poweredOn"])
        wait_for("on", lambda: api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["poweredOn"])
        assert reboots not in api.get(BARE_METAL_HOST, Key("ns", "a"))["metadata"]["annotations"]
        api.patch(BARE_METAL_HOST, Key("ns", "a"), {"spec": {"image": None}})
        until(api, "available")
    api.close()


def powered(api):
    return api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["poweredOn"]


def reboot(api):
    """Have a host that is on reboot, and wait until it is off."""
    annotations = {"reboot.metal3.io": '{"mode": "hard"}'}
    api.patch(BARE_METAL_HOST, Key("ns", "a"), {"metadata": {"annotations": annotations}})
    wait_for("off", lambda: not powered(api))


def test_a_data_image_goes_into_the_drive_and_out_of_it_while_its_host_is_off(api, bmc, iso):
    def status():
        return (api.get(DATA_IMAGE, Key("ns", "a")) or {}).get("status") or {}

    secret(api)
    host(api, bmc, externallyProvisioned=True)
    until(api, "externally provisioned")
    wait_for("on", lambda: powered(api))
    api.create(DATA_IMAGE, DATA_IMAGE.new(Key("ns", "a"), spec={"url": "ftp://somewhere/data.iso"}))
    kept = wait_for(
        "finalizer", lambda: (obj := api.get(DATA_IMAGE, Key("ns", "a")))["metadata"].get("finalizers") and obj
    )
    assert [owner["name"] for owner in kept["metadata"]["ownerReferences"]] == ["a"]
    reboot(api)
    wait_for("an error", lambda: "spec.url" in (status().get("error") or {}).get("message", ""))
    failed = until(api, "externally provisioned", error="power management error")
    assert "DataImage a: spec.url: it is no URL" in failed["status"]["errorMessage"]
    api.patch(DATA_IMAGE, Key("ns", "a"), {"spec": {"url": iso}})
    wait_for("the image", lambda: status().get("attachedImage") == {"url": iso})
    assert "error" not in status()
    wait_for("on", lambda: powered(api))
    assert "holds another image" in bmc.machine().hold("", "").message
    api.delete(DATA_IMAGE, Key("ns", "a"))
    reboot(api)
    wait_for("its end", lambda: api.get(DATA_IMAGE, Key("ns", "a")) is None)
    assert isinstance(bmc.machine().hold("", ""), Done)


def test_a_host_of_the_converged_flow_boots_its_preprovisioning_image(server, bmc, iso):
    def reason():
        return condition(api.get(PREPROVISIONING_IMAGE, Key("ns", "a")) or {}, "Ready").get("reason")

    def image():
        return (api.get(BARE_METAL_HOST, Key("ns", "a"))["status"]["provisioning"].get("image") or {}).get("url")

    api = server.api()
    with operator(server, is_converged=True):
        secret(api)
        infra_env(api)
        host(api, bmc, labels=LABELS, inspectionMode=None)
        until(api, "available")
        wait_for("the image's", lambda: reason() == "WaitingForInfraEnvImageToBeCreated")
        made(api, iso)
        booted = until(api, "provisioned")
        assert booted["spec"]["customDeploy"] == {"method": "start_assisted_install"}
        assert not booted["spec"].get("image")
        assert "inspect.metal3.io" not in booted["metadata"].get("annotations", {})
        assert booted["status"]["provisioning"]["customDeploy"] == {"method": "start_assisted_install"}
        assert (image(), reason()) == (iso, "InfraEnvAvailable")
        # Another image before the installation, which the host boots; none during it.
        made(api, f"{iso}?second")
        wait_for("the second image", lambda: image() == f"{iso}?second" and seen(api)[0] == "provisioned", 40)
        agent(api, stage="Writing image to disk")
        wait_for("pairing", lambda: LIVE in api.get(BARE_METAL_HOST, Key("ns", "a"))["metadata"]["annotations"])
        made(api, f"{iso}?third")
        third = f"{iso}?third"
        wait_for("its image", lambda: api.get(PREPROVISIONING_IMAGE, Key("ns", "a"))["status"]["imageUrl"] == third)
        api.patch(BARE_METAL_HOST, Key("ns", "a"), {"metadata": {"labels": {"looked": "at"}}})
        assert (seen(api)[0], image()) == ("provisioned", f"{iso}?second")
        agent(api, stage="Rebooting", bound="UnbindingPendingUserAction")
        wait_for("the third image", lambda: image() == third and seen(api)[0] == "provisioned", 40)
        api.delete(BARE_METAL_HOST, Key("ns", "a"))
        wait_for("deletion", lambda: api.get(BARE_METAL_HOST, Key("ns", "a")) is None)
    api.close()
