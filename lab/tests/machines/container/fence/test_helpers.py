"""Work that is done for a machine with the host's rights: none of it can be turned against the host."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from lab.machines.container.kernel.loops import attach
from lab.testing.containers.kit import allowed, attempt, refused

pytestmark = pytest.mark.lab

# The machine's disk with a partition, which holds a file system.
_PARTITION = """
subprocess.run("umount -A /mnt 2>/dev/null; sgdisk -Z -n 1:2048:+64M /dev/vda; blockdev --rereadpt /dev/vda && "
               "mkfs.ext4 -qF /dev/vda1", shell=True, check=True, stdout=subprocess.DEVNULL)
"""


@pytest.fixture
def foreign(tmp_path):
    """Provide a block device of the host's with a file system, such as another machine's disk."""
    image = tmp_path / "foreign.raw"
    image.touch()
    os.truncate(image, 64 << 20)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "secret").write_text("the host's")
    subprocess.run(["mkfs.ext4", "-qF", "-d", str(tree), str(image)], check=True)
    with attach(image) as loop:
        yield loop


# As the monitor sees the host: its own first process's, and what is mounted at its root.
_WAYS = {
    "a name of its own disk that leads elsewhere": """
os.rename('/dev/vda1', '/dev/own')
os.symlink(elsewhere, '/dev/vda1')
source, data = b'/dev/own', b''""",
    "an option with a name that leads elsewhere": """
os.symlink(elsewhere, '/dev/noload')
source, data = b'/dev/vda1', b'noload'""",
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("path", ["../proc/1/root{}", "..{}", "/proc/self/root{}"])
def test_no_disk_but_its_own_is_mounted_for_it(world, machine, foreign, way, path):
    elsewhere = path.format(foreign.path)
    code = f"""{_PARTITION}
elsewhere = {elsewhere!r}
{_WAYS[way]}
try:
    call(165, source, b'/mnt', b'ext4', 0, data)
    print(os.listdir('/mnt'))
    sys.exit(0 if os.path.exists('/mnt/secret') else 7)
finally:
    subprocess.run("umount -A /mnt; [ ! -L /dev/noload ] || rm /dev/noload; "
                   "[ ! -b /dev/own ] || mv /dev/own /dev/vda1", shell=True)
"""
    refused(world, machine, code)


def test_a_mount_with_options_is_of_the_disk_that_was_named(world, machine):
    code = f"""{_PARTITION}
call(165, b'/dev/vda1', b'/mnt', b'ext4', 0, b'noload,errors=continue')
[line] = [line.split() for line in open('/proc/self/mounts') if ' /mnt ' in line]
assert line[0] == '/dev/vda1', line
subprocess.run(['umount', '/mnt'], check=True)
"""
    allowed(world, machine, code)


@pytest.mark.parametrize("who", ["setpriv --reuid 1000 --clear-groups --inh-caps=-all", "unshare -U", "unshare -Ur"])
def test_what_the_kernel_refuses_to_users_of_the_machine_its_monitor_refuses_too(world, machine, who):
    calls = {
        "mount": "call(165, b'/dev/vda1', b'/srv', b'ext4', 0, b'')",
        "sysfs": "call(165, b'x', b'/srv', b'sysfs', 0, b'')",
        "BLKRRPART": "fcntl.ioctl(os.open('/dev/vda', 0), 0x125F)",
        "adjtimex": "call(159, struct.pack('IIq', 1, 0, 5).ljust(208, b'\\0'))",
    }
    code = f"""{_PARTITION}
os.chmod('/dev/vda', 0o666)
calls = {calls!r}
for name, text in calls.items():
    head = open('/run/attack.py').read().partition('#END')[0]
    done = subprocess.run({who!r}.split() + ['python3', '-c', head + text], capture_output=True, text=True)
    if done.returncode == 0:
        print('BROKE', name, file=sys.stderr)
        os._exit(0)
sys.exit(7)
"""
    last_words = refused(world, machine, "#END" + code)
    assert last_words == ["7"], last_words


@pytest.mark.parametrize("where", ["disk", "disk/by-path"])
def test_no_directory_outside_is_made_or_given_away_for_its_links(world, machine, tmp_path, where):
    victim = tmp_path / "victim"
    (victim / "below").mkdir(parents=True)
    code = f"""{_PARTITION}
import shutil
shutil.rmtree('/dev/{where}')
os.symlink({str(victim)!r}, '/dev/{where}')
subprocess.run(['blockdev', '--rereadpt', '/dev/vda'])
os.path.islink('/dev/{where}') and os.unlink('/dev/{where}')
subprocess.run(['blockdev', '--rereadpt', '/dev/vda'], check=True)
"""
    attempt(world, machine, code)
    assert [path.name for path in victim.rglob("*")] == ["below"]
    assert {path.stat().st_uid for path in (victim, victim / "below")} == {0}
    assert world.run(machine, "ls /dev/disk/by-path").stdout.split() == ["vda", "vda-part1"]


def test_no_file_outside_is_given_away_for_its_device(world, machine, tmp_path):
    """A node is put in place whole: there is no moment at which it can be exchanged for a link."""
    victim = tmp_path / "victim"
    victim.touch()
    victim.chmod(0o600)
    code = f"""{_PARTITION}
import time
child = os.fork()
if not child:
    os.symlink({str(victim)!r}, '/dev/l')
    while True:
        # As often as it can: whatever is there becomes a link to the file.
        try:
            os.rename('/dev/l', '/dev/vda1')
            os.symlink({str(victim)!r}, '/dev/l')
        except OSError:
            pass
end = time.monotonic() + 4
while time.monotonic() < end:
    subprocess.run(['blockdev', '--rereadpt', '/dev/vda'], stderr=subprocess.DEVNULL)
os.kill(child, 9)
os.waitpid(child, 0)
for name in ('/dev/l', '/dev/vda1'):
    os.path.islink(name) and os.unlink(name)
subprocess.run(['blockdev', '--rereadpt', '/dev/vda'], check=True)
"""
    allowed(world, machine, code)
    status = victim.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o600)


def test_the_word_of_empty_groups_goes_to_no_socket_outside(world, machine, tmp_path):
    if not Path("/sys/fs/cgroup/systemd").exists():
        pytest.skip("with cgroup2 alone groups tell themselves")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as victim:
        victim.bind(str(tmp_path / "cgroups-agent"))
        victim.settimeout(3)
        script = f"""mv /run/systemd/cgroups-agent /run/systemd/kept
        ln -s {tmp_path}/cgroups-agent /run/systemd/cgroups-agent
        mkdir /sys/fs/cgroup/systemd/evil; sleep 2; rmdir /sys/fs/cgroup/systemd/evil
        rm /run/systemd/cgroups-agent; mv /run/systemd/kept /run/systemd/cgroups-agent"""
        world.run(machine, script)
        with pytest.raises(TimeoutError):
            victim.recv(4096)


def test_a_partition_that_is_gone_leaves_no_device_for_others(world, machine):
    """The number of a device that the machine could open is nobody else's until the machine is off."""
    code = f"""{_PARTITION}
os.makedirs('/dev/kept', exist_ok=True)
os.rename('/dev/vda1', '/dev/kept/vda1')
subprocess.run('sgdisk -Z /dev/vda; blockdev --rereadpt /dev/vda', shell=True, check=True, stdout=subprocess.DEVNULL)
assert not os.path.exists('/dev/vda1')
print(os.minor(os.stat('/dev/kept/vda1').st_rdev), file=sys.stderr)
"""
    last_words = allowed(world, machine, code)
    image = world.root / "other.raw"
    image.touch()
    os.truncate(image, 1 << 20)
    taken = [attach(image) for _ in range(4)]
    try:
        assert int(last_words[0]) not in [loop.number for loop in taken]
    finally:
        for loop in taken:
            loop.close()


def test_partitions_made_and_removed_again_take_up_no_more_devices(world, machine):
    code = f"""{_PARTITION}
for turn in range(12):
    subprocess.run(f'sgdisk -d 1 -n 1:{{2048 * (turn + 1)}}:+{{32 + turn}}M /dev/vda && blockdev --rereadpt /dev/vda',
                   shell=True, check=True, stdout=subprocess.DEVNULL)
    size = int(open('/sys/class/block/vda1/size').read()) * 512
    fd = os.open('/dev/vda1', os.O_RDWR)
    assert os.lseek(fd, 0, os.SEEK_END) == size == (32 + turn) << 20, (turn, size)
    os.pwrite(fd, b'turn %2d' % turn, 0)
    os.fsync(fd)
    os.close(fd)
    disk = os.open('/dev/vda', os.O_RDONLY)
    assert os.pread(disk, 7, (turn + 1) << 20) == b'turn %2d' % turn, turn
    os.close(disk)
"""
    image = world.root / "machines" / machine.name / "vda.raw"

    def loops():
        listed = subprocess.run(["losetup", "-nO", "BACK-FILE"], capture_output=True, text=True, check=True).stdout
        return listed.split().count(str(image))

    before = loops()
    allowed(world, machine, code)
    assert loops() <= max(before, 3)
