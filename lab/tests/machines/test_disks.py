"""Disks of machines: what they hold before, what counts as touched, and which of them is installed on."""

import os
import struct
import subprocess
import zlib
from xml.etree import ElementTree

import msgspec
import pytest

from lab import topology
from lab.errors import TopologyError
from lab.host import budget
from lab.inputs.configs import agent_config
from lab.layout import Layout
from lab.machines import disks, domain
from lab.machines.lvm import write_volume_group
from lab.topology import Disk

MIB = 1 << 20
DENSE_MIB = disks.DENSE_MIB  # before `thin` changes it


@pytest.fixture(scope="module", autouse=True)
def thin():
    """Of a disk full of data only the first block of each MiB is random, which saves a second a disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disks, "DENSE_MIB", 2)
        yield


@pytest.fixture(scope="module")
def full(thin, tmp_path_factory):
    """Provide a disk full of somebody's data."""
    path = tmp_path_factory.mktemp("disks") / "full.raw"
    disks.make(path, Disk(size_gib=1, holds="data"), "KEEP")
    yield path
    path.unlink()


def part(disk, offset, size):
    with disk.open("rb") as file:
        return os.pread(file.fileno(), size, offset)


def test_what_a_disk_is_filled_from_lies_beside_it_so_that_it_goes_with_its_lab(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(disks, "run_tool", lambda argv, text="": seen.append([*tmp_path.iterdir()]))
    disks.make(tmp_path / "full.raw", Disk(size_gib=1, holds="data"), "KEEP")
    assert [len(files) for files in seen] == [1, 2]
    assert [*tmp_path.iterdir()] == [tmp_path / "full.raw"]


def test_a_full_disk_has_partitions_a_file_system_and_no_free_space(full):
    table = subprocess.run(["sfdisk", "-d", full], capture_output=True, text=True, check=True).stdout
    assert [name in table for name in ('name="files"', 'name="volumes"', 'name="rest"')] == [True] * 3
    files = f"{full}?offset={MIB}"
    subprocess.run(["e2fsck", "-fn", files], check=True, capture_output=True)
    shown = subprocess.run(["debugfs", "-R", "cat important.txt", files], capture_output=True, text=True)
    assert "the only copy. (KEEP)" in shown.stdout
    for place in (500, 511, 600, 1000):
        block = part(full, place * MIB, disks.BLOCK)
        assert len(set(block)) > 200, f"the block at {place} MiB is not random"
    assert part(full, (1 << 30) - 16 * MIB, 15 * MIB).count(0) < MIB


def test_the_first_half_gib_of_a_full_disk_is_random_throughout(monkeypatch):
    monkeypatch.setattr(disks, "DENSE_MIB", DENSE_MIB)
    written = [
        place for offset, length in disks.random_spans(1 << 30) for place in range(offset, offset + length, disks.BLOCK)
    ]
    assert written[: 512 * 16] == [*range(0, 512 * MIB, disks.BLOCK)]


def crc(data):
    """LVM's checksum, which blkid holds against the label's."""
    return zlib.crc32(data, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def test_a_volume_group_is_one_to_lvm(tmp_path):
    path = tmp_path / "pv"
    path.write_bytes(b"\xaa" * 16 * MIB)
    with path.open("r+b") as disk:
        write_volume_group(disk, 4 * MIB, 12 * MIB, group="mine", volume="all")
    assert part(path, 0, 4 * MIB) == b"\xaa" * 4 * MIB
    assert part(path, 5 * MIB, 11 * MIB) == b"\xaa" * 11 * MIB
    label = part(path, 4 * MIB + 512, 512)
    assert label[:8] == b"LABELONE"
    assert struct.unpack_from("<I", label, 16) == (crc(label[20:]),)
    header = part(path, 4 * MIB + 4096, 512)
    assert struct.unpack_from("<I", header) == (crc(header[4:]),)
    offset, size, checksum, _ = struct.unpack_from("<QQII", header, 40)
    text = part(path, 4 * MIB + 4096 + offset, size)
    assert crc(text) == checksum
    assert text.startswith(b"mine {")
    assert text.endswith(b"\0")
    kind = subprocess.run(["blkid", "-p", "-O", str(4 * MIB), "-o", "value", "-s", "TYPE", path], capture_output=True)
    assert kind.stdout.strip() == b"LVM2_member"


def test_disks_are_told_apart_by_what_they_hold(tmp_path):
    seen = set()
    for serial, holds, gib in (
        ("A", "old-system", 1),
        ("B", "old-system", 1),
        ("A", "nothing", 1),
        ("A", "nothing", 2),
    ):
        path = tmp_path / f"{serial}{holds}{gib}"
        disks.make(path, Disk(size_gib=gib, holds=holds), serial)
        seen.add(disks.fingerprint(path))
    assert len(seen) == 4
    again = tmp_path / "again"
    disks.make(again, Disk(size_gib=1, holds="old-system"), "A")
    assert disks.fingerprint(again) in seen


@pytest.fixture(scope="module")
def untouched(full):
    """Its fingerprint, and the fingerprints that were seen since, so that none is taken twice."""
    before = disks.fingerprint(full)
    assert disks.fingerprint(full) == before
    return {before}


@pytest.mark.parametrize("place", [0, 511, 446, 512, MIB, 200 * MIB + 512, 700 * MIB + 100_000, (1 << 30) - 1])
def test_a_single_byte_is_seen_wherever_it_is(full, untouched, place):
    byte = part(full, place, 1)
    with full.open("r+b") as file:
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), place)
    try:
        changed = disks.fingerprint(full)
    finally:
        with full.open("r+b") as file:
            os.pwrite(file.fileno(), byte, place)
    # Neither as before nor as after any other change: what other rows wrote is not what is seen.
    assert changed not in untouched
    untouched.add(changed)


def test_holes_and_zeros_are_the_same_and_a_block_elsewhere_is_not(tmp_path):
    path = tmp_path / "x"
    disks.make(path, Disk(size_gib=1), "X")
    empty = disks.fingerprint(path)

    def written(offset, data):
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), data, offset)
        return disks.fingerprint(path)

    assert written(5 * MIB, bytes(MIB)) == empty
    first = written(5 * MIB, b"x")
    written(5 * MIB, b"\0")
    second = written(6 * MIB, b"x")
    assert len({empty, first, second}) == 3
    assert written(6 * MIB, b"\0") == empty
    os.truncate(path, 2 << 30)
    assert disks.fingerprint(path) != empty


USED = (
    Disk(size_gib=1, serial="KEEP-THIS", holds="data"),
    Disk(size_gib=1, serial="INSTALL-HERE", holds="old-system", root=True),
    Disk(size_gib=1, serial="LEAVE-EMPTY"),
)


def used():
    """Make a node whose disk to install on stands between two others."""
    shape = topology.sno()
    return msgspec.structs.replace(shape, nodes=(msgspec.structs.replace(shape.nodes[0], disks=USED),))


def test_a_machine_boots_the_disk_to_install_on_wherever_it_stands(tmp_path):
    shape = used()
    [node] = shape.nodes
    assert (node.root_device, node.disk_gib) == ("/dev/vdb", 1)
    [host] = agent_config(shape)["hosts"]
    assert host["rootDeviceHints"] == {"serialNumber": "INSTALL-HERE"}
    tree = ElementTree.fromstring(domain.domain_xml(node, Layout(tmp_path, shape), kvm=False))
    disks_in_xml = tree.findall("devices/disk")
    assert [d.findtext("serial") for d in disks_in_xml] == ["KEEP-THIS", "INSTALL-HERE", "LEAVE-EMPTY"]
    assert [d.find("boot") is not None for d in disks_in_xml] == [False, True, False]
    assert tree.find("devices/disk/boot").get("order") == "2"
    assert len({d.find("source").get("file") for d in disks_in_xml}) == 3
    assert topology.load_text(shape.dump()) == shape
    assert budget.need_of(shape).disk_gib > budget.need_of(topology.sno()).disk_gib


def test_a_disk_that_was_written_by_mistake_is_named(tmp_path):
    """By an installer that ignores its hints, or a clean-up that knows no bounds."""
    layout = Layout(tmp_path / "lab", used())
    [node] = layout.topology.nodes
    layout.make()
    disks.make_all(layout)

    def write(index, offset, data):
        with layout.disk(node, index).open("r+b") as file:
            os.pwrite(file.fileno(), data, offset)

    write(1, 0, b"an operating system")
    assert disks.changed(layout) == []
    write(0, 200 * MIB + 512, bytes(512))  # pvremove
    assert disks.changed(layout) == ["KEEP-THIS of master-0, which held data"]
    write(2, 0, b"\xeb\x63\x90")  # a boot loader
    assert disks.changed(layout)[1:] == ["LEAVE-EMPTY of master-0, which held nothing"]


@pytest.mark.parametrize(
    ("disk_lines", "message"),
    [
        ("[{size_gib: 0, root: true}]", r"nodes\[0\]\.disks\[0\].size_gib: 0 is not within"),
        ("[{size_gib: 5}]", r"disks: 0 are marked root"),
        ("[{root: true}, {root: true}]", r"disks: 2 are marked root"),
        ("[{root: true, serial: a}, {serial: a}]", r"disks\[1\].serial: serial number a is used more than once"),
        ("[{root: true, serial: 'a b'}]", r"serial: 'a b' is not of up to 20 letters"),
        (f"[{{root: true, serial: {'a' * 21}}}]", r"is not of up to 20"),
        ("[{root: true, holds: gold}]", r"disks\[0\]\.holds: 'gold' is not one of"),
        ("[{root: true, colour: x}]", r"disks\[0\].colour: there is no field"),
    ],
)
def test_disks_that_cannot_be_are_named(disk_lines, message):
    text = topology.sno().dump().replace("disks: []", f"disks: {disk_lines}")
    with pytest.raises(TopologyError, match=message):
        topology.load_text(text)


def test_one_disk_is_as_before_and_two_sizes_are_a_contradiction():
    [node] = topology.sno().nodes
    assert (node.root_device, node.serial(0), len(node.all_disks)) == ("/dev/vda", "master-0-vda", 1)
    [host] = agent_config(topology.sno())["hosts"]
    assert host["rootDeviceHints"] == {"deviceName": "/dev/vda"}
    listed = msgspec.structs.replace(node, disks=(Disk(size_gib=7, root=True),))
    assert listed.disk_gib == 7
    with pytest.raises(ValueError, match="disk_gib: 9, but the root disk has 7"):
        msgspec.structs.replace(node, disk_gib=9, disks=(Disk(size_gib=7, root=True),))
