"""Device files in a machine's file systems open nothing, whatever its root does to their mounts.

A mount without `nodev` opens them or, where there are device control groups, gives EPERM; with it, it is EACCES.
"""

import base64
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab.machines.container.fence import mounts
from lab.machines.container.kernel import syscalls
from lab.machines.container.kernel.loops import attach
from lab.testing.containers.kit import refused

# (asm/unistd_64.h: mount, mount_setattr. MS_REMOUNT|MS_BIND alone, with MS_RDONLY, MS_NOSUID, MS_NOATIME, MS_REC.)
_STRIP = """
def refused(place):
    assert os.stat(place).st_rdev == os.makedev(7, NUMBER), place
    try:
        os.close(os.open(place, os.O_RDONLY))
    except OSError as error:
        return error.errno == errno.EACCES
    return False
def strip(place):
    for flags in (0x1020, 0x1021, 0x1023, 0x1420, 0x5020):
        try:
            call(165, None, place, None, flags, None)
        except OSError as error:
            assert error.errno == errno.EPERM, error
    for flags in (0, 0x8000):
        try:
            call(442, -100, place, flags, struct.pack('=QQQQ', 0, 4, 0, 0), 32)
        except OSError as error:
            assert error.errno == errno.EPERM, error
def look():
    held = refused('/mnt/h')
    strip(b'/mnt')
    held = held and refused('/mnt/h') and refused('/mnt/d/h')
    for part in (b'/mnt', b'/mnt/d'):
        call(165, part, b'/srv', None, 0x5000, None)
        strip(b'/srv')
        held = held and refused('/srv/h')
        subprocess.run(['umount', '/srv'], check=True)
    # What it asks for besides is done, as runtimes of containers do: with the flags that there are, and without.
    for flags, told in ((0x1025, 'ro,nodev'), (0x1024, 'rw,nodev'), (0x5021, 'ro,nodev'), (0x1020, 'rw,nodev')):
        call(165, None, b'/mnt', None, flags, None)
        [line] = [line.split() for line in open('/proc/self/mountinfo') if ' /mnt ' in line]
        assert line[5].startswith(told), (flags, line)
    subprocess.run(['umount', '/mnt'], check=True)
    return held
"""
_DISK = """
subprocess.run('umount -A /mnt 2>/dev/null; mkfs.ext4 -qF /dev/vda && debugfs -w -f /dev/stdin /dev/vda', shell=True,
               input=f'mknod h b 7 {NUMBER}\\nmkdir d\\ncd d\\nmknod h b 7 {NUMBER}\\n', text=True, check=True,
               capture_output=True)
call(165, b'/dev/vda', b'/mnt', b'ext4', 2, b'')
sys.exit(7 if look() else 0)
"""
_IMAGE = """
import base64
image = base64.b64decode(IMAGE)
open('/run/image', 'wb').write(image)
call(165, b'image:0:%d:/run/image' % len(image), b'/mnt', b'squashfs', 0, b'')
sys.exit(7 if look() else 0)
"""


@pytest.fixture
def foreign(tmp_path):
    """A device of the host's."""
    image = tmp_path / "foreign.raw"
    image.write_bytes(bytes(1 << 20))
    with attach(image) as loop:
        yield loop


@pytest.mark.lab
def test_a_node_in_a_file_system_on_its_disk_stays_shut(world, machine, foreign):
    last_words = refused(world, machine, f"NUMBER = {foreign.number}\n{_STRIP}{_DISK}")
    assert last_words == ["7"], last_words


@pytest.mark.lab
def test_a_node_in_a_squashfs_of_its_own_stays_shut(world, machine, foreign, tmp_path):
    (tmp_path / "tree/d").mkdir(parents=True)
    nodes = [word for name in ("h", "d/h") for word in ("-p", f"{name} b 600 0 0 7 {foreign.number}")]
    command = ["mksquashfs", tmp_path / "tree", tmp_path / "image", *nodes, "-quiet", "-no-progress"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    image = base64.b64encode((tmp_path / "image").read_bytes())
    last_words = refused(world, machine, f"NUMBER, IMAGE = {foreign.number}, {image!r}\n{_STRIP}{_IMAGE}")
    assert last_words == ["7"], last_words


@pytest.fixture
def open_path():
    """A directory that everybody reaches: pytest's own lie in one that is its user's alone."""
    with TemporaryDirectory(prefix="test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_what_passes_through_a_lesser_namespace_keeps_nodev_and_nothing_else(open_path):
    """On the kernel alone: who has all rights over his mounts, in a user namespace, is root of a machine's equal."""
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, loop devices")
    image, place = open_path / "image", open_path / "place"
    image.write_bytes(b"")
    os.truncate(image, 4 << 20)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-qF", str(image)], check=True)
    subprocess.run(["debugfs", "-w", "-R", "mknod h b 7 0", str(image)], check=True, capture_output=True)
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            syscalls.call("unshare", 272, syscalls.CLONE_NEWUSER)
            os.write(ready[1], b"u")
            os.read(done[0], 1)
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            syscalls.call("unshare", 272, syscalls.CLONE_NEWNS)
            syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
            os.write(ready[1], b"m")
            os.read(done[0], 1)
            code = _changed(str(place))
        finally:
            os._exit(code)
    try:
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {1 << 29} 65536\n")
        os.write(done[1], b"x")
        os.read(ready[0], 1)
        opened = [os.open(f"/proc/{pid}/{name}", os.O_RDONLY) for name in ("ns/mnt", "ns/user")]
        opened.append(os.open(f"/proc/{pid}/root{place}", os.O_PATH))
        there, users, target = opened
        with attach(image) as loop:
            read_only = syscalls.MOUNT_ATTR_RDONLY
            nodes = {"vda": loop.rdev}
            mounts.mount_there(there, target, "ext4", nodes, pairs={}, attributes=read_only, users=users)
        os.write(done[1], b"x")
    finally:
        _, status = os.waitpid(pid, 0)
        for descriptor in (*ready, *done, *opened):
            os.close(descriptor)
    assert os.waitstatus_to_exitcode(status) == 0


def _changed(place):
    """0: read-only could be taken away, and `nodev` could not."""

    def flags():
        with open("/proc/self/mountinfo") as file:
            [line] = [line.split() for line in file if f" {place} " in line]
        return set(line[5].split(","))

    attributes = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID
    if not {"ro", "nodev"} <= flags():
        return 2
    again = syscalls.MS_REMOUNT | syscalls.MS_BIND
    syscalls.mount("none", place, flags=again | syscalls.MS_NODEV)
    try:
        syscalls.mount("none", place, flags=again)
        return 3
    except PermissionError:
        if not {"rw", "nodev"} <= flags():
            return 4
    # For who leaves it out, the monitor does the rest.
    with open("/proc/self/ns/mnt") as here:
        target = os.open(place, os.O_PATH)
        mounts.remount_there(here.fileno(), target, attributes, attributes)
        if not {"ro", "nosuid", "nodev"} <= flags():
            return 5
        mounts.remount_there(here.fileno(), target, 0, attributes)
    return 0 if {"rw", "nodev"} <= flags() and "nosuid" not in flags() else 6
