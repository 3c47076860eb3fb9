"""Attempts of a reader of this fence's code: options for its helpers, waits that never end, corners."""

import contextlib
import re
import time
from pathlib import Path

import pytest

from lab.testing.containers.kit import HEAD, PATIENCE, World, allowed, attempt, refused
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

_EXT4 = """
subprocess.run('mkfs.ext4 -qF /dev/vda && tune2fs -e panic /dev/vda >/dev/null', shell=True, check=True)
os.makedirs('/mnt/e', exist_ok=True)
"""
# What mounts of its disks may ask of the host: another device, the host's end when a file system is broken.
_OPTIONS = {
    "a panic at an error": (b"ext4", "errors=panic"),
    "a journal elsewhere": (b"ext4", "journal_path=/proc/1/root/dev/loop0"),
    "a journal by number": (b"ext4", "journal_dev=1792"),
    "a log on another's disk": (b"xfs", "logdev=/proc/1/root/dev/loop0"),
    "a real-time device": (b"xfs", "rtdev=/proc/1/root/dev/loop0"),
    "one more device": (b"btrfs", "device=/proc/1/root/dev/loop0"),
    "a panic of btrfs": (b"btrfs", "fatal_errors=panic"),
    "a quota file": (b"ext4", "usrjquota=x,jqfmt=vfsv1"),
    "debugging": (b"ext4", "debug"),
}


@pytest.mark.parametrize("case", _OPTIONS)
def test_an_option_that_is_the_hosts_affair_is_refused(world, machine, case):
    kind, options = _OPTIONS[case]
    code = f"{_EXT4}\ncall(165, b'/dev/vda', b'/mnt/e', {kind!r}, 0, {options.encode()!r})"
    last_words = refused(world, machine, code)
    assert "Invalid argument" in last_words[0], last_words


def test_a_file_system_that_says_panic_of_itself_is_told_otherwise(world, machine):
    code = f"""{_EXT4}
call(165, b'/dev/vda', b'/mnt/e', b'ext4', 0, b'discard,commit=7')
line = next(line for line in open('/proc/self/mountinfo') if ' /mnt/e ' in line)
call(166, b'/mnt/e', 0)
assert 'errors=continue' in line and 'commit=7' in line, line
"""
    allowed(world, machine, code)


def test_users_of_the_machine_mount_no_disks(world, machine):
    """In a user namespace of their own, where they have all capabilities: as everywhere, that is not enough."""
    code = f"""{_EXT4}
if os.fork() == 0:
    os.setgid(65534); os.setuid(65534)
    call(272, 0x10000000 | 0x20000)
    try:
        call(165, b'/dev/vda', b'/mnt/e', b'ext4', 0, b'')
    except PermissionError:
        os._exit(0)
    os._exit(9)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    allowed(world, machine, code)


# A file system that answers everything but what is read: /mnt/f, with a file of a page (linux/fuse.h).
_FUSE = """
import mmap, threading
def serve(fd):
    attributes = lambda node: struct.pack('<QQQQQQIIIIIIIIII', node, 4096, 8, 0, 0, 0, 0, 0, 0,
        0o40755 if node == 1 else 0o100644, 1, 0, 0, 0, 4096, 0)
    while True:
        data = os.read(fd, 1 << 18)
        _, opcode, unique, node = struct.unpack_from('<IIQQ', data)
        body = {26: struct.pack('<IIIIHHIIHH32x', 7, 31, 65536, 0, 12, 10, 65536, 1, 16, 0),
                1: struct.pack('<QQQQII', 2, 0, 9, 9, 0, 0) + attributes(2),
                3: struct.pack('<QII', 9, 0, 0) + attributes(node),
                14: struct.pack('<QII', 1, 0, 0), 27: struct.pack('<QII', 1, 0, 0),
                17: struct.pack('<QQQQQIIII24x', 9, 9, 9, 9, 9, 4096, 255, 4096, 0)}.get(opcode)
        if opcode == 15:
            print('asked', flush=True)
        elif opcode != 2:
            error = 0 if body is not None else -38
            os.write(fd, struct.pack('<IiQ', 16 + len(body or b''), error, unique) + (body or b''))
def fuse():
    os.makedirs('/mnt/f', exist_ok=True)
    fd = os.open('/dev/fuse', os.O_RDWR)
    call(165, b'x', b'/mnt/f', b'fuse', 0, f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode())
    threading.Thread(target=serve, args=(fd,), daemon=True).start()
"""


# A page of a file there that nobody has seen yet, as the words of a call that the monitor answers.
_SELF = """
fuse()
page = mmap.mmap(os.open('/mnt/f/x', os.O_RDWR), 4096, mmap.MAP_SHARED)
where = ctypes.c_long(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print('open', file=sys.stderr, flush=True)
libc.syscall(ctypes.c_long(165), where, where, where, 0, 0)
"""


def _waits_for_itself(world, machine):
    """Have a process of a machine end that no signal ends any more."""
    script = f"cat > /run/self.py <<'SELF'\n{HEAD}{_FUSE}{_SELF}\nSELF\n"
    script += "systemd-run --quiet --unit=self sh -c 'exec python3 /run/self.py > /run/self.log 2>&1'\n"
    # Its last thread waits without memory, its files not yet closed. Where that is the first one, it is no zombie.
    script += """for i in $(seq 600); do
        processes=$(grep -ls '^Name:.python3' /proc/[0-9]*/status)
        [ -z "$processes" ] || ended=$(grep -Ls '^VmSize' $processes)
        [ -z "$ended" ] || break
        sleep 0.1
    done; echo "$ended"; cat /run/self.log"""
    output = world.run(machine, script).stdout
    assert "open" in output, output
    assert "status" in output, output


def _left(first_user):
    statuses = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            user = int(re.search(r"^Uid:\s+(\d+)", status.read_text(), re.MULTILINE)[1])
            statuses += [status] if user // 65536 == first_user // 65536 else []
    return statuses


@pytest.mark.parametrize("end", ["power-off", "kill"])
def test_a_process_that_waits_for_itself_ends_with_its_machine(tmp_path, world, end):
    # Where no other test's machines have theirs, and no lab's.
    first_user = 7 << 26
    with World(tmp_path) as own:
        victim = own.boot(first_user=first_user)
        _waits_for_itself(own, victim)
        assert _left(first_user)
        if end == "power-off":
            begin = time.monotonic()
            victim.off()
            assert not victim.look().on
            assert time.monotonic() - begin < 60
            assert _left(first_user) == []
    wait_until(lambda: not _left(first_user), PATIENCE, "its processes' end", lambda: _left(first_user), poll=0.1)


def test_an_image_on_a_file_system_that_a_program_answers_for_is_none(world, machine):
    """Not beneath an overlay either."""
    code = f"""{_FUSE}
fuse()
for name in ('u', 'w', 'o'):
    os.makedirs(f'/run/over/{{name}}', exist_ok=True)
call(165, b'over', b'/run/over/o', b'overlay', 0, b'lowerdir=/mnt/f,upperdir=/run/over/u,workdir=/run/over/w,userxattr')
call(165, b'image:0:0:/run/over/o/x', b'/mnt', b'squashfs', 0, b'')
"""
    last_words = refused(world, machine, code)
    assert "Block device required" in last_words[0], last_words
    world.run(machine, "umount -l /run/over/o /mnt/f")


_CORNERS = {
    "a scheduler of real time": "call(144, 0, 2, struct.pack('i', 50))",
    "disk time before all others": "call(251, 1, 0, 1 << 13)",
    "a lower nice value": "call(141, 0, 0, -20); sys.exit(0 if os.nice(0) < 0 else 9)",
    "the host's console": "fcntl.ioctl(os.open('/dev/console', os.O_RDWR), 0x541D, 0)",
    "a controller that nobody has taken": """
os.makedirs('/run/cg', exist_ok=True)
call(165, b'c', b'/run/cg', b'cgroup', 0, b'net_cls')""",
    "its disk's file system, reconfigured": """
subprocess.run('mkfs.ext4 -qF /dev/vda; mount /dev/vda /mnt/e', shell=True)
fd = libc.syscall(433, -100, b'/mnt/e', 0)
assert fd >= 0, ctypes.get_errno()
call(431, fd, 1, b'errors', b'panic', 0)
call(431, fd, 7, 0, 0, 0)""",
    "its disk's file system, mounted anew": "call(165, b'x', b'/mnt/e', b'x', 0x20, b'errors=panic')",
    "disks as the host tells them": "write('/run/udev/data/b7:0', 'x')",
    "a link among them": "os.symlink('/etc/passwd', '/run/udev/data/evil')",
    "a link among what /sys says of them": "os.symlink('/etc/passwd', '/sys/block/evil')",
    "another size of its disk": "write('/sys/block/vda/size', '1')",
    "its memory, written by itself": "write('/proc/meminfo', 'x')",
    "an alarm that wakes the host": "call(222, 9, 0, b' ' * 8)",
    "locked memory without end": "call(160, 8, struct.pack('QQ', 2**64 - 1, 2**64 - 1))",
    "messages of all devices": """
line = socket.socket(16, 3, 15)
line.bind((0, 1))
fcntl.ioctl(os.open('/dev/vda', 2), 0x125F)
line.settimeout(2)
line.recv(4096)""",
    "the audit": "socket.socket(16, 3, 9).sendto(struct.pack('=IHHII', 16, 1000, 5, 1, 0), (0, 0)); sys.exit(7)",
    "the machine's first user in the host's ledger": "os.open('/run/node0/users', os.O_RDWR)",
    "a file handle, resolved": """
handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))
libc.syscall(303, -100, b'/', handle, ctypes.byref(ctypes.c_int()), 0)
call(304, os.open('/', os.O_RDONLY), handle.raw, 0)""",
}


@pytest.mark.parametrize("case", _CORNERS)
def test_a_corner_is_fenced_too(world, machine, case):
    refused(world, machine, _CORNERS[case])


def test_sockets_are_of_families_that_know_networks(world, machine):
    """The kernel keeps one socket a network namespace of each family that the machine may open (net/*/af_*.c)."""
    code = """
families = []
for family in range(1, 46):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        families.append(family)
print(sorted(set(families)), file=sys.stderr)
sys.exit(7)
"""
    _, last_words = attempt(world, machine, code)
    # UNIX, INET, INET6, NETLINK, PACKET, and of what kernels may have besides: KEY, PPPOX, CAN, TIPC, RXRPC, ALG, KCM,
    # SMC, XDP, MCTP.
    allowed = {1, 2, 10, 16, 17, 15, 24, 29, 30, 33, 38, 41, 43, 44, 45}
    assert set(map(int, re.findall(r"\d+", last_words[0]))) <= allowed
