"""Resources that a host has for all: one machine takes all that it can get, and the host and another machine still get
what they ask for. And memory that the kernel counts for nobody."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.host.limits import raise_limits
from lab.testing.containers.kit import HEAD, PATIENCE, allowed, refused
from lab.waiting import wait_until

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def neighbour(world):
    """Another machine, on a host as a lab leaves it."""
    raise_limits()
    return world.boot(30)


@contextlib.contextmanager
def holding(world, machine, code):
    """Have a program of a machine's keep what `code` gets hold of."""
    limit = "resource.setrlimit(7, (resource.getrlimit(7)[1],) * 2)"
    script = f"cat > /run/hold.py <<'HOLD'\n{HEAD}\nimport resource, time\n{limit}\n{code}\n"
    script += "print('held', len(held), flush=True)\ntime.sleep(600)\nHOLD\n"
    script += "mkfifo /run/held\n"
    unit = "systemd-run -q --collect --unit hold -p TasksMax=infinity"
    script += f"{unit} sh -c 'exec python3 /run/hold.py > /run/held 2>&1'\n"
    script += "read -r line < /run/held; echo $line"
    try:
        output = world.run(machine, script)
        assert output.stdout.startswith("held "), output
        yield
    finally:
        world.run(machine, "systemctl kill -s KILL hold; systemctl stop hold; rm /run/held")


# What is taken, and what is asked for meanwhile: both as Python.
_SHARED = {
    "instances of inotify": (
        "held = []\nwhile (fd := libc.inotify_init1(0)) >= 0 and len(held) < 20000: held.append(fd)",
        "assert libc.inotify_init1(0) >= 0, ctypes.get_errno()",
    ),
    "asynchronous I/O": (
        """
held = []
for size in (60000, 8000, 1000, 100, 10, 1):
    while libc.syscall(206, size, ctypes.byref(ctypes.c_ulong(0))) >= 0: held.append(size)""",
        "",
    ),
    "terminals": (
        """
held = []
os.makedirs('/run/pts', exist_ok=True)
call(165, b'x', b'/run/pts', b'devpts', 0, b'newinstance,ptmxmode=0666')
with open('/run/pts/ptmx') as probe:
    try:
        while len(held) < 5000: held.append(os.open('/run/pts/ptmx', os.O_RDWR | os.O_NOCTTY))
    except OSError: pass""",
        "os.openpty()",
    ),
    # They stay for five seconds, so it goes on.
    "neighbours": (
        """
import threading
held = range(4000)
call(272, 0x40000000)
subprocess.run('ip link add d0 type veth peer name d1; ip addr add 10.0.0.1/8 dev d0; ip link set d0 up', shell=True)
to = 'neigh replace 10.1.{}.{} lladdr 02:00:00:00:00:01 dev d0 nud reachable\\n'
lines = ''.join(to.format(i >> 8, i & 255) for i in held).encode()
take = lambda: subprocess.run(['ip', '-force', '-batch', '-'], input=lines, stderr=subprocess.DEVNULL)
def go_on():
    while True: take()
take()
threading.Thread(target=go_on, daemon=True).start()""",
        """
call(272, 0x40000000)
for line in ('link add d0 type veth peer name d1', 'addr add 10.0.0.1/8 dev d0', 'link set d0 up',
             *(f'neigh add 10.2.0.{i} lladdr 02:00:00:00:00:02 dev d0 nud reachable' for i in range(2, 9))):
    subprocess.run(['ip', *line.split()], check=True)""",
    ),
}
# A machine has none of it.
_OF_THE_HOST = "assert libc.syscall(206, 128, ctypes.byref(ctypes.c_ulong(0))) == 0, ctypes.get_errno()"


@pytest.mark.parametrize("case", _SHARED)
def test_what_one_machine_takes_others_and_the_host_still_have(world, machine, neighbour, case):
    take, ask = _SHARED[case]
    with holding(world, machine, take):
        asked = subprocess.run(
            [sys.executable, "-c", f"{HEAD}\n{ask or _OF_THE_HOST}"], capture_output=True, text=True, timeout=60
        )
        assert asked.returncode == 0, asked.stderr
        allowed(world, neighbour, ask)


def test_a_machine_that_takes_the_hosts_control_groups_is_switched_off(world):
    """Groups of `memory` have numbers, of which there are 65535 for all labs and the host."""
    if not Path("/sys/fs/cgroup/memory/node0").is_dir():
        pytest.skip("cgroup2 counts them itself: test_groups.py")
    greedy = world.boot(31)
    console = world.console(greedy)
    code = """
import time
for number in range(3 * 4096):
    os.mkdir(f'/sys/fs/cgroup/memory/{number}')
time.sleep(30)
"""
    refused(world, greedy, code)
    wait_until(lambda: not greedy.look().on, PATIENCE, "its end")
    assert "node0: more than 4096 control groups: the machine is switched off" in console.text()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{greedy.name}"))


_RING = "struct.pack('IIII', 1 << 16, 16, 2048, 512)"
_UNCOUNTED = {
    "a ring of received packets": f"socket.socket(17, 3, 0).setsockopt(263, 5, {_RING})",
    "a ring of packets to send": f"socket.socket(17, 3, 0).setsockopt(263, 13, {_RING})",
    "a ring of AF_XDP": "socket.socket(44, 3, 0).setsockopt(283, 2, struct.pack('I', 1 << 10))",
    # linux/fscrypt.h: by version 2 of its policies each user of the machine may have as many as his quota of keys.
    "keys of a file system's": """
os.makedirs('/mnt/keys', exist_ok=True)
subprocess.run('mkfs.ext4 -qF -O encrypt /dev/vda', shell=True, check=True)
call(165, b'/dev/vda', b'/mnt/keys', b'ext4', 0, b'')
top = os.open('/mnt/keys', os.O_RDONLY)
try:
    fcntl.ioctl(top, 0xC0506617, bytearray(struct.pack('=II32sII32x64s', 2, 0, b'', 64, 0, b'x' * 64)))
finally:
    os.close(top)
    subprocess.run(['umount', '/mnt/keys'], check=True)""",
}


@pytest.mark.parametrize("case", _UNCOUNTED)
def test_memory_that_nobody_counts_is_not_had(world, machine, case):
    refused(world, machine, _UNCOUNTED[case])


def test_packets_are_read_and_sent_without_rings(world, machine):
    code = """
line = socket.socket(17, 3, 0x88B5)
line.bind(('enp1s0', 0x88B5))
line.setsockopt(263, 8, 1)
line.setsockopt(1, 8, 1 << 16)
line.send(bytes.fromhex('ffffffffffff5254006e7700') + b'\\x88\\xb5' + b'x' * 60)
"""
    allowed(world, machine, code)


@pytest.fixture
def huge_pages():
    """Provide some that the host has set aside."""
    file = Path("/proc/sys/vm/nr_hugepages")
    before = file.read_text()
    try:
        file.write_text(f"{int(before) + 4}")
        if int(file.read_text()) < int(before) + 4:
            pytest.skip("this host has no memory in pieces of that size left")
        yield
    finally:
        file.write_text(before)


_HUGE = {
    "mapped": "import mmap; mmap.mmap(-1, 2 << 20, flags=0x40022)[0]",
    "a file": "assert libc.memfd_create(b'x', 4) >= 0",
    # It outlives whoever has made it, and its pages with it.
    "shared memory": "call(31, call(29, 0, 2 << 20, 0o5600), 0, 0)",
}


@pytest.mark.parametrize("case", _HUGE)
def test_huge_pages_of_the_host_are_its_own(world, machine, huge_pages, case):
    # They are there.
    done = subprocess.run([sys.executable, "-c", f"{HEAD}\n{_HUGE[case]}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused(world, machine, _HUGE[case])


def test_control_groups_of_the_host_are_not_seen(world, machine):
    """Nor are those of cgroup2, which a machine may mount where it has others."""
    if not Path("/sys/fs/cgroup/memory").is_dir():
        pytest.skip("cgroup2 alone: a machine's own is what it has")
    mark = Path("/sys/fs/cgroup/unified")
    if not (mark / "cgroup.procs").exists():
        pytest.skip("cgroup2 is not mounted where it usually is")
    group = mark / f"test-{os.getpid()}"
    group.mkdir()
    try:
        script = "mkdir -p /run/c2; mount -t cgroup2 x /run/c2 && ls /run/c2; umount /run/c2; cat /proc/1/cgroup"
        output = world.run(machine, script).stdout.split()
        assert "cgroup.procs" in output
        assert "0::/" in output
        assert group.name not in output
        assert "node0" not in output
    finally:
        group.rmdir()


def test_what_is_open_is_no_limit_of_the_hosts_before_it_is_one_of_its_memory(neighbour):
    """The kernel counts each open file to a machine (a struct file is more than 128 bytes)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(Path("/proc/sys/fs/file-max").read_text()) > memory // 128


def test_threads_are_no_limit_of_the_hosts_before_numbers_of_processes_are(neighbour):
    """Threads included that the kernel starts for a machine's NICs, and counts for nobody."""
    most = {name: int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("threads-max", "pid_max")}
    assert most["threads-max"] >= most["pid_max"]
