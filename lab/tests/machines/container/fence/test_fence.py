"""The fence: what root of a machine tries, with every capability that it has, and what the host looks like after it."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from lab.testing.containers.kit import PATIENCE, attempt, refused

pytestmark = pytest.mark.lab

# Number of the system call, arguments: x86-64, asm/unistd_64.h.
_CALLS = {
    "settimeofday": "call(164, struct.pack('qq', 1, 0), 0)",
    "clock_settime": "call(227, 0, struct.pack('qq', 1, 0))",
    "init_module": "call(175, b'x', 1, b'')",
    "finit_module": "call(313, 0, b'', 0)",
    "delete_module": "call(176, b'loop', 0)",
    "kexec_load": "call(246, 0, 0, 0, 0)",
    "iopl": "call(172, 3)",
    "ioperm": "call(173, 0x70, 2, 1)",
    "swapon": "call(167, b'/dev/vda', 0)",
    "acct": "call(163, b'/tmp/acct')",
    "syslog": "call(103, 3, b' ' * 4096, 4096)",
    "perf_event_open": "call(298, bytes(128), -1, 0, -1, 0)",
    "open_by_handle_at": "call(304, -100, bytes(24), 0)",
    "bpf": "call(321, 0, bytes(72), 72)",
    "a 32-bit table's call": "call(0x40000000 + 39)",
    "io_uring_setup": "call(425, 8, bytes(120))",
    "keyctl, the session's keyring": "call(250, 0, -3, 0)",
    "add_key": "call(248, b'user', b'evil', b'x', 1, -4)",
    "request_key, which would start a program of the host's": "call(249, b'user', b'evil', b'x', -4)",
    "userfaultfd": "call(323, 0)",
    "kexec_file_load": "call(320, -1, -1, 0, 0, 0)",
    "swapoff": "call(168, b'/dev/vda')",
    "quotactl_fd": "call(443, 0, 0x80000700, 0, 0)",
    "fsopen": "call(430, b'ext4', 0)",
    "a machine-wide priority": "call(144, 0, 1, struct.pack('i', 1))",
    "setrlimit beyond what it has": "call(160, 7, struct.pack('QQ', 1 << 40, 1 << 40))",
    "quotactl": "call(179, 0x80000200, b'/dev/vda', 0, 0)",
}
_DEVICES = {
    "mknod of the host's disk": "os.mknod('/root/h', 0o60600, os.makedev({major}, {minor})); os.open('/root/h', 0)",
    "mknod in /dev": "os.mknod('/dev/host', 0o60600, os.makedev({major}, {minor})); os.open('/dev/host', 0)",
    "mknod on a file system of its own": """
subprocess.run(['mount', '-t', 'tmpfs', 'x', '/mnt'], check=True)
os.mknod('/mnt/host', 0o60600, os.makedev({major}, {minor})); os.open('/mnt/host', 0)""",
    "mknod of another machine's disk": "os.mknod('/root/l', 0o60600, os.makedev(7, {other})); os.open('/root/l', 0)",
    "mknod of memory": "os.mknod('/root/mem', 0o20600, os.makedev(1, 1)); os.open('/root/mem', 0)",
    "mknod of the kernel's log": "os.mknod('/root/k', 0o20600, os.makedev(1, 11)); os.open('/root/k', 0)",
    "loop-control": "os.mknod('/root/lc', 0o20600, os.makedev(10, 237)); os.open('/root/lc', 0)",
    "devtmpfs": "call(165, b'dev', b'/mnt', b'devtmpfs', 0, b'')",
    "debugfs": "call(165, b'd', b'/mnt', b'debugfs', 0, b'')",
    "securityfs": "call(165, b'd', b'/mnt', b'securityfs', 0, b'')",
    "its disk as a loop device": "fcntl.ioctl(os.open('/dev/vda', 2), 0x4C05, bytearray(232))",
    "its disk, made to stay": "fcntl.ioctl(os.open('/dev/vda', 2), 0x4C04, bytearray(232))",
    "a socket to the hypervisor and all other machines": "socket.socket(40, 1)",
    "a socket of no network": "socket.socket(42, 2)",
    "a loop mount": "open('/root/i', 'wb').truncate(1 << 20); call(165, b'/root/i', b'/mnt', b'ext4', 0, b'')",
}
_FILES = {
    "sysrq-trigger": "write('/proc/sysrq-trigger', 'h'); sys.exit(0 if open('/proc/sysrq-trigger').read() else 7)",
    "release_agent": "write('/sys/fs/cgroup/memory/release_agent', '/tmp/evil')",
    "release_agent of a mount": """
os.makedirs('/root/c', exist_ok=True)
call(165, b'c', b'/root/c', b'cgroup', 0, b'memory,release_agent=/tmp/evil')
write('/root/c/release_agent', '/tmp/evil')""",
    "its own limit": "write('/sys/fs/cgroup/memory/../../../fs/cgroup/memory/../memory.limit_in_bytes', '-1')",
    "the devices' fence": "write('/sys/fs/cgroup/devices/devices.allow', 'a')",
    "kernel memory": "os.open('/proc/kcore', os.O_RDONLY) and open('/proc/kcore', 'rb').read(1)[0]",
    "uevent helper": "write('/sys/kernel/uevent_helper', '/tmp/evil')",
    "pci rescan": "write('/sys/bus/pci/rescan', '1')",
    "power state": "write('/sys/power/state', 'mem')",
    "binfmt": """
subprocess.run(['mount', '-t', 'binfmt_misc', 'b', '/mnt'], check=True)
write('/mnt/register', ':evil:M::xx::/bin/true:')
sys.exit(7)""",
}


@pytest.mark.parametrize("case", _CALLS)
def test_a_call_is_refused(world, machine, case):
    last_words = refused(world, machine, _CALLS[case])
    assert any(word in last_words[0] for word in ("Operation not permitted", "not implemented")), last_words


@pytest.mark.parametrize("case", _DEVICES)
def test_no_device_is_reached_but_its_own(world, machine, case):
    number = os.stat(os.path.dirname(os.__file__)).st_dev
    other = next(n for n in range(256) if f"7:{n}\n" not in world.run(machine, "cat /sys/block/*/dev").stdout)
    code = _DEVICES[case].format(major=os.major(number), minor=os.minor(number), other=other)
    refused(world, machine, code)


@pytest.mark.parametrize("case", _FILES)
def test_no_file_of_the_kernel_is_written(world, machine, case):
    refused(world, machine, _FILES[case])


def test_sysctls_are_its_own_or_refused(world, machine):
    names = [f"kernel/{name}" for name in ("core_pattern", "panic", "sysrq", "hostname", "randomize_va_space")]
    names += ["vm/overcommit_memory", "vm/drop_caches", "fs/file-max", "fs/suid_dumpable"]
    names = [name for name in names if (Path("/proc/sys") / name).exists()]
    assert len(names) > 6

    def host():
        files = (Path("/proc/sys") / name for name in names)
        return [file.read_text() if os.stat(file).st_mode & 0o444 else "" for file in files]

    before = host()
    lines = [f"for v in '|/tmp/evil' 1 2; do echo \"$v\" > /proc/sys/{name}; done 2>/dev/null" for name in names]
    writes = [f"echo 1 > /mnt/sys/{name} 2>/dev/null && echo BROKE {name}" for name in names if "hostname" not in name]
    script = "\n".join([*lines, "mount -t proc proc /mnt", *writes, "umount /mnt", "echo done"])
    done = world.run(machine, script)
    assert done.stdout.split() == ["done"], done.stdout
    assert host() == before
    # What kubelet sets is taken all the same.
    assert world.run(machine, "echo 10 > /proc/sys/kernel/panic; cat /proc/sys/kernel/panic").stdout == "10\n"


def test_the_clock_is_the_hosts_and_chronyd_runs_all_the_same(world, machine):
    before = time.time() - time.monotonic()
    code = "t = ctypes.create_string_buffer(struct.pack('Iqqq', 0x0100, 900_000_000_000, 0, 0).ljust(208, b'\\0'))\n"
    code += "call(159, ctypes.addressof(t))"
    attempt(world, machine, code)
    world.run(machine, "date -s 2001-01-01; hwclock -w")
    assert abs(time.time() - time.monotonic() - before) < 0.5
    assert world.run(machine, "systemctl is-active chrony chronyd | head -1").stdout.strip() == "active"


def test_processes_of_the_host_are_not_seen(world, machine):
    mark = subprocess.Popen(["sleep", "4242"])
    try:
        seen = world.run(machine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
        assert "sleep 4242" not in seen
        assert "systemd" in seen
        attempt(world, machine, f"os.kill({mark.pid}, 9)")
        assert mark.poll() is None
        refused(world, machine, f"call(101, 16, {mark.pid}, 0, 0)")
    finally:
        mark.kill()
        mark.wait()


def test_reboot_ends_nothing_but_the_machine(world):
    victim = world.boot(5)
    up = Path("/proc/sys/kernel/random/boot_id").read_text()
    world.run(victim, "reboot -ff || true; sleep 5")
    console = world.console(victim)
    console.wait_for(r"(?s)login: .*login: ", PATIENCE)
    assert Path("/proc/sys/kernel/random/boot_id").read_text() == up
    victim.off()


def test_memory_beyond_its_limit_is_not_had(world, machine):
    held = "python3 -c \"x = bytearray(3 << 30); print('BROKE', len(x))\" || echo killed $?"
    done = world.run(machine, f"({held}) 2>/dev/null; true")
    assert "BROKE" not in done.stdout
    group = next(Path("/sys/fs/cgroup/memory").glob(f"node0/{world.lab}/{machine.name}/memory.max_usage_in_bytes"))
    # The kernel charges a page more before it says no.
    assert int(group.read_text()) <= (1024 << 20) + (1 << 20)
    assert machine.look().running
    assert world.run(machine, "echo alive").stdout == "alive\n"


def test_other_networks_are_not_reached(world, machine):
    nics = {line.split(":")[1].strip() for line in world.run(machine, "ip -o link").stdout.splitlines()}
    assert {nic.split("@")[0] for nic in nics} <= {"lo", "enp1s0", "cni-podman0"}
    refused(world, machine, "call(308, os.open('/proc/1/ns/net', 0), 0); os.listdir('/proc/2/ns')\nsys.exit(7)")
    script = "nsenter -t 1 -n ip link set enp1s0 netns 1; ip link add x type veth peer name y netns 1 && ip link del x"
    world.run(machine, script)
    assert not [name for name in os.listdir("/sys/class/net") if name in ("x", "y", "enp1s0")]


def test_mounts_stay_inside(world, machine):
    world.run(machine, "mount -t tmpfs leak /mnt; mount --make-rshared /; mkdir -p /mnt/a; mount -t tmpfs leak2 /mnt/a")
    assert " - tmpfs leak" not in Path("/proc/self/mountinfo").read_text()
    assert " - tmpfs leak2 " in world.run(machine, "cat /proc/1/mountinfo").stdout
    # What lies under the masks, when root takes them away: names, nothing that opens.
    script = "umount -l /sys/block; cat /sys/block/vda/dev >/dev/null 2>&1; ls /dev | grep -c '^[sv]d[b-z]$'"
    assert world.run(machine, script).stdout.strip() == "0"
