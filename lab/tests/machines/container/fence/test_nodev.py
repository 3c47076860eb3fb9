"""Device files in a machine's file systems open nothing, whatever its root does to their mounts.

A mount without `nodev` opens them or, where there are device control groups, gives EPERM; with it, it is EACCES.
"""

import base64
import subprocess

import pytest

from lab.machines.container.kernel.loops import attach
from lab.testing.containers.kit import refused

pytestmark = pytest.mark.lab

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
    for flags, shown in ((0x1025, 'ro,nodev'), (0x1024, 'rw,nodev'), (0x5021, 'ro,nodev'), (0x1020, 'rw,nodev')):
        call(165, None, b'/mnt', None, flags, None)
        [line] = [line.split() for line in open('/proc/self/mountinfo') if ' /mnt ' in line]
        assert line[5].startswith(shown), (flags, line)
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
    """Provide a device of the host's."""
    image = tmp_path / "foreign.raw"
    image.write_bytes(bytes(1 << 20))
    with attach(image) as loop:
        yield loop


def test_a_node_in_a_file_system_on_its_disk_stays_shut(world, machine, foreign):
    last_words = refused(world, machine, f"NUMBER = {foreign.number}\n{_STRIP}{_DISK}")
    assert last_words == ["7"], last_words


def test_a_node_in_a_squashfs_of_its_own_stays_shut(world, machine, foreign, tmp_path):
    (tmp_path / "tree/d").mkdir(parents=True)
    nodes = [word for name in ("h", "d/h") for word in ("-p", f"{name} b 600 0 0 7 {foreign.number}")]
    command = ["mksquashfs", tmp_path / "tree", tmp_path / "image", *nodes, "-quiet", "-no-progress"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    image = base64.b64encode((tmp_path / "image").read_bytes())
    last_words = refused(world, machine, f"NUMBER, IMAGE = {foreign.number}, {image!r}\n{_STRIP}{_IMAGE}")
    assert last_words == ["7"], last_words
