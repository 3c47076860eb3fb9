"""All of a kind at once: each file of the kernel's, each file system, each network; and what a machine can use up."""

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from lab.host.namespaces import CLONE_NEWNET, setns
from lab.machines.container.monitor import OOM_SCORE
from lab.testing.containers.kit import HEAD, PATIENCE, World, allowed, attempt, refused
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

# What a machine may write of a /proc that it mounts itself, since it has a namespace of its own for it.
_NAMESPACED = re.compile(
    r"/mnt/sys/(net/|user/|kernel/(hostname|domainname|sem|sem_next_id|shm\w+|msg\w+|ns_last_pid|yama/\w+)$|fs/mqueue/)"
)
# Mounts that user namespaces may make, of things that are their own.
_OWN_KINDS = {"sysfs", "tmpfs", "proc", "cgroup", "cgroup2", "bpf", "ramfs", "devpts", "fuse", "overlay", "mqueue"}
_OWN_KINDS |= {"binfmt_misc", "fusectl", "cpuset"}

_ALL_FILES = """
def writable(top):
    for folder, below, names in os.walk(top):
        below[:] = [n for n in below if not (folder == top and n.isdecimal()) and n not in ('self', 'thread-self')]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            yield path
"""


def test_no_file_of_a_fresh_proc_opens_for_writing_but_namespaced_ones(world, machine):
    code = f"""{_ALL_FILES}
subprocess.run('umount -R /proc 2>/dev/null; mount -t proc proc /mnt', shell=True)
top = '/mnt' if os.path.exists('/mnt/sys') else '/proc'
print('\\n'.join(path.replace('/proc', '/mnt', 1) for path in writable(top)))
subprocess.run('umount /mnt', shell=True, stderr=subprocess.DEVNULL)
"""
    # In a mount namespace of its own, in which it may take away what lies over /proc.
    script = f"cat > /run/walk.py <<'WALK'\nimport os, subprocess\n{code}\nWALK\nexec unshare -m python3 /run/walk.py"
    done = world.run(machine, script)
    assert done.returncode == 0, done.stderr
    assert [path for path in done.stdout.split() if not _NAMESPACED.match(path)] == []


def test_no_file_of_sys_opens_for_writing_but_those_of_its_nics_and_groups(world, machine):
    code = f"""{_ALL_FILES}
subprocess.run('umount -R /sys; mount -t sysfs sysfs /sys', shell=True, stderr=subprocess.DEVNULL)
print('\\n'.join(writable('/sys')))
"""
    script = f"cat > /run/walk.py <<'WALK'\nimport os, subprocess\n{code}\nWALK\nexec unshare -m python3 /run/walk.py"
    done = world.run(machine, script)
    assert done.returncode == 0, done.stderr
    own = re.compile(r"/sys/(devices/virtual/net/|class/net/|fs/cgroup/)")
    assert [path for path in done.stdout.split() if not own.match(path)] == []


# A switch of the whole kernel's below net/, which any network namespace's root can turn on, and nobody off
# (Linux, net/netfilter/nf_hooks_lwtunnel.c).
_NOBODYS = ("netfilter/nf_hooks_lwtunnel",)


def test_what_it_writes_of_its_networks_is_no_others(world, machine):
    """All that a new network namespace's root may write: none of it is a number of the host's."""
    top = Path("/proc/sys/net")

    def host():
        texts = {}
        for file in top.rglob("*"):
            with contextlib.suppress(OSError):
                texts[str(file.relative_to(top))] = file.read_text()
        return texts

    before = host()
    code = f"""
call(272, 0x40000000)
written = 0
for folder, _, names in os.walk({str(top)!r}):
    for name in names:
        path = os.path.join(folder, name)
        if os.path.relpath(path, {str(top)!r}) in {_NOBODYS!r}:
            continue
        try:
            words = open(path).read().split()
            for change in (1, -1):
                try:
                    write(path, ' '.join(str(int(word) + change) for word in words))
                except OSError:
                    continue
                written += 1
                break
        except (OSError, ValueError):
            continue
print(written, file=sys.stderr)
"""
    output = allowed(world, machine, code)
    assert int(output[0]) > 100
    after = host()
    assert {name: (text, after[name]) for name, text in before.items() if after.get(name, text) != text} == {}


def test_no_kind_of_file_system_is_mounted_but_those_that_are_its_own(world, machine):
    kinds = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    code = f"""
for kind in {sorted(kinds)}:
    for source in (b'x', b'/dev/vda', b'/dev/loop0'):
        try:
            call(165, source, b'/mnt', kind.encode(), 0, b'')
        except OSError:
            continue
        print(kind, file=sys.stderr)
        call(166, b'/mnt', 2)
        break
print(' '.join(sorted(os.listdir('/mnt'))))
sys.exit(7)
"""
    script = f"cat > /run/attack.py <<'A'\n{HEAD}\n{code}\nA\npython3 /run/attack.py 2>&1 >/dev/null"
    got = set(world.run(machine, script).stdout.split())
    assert got - _OWN_KINDS == set()
    # It did try.
    assert {"tmpfs", "overlay"} & got


_NETLINK = {
    "a list of the lab's NICs": "ip link show target-nsid 0",
    "its cable's other end": "ip link set dev enp1s0 netns 1 && nsenter -t 1 -n ip link set enp1s0 master lab0",
    "a NIC in the lab's network": "ip link add evil link-netnsid 0 type dummy",
    "a macvlan over the lab's bridge": "ip link add evil link-netnsid 0 link lab0 type macvlan",
    "a tunnel that ends in the lab's network": "ip link add evil link-netnsid 0 type vxlan id 7 dstport 0 dev lab0",
    "a name for a network of the host's": "ip netns attach host 1 && ip netns exec host ip link show lab0",
}


@pytest.mark.parametrize("case", _NETLINK)
def test_no_network_but_its_own_is_changed(world, machine, case):
    done = world.run(machine, f"({_NETLINK[case]}) >/dev/null 2>&1 && echo BROKE; true")
    assert "BROKE" not in done.stdout
    assert "evil" not in os.listdir("/sys/class/net")


@contextlib.contextmanager
def listener(pid=None):
    """Open a socket for all packets of a kind, in the network of a process."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if pid is not None:
            _join(f"/proc/{pid}/ns/net")
        line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    finally:
        _join(f"/proc/self/fd/{here}")
        os.close(here)
    with line:
        line.setblocking(False)
        yield line


def _join(path):
    descriptor = os.open(path, os.O_RDONLY)
    setns(descriptor, CLONE_NEWNET)
    os.close(descriptor)


def received(line):
    """Take the messages that have come."""
    messages = []
    with contextlib.suppress(BlockingIOError):
        while True:
            messages.append(line.recv(2048))
    return messages


def test_a_frame_to_all_is_heard_in_its_lab_only(world, machine, tmp_path):
    with World(tmp_path) as other:
        neighbour = other.boot()
        holder = int(Path(f"/proc/{world.init(machine)}/status").read_text().split("PPid:")[1].split()[0])
        lab = int(Path(f"/proc/{holder}/status").read_text().split("PPid:")[1].split()[0])
        with listener() as host, listener(other.init(neighbour)) as far, listener(lab) as near:
            frames = [bytes.fromhex(to) for to in ("ffffffffffff", "333300000001", "01005e000001", "5254006e7777")]
            code = f"""
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x88B5)
line.bind(('enp1s0', 0x88B5))
for to in {frames!r}:
    line.send(to + bytes.fromhex('5254006e7700') + b'\\x88\\xb5' + b'anybody?'.ljust(60, b'.'))
"""
            allowed(world, machine, code)
            assert len(received(near)) >= 3
            assert received(host) == []
            assert received(far) == []


def test_sockets_without_a_file_are_its_own(world, machine):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0node0-fence-{os.getpid()}")
        server.listen()
        code = f"socket.socket(socket.AF_UNIX).connect('\\0node0-fence-{os.getpid()}')"
        last_words = refused(world, machine, code)
        assert "refused" in last_words[0]


def test_its_first_process_has_no_file_of_its_makers(world):
    script = "for f in /proc/1/fd/*; do readlink $f; done; readlink /proc/1/exe /proc/1/cwd /proc/1/root"
    victim = world.boot(7)
    seen = world.run(victim, script).stdout.split()
    assert [path for path in seen if str(world.root) in path or "python" in path or "loop" in path] == []
    environment = world.run(victim, "tr '\\0' '\\n' < /proc/1/environ").stdout
    assert {line.split("=")[0] for line in environment.splitlines()} <= {"container", "PATH", "TERM", "HOME"}
    victim.off()


def test_its_processes_are_the_first_that_a_host_without_memory_ends(world, machine):
    """Whatever they choose: systemd, runc and kubelet all lower their own, and are answered that it was done."""
    code = """
for pid in ("self", "1"):
    for name, value in (("oom_score_adj", "-1000"), ("oom_score_adj", "0"), ("oom_adj", "-17"), ("oom_adj", "0")):
        try:
            write(f"/proc/{pid}/{name}", value)
        except OSError as error:
            if name == "oom_score_adj":
                raise
"""
    allowed(world, machine, code)
    group = next(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{machine.name}/machine"))
    scores = {}
    for folder, _, _ in os.walk(group):
        for pid in (Path(folder) / "cgroup.procs").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                scores[Path(f"/proc/{pid}/comm").read_text()] = int(Path(f"/proc/{pid}/oom_score_adj").read_text())
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert len(scores) > 5
    assert min(scores.values()) > max(own, 0), scores


_LEAST = """
os.symlink('/proc/self/oom_score_adj', '/run/score')
files = [os.open('/run/score', os.O_WRONLY), os.open('/run/score', os.O_WRONLY | os.O_CREAT)]
files.append(libc.syscall(437, -100, b'/run/score', struct.pack('QQQ', os.O_WRONLY, 0, 0), 24))
os.unlink('/run/score')
for file in files:
    for value in ('-1000', '-1', '0'):
        try:
            os.write(file, value.encode())
        except PermissionError:
            continue
print(open('/proc/self/oom_score_adj').read(), file=sys.stderr)
"""


def test_its_processes_are_never_spared_before_the_hosts(world, machine):
    """By names that its monitor does not know: the kernel lets nobody go below what was set with CAP_SYS_RESOURCE."""
    own = int(Path("/proc/self/oom_score_adj").read_text())
    capabilities = int(Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16)
    _, last_words = attempt(world, machine, _LEAST)
    assert int(last_words[0]) >= (OOM_SCORE if capabilities >> 24 & 1 else own)


def test_a_fork_bomb_ends_at_its_limit(world):
    victim = world.boot(8)
    folder = next(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{victim.name}/pids.max")).parent
    assert int((folder / "pids.max").read_text()) <= int(Path("/proc/sys/kernel/pid_max").read_text()) // 4
    # Without thousands of forks, which take minutes where others work too: the limit, out of its reach, set low.
    most = int((folder / "pids.current").read_text()) + 40
    (folder / "pids.max").write_text(str(most))
    code = """
import time
children = []
try:
    for _ in range(200):
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
except BlockingIOError:
    print(len(children), file=sys.stderr)
    for pid in children:
        os.kill(pid, 9)
    os._exit(7)
"""
    last_words = refused(world, victim, code)
    assert 0 < int(last_words[0]) <= 40
    lifted = world.run(victim, "echo max > /sys/fs/cgroup/pids/pids.max; cat /sys/fs/cgroup/pids/../pids/pids.max")
    assert lifted.returncode == 0
    assert int((folder / "pids.max").read_text()) == most
    assert world.run(victim, "echo alive").stdout == "alive\n"
    victim.off()


_FULL = {
    "a tmpfs": "mount -t tmpfs -o size=3g x /mnt; dd if=/dev/zero of=/mnt/f bs=1M count=2048",
    "its /dev": "dd if=/dev/zero of=/dev/f bs=1M count=2048",
    "files of pages": "dd if=/dev/zero of=/dev/vda bs=1M count=1024 conv=notrunc",
    "empty directories": "mount -t tmpfs -o size=3g,nr_inodes=0 x /mnt; timeout 20 python3 -c '"
    'import os; [os.mkdir(f"/mnt/{i}") for i in range(10**7)]\'',
}


@pytest.mark.parametrize("case", _FULL)
def test_memory_in_files_is_its_own(world, case):
    # One for each: when its memory is full of files the OOM killer takes its first process at last.
    victim = world.define(20 + list(_FULL).index(case), memory_mib=512)
    # Others work beside us, and may take something just then: by far not what is asked for, at one of three tries.
    taken = [_memory_that_files_take(world, victim, _FULL[case])]
    while taken[-1] >= 1500 << 20 and len(taken) < 3:
        taken.append(_memory_that_files_take(world, victim, _FULL[case]))
    assert taken[-1] < 1500 << 20, taken


def _memory_that_files_take(world, victim, script):
    """Measure by how much the host's free memory falls when a machine runs it."""
    victim.on()
    console = world.console(victim)
    console.wait_for(r"login: ", PATIENCE)
    limit = next(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{victim.name}/memory.limit_in_bytes"), None)
    if limit is None:
        pytest.skip("counts by the files of cgroup v1")
    assert int(limit.read_text()) == 512 << 20
    before = _available()
    with contextlib.suppress(subprocess.TimeoutExpired):
        world.run(victim, f"({script}) >/dev/null 2>&1; true", timeout=40)
    taken = before - _available()
    used = int((limit.parent / "memory.max_usage_in_bytes").read_text())
    # The kernel charges a page more before it says no.
    assert 300 << 20 < used <= (512 << 20) + (1 << 20)
    victim.off()
    return taken


def _available():
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10


def test_restarts_of_every_kind_are_its_own(world):
    """reboot(2) with what ends or stops a machine: in a PID namespace, nothing else."""
    victim = world.boot(9)
    up = Path("/proc/sys/kernel/random/boot_id").read_text()
    # linux/reboot.h: CAD_ON, CAD_OFF, SW_SUSPEND, KEXEC, RESTART2.
    for command in (0x89ABCDEF, 0, 0xD000FCE2, 0x45584543):
        through, last_words = attempt(world, victim, f"call(169, 0xfee1dead, 672274793, {command}, b'')")
        assert not through, (hex(command), last_words)
    attempt(world, victim, "call(169, 0xfee1dead, 672274793, 0x4321FEDC, b'')")
    wait_until(lambda: not victim.look().on, PATIENCE, "its end", poll=0.1)
    assert Path("/proc/sys/kernel/random/boot_id").read_text() == up
