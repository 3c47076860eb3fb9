"""The reader of images: what it cannot do, and what it says of images that were made to break it."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from installer.common import iso9660
from lab.host.namespaces import unshare
from lab.machines.container.fence import reader
from lab.machines.container.fence.reader import CannotRead
from lab.machines.container.firmware.boot import boot
from lab.machines.container.kernel.syscalls import CLONE_NEWUSER
from lab.machines.container.spec import DiskSpec, Fence, MachineSpec, NotBootable
from lab.tests.machines.container.firmware.medium_kit import bootable

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces")]

FIRST_USER = 1 << 28
BLOCK = 2048


@pytest.fixture(scope="module")
def fence(tmp_path_factory):
    """Provide a machine's user namespace, without a machine."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        unshare(CLONE_NEWUSER)
        os.write(write_end, b".")
        signal.pause()
        os._exit(0)
    os.read(read_end, 1)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{name}").write_text(f"0 {FIRST_USER} 65536\n")
    users = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    empty = tmp_path_factory.mktemp("empty")
    empty.chmod(0o755)
    yield Fence(users, empty)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for descriptor in (users, read_end, write_end):
        os.close(descriptor)


_TRIES = {
    "a file of the host": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "what is above its root": lambda: os.open("/../../etc/passwd", os.O_RDONLY),
    "a list of files": lambda: os.listdir("/"),
    "a socket": lambda: socket.socket(socket.AF_INET),
    "a process": os.fork,
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a signal": lambda: os.kill(os.getppid(), 0),
    "other users": lambda: os.setuid(5),
    "memory": lambda: bytearray(2 << 30),
    "a file in memory": lambda: os.write(os.memfd_create("x"), b"x"),
    "a pipe": os.pipe,
    "a device's settings": lambda: os.isatty(0) or os.get_terminal_size(0),
}


@pytest.mark.parametrize("what", _TRIES)
def test_a_reader_cannot_have(fence, what):
    def attempt():
        try:
            _TRIES[what]()
        except (OSError, MemoryError) as error:
            return type(error).__name__
        return "got through"

    answer = reader.value(fence, attempt, str, descriptors=[], seconds=30)
    assert answer in ("PermissionError", "OSError", "MemoryError", "FileNotFoundError")


def test_a_reader_is_root_of_nothing(fence):
    """It is one of the machine's users, without capabilities, in namespaces of its own."""
    pids: list[int] = []

    def wait(line):
        line.send(b"here")
        line.recv(1)

    def look(message, descriptors, line):
        text = Path(f"/proc/{pids[0]}/status").read_text()
        status = dict(row.split(":\t", 1) for row in text.splitlines() if ":\t" in row)
        assert set(status["Uid"].split()) == {str(FIRST_USER)}
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert {name for name in os.listdir("/proc/self/ns") if _same(pids[0], name)}.isdisjoint(
            {"user", "mnt", "net", "ipc", "uts"}
        )
        assert os.readlink(f"/proc/{pids[0]}/root") == str(fence.empty)
        return True

    enclosed = Fence(fence.users, fence.empty, pids.append)
    reader.ask(enclosed, wait, descriptors=[], answer=look, memory_mib=16, file_mib=0, seconds=30)
    assert len(pids) == 1


def _same(pid, name):
    return os.readlink(f"/proc/self/ns/{name}") == os.readlink(f"/proc/{pid}/ns/{name}")


def _forever():
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "seconds", "why"),
    [
        (_forever, 0.5, "time is up"),
        (lambda: "x" * (3 << 20), 30, "it says too much"),
        (lambda: bytearray(4 << 30), 30, r"no memory left \(MemoryError\)"),
        (lambda: os.kill(0, 9) or 1 // 0, 30, "PermissionError"),
        (lambda: os._exit(0), 30, "no memory left"),
        (lambda: "a word", 30, "nonsense"),
    ],
)
def test_a_reader_that_does_not_answer_is_told_in_one_line(fence, read, seconds, why):
    begin = time.monotonic()
    with pytest.raises(CannotRead, match=why) as error:
        reader.value(fence, read, int, descriptors=[], seconds=seconds)
    assert "\n" not in str(error.value)
    assert time.monotonic() - begin < 30


DEEP = b'{"type": "Say", "more": ' + b"[" * 100_000


def test_what_is_nested_too_deep_is_nonsense_too(fence, tmp_path, monkeypatch):
    class Empty(msgspec.Struct):
        pass

    with pytest.raises(CannotRead, match="nonsense"):
        reader.value(fence, lambda: msgspec.Raw(DEEP), Empty, descriptors=[], seconds=30)
    monkeypatch.setitem(boot.__globals__, "choose", lambda *words: words[-1].send(DEEP))
    assert "nonsense" in power_on(fence, tmp_path)[0]


def test_a_reader_ends_with_its_answer(fence):
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    assert reader.value(fence, lambda: 7, int, descriptors=[], seconds=30) == 7
    assert children.read_text() == before


def power_on(fence, folder, *, disk=None, medium=None, firmware="bios"):
    """Return a machine's console, and how its boot ended."""
    log = folder / "console.log"
    log.unlink(missing_ok=True)
    disks = (DiskSpec(target="vda", path=str(disk), size=disk.stat().st_size),) if disk else ()
    spec = MachineSpec(
        name="m",
        uuid="5d7ab2c8-4f5f-4d8a-9d7c-8a3d7c1b2a01",
        memory_mib=512,
        vcpus=1,
        firmware=firmware,
        disks=disks,
        cdrom=str(medium) if medium else None,
        console_log=str(log),
        console_socket=str(folder / "console.sock"),
        uid_base=FIRST_USER,
    )
    devices = {"vda": disk, "vda1": disk} if disk else {}
    with log.open("ab", buffering=0) as console:
        try:
            booted = boot(spec, devices=devices, root=folder / "root", console=console, fence=fence)
        except NotBootable as error:
            return log.read_text(), error.reason
    held = [*booted.early.images, *(number for drive in booted.early.drives for number in drive.held)]
    contents = [os.pread(image, 64, 0) for image in booted.early.images]
    for descriptor in held:
        os.close(descriptor)
    return log.read_text(), (booted, contents)


FILES = {
    "images/pxeboot/vmlinuz": b"vmlinuz",
    "images/pxeboot/initrd.img": b"initrd.img",
    "images/ignition.img": b"ign",
}
KARGS = {"default": "", "size": 16, "files": [{"path": "isolinux.cfg"}]}


def iso(folder, kargs=KARGS, text=b"a=b\n", **firmware):
    """Return a live medium of CoreOS's layout."""
    files = FILES | {"isolinux.cfg": text.ljust(16, b"#"), "coreos/kargs.json": json.dumps(kargs).encode()}
    return bootable(folder, files, **(firmware or {"bios": True}))


@pytest.fixture(scope="module")
def medium(tmp_path_factory):
    return iso(tmp_path_factory.mktemp("iso")).read_bytes()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Provide the first MiB of a disk with boot code and a partition that has a file system with GRUB's
    configuration."""
    folder = tmp_path_factory.mktemp("disk")
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    layout = "label: gpt\nstart=1MiB, size=1MiB, type=21686148-6449-6E6F-744E-656564454649\nstart=2MiB, size=8MiB\n"
    subprocess.run(["sfdisk", "-q", str(image)], input=layout, text=True, check=True, timeout=30)
    raw = image.read_bytes()
    return b"\xeb\x63" + raw[2 : 1 << 20]


def test_a_medium_is_read_to_its_initrds(fence, tmp_path):
    console_text, end = power_on(fence, tmp_path, medium=iso(tmp_path))
    assert not isinstance(end, str), end
    booted, contents = end
    assert contents == [b"initrd.img", b"ign"]
    assert booted.arguments == ["BOOT_IMAGE=/images/pxeboot/vmlinuz", "a=b"]
    assert [(drive.name, drive.label) for drive in booted.early.drives] == [("sr0", "label")]
    assert "Booting from DVD/CD..." in console_text


def assert_one_line(console_text, end):
    """However the boot ended, the console has no traceback, and nothing but the firmware's few lines."""
    assert isinstance(end, str) or end[0].early
    assert not re.search(r"Traceback|\w+Error:", console_text), console_text
    assert len(console_text.splitlines()) < 12, console_text


@pytest.mark.parametrize("name", ["\ud800", "a\nb\x1b[2J", "x" * 1_500_000], ids=["surrogate", "lines", "long"])
def test_a_name_in_a_medium_is_told_in_one_line(fence, tmp_path, name):
    console_text, end = power_on(fence, tmp_path, medium=iso(tmp_path, kargs={**KARGS, "files": [{"path": name}]}))
    assert_one_line(console_text, end)
    assert end.startswith("error: the medium: coreos/kargs.json names ")
    assert end.isprintable()


# Each example is a boot or two, and each question of a boot a fork of a process that has imported all tests.
_FEW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FEW
@given(data=st.data())
def test_a_broken_medium_is_told_in_one_line(fence, medium, tmp_path, data):
    raw = bytearray(medium)
    places = [(16 * BLOCK, 20 * BLOCK), (0, len(raw) - 1)]
    for _ in range(data.draw(st.integers(1, 6))):
        first, last = data.draw(st.sampled_from(places))
        at = data.draw(st.integers(first, last))
        new = data.draw(st.binary(min_size=1, max_size=8))
        raw[at : at + len(new)] = new
    image = tmp_path / "broken.iso"
    image.write_bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) // 2, 17 * BLOCK + 100]))])
    assert_one_line(*power_on(fence, tmp_path, medium=image))


@_FEW
@given(data=st.data())
def test_a_broken_disk_is_told_in_one_line(fence, disk, tmp_path, data):
    raw = bytearray(disk)
    for _ in range(data.draw(st.integers(0, 5))):
        at = data.draw(st.integers(440, 40 * 512))
        new = data.draw(st.binary(min_size=1, max_size=8))
        raw[at : at + len(new)] = new
    image = tmp_path / "broken.img"
    image.write_bytes(raw)
    os.truncate(image, data.draw(st.sampled_from([16 << 20, 1 << 20, 700, 512])))
    firmware = data.draw(st.sampled_from(["bios", "uefi"]))
    assert_one_line(*power_on(fence, tmp_path, disk=image, firmware=firmware))


@_FEW
@given(raw=st.binary(max_size=40 * 512), signature=st.booleans())
def test_random_bytes_are_told_in_one_line(fence, tmp_path, raw, signature):
    image = tmp_path / "random"
    image.write_bytes(raw[:510].ljust(510, b"x") + b"\x55\xaa" + raw[512:] if signature else raw)
    assert_one_line(*power_on(fence, tmp_path, disk=image))
    assert_one_line(*power_on(fence, tmp_path, medium=image, firmware="uefi"))


def test_a_catalog_with_more_entries_than_it_has_room_for(fence, medium, tmp_path):
    catalog = struct.unpack_from("<I", medium, 17 * BLOCK + 71)[0] * BLOCK
    image = tmp_path / "torito.iso"
    image.write_bytes(medium[: catalog + 64] + b"\x90\xef\xff\xff" * 496 + medium[catalog + BLOCK :])
    console_text, end = power_on(fence, tmp_path, medium=image, firmware="uefi")
    assert isinstance(end, tuple)
    for block in (0xFFFFFFFF, len(medium) // BLOCK + 1):
        raw = bytearray(medium)
        struct.pack_into("<I", raw, 17 * BLOCK + 71, block)
        image.write_bytes(raw)
        console_text, end = power_on(fence, tmp_path, medium=image)
        assert "Could not read from CDROM (code 0004)" in end
        assert_one_line(console_text, end)


def test_a_directory_of_too_many_files_is_told_in_one_line(fence, medium, tmp_path, monkeypatch):
    monkeypatch.setattr(iso9660, "MOST_RECORDS", 1 << 16)
    raw = bytearray(medium)
    start = -(-len(raw) // BLOCK)
    struct.pack_into("<I", raw, 16 * BLOCK + 156 + 2, start)
    struct.pack_into("<I", raw, 16 * BLOCK + 156 + 10, 4 << 20)
    # Records of 40 bytes (ECMA-119, 9.1), each with another name.
    head = struct.pack("<BBI4xI4x7xBBBHHB", 40, 0, 16, 1, 0, 0, 0, 1, 1, 6)
    block = b"".join(head + b"FILE%02d\0" % number for number in range(51)).ljust(BLOCK, b"\0")
    assert len(head) == 33
    image = tmp_path / "many.iso"
    image.write_bytes(bytes(raw).ljust(start * BLOCK, b"\0") + block * (2 << 10))
    console_text, end = power_on(fence, tmp_path, medium=image)
    assert "it has too many files" in end
    assert_one_line(console_text, end)


@pytest.mark.parametrize(
    ("kargs", "text", "why"),
    [
        ([], b"", "kargs.json is not a JSON object"),
        ({"files": "x"}, b"", "does not have the form"),
        ({"files": [{"path": "isolinux.cfg", "offset": "x"}]}, b"", "does not have the form"),
        ({"size": 1e400, "files": []}, b"", "does not have the form"),
        (KARGS | {"files": []}, b"", "has no coreos/kargs.json: .* use virtual machines"),
        (KARGS | {"files": [{"path": "images"}]}, b"", "names images, which is not in the image"),
        (KARGS | {"size": 2049}, b"", "lies outside|areas of 2049 bytes"),
        (KARGS | {"files": [{"path": "isolinux.cfg", "offset": 1 << 80}]}, b"", "lies outside"),
        (KARGS | {"files": [{"path": "isolinux.cfg", "offset": -9}]}, b"", None),
        (KARGS, b"\xff\x00\x1b[2J\n", None),
    ],
)
def test_arguments_that_are_not_listed_as_coreos_does_end_in_one_line(fence, tmp_path, kargs, text, why):
    console_text, end = power_on(fence, tmp_path, medium=iso(tmp_path, kargs, text, uefi=True), firmware="uefi")
    assert_one_line(console_text, end)
    assert isinstance(end, tuple) if why is None else re.search(why, end), end
