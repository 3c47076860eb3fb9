"""Container machines without a lab: namespaces with a bridge, the daemon, and a firmware that boots a plain tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Literal

from drivers.console import FileConsole
from drivers.container import Machine, Machines
from drivers.errors import ConnectionFailedError
from lab.host.preflight import container_problems
from lab.machines.container.spec import DiskSpec, MachineSpec, Nic

ROOT = Path(__file__).parents[3]
TREES = Path.home() / ".cache/node0/release/os-rootfs"
# Waits for what happens soon are deadlines, not measurements: this machine may have much else to do.
PATIENCE = 300.0
SETUP = """
mount --make-rprivate / && mount -t proc proc /proc && mount -t sysfs sysfs /sys &&
ip link set lo up && ip link add lab0 type bridge && ip addr add 192.168.111.1/24 dev lab0 || exit
ip link set lab0 up
# Not exec: as a lab's first process does, the shell waits for orphans too.
"$@"
exit $?
"""

# What every attack begins with.
HEAD = """
import ctypes, errno, os, socket, struct, sys, fcntl, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    words = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
"""


def tree() -> Path | None:
    """Find the root tree of the machine OS, if a release was built here."""
    trees = sorted(TREES.glob("*/root"), key=lambda path: path.stat().st_mtime)
    return trees[-1] if trees else None


def why_not() -> str:
    """Say why no machine boots the tree here; empty where it does."""
    if os.geteuid() != 0:
        return "needs root: namespaces, loop devices, control groups"
    if tree() is None:
        return "no release was built here: there is no tree to boot"
    return "; ".join(container_problems())


def spec(
    folder: Path,
    name: str,
    image: Path,
    *,
    index: int = 0,
    memory_mib: int = 1024,
    first_user: int = 1 << 28,
    firmware: Literal["uefi", "bios"] = "uefi",
) -> MachineSpec:
    """Describe a machine with a NIC and a disk, an image."""
    return MachineSpec(
        name=name,
        uuid=str(uuid.uuid4()),
        memory_mib=memory_mib,
        vcpus=1,
        firmware=firmware,
        nics=(Nic(name="enp1s0", mac=f"52:54:00:6e:77:{index:02x}", network="lab0"),),
        disks=(DiskSpec(target="vda", path=str(image), size=image.stat().st_size, serial=f"{name}-vda"),),
        console_log=str(folder / "console.log"),
        console_socket=str(folder / "console.sock"),
        uid_base=first_user + (index << 16),
    )


def serial(folder: Path, name: str) -> FileConsole:
    """Open the serial line of a machine whose `spec` names this folder."""
    return FileConsole(folder / "console.log", folder / "console.sock", machine=name)


class World:
    """A daemon in network, PID and mount namespaces of its own."""

    def __init__(self, root: Path, firmware: str = "lab.testing.containers.plain:boot") -> None:
        self.root = root
        self.lab = f"test-{uuid.uuid4().hex[:8]}"
        self.machines = Machines(root / "machined.sock")
        (root / "machines").mkdir()
        self._firmware = firmware
        read, self._write = os.pipe()
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "lab.machines.container.reaper", self.lab],
            stdin=read,
            cwd=ROOT,
            start_new_session=True,
        )
        os.close(read)

    def __enter__(self) -> World:
        """Start it, and wait for the daemon's first answer."""
        daemon = (sys.executable, "-m", "lab.machines.container.machined", str(self.root / "machines"))
        arguments = (str(self.machines.path), self.lab, self._firmware)
        with (self.root / "machined.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "-mpn", "--fork", "--kill-child", "sh", "-c", SETUP, "sh", *daemon, *arguments],
                cwd=ROOT,
                env=os.environ | {"NODE0_TEST_TREE": str(tree()), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"no daemon: {(self.root / 'machined.log').read_text()}")
            time.sleep(0.02)
        return self

    @property
    def first(self) -> int:
        """The host's pid of the first process of its PID namespace."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def _listens(self) -> bool:
        try:
            self.machines.all()
        except ConnectionFailedError:
            return False
        return True

    def define(
        self,
        index: int = 0,
        *,
        memory_mib: int = 1024,
        disk: Path | None = None,
        first_user: int = 1 << 28,
        firmware: Literal["uefi", "bios"] = "uefi",
    ) -> Machine:
        """Add a machine with a NIC and a disk."""
        name = f"m{index}"
        folder = self.root / "machines" / name
        folder.mkdir()
        image = disk or folder / "vda.raw"
        if disk is None:
            with image.open("wb") as file:
                file.truncate(1 << 30)
        machine = spec(
            folder, name, image, index=index, memory_mib=memory_mib, first_user=first_user, firmware=firmware
        )
        machine.save(folder)
        return self.machines.machine(name)

    def boot(self, index: int = 0, **fields: Any) -> Machine:
        """Add a machine as `define` does, and boot it to its login."""
        machine = self.define(index, **fields)
        machine.on()
        self.console(machine).wait_for(r"login: ", PATIENCE)
        return machine

    def console(self, machine: Machine) -> FileConsole:
        """Open its serial line."""
        return serial(self.root / "machines" / machine.name, machine.name)

    def __exit__(self, *error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9 of the process that all others hang on, and the end of what waits for that."""
        self.process.kill()
        self.process.wait(PATIENCE)
        if self._write >= 0:
            os.close(self._write)
            self._write = -1
        self._reaper.wait(PATIENCE)

    def init(self, machine: Machine) -> int:
        """Find the host's pid of a running machine's init."""
        return init_of(self.lab, machine.name)

    def run(self, machine: Machine, script: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run a shell script as root in a running machine."""
        return run_in(self.lab, machine.name, script, timeout)


def init_of(lab: str, name: str) -> int:
    """Find the host's pid of the init of a lab's running machine."""
    group = next(Path("/sys/fs/cgroup").glob(f"*/node0/{lab}/{name}/machine"))
    for folder, _, files in os.walk(group):
        if "cgroup.procs" in files:
            for pid in (Path(folder) / "cgroup.procs").read_text().split():
                status = Path(f"/proc/{pid}/status").read_text()
                ids = next(x for x in status.splitlines() if x.startswith("NSpid:")).split()[1:]
                if ids[-1] == "1" and len(ids) == 3:
                    return int(pid)
    raise AssertionError(f"{name} has no init")


def run_in(lab: str, name: str, script: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root in a lab's running machine: in its namespaces, its control groups and its filter.

    nsenter alone would bring no seccomp filter and the host's control groups, so its init runs it.
    """
    inside = ["nsenter", "-t", str(init_of(lab, name)), "-a", "-S", "0", "-G", "0", "--"]
    run = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "sh", "-c", script]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    return subprocess.run(
        [*inside, *run], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
    )


def attempt(world: World, machine: Machine, code: str) -> tuple[bool, list[str]]:
    """Run Python as root of a machine; returns whether it got through, and its last words."""
    script = f"cat > /run/attack.py <<'ATTACK'\n{HEAD}\n{code}\nATTACK\nexec python3 /run/attack.py"
    completed = world.run(machine, script)
    return completed.returncode == 0, completed.stderr.strip().splitlines()[-1:] or [str(completed.returncode)]


def refused(world: World, machine: Machine, code: str) -> list[str]:
    """Hold that Python does not get through; returns its last words."""
    through, last_words = attempt(world, machine, code)
    assert not through, last_words
    return last_words


def allowed(world: World, machine: Machine, code: str) -> list[str]:
    """Hold that Python gets through; returns its last words."""
    through, last_words = attempt(world, machine, code)
    assert through, last_words
    return last_words
