import pytest

from installer.hub.admission.baremetalhost import problems
from installer.hub.kube.kinds import BARE_METAL_HOST, Key

GOOD = {
    "online": True, "bootMACAddress": "00:00:5e:00:53:01",
    "bmc": {"address": "redfish-virtualmedia://bmc", "credentialsName": "login"},
    "image": {"url": "http://service/x.iso", "format": "live-iso"}, "rootDeviceHints": {"deviceName": "/dev/sda"},
}  # fmt: skip


def bmh(name="a", annotations=None, state="available", **spec):
    obj = BARE_METAL_HOST.new(Key("ns", name), spec={**GOOD, **spec}, status={"provisioning": {"state": state}})
    obj["metadata"]["annotations"] = annotations or {}
    return obj


def test_a_host_as_people_write_it_is_taken():
    assert problems(None, bmh(userData={"name": "x", "namespace": "ns"})) == []
    assert problems(None, bmh(annotations={"reboot.metal3.io/x": '{"mode": "hard"}', "inspect.metal3.io": ""})) == []


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (bmh("a/b"), "metadata.name: "),
        (bmh("27946b59-9e44-4fa7-8e91-f3527a1ef094"), "is a UUID"),
        (bmh(bmc={"address": "ipmi://bmc", "credentialsName": "x"}), "spec.bmc.address: ipmi"),
        (bmh(bmc={"address": "redfish://bmc"}), "spec.bmc.credentialsName: "),
        (bmh(bootMACAddress="00-00"), "spec.bootMACAddress: '00-00'"),
        (bmh(bootMACAddress=None, inspectionMode="disabled"), "spec.bootMACAddress: redfish-virtualmedia needs it"),
        (bmh(raid={"softwareRAIDVolumes": []}), "spec.raid: RAID"),
        (bmh(customDeploy={"method": "x"}), "spec.customDeploy.method: 'x' is not"),
        (bmh(rootDeviceHints={"deviceName": "sda"}), "spec.rootDeviceHints.deviceName: 'sda'"),
        (bmh(rootDeviceHints={"deviceName": "/dev/disk/by-id/x"}), "spec.rootDeviceHints.deviceName: "),
        (bmh(image={"url": "http://x/y.qcow2", "format": "qcow2"}), "spec.image.format: qcow2"),
        (bmh(image={"url": "file:///x", "format": "live-iso"}), "spec.image.url: "),
        (bmh(disablePowerOff=True, online=False), "spec.online: "),
        (bmh(userData={"name": "x", "namespace": "other"}), "spec.userData.namespace: other is another namespace"),
        (bmh(annotations={"reboot.metal3.io": '{"mode": "soon"}'}), "annotation reboot.metal3.io: "),
        (bmh(annotations={"inspect.metal3.io": "often"}), "annotation inspect.metal3.io: "),
        (bmh(annotations={"inspect.metal3.io/hardwaredetails": "{}"}), "only where inspection is disabled"),
        (bmh(annotations={"baremetalhost.metal3.io/status": "[]"}), "annotation baremetalhost.metal3.io/status: "),
    ],
)
def test_what_is_refused(obj, problem):
    [found] = problems(None, obj)
    assert problem in found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (bmh(), bmh(bmc={"address": "redfish://other", "credentialsName": "login"}), "spec.bmc.address: "),
        (bmh(state="registering"), bmh(bmc={"address": "redfish://other", "credentialsName": "login"}), ""),
        (bmh(), bmh(bootMACAddress="00:00:5E:00:53:01"), ""),
        (bmh(), bmh(bootMACAddress="00:00:5e:00:53:02"), "spec.bootMACAddress: it does not change"),
        (bmh(bootMACAddress=None), bmh(), ""),
        (bmh(state="provisioned"), bmh(externallyProvisioned=True), "spec.externallyProvisioned: "),
        (bmh(), bmh(externallyProvisioned=True), ""),
    ],
)
def test_changes(old, new, problem):
    found = problems(old, new)
    assert len(found) == bool(problem)
    assert problem in "".join(found)
