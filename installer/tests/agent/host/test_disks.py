"""Disks as lsblk and udev tell of them, on machines of many kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.agent.host import blockdev
from installer.assisted import inventory as inv
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
        ({"tran": "sata", "rota": False}, "SSD"),
        ({"name": "dasda"}, "ECKD"),
        ({"name": "fd0"}, "FDD"),
        ({"type": "loop", "name": "loop0"}, "virtual"),
        ({"name": "zram0"}, "virtual"),
        ({"name": "ram0"}, "virtual"),
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
        ({"parttype": EFI}, True),
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
