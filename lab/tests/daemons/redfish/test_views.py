"""Answers on machines, virtual and containers, of sushy-tools' emulator with our views."""

import logging
from xml.etree import ElementTree

import msgspec
import pytest
from sushy_tools.error import AliasAccessError
from werkzeug.test import Client

from drivers.container import Request
from lab import topology
from lab.bmcs.shared import Shared
from lab.daemons.bmc import LabMachines
from lab.daemons.redfish import storage
from lab.layout import Layout
from lab.machines.domain import domain_xml
from lab.testing.bmcs import Contained, Memory, emulated
from lab.tests.daemons.kit import Domain, libvirt_of
from lab.topology import Disk

DISKS = (
    Disk(bus="sata", rotational=True, size_gib=1), Disk(bus="nvme", root=True, size_gib=2), Disk(size_gib=3),
)  # fmt: skip


class Machine:
    """A machine in the emulator, `path` its resource; `state` is all of it that a request could change."""

    def __init__(self, app, uuid, state):
        self.client, self.path, self.state = Client(app), f"/redfish/v1/Systems/{uuid}", state

    def get(self, below=""):
        return self.client.get(self.path + below).get_json()

    def patch(self, body, below=""):
        return self.client.patch(self.path + below, json=body)

    def boot(self, **words):
        return self.patch({"Boot": {f"BootSourceOverride{name}": value for name, value in words.items()}})

    def reset(self, kind):
        return self.client.post(f"{self.path}/Actions/ComputerSystem.Reset", json={"ResetType": kind})

    @property
    def override(self):
        boot = self.get()["Boot"]
        return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]


def container(tmp_path):
    memory = Memory(installed=True)
    memory.ask(Request(op="media", machine="master-0", value="/some.iso"))
    with emulated(Contained(memory), tmp_path) as app:
        yield Machine(app, memory.uuid, lambda: (memory.ask(Request(op="list")), memory.booted))


def virtual(tmp_path, **fields):
    (tmp_path / "pool").mkdir()
    sno = topology.sno()
    shape = msgspec.structs.replace(sno, nodes=(msgspec.structs.replace(sno.nodes[0], **fields),))
    layout = Layout(tmp_path, shape)
    for index, disk in enumerate(shape.nodes[0].all_disks):
        image = layout.device(shape.nodes[0], index)
        image.parent.mkdir(exist_ok=True)
        with image.open("wb") as file:
            file.truncate(disk.size_gib << 30)
    domain = Domain(domain_xml(shape.nodes[0], layout, kvm=False), tmp_path / "pool")
    driver = LabMachines.initialize({}, logging.getLogger("test"), "test:///default")
    with libvirt_of(domain), emulated(driver(), tmp_path) as app:
        machine = Machine(app, domain.UUIDString(), lambda: (domain.xml, domain.starts))
        # sushy-tools writes its own metadata when it is first asked.
        machine.get()
        yield machine


@pytest.fixture(params=["virtual", "container"])
def machine(request, tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    yield from virtual(tmp_path) if request.param == "virtual" else container(tmp_path)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Make a virtual machine of other fields."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    begun = []

    def make(**fields):
        begun.append(virtual(tmp_path, **fields))
        return next(begun[-1])

    yield make
    for generator in begun:
        next(generator, None)


def redfish(answer, status):
    """Return the message of an error in Redfish's form (DSP0266, "Error responses")."""
    assert answer.status_code == status, answer.get_data(as_text=True)
    problem = answer.get_json()["error"]
    [info] = problem["@Message.ExtendedInfo"]
    assert problem["code"] == info["MessageId"]
    assert info["MessageId"].startswith("Base.1.")
    assert problem["message"] == info["Message"]
    assert not any(word in info["Message"] for word in ("<", "Error:", "Traceback", "has no attribute", "NoneType"))
    return info["Message"]


REFUSED = {
    "another mode": {"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideMode": "Legacy"}},
    "no mode": {"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideMode": "uefi"}},
    "UefiHttp": {"Boot": {"BootSourceOverrideTarget": "UefiHttp", "HttpBootUri": "http://lab/some.iso"}},
    "UefiHttp from nowhere": {"Boot": {"BootSourceOverrideTarget": "UefiHttp"}},
    "a URI alone": {"Boot": {"HttpBootUri": "http://lab/some.iso", "BootSourceOverrideTarget": "Pxe"}},
    "a floppy": {"Boot": {"BootSourceOverrideTarget": "Floppy", "BootSourceOverrideEnabled": "Once"}},
    "a list": {"Boot": {"BootSourceOverrideTarget": ["Cd"]}},
    "a null": {"Boot": {"BootSourceOverrideTarget": None}},
    "sometimes": {"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Sometimes"}},
    "an order": {"Boot": {"BootSourceOverrideTarget": "Cd", "BootOrder": ["Boot0001"]}},
    "a name": {"AssetTag": "x", "Boot": {"BootSourceOverrideTarget": "Cd"}},
    "a light": {"IndicatorLED": "Green", "Boot": {"BootSourceOverrideTarget": "Cd"}},
    "no object": {"Boot": "Cd"},
    "nothing": {},
    "nothing of boot": {"Boot": {}},
    "a list at all": ["Boot"],
}  # fmt: skip


def test_a_change_that_is_refused_changes_nothing(machine):
    assert machine.boot(Target="Pxe", Enabled="Continuous").status_code == 204
    before, shown = machine.state(), machine.get()
    for name, body in REFUSED.items():
        redfish(machine.patch(body), 400)
        assert (machine.state(), machine.get()) == (before, shown), name


def test_what_names_the_firmware_that_a_machine_has_leaves_it_alone(machine):
    before = machine.state()
    mode = machine.get()["Boot"]["BootSourceOverrideMode"]
    assert machine.boot(Mode=mode).status_code == 204
    assert machine.state() == before


@pytest.mark.parametrize(
    ("fields", "mode", "secure"),
    [({}, "UEFI", False), ({"firmware": "bios"}, "Legacy", None), ({"secure_boot": True}, "UEFI", True)],
    ids=["uefi", "bios", "secure"],
)
def test_firmware_is_shown_as_it_is_and_stays_so(made, fields, mode, secure):
    machine = made(**fields)
    before = machine.state()
    boot = machine.get()["Boot"]
    assert boot["BootSourceOverrideMode"] == mode
    assert boot["BootSourceOverrideMode@Redfish.AllowableValues"] == [mode]
    assert machine.boot(Mode=mode).status_code == 204
    redfish(machine.boot(Mode="Legacy" if mode == "UEFI" else "UEFI"), 400)
    if secure is None:
        redfish(machine.client.get(f"{machine.path}/SecureBoot"), 404)
    else:
        assert machine.get("/SecureBoot")["SecureBootEnable"] is secure
        assert machine.patch({"SecureBootEnable": secure}, "/SecureBoot").status_code == 204
        for other in ({"SecureBootEnable": not secure}, {"SecureBootEnable": "false"}, {}, {"SecureBootMode": "x"}):
            redfish(machine.patch(other, "/SecureBoot"), 400)
    redfish(machine.patch({"Attributes": {"BootMode": "Legacy"}}, "/BIOS/Settings"), 400)
    redfish(machine.client.post(f"{machine.path}/BIOS/Actions/Bios.ResetBios"), 400)
    assert machine.state() == before


def test_all_that_is_offered_is_accepted_and_read_back(machine):
    boot = machine.get()["Boot"]
    assert sorted(boot["BootSourceOverrideTarget@Redfish.AllowableValues"]) == ["Cd", "Hdd", "None", "Pxe"]
    assert boot["BootSourceOverrideEnabled@Redfish.AllowableValues"] == ["Disabled", "Once", "Continuous"]
    assert machine.override == ("None", "Disabled")
    for target in ("Hdd", "Cd", "Pxe"):
        assert machine.boot(Target=target, Enabled="Continuous").status_code == 204
        assert machine.override == (target, "Continuous")
        assert machine.boot(Enabled="Disabled").status_code == 204
        assert machine.override == ("None", "Disabled")
        assert machine.boot(Target=target).status_code == 204
        assert machine.override == (target, "Continuous")
        assert machine.boot(Target="None", Enabled="Once").status_code == 204
        assert machine.override == ("None", "Disabled")
    assert machine.boot(Target="Cd", Enabled="Once").status_code == 204
    assert machine.override == ("Cd", "Once")
    for change in ({"Mode": "UEFI", "Enabled": "Once"}, {"Target": "Pxe"}):
        assert machine.boot(**change).status_code == 204
        assert machine.override == (change.get("Target", "Cd"), "Once")
    assert machine.patch({"IndicatorLED": "Off"}).status_code == 204
    assert machine.get()["IndicatorLED"] == "Off"


def test_what_is_asked_for_once_is_over_with_the_power_on_and_no_sooner(machine):
    machine.reset("On")
    assert machine.boot(Target="Cd", Enabled="Once").status_code == 204
    for kind in ("On", "ForceOn"):
        assert machine.reset(kind).status_code == 204
        assert machine.override == ("Cd", "Once")
    machine.reset("ForceOff")
    assert machine.override == ("Cd", "Once")
    machine.reset("On")
    assert machine.override == ("None", "Disabled")


def test_power_is_done_or_refused(machine):
    offered = machine.get()["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"]
    before = machine.state()
    bodies: tuple[object, ...] = ({}, {"ResetType": None}, {"ResetType": "Explode"}, {"ResetType": ["On"]}, [])
    for body in bodies:
        redfish(machine.client.post(f"{machine.path}/Actions/ComputerSystem.Reset", json=body), 400)
    for kind in {"ForceRestart", "GracefulRestart", "PowerCycle", "Nmi"} & set(offered):
        redfish(machine.reset(kind), 409)
    assert machine.state() == before
    # As `curl -d` sends it.
    path = f"{machine.path}/Actions/ComputerSystem.Reset"
    assert machine.client.post(path, data='{"ResetType": "On"}').status_code == 204
    for kind in ("ForceRestart", "PowerCycle"):
        assert machine.reset(kind).status_code == 204
    assert machine.get()["PowerState"] == "On"
    starts = machine.state()[1]
    assert len(starts) == 3


def test_the_disks_of_a_virtual_machine_are_listed(made):
    machine = made(disks=DISKS)
    listed = {}
    for member in machine.get("/Storage")["Members"]:
        for link in machine.client.get(member["@odata.id"]).get_json()["Drives"]:
            drive = machine.client.get(link["@odata.id"]).get_json()
            listed[drive["Id"]] = (drive["CapacityBytes"] >> 30, drive.get("Protocol"), drive.get("MediaType"))
            assert drive["SerialNumber"]
    assert listed == {"sda": (1, "SATA", "HDD"), "nvme1": (2, "NVMe", "SSD"), "vda": (3, None, None)}
    simple = [machine.client.get(link["@odata.id"]).get_json() for link in machine.get("/SimpleStorage")["Members"]]
    sizes = {device["Name"]: device["CapacityBytes"] >> 30 for storage in simple for device in storage["Devices"]}
    assert sizes == {name: size for name, (size, *_) in listed.items()}


def test_a_disk_without_its_image_is_listed_without_a_size():
    text = "<disk device='disk'><source file='/nowhere/at/all'/><target dev='sda' bus='sata'/></disk>"
    disks = storage.disks_of(ElementTree.fromstring(f"<domain><devices>{text}</devices></domain>"))
    assert storage.simple(disks)["sata"]["DeviceList"] == [{"Name": "sda", "CapacityBytes": 0}]
    drive, controller = (storage.document("x", disks, path) for path in (("sata", "sda"), ("sata",)))
    assert drive is not None
    assert "CapacityBytes" not in drive
    assert controller is not None
    assert controller["StorageControllers@odata.count"] == len(controller["StorageControllers"])


def test_the_id_of_a_machine_has_one_spelling(made):
    machine = made()
    answer = machine.client.get(machine.path.replace("Systems/", "Systems/{") + "}/VirtualMedia/Cd")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{machine.path}/VirtualMedia/Cd")


def test_the_disks_of_a_container_are_listed(tmp_path):
    for machine in container(tmp_path):
        assert machine.get("/Storage/sata/Drives/sda")["CapacityBytes"] == 10 << 30
        assert machine.get("/SimpleStorage/sata")["Devices"][0]["Name"] == "sda"


def test_errors_are_in_redfishs_form(machine):
    requests: tuple[tuple[str, str, object, int], ...] = (
        ("GET", "/Storage/ide", None, 404), ("GET", "/Storage/sata/Drives/sdx", None, 404),
        ("GET", "/Storage/ide/Volumes", None, 404), ("POST", "/Storage/sata/Volumes", {"CapacityBytes": 1}, 404),
        ("GET", "/Memory", None, 404), ("GET", "/%2e%2e/x", None, 404), ("DELETE", "", None, 405),
        ("POST", "/Storage", {}, 405), ("GET", "/VirtualMedia/Tape", None, 404), ("PATCH", "/VirtualMedia/Cd", {}, 400),
        ("GET", "x", None, 404), ("GET", "x/VirtualMedia/Cd", None, 404),
    )  # fmt: skip
    for method, below, body, status in requests:
        answer = machine.client.open(machine.path + below, method=method, json=body)
        redfish(answer, status)
        if status == 405:
            assert "GET" in answer.headers["Allow"]


BODIES: tuple[object, ...] = (
    [], "x", 5, True, {"Image": 5}, {"Image": []}, {"Image": None}, {"Image": "x", "Inserted": "no"}, {"UserName": {}},
    {"IndicatorLED": 5}, {"CertificateString": 5, "CertificateType": "PEM"},
)  # fmt: skip


def test_no_body_breaks_anything(machine):
    cd = f"{machine.path}/VirtualMedia/Cd"
    chassis = machine.get()["Links"]["Chassis"][0]["@odata.id"]
    before = machine.state()
    for method, path in (
        ("PATCH", chassis), ("PATCH", cd), ("POST", f"{cd}/Actions/VirtualMedia.InsertMedia"), ("PATCH", machine.path),
        ("POST", f"{cd}/Certificates"),
        ("POST", "/redfish/v1/CertificateService/Actions/CertificateService.ReplaceCertificate"),
    ):  # fmt: skip
        for body in BODIES:
            redfish(machine.client.open(path, method=method, json=body), 400)
            assert machine.state() == before, (path, body)


def test_errors_that_sushy_tools_words_itself_are_in_redfishs_form(machine):
    chassis = machine.get()["Links"]["Chassis"][0]["@odata.id"]
    assert "IndicatorLED" in redfish(machine.client.patch(chassis, json={"AssetTag": "x"}), 400)
    insert = f"{machine.path}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    redfish(machine.client.post(insert, json={"Image": "http://lab/x.iso", "UserName": "x"}), 400)
    nothing = machine.client.patch(f"{machine.path}/VirtualMedia/Cd", data="", content_type="application/json")
    assert redfish(nothing, 400) == "The request body submitted was malformed JSON."
    manager = machine.path.replace("Systems", "Managers")
    redfish(machine.client.patch(manager, json={"DateTime": "2000-01-01T00:00:00Z", "DateTimeLocalOffset": "Z"}), 400)
    assert machine.client.get(manager).get_json()["DateTime"] > "2001"
    update = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
    redfish(machine.client.post(update, json={"ImageURI": "x", "Targets": [machine.path]}), 404)


def test_what_breaks_within_is_told_in_no_words_of_pythons(machine, monkeypatch):
    def broken(_self, _identity):
        return {}["key"]

    monkeypatch.setattr(f"{LabMachines.__module__}.LabMachines.override", broken)
    monkeypatch.setattr(Contained, "override", broken)
    text = redfish(machine.client.get(machine.path), 500)
    assert "key" not in text


def links(value):
    """All links in a document, and all places of actions."""
    if isinstance(value, list):
        return set().union(*map(links, value))
    if not isinstance(value, dict):
        return set()
    own = {value["@odata.id"]} if isinstance(value.get("@odata.id"), str) else set()
    return own.union(*map(links, value.values()))


def test_all_links_lead_to_what_they_name(machine):
    client = Client(Shared(machine.client.application, lambda *_: True))
    seen, new = {}, {"/redfish/v1/"}
    while new:
        path = new.pop()
        answer = client.get(path, auth=("u", "p"))
        assert answer.status_code == 200, path
        seen[path] = answer.get_json()
        assert seen[path]["@odata.id"].rstrip("/") == path.rstrip("/")
        new |= {link.partition("#")[0] for link in links(seen[path])} - seen.keys()
    assert machine.path in seen
    assert any("/Drives/" in path for path in seen)


@pytest.mark.parametrize("below", ["", "/VirtualMedia/Cd", "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia"])
def test_another_name_of_a_machine_leads_to_it(machine, below):
    answer = machine.client.open(f"/redfish/v1/Systems/master-0{below}", method="POST" if "Actions" in below else "GET")
    assert (answer.status_code, answer.headers["Location"]) == (307, machine.path + below)


def test_a_name_is_no_id_however_it_sorts():
    memory = Memory(name="0")
    with pytest.raises(AliasAccessError, match=memory.uuid):
        Contained(memory).uuid("0")


@pytest.mark.parametrize("path", ["", "/Thermal"])
def test_a_chassis_that_there_is_not_is_no_error_of_the_services(machine, path):
    chassis = f"/redfish/v1/Chassis/nobodys{path}"
    assert redfish(machine.client.get(chassis), 404) == f"There is no resource at {chassis}."
