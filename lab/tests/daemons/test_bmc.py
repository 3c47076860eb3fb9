"""Boot orders set by Redfish and IPMI: a libvirt that runs nothing says what starts try."""

import json
import logging
from contextlib import closing

import bcrypt
import flask
import libvirt
import msgspec
import pytest

from drivers.errors import PowerError
from drivers.libvirt import Hypervisor
from drivers.protocols import BootDevice, PowerState
from lab import topology
from lab.daemons.bmc import LabMachines, RequestLog, accounts, log_requests
from lab.daemons.ipmi import bmc as ipmi
from lab.layout import Layout
from lab.machines.domain import domain_xml
from lab.testing.topologies import SAN
from lab.tests.daemons.kit import Domain, libvirt_of, with_cd
from lab.topology import Disk, Nic


def shaped(boot="iso", firmware="uefi", **fields):
    sno = topology.sno(firmware=firmware)
    node = msgspec.structs.replace(sno.nodes[0], **fields)
    return msgspec.structs.replace(sno, boot=boot, nodes=(node,))


NICS = tuple(Nic(mac=f"52:54:00:6e:30:0{n}", addresses=(f"192.168.111.8{n}",)) for n in range(2))
#: Machines, and what they try without a word from anybody, a CD apart.
SHAPES = {
    "a disk": (shaped(), ["disk"]),
    "an NVMe disk": (shaped(disks=(Disk(bus="nvme", root=True),)), ["disk"]),
    "an NVMe disk beside others": (
        shaped(disks=(Disk(bus="sata"), Disk(bus="nvme", root=True), Disk(bus="scsi"))), ["disk"],
    ),
    # A BIOS goes on from the first hard disk of its order to the CD, past all others.
    "the second of three disks": (
        shaped(firmware="bios", disks=(Disk(holds="data"), Disk(root=True), Disk())), ["disk"],
    ),
    "NICs that boot": (shaped("pxe", nics=NICS, mac="", ip="192.168.111.80"), ["disk", "nic 1", "nic 2"]),
    "NICs that boot, and an NVMe disk": (
        shaped("pxe", nics=NICS, mac="", ip="192.168.111.80", disks=(Disk(bus="nvme", root=True),)),
        ["disk", "nic 1", "nic 2"],
    ),
    "an iSCSI disk": (topology.load_text(SAN), ["nic 2"]),
}  # fmt: skip


@pytest.fixture(params=SHAPES)
def machine(request, tmp_path, monkeypatch):
    """Provide a domain that libvirt has, and what it tries by itself."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    shape, usual = SHAPES[request.param]
    (tmp_path / "pool").mkdir()
    domain = Domain(domain_xml(shape.nodes[0], Layout(tmp_path, shape), kvm=False), tmp_path / "pool")
    with libvirt_of(domain):
        yield domain.defineXML(domain.xml), usual


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Provide a domain with one disk."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    shape = SHAPES["a disk"][0]
    (tmp_path / "pool").mkdir()
    with libvirt_of(
        Domain(domain_xml(shape.nodes[0], Layout(tmp_path, shape), kvm=False), tmp_path / "pool")
    ) as domain:
        yield domain


@pytest.fixture
def bmc():
    return LabMachines.initialize({}, logging.getLogger("test"), "test:///default")()


def insert(bmc, domain, name="some.iso"):
    image = domain.pool.parent / name
    image.write_bytes(b"")
    bmc.set_boot_image(domain.UUIDString(), "Cd", str(image))


def ask(bmc, domain, target, enabled="Continuous"):
    bmc.set_override(domain.UUIDString(), target, once=enabled == "Once")


def test_a_cd_asked_for_once_is_tried_first_at_one_power_on_and_then_last(machine, bmc):
    domain, usual = machine
    insert(bmc, domain)
    ask(bmc, domain, "Cd", "Once")
    assert bmc.get_boot_device(domain.UUIDString()) == "Cd"
    bmc.set_power_state(domain.UUIDString(), "On")
    assert bmc.get_boot_device(domain.UUIDString()) != "Cd"
    domain.restart()
    bmc.set_power_state(domain.UUIDString(), "ForceRestart")
    assert domain.starts == [["cd", *usual], [*usual, "cd"], [*usual, "cd"]]


def test_what_is_set_for_good_is_first_until_the_disk_is_again(machine, bmc):
    domain, usual = machine
    identity = domain.UUIDString()
    first = bmc.get_boot_device(identity)
    insert(bmc, domain)
    for target, wanted in (("Cd", ["cd", *usual]), ("Hdd", [usual[0], "cd", *usual[1:]])):
        ask(bmc, domain, target)
        assert bmc.get_boot_device(identity) == (target if target == "Cd" else first)
        bmc.set_power_state(identity, "On")
        domain.restart()
        assert domain.starts[-2:] == [wanted, wanted]
        bmc.set_power_state(identity, "ForceOff")
    # And once more, with the drive empty and the first place taken.
    bmc.set_boot_image(identity, "Cd")
    ask(bmc, domain, "Hdd")
    insert(bmc, domain)
    ask(bmc, domain, "Cd", "Once")
    bmc.set_power_state(identity, "On")
    domain.restart()
    assert domain.starts[-2:] == [["cd", *usual], [*usual, "cd"]]


def test_nics_that_are_set_first_leave_the_others_as_they_were(machine, bmc):
    domain, usual = machine
    insert(bmc, domain)
    ask(bmc, domain, "Pxe")
    ask(bmc, domain, "Cd", "Once")
    bmc.set_power_state(domain.UUIDString(), "On")
    domain.restart()
    nics = [device for device in usual if "nic" in device] or domain.starts[-1][:1]
    assert nics[0].startswith("nic")
    rest = [device for device in usual if device not in nics]
    assert domain.starts == [["cd", *nics, *rest], [*nics, *rest, "cd"]]


@pytest.mark.parametrize("target", ["Pxe", "Hdd"])
def test_a_nic_or_disk_asked_for_once_is_tried_first_at_one_power_on(machine, bmc, target):
    domain, usual = machine
    identity = domain.UUIDString()
    insert(bmc, domain)
    if target == "Hdd":
        ask(bmc, domain, "Pxe")
    bmc.set_power_state(identity, "On")
    [before] = domain.starts
    definition = domain.xml
    ask(bmc, domain, target, "Once")
    assert bmc.override(identity) == (target, True)
    assert domain.xml == definition
    bmc.set_power_state(identity, "ForceRestart")
    assert bmc.override(identity) != (target, True)
    domain.restart()
    domain.restart()
    bmc.set_power_state(identity, "ForceRestart")
    _, first, second, third, last = domain.starts
    kind = "nic" if target == "Pxe" or usual == ["nic 2"] else "disk"
    assert first[0].startswith(kind)
    # What is usually not tried comes last until the machine is off.
    assert [device for device in second if device in before] == before == last
    assert second == third


def test_nics_are_first_with_an_empty_drive_too(machine, bmc):
    domain, usual = machine
    ask(bmc, domain, "Pxe")
    assert bmc.get_boot_device(domain.UUIDString()) == "Pxe"
    bmc.set_power_state(domain.UUIDString(), "On")
    nics = [device for device in domain.starts[0] if "nic" in device]
    assert domain.starts == [[*nics, *(device for device in usual if device not in nics)]]
    assert nics


@pytest.mark.parametrize("target", ["Hdd", "Pxe", "Cd"])
def test_who_asks_for_something_else_for_good_does_not_get_the_cd_once(disk, bmc, target):
    insert(bmc, disk)
    ask(bmc, disk, "Cd", "Once")
    ask(bmc, disk, target)
    bmc.set_power_state(disk.UUIDString(), "On")
    disk.restart()
    assert disk.starts[0] == disk.starts[1]


def test_a_restart_that_the_system_is_asked_for_and_a_power_off_leave_it_asked_for(disk, bmc):
    identity = disk.UUIDString()
    insert(bmc, disk)
    bmc.set_power_state(identity, "On")
    ask(bmc, disk, "Cd", "Once")
    disk.reboot = disk.restart
    for state in ("On", "GracefulRestart", "ForceOff", "ForceRestart"):
        bmc.set_power_state(identity, state)
        assert bmc.get_boot_device(identity) == "Cd"
    bmc.set_power_state(identity.upper(), "ForceOn")
    assert disk.starts == [["disk", "cd"], ["disk", "cd"], ["cd", "disk"]]


def test_another_image_comes_where_the_one_before_was_asked_for(disk, bmc):
    identity = disk.UUIDString()
    for enabled, then in (("Once", ["disk", "cd"]), ("Continuous", ["cd", "disk"])):
        insert(bmc, disk)
        ask(bmc, disk, "Cd", enabled)
        insert(bmc, disk, "other.iso")
        assert [path.name for path in disk.pool.iterdir()] == [f"other-iso-{identity}.img"]
        bmc.set_power_state(identity, "On")
        disk.restart()
        assert disk.starts[-2:] == [["cd", "disk"], then]
        bmc.set_power_state(identity, "ForceOff")


@pytest.mark.parametrize("method", ["defineXML", "set_boot_device"])
def test_an_insert_that_libvirt_refuses_leaves_the_image_that_is_there(disk, bmc, method, monkeypatch):
    identity = disk.UUIDString()
    insert(bmc, disk)
    ask(bmc, disk, "Cd")
    before, define, calls = disk.xml, disk.defineXML, []

    def refuse(*_args):
        calls.append(1)
        if len(calls) == 1:
            raise libvirt.libvirtError("it is refused")
        return define(*_args)

    monkeypatch.setattr(bmc if method == "set_boot_device" else disk, method, refuse, raising=False)
    with pytest.raises(Exception, match="it is refused"):
        insert(bmc, disk, "other.iso")
    assert disk.xml == before
    assert [path.name for path in disk.pool.iterdir()] == [f"some-iso-{identity}.img"]
    assert bmc.get_boot_image(identity, "Cd")[0] == str(next(disk.pool.iterdir()))
    monkeypatch.undo()
    bmc.set_boot_image(identity, "Floppy", str(disk.pool.parent / "other.iso"))
    assert len(list(disk.pool.iterdir())) == 2
    bmc.set_boot_image(identity, "Floppy")
    bmc.set_boot_image(identity, "Cd")
    assert list(disk.pool.iterdir()) == []


def test_with_an_empty_drive_it_is_switched_on_as_it_is(disk, bmc):
    ask(bmc, disk, "Cd", "Once")
    bmc.set_power_state(disk.UUIDString(), "On")
    insert(bmc, disk)
    bmc.set_power_state(disk.UUIDString(), "ForceRestart")
    assert disk.starts == [["disk"], ["disk", "cd"]]


def test_a_power_on_that_fails_is_none(disk, bmc, monkeypatch):
    insert(bmc, disk)
    ask(bmc, disk, "Cd", "Once")

    def fail() -> None:
        raise libvirt.libvirtError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "create", fail, raising=False)
        with pytest.raises(Exception, match="cannot be started: no memory"):
            bmc.set_power_state(disk.UUIDString(), "On")
        with closing(Hypervisor("test:///default")) as hypervisor:
            alone = hypervisor.machine("master-0")
            alone.boot_from_cd_once()
            with pytest.raises(PowerError):
                alone.on()
    bmc.set_power_state(disk.UUIDString(), "On")
    bmc.set_power_state(disk.UUIDString(), "ForceOff")
    alone.on()
    alone.cycle()
    assert disk.starts == [["cd", "disk"], ["cd", "disk"], ["disk", "cd"]]


def test_requests_are_noted_without_passwords(tmp_path):
    log = RequestLog(tmp_path / "log")
    app = flask.Flask("bmc")
    log_requests(app, log)

    @app.route("/<int:status>", methods=["GET", "PATCH"])
    def answer(status):
        if not flask.request.remote_addr and flask.request.method == "GET":
            log.note(flask.request, flask.Response(status=status), 1.23456, bmc="master-0")
        return "x" * 3000, status

    client, nobody = app.test_client(), {"REMOTE_ADDR": ""}
    client.get("/399", json={"UserName": "u", "Password": "hidden"})
    client.get("/400")
    # By a vendor's BMC, which has a line of its own and reads more than it is asked for.
    client.get("/204", environ_overrides=nobody)
    client.patch("/500", environ_overrides=nobody)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert "hidden" not in (tmp_path / "log").read_text()
    assert [line["status"] for line in lines] == [399, 400, 204, 500]
    assert [(line["method"], line["path"], line["from"]) for line in lines[:2]] == [
        ("GET", "/399", "127.0.0.1"), ("GET", "/400", "127.0.0.1"),
    ]  # fmt: skip
    assert lines[0]["body"]["UserName"] == "u"
    assert [len(line.get("answer", "")) for line in lines] == [0, 2000, 0, 2000]
    assert [line.get("bmc") for line in lines] == [None, None, "master-0", None]
    assert lines[2]["seconds"] == 1.235
    assert all(0 <= line["seconds"] < 5 for line in lines)
    assert "body" not in lines[1]


def test_passwords_that_bcrypt_does_not_take_are_wrong_ones(tmp_path):
    file = tmp_path / "htpasswd"
    file.write_text(f"admin:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}\n")
    account = accounts(str(file))
    assert account("admin", "right")
    for user, password in (("admin", "right\0"), ("admin", "r" * 100), ("", ""), ("admin", "\udcff"), ("admin:", "")):
        assert not account(user, password)


#: What IPMI calls devices (table 28-14, parameter 5, data 2), and a flag (data 1): for good.
NONE, DISK, SAFE, CD = 0, 2, 3, 5
FOR_GOOD = 0b0100_0000
#: Chassis control (table 28-4).
CYCLE, RESET = 2, 3


class Session:
    """A client, and the completion codes that it has got."""

    def __init__(self):
        self.codes = []

    def send_ipmi_response(self, *, code: int, **_data: object) -> None:
        self.codes.append(code)


def test_by_ipmi_too_the_cd_is_first_once_or_for_good_until_that_is_taken_back(disk, tmp_path):
    with_cd(disk)
    place = ipmi.Place("master-0", 0, str(tmp_path / "log"), str(tmp_path / "socket"))
    config = ipmi.Config(
        address="127.0.0.1", user="u", password="p", owner="test:///default", contained=False, machines=(place,)
    )
    machine, boots = ipmi.virtual(config, "master-0")
    bmc = ipmi.Bmc({"u": "p"}, place, "127.0.0.1", machine, boots=boots)
    session = Session()
    machine.on()

    def ask_for(device, flags=0):
        data = bytes([5, 0b1000_0000 | flags, device << 2, 0, 0, 0])
        bmc.handle_raw_request({"netfn": 0, "command": 8, "data": data}, session)

    def starts(device, flags=0):
        ask_for(device, flags)
        begun = len(disk.starts)
        for control in (RESET, CYCLE):
            bmc.handle_raw_request({"netfn": 0, "command": 2, "data": bytes([control])}, session)
        return disk.starts[begun:]

    assert starts(CD) == [["cd", "disk"], ["disk", "cd"]]
    assert starts(CD, FOR_GOOD) == [["cd", "disk"]] * 2
    assert starts(NONE) == [["disk", "cd"]] * 2
    # Flags that are not valid take back what was asked for.
    ask_for(CD)
    bmc.handle_raw_request({"netfn": 0, "command": 8, "data": bytes([5, FOR_GOOD, CD << 2, 0, 0, 0])}, session)
    machine.cycle()
    assert disk.starts[-1] == ["disk", "cd"]
    for other in (NONE, DISK):
        ask_for(CD)
        assert starts(other) == [["disk", "cd"]] * 2
    assert set(session.codes) == {0}
    assert starts(SAFE, FOR_GOOD) == [["disk", "cd"]] * 2
    assert session.codes[-3:] == [0xCC, 0, 0]
    for device in BootDevice:
        boots.set(device, False)
        assert boots.holds(device, False)
    boots.set(BootDevice.CD, True)
    assert boots.holds(BootDevice.CD, True)
    machine.cycle()
    assert not boots.holds(BootDevice.CD, True)
    machine.shut_down()
    assert machine.state() is PowerState.OFF
    bmc.serversocket.close()


def test_by_ipmi_a_nic_is_first_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    shape, usual = SHAPES["NICs that boot"]
    (tmp_path / "pool").mkdir()
    domain = Domain(domain_xml(shape.nodes[0], Layout(tmp_path, shape), kvm=False), tmp_path / "pool")
    place = ipmi.Place("master-0", 0, "", "")
    config = ipmi.Config(
        address="127.0.0.1", user="u", password="p", owner="test:///default", contained=False, machines=(place,)
    )
    with libvirt_of(domain):
        machine, boots = ipmi.virtual(config, "master-0")
        machine.on()
        boots.set(BootDevice.NETWORK, True)
        machine.on()
        assert boots.holds(BootDevice.NETWORK, True)
        machine.cycle()
        assert not boots.holds(BootDevice.NETWORK, True)
        machine.cycle()
    assert domain.starts == [usual, ["nic 1", "nic 2", "disk"], usual]
