"""The early boot of a hostile image: what its initramfs tries is tried within the machine's fence.

A generator of the initramfs runs before anything else of an image does. What gets through it writes to /run, which the
machine keeps; what must not change is looked at from the host.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.host.preflight import container_problems
from lab.machines.container.firmware import disk
from lab.machines.container.kernel.loops import attach
from lab.testing.containers.kit import PATIENCE, World
from lab.tests.machines.container.firmware import kit
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

_SYSCTL = Path("/proc/sys/fs/lease-break-time")
_SECRET = "the host's own words"
_GENERATOR = "usr/lib/systemd/system-generators/evil"
_SURVIVOR = "98765.4321"

_TRIES = {
    "node": "read -r -N 4 < /evil/disk",
    "node of memory": "read -r -N 4 < /evil/mem",
    "loop devices": 'for d in /dev/loop[0-9]* /evil/loop; do grep -qsa "@WORDS@" $d && exit; done; exit 1',
    "loop-control": "losetup --find /config.ign && losetup --detach /dev/loop0",
    "mount of a node": "mount -t ext4 -o ro /evil/loop /tmp",
    "devtmpfs": "mount -t devtmpfs dev /tmp",
    "root of the first process": 'grep -q "@WORDS@" /proc/1/root/@SECRET@',
    "working directory of any": 'for p in /proc/[0-9]*; do grep -qs "@WORDS@" $p/root/@SECRET@ && exit; done; exit 1',
    "memory of the first process": "read -r -N 1 < /proc/1/mem || dd if=/proc/1/mem of=/dev/null bs=1 count=1",
    "environment of the first process": "read -r -N 1 < /proc/1/environ",
    "signal": "for p in /proc/[0-9]*; do grep -qsa 4242.4242 $p/cmdline && kill -9 ${p#/proc/} && exit; done; exit 1",
    "kernel log": "dmesg | grep -q .",
    "trigger": "echo h > /proc/sysrq-trigger && ! cat /proc/sysrq-trigger",
    "module": "echo 1 > /sys/module/loop/parameters/max_part",
    "uevent helper": "echo /tmp/evil > /sys/kernel/uevent_helper",
    "clock": "date -s @1",
    "key": "read -r -N 1 < /proc/kcore",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Provide a daemon whose machines have the firmware that labs have."""
    kit.machine_os()
    if problems := container_problems():
        pytest.skip("; ".join(problems))
    with World(tmp_path_factory.mktemp("world"), firmware="") as shared_world:
        yield shared_world


def archive(folder, files, nodes):
    """Make a cpio archive of scripts and devices, by their paths."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    for path, (mode, number) in nodes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(folder / path, mode, number)
    listed = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    command = ["cpio", "-o", "-H", "newc", "--quiet"]
    return subprocess.run(command, cwd=folder, input=listed.encode(), capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def tried(world, tmp_path_factory):
    """Provide a machine that booted such an image: what got through, by its own word; what the host saw meanwhile."""
    folder = tmp_path_factory.mktemp("evil")
    secret = folder / "secret"
    secret.write_text(f"{_SECRET}\n")
    before = _SYSCTL.read_text()
    foreign = folder / "foreign.raw"
    tree = folder / "data"
    tree.mkdir()
    (tree / "words").write_text(f"{_SECRET}\n")
    subprocess.run(["mkfs.ext4", "-qF", "-d", str(tree), str(foreign), "16M"], check=True)
    victim = subprocess.Popen(["nsenter", "-t", str(world.first), "-p", "sleep", "4242.4242"])
    with attach(foreign) as loop:
        # It has copies of some, which it may write.
        lines = ["#!/bin/bash", f"echo {int(before) + 1} > {_SYSCTL}"]
        for name, code in _TRIES.items():
            code = code.replace("@SECRET@", str(secret)).replace("@WORDS@", _SECRET)
            lines.append(f"(exec </dev/null >/dev/null 2>&1; {code}) && echo 'BROKE {name}' >> /run/evil")
        lines.append(f"(exec </dev/null >/dev/null 2>&1; exec sleep {_SURVIVOR}) &")
        lines.append("echo done >> /run/evil")
        disk = os.stat(os.path.dirname(os.__file__)).st_dev
        nodes = {
            "evil/disk": (0o60666, disk),
            "evil/mem": (0o20666, os.makedev(1, 1)),
            "evil/loop": (0o60666, loop.rdev),
        }
        iso = kit.iso_with(folder, kit.CONFIG)
        kit.embed(iso, kit.CONFIG, archive(folder / "tree", {_GENERATOR: "\n".join(lines) + "\n"}, nodes))
        machine = world.define(memory_mib=2048)
        machine.insert(iso.as_uri())
        machine.on()
        try:
            world.console(machine).wait_for(r"login: ", kit.BOOT_SECONDS)
            done = world.run(machine, "cat /run/evil")
            assert done.returncode == 0, done.stderr
            output = done.stdout
            evidence = {"said": output, "victim": victim.poll(), "sysctl": (before, _SYSCTL.read_text())}
            machine.off()
            evidence["left"] = running(_SURVIVOR)
            yield evidence
        finally:
            _SYSCTL.write_text(before)
            victim.kill()
            victim.wait()
            iso.unlink()


def running(words):
    """List the host's processes with these words in their command line."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words.encode() in path.read_bytes():
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


@pytest.mark.parametrize("case", _TRIES)
def test_foreign_code_of_an_initramfs_gets_nowhere(tried, case):
    assert "done" in tried["said"].splitlines()
    assert f"BROKE {case}" not in tried["said"].splitlines()


def test_no_sysctl_of_the_host_was_written(tried):
    before, after = tried["sysctl"]
    assert after == before


def test_no_process_of_the_host_was_signalled(tried):
    assert tried["victim"] is None


def test_nothing_that_it_left_running_outlives_the_power(tried):
    assert tried["left"] == []


_TOOLS = {
    "ptrace of the first process": "ptrace(PTRACE_SEIZE, 1, 0, 0)",
    "a descriptor of the first process": "syscall(438, syscall(434, 1, 0), 3, 0)",
    "memory of the first process": "process_vm_readv(1, &to, 1, &from, 1, 0)",
    "a block device": 'mknod("/run/b", S_IFBLK | 0600, 0x700)',
    "an image that is a disk": 'mount("image:0:0:/dev/vda", "/tmp", "squashfs", 0, "")',
    "an image beyond its file": 'mount("image:999999999999999999:1:/init", "/tmp", "squashfs", 0, "")',
    "an image that nobody writes": 'mount("image:0:0:/run/pipe", "/tmp", "squashfs", 0, "")',
    "an image outside": 'mount("image:0:0:/run/out", "/tmp", "squashfs", 0, "")',
    "the medium as ext4": 'mount("/dev/sr0", "/tmp", "ext4", 0, "")',
    "a write to the medium": 'write(open("/dev/sr0", O_RDWR), bytes, 512)',
    "the medium's loop device": 'ioctl(open("/dev/sr0", O_RDONLY), 0x4C01, 0)',
    "fsopen": 'syscall(430, "ext4", 0)',
    "bpf": "syscall(321, 0, bytes, 64)",
    "io_uring": "syscall(425, 8, bytes)",
    "a core": "syscall(302, 0, 4, (unsigned long[]){1 << 20, 1 << 20}, 0)",
}
_PROGRAM = """#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
    static char bytes[4096];
    struct iovec to = {bytes, 64}, from = {(void *)0x400000, 64};
    FILE *said = fopen("/run/evil", "a");
    mkfifo("/run/pipe", 0600);
    symlink("/../../../..@OUT@", "/run/out");
    @TRIES@
    fprintf(said, "done\\n");
    return fclose(said);
}
"""


@pytest.fixture(scope="module")
def with_tools(world, tmp_path_factory):
    """Provide the calls that got through of a program compiled into an initramfs, with a fork bomb after it; and a
    directory outside that its links lead to."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc: the initramfs has no program that makes any call")
    folder = tmp_path_factory.mktemp("tools")
    out = folder / "out.squashfs"
    out.write_bytes(b"hsqs".ljust(4096, b"\0"))
    tries = "".join(f'if ({code} >= 0) fprintf(said, "BROKE {name}\\n");' for name, code in _TOOLS.items())
    source = folder / "evil.c"
    source.write_text(_PROGRAM.replace("@TRIES@", tries).replace("@OUT@", str(out)))
    tree = folder / "tree"
    tree.mkdir()
    subprocess.run(["gcc", "-w", "-o", str(tree / "evil"), str(source)], check=True, capture_output=True)
    script = "#!/bin/bash\n/evil\nfor i in {1..200}; do sleep 1000 & done </dev/null >/dev/null 2>&1\n"
    iso = kit.iso_with(folder, kit.CONFIG)
    first = archive(tree, {_GENERATOR: script}, {})
    victim = folder / "victim"
    victim.mkdir()
    victim.chmod(0o777)
    links = folder / "links"
    links.mkdir()
    for name in ("tmp", "sysroot"):
        (links / name).symlink_to(victim)
    kit.embed(iso, kit.CONFIG, first + archive(links, {}, {}))
    machine = world.define(2, memory_mib=2048)
    machine.insert(iso.as_uri())
    machine.on()
    world.console(machine).wait_for(r"login: ", PATIENCE)
    output = world.run(machine, "cat /run/evil; pgrep -c sleep").stdout
    machine.off()
    yield output.splitlines(), list(victim.iterdir())
    iso.unlink()


@pytest.mark.parametrize("case", _TOOLS)
def test_calls_of_a_program_of_an_initramfs_get_nowhere(with_tools, case):
    output, _ = with_tools
    assert "done" in output
    assert f"BROKE {case}" not in output


def test_links_of_an_initramfs_lead_nowhere_and_its_programs_end_with_it(with_tools):
    output, outside = with_tools
    assert outside == []
    assert output[-1] == "0"


def test_boot_loaders_files_are_those_of_their_file_system(tmp_path):
    """GRUB's initrd as a link to a file of the host's; a pipe; one that is larger than all memory."""
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    top = tmp_path / "boot"
    top.mkdir()
    (top / "initrd").write_bytes(b"initrd")
    for name, target in (
        ("up", f"../{secret.name}"),
        ("absolute", secret),
        ("own", "/initrd"),
        ("proc", "/proc/kcore"),
    ):
        (top / name).symlink_to(target)
    os.mkfifo(top / "pipe")
    with (top / "large").open("wb") as file:
        file.truncate(1 << 40)
    root = os.open(top, os.O_PATH | os.O_DIRECTORY)
    contents = {path.name: disk.read(root, path.name, 1 << 20) for path in top.iterdir()}
    os.close(root)
    assert {name: content for name, content in contents.items() if content is not None} == {
        "initrd": b"initrd",
        "own": b"initrd",
    }


def test_power_off_ends_an_early_boot_with_all_that_it_started(world, tmp_path):
    """While the initramfs still runs: a generator that never ends, and what it started."""
    script = f"#!/bin/bash\nexec </dev/null >/dev/null 2>&1\n(sleep {_SURVIVOR} &)\nsleep {_SURVIVOR}\n"
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    kit.embed(iso, kit.CONFIG, archive(tmp_path / "tree", {_GENERATOR: script}, {}))
    machine = world.define(1)
    machine.insert(iso.as_uri())
    machine.on()
    wait_until(lambda: len(running(_SURVIVOR)) == 2, kit.BOOT_SECONDS, "both of its processes", poll=0.05)
    survivors = running(_SURVIVOR)
    # Somebody else's users, and limits of its own.
    for pid in survivors:
        status = Path(f"/proc/{pid}/status").read_text()
        assert int(re.search(r"Uid:\s+(\d+)", status)[1]) >= 1 << 16
        assert f"/{world.lab}/m1/" in Path(f"/proc/{pid}/cgroup").read_text()
        assert "Seccomp:\t2" in status
    machine.off()
    assert running(_SURVIVOR) == []
    iso.unlink()
