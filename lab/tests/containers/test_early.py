"""The early boot of an image that is nobody's friend: what its initramfs tries is tried within the machine's fence.

A generator of the initramfs runs before anything else of an image does. What gets through it writes to /run, which the
machine keeps; what must not change is looked at from the host.
"""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from lab.host.preflight import container_problems
from lab.machines.container.kernel.loops import attach
from lab.tests.containers.kit import World
from lab.tests.firmware import kit

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
    """A daemon whose machines have the firmware that labs have."""
    kit.machine_os()
    if problems := container_problems():
        pytest.skip("; ".join(problems))
    made = World(tmp_path_factory.mktemp("world"), firmware="")
    try:
        yield made.start()
    finally:
        made.kill()


def archive(folder, files, nodes):
    """A cpio archive of scripts by their paths and devices by theirs."""
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
    """A machine that booted such an image: what got through, by its own word; what the host saw meanwhile."""
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
        # Of some it has copies that it may write.
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
        one = world.define(memory_mib=2048)
        one.insert(iso.as_uri())
        one.on()
        try:
            world.console(one).wait_for(r"login: ", kit.BOOT_SECONDS)
            done = world.run(one, "cat /run/evil")
            assert done.returncode == 0, done.stderr
            said = done.stdout
            found = {"said": said, "victim": victim.poll(), "sysctl": (before, _SYSCTL.read_text())}
            one.off()
            found["left"] = running(_SURVIVOR)
            yield found
        finally:
            _SYSCTL.write_text(before)
            victim.kill()
            victim.wait()
            iso.unlink()


def running(words):
    """Processes of the host with these words in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("what", _TRIES)
def test_foreign_code_of_an_initramfs_gets_nowhere(tried, what):
    assert "done" in tried["said"].splitlines()
    assert f"BROKE {what}" not in tried["said"].splitlines()


def test_no_sysctl_of_the_host_was_written(tried):
    before, after = tried["sysctl"]
    assert after == before


def test_no_process_of_the_host_was_signalled(tried):
    assert tried["victim"] is None


def test_nothing_that_it_left_running_outlives_the_power(tried):
    assert tried["left"] == []


def test_power_off_ends_an_early_boot_with_all_that_it_started(world, tmp_path):
    """While the initramfs still runs: a generator that never ends, and what it started."""
    script = f"#!/bin/bash\nexec </dev/null >/dev/null 2>&1\n(sleep {_SURVIVOR} &)\nsleep {_SURVIVOR}\n"
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    kit.embed(iso, kit.CONFIG, archive(tmp_path / "tree", {_GENERATOR: script}, {}))
    one = world.define(1)
    one.insert(iso.as_uri())
    one.on()
    deadline = time.monotonic() + kit.BOOT_SECONDS
    while len(running(_SURVIVOR)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    found = running(_SURVIVOR)
    assert len(found) == 2
    # Somebody else's users, and limits of its own.
    for pid in found:
        status = Path(f"/proc/{pid}/status").read_text()
        assert int(re.search(r"Uid:\s+(\d+)", status)[1]) >= 1 << 16
        assert f"/{world.lab}/m1/" in Path(f"/proc/{pid}/cgroup").read_text()
        assert "Seccomp:\t2" in status
    one.off()
    assert running(_SURVIVOR) == []
    iso.unlink()
