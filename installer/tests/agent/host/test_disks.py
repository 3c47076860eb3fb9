"""Disks as lsblk and udev tell of them, on machines of many kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.agent.host import blockdev
from installer.assisted import inventory as inv
from installer.rendezvous.validations import disks, hints
from installer.testing.agent_kit import Host, Programs, programs_in

MEDIA = "Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)"
EFI = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return programs_in(tmp_path / "bin", monkeypatch)


def disk(**columns: Any) -> dict[str, Any]:
    return {"name": "vda", "kname": "vda", "path": "/dev/vda", "type": "disk", "size": 100, **columns}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"rota": True}, "HDD"),
        ({"rota": "1"}, "HDD"),
        ({"rota": False}, "SSD"),
        ({"rota": "0"}, "SSD"),
        ({"type": "mpath"}, "Multipath"),
        ({"type": "lvm"}, "LVM"),
        ({"type": "rom"}, "ODD"),
        ({"type": "raid1"}, "RAID"),
        ({"name": "md127"}, "RAID"),
        ({"tran": "iscsi"}, "iSCSI"),
        ({"tran": "fc"}, "FC"),
        ({"tran": "fcoe", "rota": "1"}, "FC"),
        ({"tran": "sata", "rota": False}, "SSD"),
        ({"name": "dasda"}, "ECKD"),
        ({"name": "fd0"}, "FDD"),
        ({"type": "loop", "name": "loop0"}, "virtual"),
        ({"name": "zram0"}, "virtual"),
        ({"name": "ram0"}, "virtual"),
        ({"name": "pmem0", "rota": False}, "Unknown"),
        ({"name": "rbd0"}, "Unknown"),
        ({"name": "xvda"}, "SSD"),
        ({"name": "mmcblk0"}, "SSD"),
        ({"type": "part"}, "Unknown"),
        ({"type": None}, "Unknown"),
    ],
)
def test_kinds_of_disks(columns: dict[str, Any], kind: str) -> None:
    assert blockdev.drive_type(disk(**columns)) == kind


@pytest.mark.parametrize(
    ("columns", "objections", "media"),
    [
        ({}, [], False),
        ({"mountpoint": "/boot"}, ["Disk has partition 'vda' mounted on '/boot'"], False),
        (
            {"mountpoints": [None, "/b", "/a", "/a"]},
            ["Disk has partition 'vda' mounted on '/b'", "Disk has partition 'vda' mounted on '/a'"],
            False,
        ),
        (
            {
                "children": [
                    {"name": "vda1", "children": [{"name": "m", "mountpoints": ["/deep"]}]},
                    {"name": "vda2", "mountpoint": "/x"},
                ]
            },
            ["Disk has partition 'm' mounted on '/deep'", "Disk has partition 'vda2' mounted on '/x'"],
            False,
        ),
        ({"mountpoints": ["/run/media/iso"]}, [MEDIA], True),
        ({"children": [{"mountpoints": ["/run/media/iso"]}, {"mountpoint": "/boot"}]}, [MEDIA], True),
        ({"type": "lvm"}, ["Disk is an LVM logical volume"], False),
        ({"name": "pmem0"}, ["Disk has unknown storage controller"], False),
        ({"type": "rom", "rm": True}, [], True),
        ({"rm": True}, [], False),
        ({"rm": "1", "rota": "1"}, [], False),
        ({"ro": True}, ["Disk is read-only"], False),
        ({"ro": "1", "type": "lvm"}, ["Disk is an LVM logical volume", "Disk is read-only"], False),
        ({"ro": False}, [], False),
    ],
)
def test_what_speaks_against_a_disk(columns: dict[str, Any], objections: list[str], media: bool) -> None:
    assert blockdev.reasons(disk(**columns)) == (objections, media)
    parsed = blockdev.parse(disk(**columns), {}, {})
    assert parsed.is_installation_media is media
    assert parsed.installation_eligibility == inv.Eligibility(eligible=not objections, not_eligible_reasons=objections)


def test_the_most_telling_name() -> None:
    folder = "/dev/disk/by-id/"
    names = ["zzz", "dm-uuid-1", "nvme-a", "virtio-1", "ata-1", "scsi-1", "nvme-uuid.1", "nvme-eui.1", "wwn-2", "wwn-1"]
    for position in range(len(names)):
        rest = [folder + name for name in names[: position + 1]]
        assert blockdev.best_id(rest) == folder + ("wwn-1" if position == 9 else names[position])
    assert blockdev.best_id([]) == ""


def test_links_of_disks(host: Host) -> None:
    assert blockdev.links(host, "by-id") == {}
    folder = host.path("/dev/disk/by-id")
    folder.mkdir(parents=True)
    for name, target in (("b", "../../vda"), ("a", "../../vda"), ("c", "../../sda")):
        (folder / name).symlink_to(target)
    (folder / "plain").write_text("")
    assert blockdev.links(host, "by-id") == {
        "vda": ["/dev/disk/by-id/a", "/dev/disk/by-id/b"],
        "sda": ["/dev/disk/by-id/c"],
    }


def test_a_disk_in_full() -> None:
    node = disk(
        kname="dm-3", name="mpatha", path="", hctl="1:0:0:0", vendor=" V ", model=" M ", serial="S", wwn="0x5",
        size="100", rm=True, tran="sas",
        children=[
            {"kname": "dm-9", "type": "mpath", "parttypename": "Linux"},
            {"kname": "p1", "type": "part", "parttypename": "EFI System", "parttype": EFI.upper()},
            {"kname": "p2", "type": "part", "parttypename": "Linux"},
        ],
    )  # fmt: skip
    parsed = blockdev.parse(node, {"dm-3": ["/dev/disk/by-id/x", "/dev/disk/by-id/wwn-0x5"]}, {"dm-3": ["/p1", "/p2"]})
    assert (parsed.id, parsed.by_id, parsed.by_path) == ("/dev/disk/by-id/wwn-0x5", "/dev/disk/by-id/wwn-0x5", "/p1")
    assert (parsed.name, parsed.path, parsed.size_bytes) == ("dm-3", "/dev/dm-3", 100)
    assert (parsed.hctl, parsed.vendor, parsed.model, parsed.serial, parsed.wwn) == ("1:0:0:0", "V", "M", "S", "0x5")
    assert (parsed.bootable, parsed.removable, parsed.has_uuid) == (True, True, True)
    assert (parsed.partition_types, parsed.holders) == ("EFI System, Linux", "dm-9")
    plain = blockdev.parse(disk(kname=None, size=None), {}, {"vda": ["/p1"]})
    assert (plain.id, plain.name, plain.size_bytes, plain.has_uuid, plain.bootable) == ("/p1", "vda", 0, False, False)
    assert blockdev.parse(disk(), {}, {}).id == "/dev/vda"
    mapped = blockdev.parse(disk(kname="dm-3", path="/dev/mapper/mpatha", children=[{"type": "part"}]), {}, {})
    assert (mapped.id, mapped.path, mapped.partition_types) == ("/dev/mapper/mpatha", "/dev/mapper/mpatha", "")


@pytest.mark.parametrize(
    ("columns", "bootable"),
    [
        ({"partflags": "0x80"}, True),
        ({"partflags": "0x0000000000000004"}, True),
        ({"partflags": "0x1"}, False),
        ({"partflags": "0x0000000000000005"}, True),
        ({"partflags": "0x8000000000000000"}, False),
        ({"partflags": "?"}, False),
        ({"parttype": EFI}, True),
        ({"parttype": "0xef"}, True),
        ({"parttype": "21686148-6449-6E6F-744E-656564454649"}, True),
        ({"parttype": "9e1a2d38-c612-4316-aa26-8b49521e5a8b"}, True),
        ({"parttype": "0x41"}, True),
        ({"parttype": "0x83"}, False),
        ({}, False),
    ],
)
def test_disks_that_something_boots_from(columns: dict[str, str], bootable: bool) -> None:
    assert blockdev.parse(disk(children=[columns]), {}, {}).bootable is bootable


def test_which_devices_are_disks(host: Host, programs: Programs) -> None:
    path = {"name": "mpatha", "kname": "dm-0", "type": "mpath", "size": 7}
    array = {"name": "md0", "kname": "md0", "type": "raid1", "size": 8}
    nodes = [
        disk(name="sda", kname="sda", children=[path]),
        disk(name="sdb", kname="sdb", children=[path, {"type": "part", "name": "sdb2", "children": [array]}]),
        disk(name="sdc", kname="sdc", size=0),
        disk(name="sdd", kname="sdd", size=None),
        disk(name="sr0", kname="sr0", type="rom"),
        disk(name="sr1", kname="sr1"),
        disk(name="nbd0", kname="nbd0"),
        disk(name="loop0", kname="loop0", type="loop"),
        disk(name="fd0", kname="fd0"),
    ]
    programs.put("lsblk", f"cat <<'END'\n{json.dumps({'blockdevices': nodes})}\nEND")
    disks = blockdev.disks(host)
    assert [(each.name, each.drive_type) for each in disks] == [
        ("sda", "SSD"), ("sdb", "SSD"), ("sr0", "ODD"), ("dm-0", "Multipath"), ("md0", "RAID")
    ]  # fmt: skip
    assert programs.calls("lsblk") == ["-J -b -O"]
    programs.put("lsblk", "")
    assert blockdev.disks(host) == []


ATA = ["pci-0000:00:1f.2-ata-1", "pci-0000:00:1f.2-ata-1.0"]
FC = ["fc-0x21000024ff-0x50060e80-lun-0", "pci-0000:08:00.0-fc-0x50060e80-lun-0"]
USB = ["pci-0000:00:14.0-usb-0:1:1.0-scsi-0:0:0:0", "pci-0000:00:14.0-usbv2-0:1:1.0-scsi-0:0:0:0"]
VIRTIO = ["pci-0000:04:00.0", "virtio-pci-0000:04:00.0"]
MPATH = ["dm-name-mpatha", "dm-uuid-mpath-360060e80", "scsi-360060e80", "wwn-0x60060e80"]
LUN = {"vendor": "DELL", "model": "PERC H740P Mini", "serial": "00a1"}


def linked(host: Host, programs: Programs, *nodes: dict[str, Any], **links: list[str]) -> list[inv.Disk]:
    """Return the agent's report on these devices, where udev has made these links: by_id__sda for those of sda."""
    for key, names in links.items():
        directory, device = key.split("__")
        folder = host.path(f"/dev/disk/{directory.replace('_', '-')}")
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).symlink_to(f"../../{device}")
    programs.put("lsblk", f"cat <<'END'\n{json.dumps({'blockdevices': nodes})}\nEND")
    return blockdev.disks(host)


@pytest.mark.parametrize("ids", [[], ["ata-DISK_1", "scsi-0ATA_DISK_1", "scsi-35000c5", "wwn-0x5000c5"]])
@pytest.mark.parametrize(
    ("paths", "id_path", "canonical"),
    [
        (ATA, "", ATA[1]),
        (ATA, ATA[0], ATA[0]),
        (FC, "", FC[1]),
        (FC, FC[0], FC[0]),
        (FC, "gone", FC[1]),
        (USB, "", USB[0]),
        (VIRTIO, "", VIRTIO[0]),
        (["pci-0000:01:00.0-nvme-1"], "", "pci-0000:01:00.0-nvme-1"),
        (["pci-0000:02:00.0-sas-phy3-lun-0"], "", "pci-0000:02:00.0-sas-phy3-lun-0"),
    ],
)  # fmt: skip
def test_whatever_name_udev_gives_a_disk_selects_it(
    host: Host, programs: Programs, paths: list[str], id_path: str, canonical: str, ids: list[str]
) -> None:
    host.write("/run/udev/data/b8:0", f"S:disk/by-id/x\nE:ID_PATH={id_path}\nE:ID_NONSENSE\n" if id_path else "")
    node = disk(name="sda", kname="sda", path="/dev/sda", **{"maj:min": "8:0"})
    [found] = linked(host, programs, node, by_path__sda=paths, by_id__sda=ids)
    assert found.by_path == f"/dev/disk/by-path/{canonical}"
    # As OpenShift's agent has it: a link of udev's tells what lsblk may not.
    assert found.drive_type == ("FC" if paths is FC else "SSD")
    # The service reads what the agent wrote.
    [reported] = json.loads(inv.encode(inv.Inventory(disks=[found])))["disks"]
    for name in (*paths, *ids, "/dev/sda"):
        directory = "" if name.startswith("/") else f"/dev/disk/by-{'path' if name in paths else 'id'}/"
        assert hints.matches(reported, {"deviceName": directory + name})
        assert disks.find(inv.Inventory(disks=[found]), directory + name) == found
    assert not hints.matches(reported, {"deviceName": "/dev/disk/by-path/another"})


@pytest.mark.parametrize("key", ["ID_SERIAL_SHORT", "ID_SERIAL", "ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL"])
@pytest.mark.parametrize("is_path", [False, True])
def test_a_serial_number_of_any_of_udevs_selects_a_disk(
    host: Host, programs: Programs, key: str, is_path: bool
) -> None:
    host.write("/run/udev/data/b8:0", f"E:{key}=35000c500a1b2c3d4=\nE:ID_WWN=0x5000c500a1b2c3d4\n")
    device = {"name": "mpatha", "kname": "dm-0", "type": "mpath", "size": 7, "maj:min": "253:0"}
    children = {"children": [device]} if is_path else {}
    node = disk(name="sda", kname="sda", serial="ZX01", **{"maj:min": "8:0"}, **children)
    for found in linked(host, programs, node):
        [reported] = json.loads(inv.encode(inv.Inventory(disks=[found])))["disks"]
        for serial in ("ZX01", "35000c500a1b2c3d4="):
            assert hints.matches(reported, {"serialNumber": serial})
        for serial in ("35000c500a1b2c3d4", "0x5000c500a1b2c3d4", "ZX0"):
            assert not hints.matches(reported, {"serialNumber": serial})
    [other] = json.loads(inv.encode(inv.Inventory(disks=[blockdev.parse(disk(serial="ZX01"), {}, {})])))["disks"]
    assert "serials" not in other


@pytest.mark.parametrize(
    ("links", "own", "wwn"),
    [
        (MPATH, {}, "0x60060e80"),
        (MPATH[:2], {}, "0x60060e80"),
        (["dm-uuid-mpath-eui.0025"], {}, "eui.0025"),
        (["dm-uuid-mpath-2001b4d2"], {}, "2001b4d2"),
        ([], {"wwn": "0x60060e80"}, "0x60060e80"),
        (["dm-uuid-LVM-3"], {}, ""),
    ],
)
def test_a_multipath_device_is_found_as_its_disk(
    host: Host, programs: Programs, links: list[str], own: dict[str, str], wwn: str
) -> None:
    device = {"name": "mpatha", "kname": "dm-0", "path": "/dev/mapper/mpatha", "type": "mpath", "size": 7}
    paths = [
        disk(name=name, kname=name, path=f"/dev/{name}", children=[device], **LUN, **own) for name in ("sda", "sdb")
    ]
    found = linked(host, programs, *paths, **{"by_id__dm-0": links})[-1]
    assert (found.drive_type, found.wwn, found.serial) == ("Multipath", wwn, "00a1")
    [reported] = json.loads(inv.encode(inv.Inventory(disks=[found])))["disks"]
    for wanted in (
        {"deviceName": "/dev/dm-0"}, {"deviceName": "/dev/mapper/mpatha"}, {"model": "PERC_H740P_Mini"},
        {"model": "H740P Mini"}, {"vendor": "DELL"}, {"serialNumber": "00a1"},
    ):  # fmt: skip
        assert hints.matches(reported, wanted)
    assert not hints.matches(reported, {"model": "PERC_H740PMini"})
    assert not hints.matches(reported, {"vendor": " "})
    assert hints.matches(reported, {"wwn": wwn or "0x1"}) is bool(wwn)
    assert all(hints.matches(reported, {"deviceName": f"/dev/disk/by-id/{name}"}) for name in links)
