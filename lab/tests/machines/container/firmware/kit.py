"""Images that these tests boot: the machine OS of the cache, with a config in it as coreos-installer would embed it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from drivers.console import strip_control
from installer.common import cpio
from installer.common.iso9660 import Iso
from lab.host.paths import cache_dir
from lab.host.preflight import container_problems
from lab.machines.container.kernel import loops
from lab.machines.container.spec import DiskSpec, MachineSpec
from lab.release.os.build import ISO_NAME
from lab.tests.machines.container.firmware.only import SEEN

BOOT_SECONDS = 120.0
PROOF = "written by Ignition"
CONFIG: dict[str, Any] = {
    "ignition": {"version": "3.3.0"},
    "storage": {
        "files": [
            {"path": "/etc/hostname", "mode": 0o644, "contents": {"source": "data:,proven"}},
            {"path": "/etc/proof", "mode": 0o600, "contents": {"source": "data:,written%20by%20Ignition"}},
        ]
    },
    "systemd": {
        "units": [
            {
                "name": "proof.service",
                "enabled": True,
                "contents": "[Service]\nType=oneshot\n"
                "ExecStart=/bin/sh -c 'echo \"proof: $(cat /etc/proof)\" > /dev/console'\n"
                "[Install]\nWantedBy=multi-user.target\n",
            },
            {
                "name": "instance@.service",
                "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
            },
            # For those Ignition asks systemd.
            {"name": "instance@of.service", "enabled": True},
        ]
    },
}


def machine_os(module: str = "") -> Path:
    """Find the newest ISO of the lab release's cache, with this module in its initramfs; skip the test without one.
    (Others in the cache may be of older code.)"""
    if os.geteuid():
        pytest.skip("mounting and loop devices need root")
    if problems := container_problems():
        pytest.skip("; ".join(problems))
    images = sorted(cache_dir().glob(f"release/os/*/{ISO_NAME}"), key=lambda path: path.stat().st_mtime)
    images = [iso for iso in images if not module or module in (iso.parent / "stage.json").read_text()]
    if not images:
        having = f" with {module}" if module else ""
        pytest.skip(f"no {ISO_NAME}{having} in {cache_dir()}/release/os: python -m lab.release.os build makes it")
    return images[-1]


def embed(iso: Path, config: dict[str, Any], more: bytes = b"") -> None:
    """Write a config into the embed area, a compressed cpio archive, as coreos-installer iso ignition embed does.

    ``more`` is another archive, as tools append them to an initrd.
    """
    with iso.open("rb") as image:
        area = Iso(image, iso).find("images/ignition.img")
        assert area is not None
    packed = gzip.compress(cpio.pack({"config.ign": json.dumps(config).encode()}, 0o600))
    packed += bytes(-len(packed) % 4) + more
    assert len(packed) <= area.length
    with iso.open("r+b") as file:
        file.seek(area.offset)
        file.write(packed.ljust(area.length, b"\0"))


def reset(iso: Path) -> None:
    """Empty the embed area."""
    with iso.open("rb") as image:
        area = Iso(image, iso).find("images/ignition.img")
        assert area is not None
    with iso.open("r+b") as file:
        file.seek(area.offset)
        file.write(bytes(area.length))


def iso_with(folder: Path, config: dict[str, Any]) -> Path:
    """Copy the machine OS with a config; it shares its blocks where the file system can."""
    copy = folder / "machine.iso"
    subprocess.run(["cp", "--reflink=auto", "--sparse=always", str(machine_os()), str(copy)], check=True, timeout=120)
    embed(copy, config)
    return copy


def spec(folder: Path, **changes: Any) -> MachineSpec:
    """Describe a machine of 4 GiB with nothing in it."""
    settings: dict[str, Any] = {
        "name": "master-0",
        "uuid": "11111111-2222-4333-8444-555555555555",
        "memory_mib": 4096,
        "vcpus": 2,
        "console_log": str(folder / "console.log"),
        "console_socket": str(folder / "console.sock"),
        "uid_base": 1 << 28,
    }
    return MachineSpec(**{**settings, **changes})


def disks(**paths: Path) -> tuple[DiskSpec, ...]:
    """Describe disks of a machine by their targets."""
    return tuple(DiskSpec(target=name, path=str(path), size=path.stat().st_size) for name, path in paths.items())


class Machine:
    """A machine that was switched on, and its console."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._log, self.process = log, process

    @property
    def text(self) -> str:
        """Its words up to now."""
        return strip_control(self._log.read_text(errors="replace")) if self._log.exists() else ""

    def wait_for(self, words: str, seconds: float = BOOT_SECONDS) -> str:
        """Wait until the console has said ``words``; return all that it said."""
        deadline = time.monotonic() + seconds
        while words not in (text := self.text):
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"the console never said {words!r}; it said:\n{text}")
            time.sleep(0.02)
        return text


@contextlib.contextmanager
def powered(folder: Path, machine: MachineSpec) -> Iterator[Machine]:
    """Switch a machine on, in namespaces and control groups of its own, and off, by the plug, at the end."""
    folder.mkdir(exist_ok=True)
    machine.save(folder)
    Path(machine.console_log).unlink(missing_ok=True)
    group = f"test-{os.getpid()}"
    command = ["unshare", "-mpn", "--mount-proc", "--fork", "--kill-child", sys.executable]
    command += ["-m", "lab.machines.container.monitor", str(folder), f"{group}/m", "1"]
    log = folder / "monitor.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    started = Machine(Path(machine.console_log), process)
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        remove_groups(group)
        print(started.text, log.read_text(errors="replace"), sep="\n")


def remove_groups(name: str) -> None:
    """Remove the control groups of a machine, once all its processes are gone."""
    deadline = time.monotonic() + 60
    for group in (*Path("/sys/fs/cgroup").glob(f"*/node0/{name}"), *Path("/sys/fs/cgroup").glob(f"node0/{name}")):
        while group.exists():
            try:
                for below, _, _ in os.walk(group, topdown=False):
                    os.rmdir(below)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{group} is still in use: {error}") from error
                time.sleep(0.05)


def installed(folder: Path, config: dict[str, Any], gib: int = 8, *, kargs: Sequence[str] = ()) -> Path:
    """Install the machine OS on an image; ``config`` is for its first boot, and its kernel has further arguments."""
    disk, ignition = folder / "disk.img", folder / "config.ign"
    with disk.open("wb") as file:
        file.truncate(gib << 30)
    ignition.write_text(json.dumps(config))
    (folder / "installer").mkdir()
    iso = machine_os()
    with iso.open("rb") as image:
        extent = Iso(image, iso).find("images/pxeboot/rootfs.img")
        assert extent is not None
        image.seek(extent.offset)
        header = image.read(4096)
    start = extent.offset + (110 + int(header[94:102], 16) + 3) // 4 * 4
    with loops.attach(iso, offset=start, size=int(header[54:62], 16), read_only=True) as squashfs:
        command = ["unshare", "--mount", "--propagation", "private", sys.executable]
        command += ["-m", "lab.tests.machines.container.firmware.install"]
        command += [str(folder / "installer"), str(squashfs.path), str(disk), str(ignition), *kargs]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
    return disk


def set_kargs(iso: Path, change: Callable[[str], str]) -> None:
    """Rewrite the kernel arguments in the medium's areas, as coreos-installer iso kargs modify does."""
    with iso.open("rb") as image:
        medium = Iso(image, iso)
        facts, files = json.loads(medium.file("coreos/kargs.json") or b""), medium.tree()
        places = [(files[area["path"]].offset + area["offset"], area) for area in facts["files"]]
    with iso.open("r+b") as file:
        for offset, area in places:
            file.seek(offset)
            text = file.read(facts["size"]).decode().rstrip(area["pad"]).removesuffix(area["end"])
            file.seek(offset)
            file.write((change(text) + area["end"]).ljust(facts["size"], area["pad"]).encode())


def booted(folder: Path, machine: MachineSpec, script: str = "true", serve: Path | None = None) -> tuple[str, str]:
    """Run firmware and early boot alone; return the console and the end, and the words of a script in their result."""
    folder.mkdir(exist_ok=True)
    machine.save(folder)
    log = Path(machine.console_log)
    log.unlink(missing_ok=True)
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
    command += ["-m", "lab.tests.machines.container.firmware.only", str(folder), script, str(serve or "-")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOOT_SECONDS, check=False)
    console, _, seen = log.read_text().replace("\r", "").partition(f"{SEEN}\n")
    print(console, done.stdout, done.stderr, seen, sep="\n")
    assert done.returncode == 0
    return console + done.stdout, seen
