"""Parts of container machines that are tested without a machine."""

import contextlib
import errno
import os
import selectors
import signal
import struct
import subprocess
import sys

import pytest

from lab.errors import LabError
from lab.machines.container.fence import seccomp
from lab.machines.container.firmware.partitions import Partition
from lab.machines.container.hardware import disks, line, pseudofs
from lab.machines.container.kernel import cgroups, users
from lab.machines.container.machine import Machine
from lab.machines.container.monitor import Monitor
from lab.machines.container.spec import DiskSpec, MachineSpec

SPEC = MachineSpec(
    name="m",
    uuid="5d7ab2c8-4f5f-4d8a-9d7c-8a3d7c1b2a01",
    memory_mib=40000,
    vcpus=3,
    console_log="/c",
    console_socket="/s",
    uid_base=1 << 28,
)
KILOBYTE = 1 << 10
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
REFUSE = 0x50000


def verdict(number, *arguments, arch=0xC000003E):
    """Run the filter for a call, by a small machine of the instructions that it uses (linux/bpf_common.h)."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = list(struct.iter_unpack("=HBBI", seccomp.program()))
    at, value = 0, 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("=I", data, k)[0]
        elif operation == 0x54:
            value &= k
        elif operation == 0x06:
            return k
        else:
            hit = value == k if operation == 0x15 else bool(value & k)
            at += if_true if hit else if_false


VERDICTS = {
    ALLOW: (
        *((0,), (16, 3, 0x1260), (16, 3, 0x4D00), (54, 3, 263, 8), (54, 3, 1, 5), (9, 0, 4096, 3, 0x22), (319, 0, 1)),
        *((41, 17, 3), (41, 1), (41, 2), (41, 41), (41, 43), (42, 40), (257, 0, 0, 0o101), (257, 0, 0, 0)),
    ),
    NOTIFY: (*((165, 1, 2), (16, 3, 0x125F), (16, 3, 0x1269), (257, 0, 0, 0o1), (257, 0, 0, 0o2000002), (2, 0, 0o2)),),
    REFUSE | errno.ENOPROTOOPT: ((54, 3, 263, 5), (54, 3, 263, 13)),
    REFUSE | errno.ENOMEM: ((9, 0, 4096, 3, 0x40022),),
    REFUSE | errno.ENOSYS: ((319, 0, 4), (206, 1), (250,), (430,), (0x40000000 + 165,)),
    REFUSE | errno.EAFNOSUPPORT: ((41, 44, 3), (41, 40), (41, 42)),
    REFUSE | errno.ENOTTY: ((16, 3, 0x4C01), (16, 3, 0x4C82)),
    REFUSE | errno.EPERM: ((425,), (164,)),
}


@pytest.mark.parametrize("expected", VERDICTS)
def test_the_seccomp_filter_decides_by_calls_and_arguments(expected):
    calls = VERDICTS[expected]
    assert {call: verdict(*call) for call in calls} == dict.fromkeys(calls, expected)


def test_the_seccomp_filter_knows_one_architecture():
    assert verdict(1, arch=0x40000003) == REFUSE | errno.ENOSYS


def test_hierarchies_of_a_host():
    v1 = "9:name=systemd:/\n4:memory:/x\n1:cpu,cpuacct:/\n10:misc:/\n0::/\n"
    assert cgroups.controllers(v1) == ["name=systemd", "memory", "cpu,cpuacct"]
    assert cgroups.controllers("0::/user.slice\n") == []


def test_groups_that_ran_empty_are_listed_once(tmp_path):
    def group(name, processes):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "cgroup.procs").write_text(processes)

    group("a", "")
    group("a/b", "7\n")
    group("c", "")
    (tmp_path / "cgroup.procs").write_text("")
    watch = cgroups.EmptyGroups(tmp_path)
    assert watch.look() == ["/c"]
    assert watch.look() == []
    group("a/b", "")
    assert sorted(watch.look()) == ["/", "/a", "/a/b"]


def test_memory_and_processors_are_the_machines():
    assert "MemTotal:        1048576 kB\n" in pseudofs.meminfo(1024, 0)
    assert "MemAvailable:    1048575 kB\n" in pseudofs.meminfo(1024, KILOBYTE)
    host = "processor\t: 0\nmodel name\t: X\ncpu cores\t: 2\n\nprocessor\t: 1\nmodel name\t: X\ncpu cores\t: 2\n\n"
    text = pseudofs.cpuinfo(host, 3)
    assert [line for line in text.splitlines() if line.startswith("processor")] == [
        f"processor\t: {n}" for n in range(3)
    ]
    assert text.count("cpu cores\t: 3\n") == 3


def test_smbios_tells_the_memory_and_its_sums_are_right():
    entry, tables = pseudofs.smbios_tables(SPEC)
    assert sum(entry) & 0xFF == 0
    assert struct.unpack_from("<I", entry, 12)[0] == len(tables)
    sizes, at = [], 0
    while at < len(tables):
        kind, length = tables[at], tables[at + 1]
        if kind == 17:
            sizes.append(struct.unpack_from("<H", tables, at + 12)[0])
        at = tables.index(b"\0\0", at + length) + 2
    assert sum(sizes) == 40000
    assert pseudofs.smbios_identity(SPEC)["product_uuid"] == SPEC.uuid


def test_a_disk_and_its_partition_have_their_names():
    disk = DiskSpec(target="vdb", path="/x", size=1 << 30, serial="S-1", wwn="0x5", rotational=True)
    whole = disks.describe_disk(disk, (7, 3), 1 << 30)
    assert whole.links == ("by-path/vdb", "by-id/virtio-S-1", "by-id/wwn-0x5")
    assert whole.attributes["size"] == "2097152"
    assert whole.attributes["queue/rotational"] == "1"
    part = disks.describe_partition(disk, Partition(4, 1 << 20, 1 << 21, "k", uuid="u-u", name="the root"), (7, 4))
    assert (part.name, part.parent) == ("vdb4", "vdb")
    assert set(part.links) == {
        "by-path/vdb-part4",
        "by-partuuid/u-u",
        "by-id/virtio-S-1-part4",
        "by-id/wwn-0x5-part4",
        r"by-partlabel/the\x20root",
    }
    assert (part.attributes["start"], part.attributes["size"]) == ("2048", "4096")


@pytest.mark.parametrize(
    ("model", "vendor", "link"),
    [
        ("", "DELL", "scsi-0DELL_QEMU_HARDDISK_S-1"),
        ("PERC H740P Mini", "Lenovo X", "scsi-0Lenovo_XPERC_H740P_Mini_S-1"),
        ("SIXTEEN OF THEM.", "", "scsi-0QEMU_SIXTEEN_OF_THEM.S-1"),
    ],
)
def test_a_disk_of_a_vendors_is_named_by_it(model, vendor, link):
    disk = DiskSpec(target="sda", path="/x", size=1 << 30, serial="S-1", bus="scsi", model=model, vendor=vendor)
    whole = disks.describe_disk(disk, (7, 3), 1 << 30)
    assert whole.links == ("by-path/sda", f"by-id/{link}")
    assert whole.attributes["device/vendor"] == (vendor or "QEMU")
    assert whole.database["ID_VENDOR"] == (vendor.replace(" ", "_") or "QEMU")


def test_what_is_tried_once_comes_first_and_nothing_twice():
    assert SPEC.order == ("hd", "cdrom", "network")
    once = MachineSpec(**{**{f: getattr(SPEC, f) for f in SPEC.__struct_fields__}, "boot_once": "cdrom"})
    assert once.order == ("cdrom", "hd", "network")


def test_its_stick_keeps_its_place_behind_the_disks_whatever_is_put_first(tmp_path):
    stick = DiskSpec(target="sda", path="/x", size=1 << 30, serial="S-1", bus="usb")
    fields = {field: getattr(SPEC, field) for field in SPEC.__struct_fields__}
    MachineSpec(**{**fields, "disks": (stick,), "stick": "sda"}).save(tmp_path)
    machine = Machine(tmp_path, "lab", "", cgroups.Hierarchies({}))
    machine.first("cdrom", once=False)
    assert machine.spec.order == ("cdrom", "hd", "usb", "network")
    machine.first("hd", once=False)
    assert machine.spec.order == ("hd", "usb", "cdrom", "network")
    assert [(disk.target, disk.bus, disk.size) for disk in machine.view().disks] == [("sda", "usb", 1 << 30)]


def test_a_range_of_users_is_given_once_and_free_again_when_its_last_holder_ends(tmp_path):
    ledger = tmp_path / "run/users"
    taken = [users.claim(1 << 28, ledger) for _ in range(2)]
    assert [first for first, _ in taken] == [1 << 28, (1 << 28) + 65536]
    heir = os.dup(taken[0][1])
    os.close(taken[0][1])
    taken[0] = users.claim(1 << 28, ledger)
    assert taken[0][0] == (1 << 28) + 2 * 65536
    os.close(heir)
    taken.append(users.claim(1 << 28, ledger))
    assert taken[-1][0] == 1 << 28
    for _, held in taken:
        os.close(held)


def test_no_range_of_users_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(users, "TRIED", 1)
    _, held = users.claim(1 << 28, tmp_path / "users")
    with pytest.raises(LabError, match=str(1 << 28)):
        users.claim(1 << 28, tmp_path / "users")
    os.close(held)


def test_a_log_of_the_console_ends_where_it_would_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(line, "LOG_BYTES", 100)
    log = tmp_path / "console.log"
    with selectors.DefaultSelector() as selector:
        for _ in range(2):
            serial = line.SerialLine(log, tmp_path / "c", selector)
            for _ in range(30):
                serial.say(b"0123456")
            serial.close()
    content = log.read_bytes()
    assert content[:100] == (b"0123456" * 15)[:100]
    assert content[100:].startswith(b"\r\nnode0: this log is full; ")
    assert content.count(b"full") == 1


class Groups:
    """A machine's control groups, in which it has or has not made too many."""

    def __init__(self):
        self.found = False
        self.thawed = 0

    def too_many(self):
        return self.found

    def unhold(self):
        self.thawed += 1


class MonitorOfNothing(Monitor):
    """A monitor with a first process and nothing else."""

    def __init__(self, init, group):
        self._group, self._init, self._switched_off, self.lines = group, init, False, []

    def init(self):
        if self._init.poll() is not None:
            raise ProcessLookupError
        return self._init.pid

    def say(self, text):
        self.lines.append(text)


@pytest.fixture
def init():
    """Provide a process that ends at a line of input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_machine_with_too_many_groups_is_ended_and_says_why_once(init):
    group = Groups()
    machine = MonitorOfNothing(init, group)
    machine.hold_to_its_groups()
    assert init.poll() is None
    assert machine.lines == []
    group.found = True
    machine.hold_to_its_groups()
    assert init.wait(30) == -signal.SIGKILL
    # What it has frozen cannot end, and is asked again.
    assert group.thawed == 1
    with contextlib.suppress(ProcessLookupError):
        machine.hold_to_its_groups()
    assert machine.lines == ["node0: more than 4096 control groups: the machine is switched off"]
