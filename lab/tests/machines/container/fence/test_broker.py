"""Arguments that callers can put into a call: the monitor answers all of them, and does not end."""

import contextlib
import ctypes
import errno
import mmap
import os
import stat
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.machines.container.fence import broker, caller, mounts, seccomp
from lab.machines.container.fence.caller import Refusal
from lab.machines.container.kernel import loops

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another process's memory")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_CAP_SYS_TIME, _CAP_SYS_ADMIN = 25, 21
_NAME = 15


class Hardware:
    """A machine that is this process, with all of this host's block devices that are loops."""

    def own_devices(self):
        return {(7, minor): f"vd{minor}" for minor in range(256)}

    def drives(self):
        return ()

    def init(self):
        return os.getpid()

    def reread(self, number):
        pass


class Caller(caller.Caller):
    """One that is always still the one that asked."""

    def check(self):
        pass


class Asked(broker.Broker):
    """A broker, and the calls of any process."""

    def caller(self, pid):
        return Caller(self._listener, self._users, 1, pid)

    def do(self, pid, number, arguments):
        return self._do(self.caller(pid), number, arguments)

    def may(self, pid, capability):
        return self.caller(pid).may(capability)


@pytest.fixture
def asked(monkeypatch):
    """One that mounts nothing."""
    monkeypatch.setattr(mounts, "mount_for", lambda *words, **more: None)
    monkeypatch.setattr(loops, "attach", lambda *words, **more: contextlib.nullcontext(loops.Loop(9, -1)))
    with open("/dev/null") as nobody, open("/proc/self/ns/user") as users:
        yield Asked(nobody.fileno(), users.fileno(), Hardware())


@pytest.fixture
def page():
    """Provide the address of a page that nothing follows."""
    size = mmap.PAGESIZE
    start = _libc.mmap(None, 2 * size, 3, 0x22, -1, 0)
    _libc.munmap(start + size, size)
    yield start
    _libc.munmap(start, size)


WORDS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            *(b"ext4", b"vfat", b"iso9660", b"squashfs", b"sysfs", b"/sys", b"/mnt", b"/dev/loop0", b"/dev/\xff"),
            *(b"image:0:0:/\xff", b"image:0:0:/etc/passwd", b"image:7:999999999999999999:/etc/passwd"),
            *(b"/proc/self/fd/0", b"/proc/self/fd/99999999999999999999", b"oom_score_adj", b"x/oom_score_adj", b"../x"),
            *(b"errors=panic", b"noload,errors=\xff,commit", b"uid=\xff"),
        ]
    ),
)
CALLS = (
    seccomp.MOUNT,
    seccomp.IOCTL,
    seccomp.ADJTIMEX,
    seccomp.CLOCK_ADJTIME,
    seccomp.OPEN,
    seccomp.OPENAT,
)


@given(
    number=st.sampled_from(CALLS),
    words=st.lists(WORDS, min_size=6, max_size=6),
    # An argument is a word's address, the last bytes before the end of all memory, or any number.
    arguments=st.lists(st.one_of(st.none(), st.integers(-6, -1), st.integers(0, 2**64 - 1)), min_size=6, max_size=6),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_is_answered(asked, page, number, words, arguments):
    end = page + mmap.PAGESIZE
    ctypes.memset(page, 0x41, mmap.PAGESIZE)
    kept = [ctypes.create_string_buffer(word) for word in words]
    call = [
        ctypes.addressof(word) if argument is None else end + argument if argument < 0 else argument
        for word, argument in zip(kept, arguments, strict=True)
    ]
    with contextlib.suppress(OSError, Refusal):
        assert asked.do(os.getpid(), number, call) in (True, False, None)


@pytest.mark.parametrize(("number", "own"), [((7, 3), True), ((7, 256), False), ((8, 3), False)])
def test_a_device_of_another_machine_is_left_to_the_kernel(asked, monkeypatch, tmp_path, number, own):
    """It is neither mounted nor read again, whatever node the caller has made for it."""
    done = []
    monkeypatch.setattr(mounts, "mount_for", lambda *words, **more: done.append("mounted"))
    monkeypatch.setattr(Hardware, "reread", lambda _, device: done.append(device))
    os.mknod(tmp_path / "disk", 0o600 | stat.S_IFBLK, os.makedev(*number))
    words = [str(tmp_path / "disk").encode(), str(tmp_path).encode(), b"ext4"]
    kept = [ctypes.create_string_buffer(word) for word in words]
    assert asked.do(os.getpid(), seccomp.MOUNT, [*map(ctypes.addressof, kept), 0, 0, 0]) is own
    disk = os.open(tmp_path / "disk", os.O_PATH)
    try:
        assert asked.do(os.getpid(), seccomp.IOCTL, [disk, 0, 0, 0, 0, 0]) is own
    finally:
        os.close(disk)
    assert done == (["mounted", number] if own else [])


def test_a_word_that_is_cut_off_by_the_end_of_memory_is_a_fault(asked, page):
    for number, at in ((seccomp.ADJTIMEX, 0), (seccomp.CLOCK_ADJTIME, 1), (seccomp.OPEN, 0)):
        ctypes.memset(page, 0x41, mmap.PAGESIZE)
        arguments = [0] * 6
        arguments[at] = page + mmap.PAGESIZE - 2
        with pytest.raises(Refusal) as refused:
            asked.do(os.getpid(), number, arguments)
        assert refused.value.code == errno.EFAULT


def test_an_answer_is_given_whatever_breaks(asked, monkeypatch, capfd):
    replies = []

    def ioctl(_, request, raw):
        if request == broker.RECV:
            raw[:] = broker.NOTIFICATION.pack(7, os.getpid(), 0, seccomp.MOUNT, 0, 0, *[0] * 6)
        else:
            replies.append(broker.RESPONSE.unpack(raw))

    def breaks(*words):
        raise RuntimeError("broken \udcff")

    monkeypatch.setattr(broker.fcntl, "ioctl", ioctl)
    monkeypatch.setattr(asked, "_do", breaks)
    for _ in range(50):
        asked.answer()
    assert replies == [(7, 0, -errno.EIO, 0)] * 50
    # Nor does it fill the log.
    assert 0 < capfd.readouterr().err.count("RuntimeError: broken") <= 20


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\rCapEff:\tffffff", b"\x0cCapEff:\tfffff", b"\nCapEff:\tfffff"])
def test_a_name_is_no_capability(asked, name):
    """A process without any calls itself what its status would say of one that has all."""
    code = "import ctypes, sys\nctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)\nprint(1, flush=True)"
    argv = ["setpriv", "--reuid", "1000", "--clear-groups", "--inh-caps=-all", sys.executable, "-c"]
    argv = [*argv, f"{code}\nsys.stdin.read()", name[:_NAME].hex()]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert not asked.may(process.pid, _CAP_SYS_ADMIN)
        process.stdin.close()
    assert asked.may(os.getpid(), _CAP_SYS_ADMIN)


def test_a_caller_too_deep_for_a_path_still_names_files_by_theirs(asked, tmp_path):
    script = "import os\nfor _ in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)\nprint(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        process.stdout.readline()
        descriptor = asked.caller(process.pid).open(str(tmp_path))
        assert os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        os.close(descriptor)


def test_mounts_with_names_of_any_bytes_are_listed():
    lines = caller.lines_of(
        b"20 1 254:0 / / rw - ext4 /dev/vda rw\n"
        b"21 20 0:30 / /\xff\x0c\x1c\xc2\x85\r rw,relatime master:1 - tmpfs x rw\n"
        b"22 20 7:3 / /b\xe2\x80\xa8 rw - ext4 y rw\n"
    )
    assert caller.devices(lines) == {(254, 0), (0, 30), (7, 3)}
    assert caller.kinds(lines) == {"254:0": "ext4", "0:30": "tmpfs", "7:3": "ext4"}


def test_adjusting_the_clock_is_not_done_for_who_may_not(asked, monkeypatch):
    asked_for = []
    monkeypatch.setattr(Caller, "may", lambda _, capability: asked_for.append(capability))
    buffer = ctypes.create_string_buffer(struct.pack("=I", 1), 300)
    for number, at in ((seccomp.ADJTIMEX, 0), (seccomp.CLOCK_ADJTIME, 1)):
        arguments = [0] * 6
        arguments[at] = ctypes.addressof(buffer)
        assert not asked.do(os.getpid(), number, arguments)
    assert asked_for == [_CAP_SYS_TIME] * 2


def test_adjusting_the_clock_is_done_for_a_caller_of_any_name(asked):
    buffer = ctypes.create_string_buffer(struct.pack("=I", 1), 300)
    kept = ctypes.create_string_buffer(16)
    _libc.prctl(16, kept, 0, 0, 0)
    _libc.prctl(15, b"\xff\xfe", 0, 0, 0)
    try:
        done = asked.do(os.getpid(), seccomp.ADJTIMEX, [ctypes.addressof(buffer), *[0] * 5])
    finally:
        _libc.prctl(15, kept, 0, 0, 0)
    assert done is asked.may(os.getpid(), _CAP_SYS_TIME)
