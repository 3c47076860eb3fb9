"""A machine's control groups: its limits, out of its reach, and below them a group that is its own.

NAME is the lab's id and the machine's name: /node0/LAB/MACHINE in each hierarchy. Hosts with cgroup v1 or hybrid (v1
controllers beside an empty v2) get v1 within, without v2, since crun refuses hybrid; others cgroup2 alone. With v1 a
machine is in a group of cgroup2 all the same: what it sees when it mounts that itself, instead of the host's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.machines.container.kernel import syscalls, treewalk, users

TOP = "node0"
OWN, BESIDE = "machine", "holder"
_V1 = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
# The name of cgroup2's mount point beside v1's hierarchies.
_BARE = "cgroup2"
UNIFIED: tuple[str, ...] = ("cpu", "memory", "pids", "cpuset")
_V1_NEEDED = ("cpu", "memory", "pids", "devices")
# Processes and threads of a machine: far more than an installation has, and a quarter of a kernel's usual pid_max.
# (From Linux 6.14 on, kernel.pid_max in a PID namespace is not the host's.)
_PIDS = 8192
# Most groups of a machine, and their depth: an installation has some 300, ten deep. Groups of `memory` have numbers, of
# which a host has 65535 for all (include/linux/memcontrol.h, MEM_CGROUP_ID_MAX). cgroup2 counts them; with v1 the
# monitor does (`too_many`).
MOST_GROUPS, _DEPTH = 4096, 64
_PERIOD = 100_000
# A share of v1's `cpu` in a period of 100 ms; -1: all.
_QUOTA = "cpu.cfs_quota_us"
# Devices that every machine may open: null, zero, full, random, urandom, tty, ptmx, terminals of devpts, fuse. 5:1, the
# host's console, is none of them: a machine's is a terminal.
_CHARACTER = ("1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:2", "136:*", "10:229")
_EMPTY_SECONDS = 10.0
# systemd's socket, in the machine's root file system; PID 1 passes messages on to users' managers.
AGENT = "run/systemd/cgroups-agent"
_PATH_BYTES = 4096
# Deeper than any that a systemd makes.
_DEEPEST = 128


class UnsupportedHostError(LabError):
    """This host has no control groups that a machine could be limited by; the text is one line."""


@dataclass(frozen=True)
class Hierarchies:
    """The mount points of the hierarchies in this namespace, by their controllers ("" is cgroup2)."""

    at: dict[str, Path]

    @property
    def v1(self) -> tuple[str, ...]:
        """List the v1 hierarchies, as options for mount(8)."""
        return tuple(kind for kind in self.at if kind not in ("", _BARE))

    @property
    def unified(self) -> bool:
        """The host has cgroup2 alone."""
        return "" in self.at


def controllers(cgroups: str) -> list[str]:
    """List the v1 hierarchies of /proc/self/cgroup, as options for mount(8): `cpu,cpuacct`, `name=systemd`."""
    named = [line.split(":", 2)[1] for line in cgroups.splitlines()]
    return [name for name in named if name and (name == "name=systemd" or set(name.split(",")) & set(_V1))]


def _need(wanted: Iterable[str], has: Iterable[str], where: str) -> None:
    names = set(has)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UnsupportedHostError(f"{where} has no controllers {', '.join(missing)}: container machines need them")


def mount_all(place: Path) -> Hierarchies:
    """Mount the host's hierarchies below `place`, a directory of this mount namespace. Raises UnsupportedHostError."""
    v1 = controllers(Path("/proc/self/cgroup").read_text())
    place.mkdir(parents=True, exist_ok=True)
    at = {}
    if not any("memory" in name.split(",") for name in v1):
        folder = place / "unified"
        folder.mkdir(exist_ok=True)
        syscalls.mount("cgroup2", str(folder), "cgroup2")
        check_unified(folder)
        return Hierarchies({"": folder})
    _need(_V1_NEEDED, (word for name in v1 for word in name.split(",")), "cgroup v1")
    for name in v1 if "name=systemd" in v1 else [*v1, "name=systemd"]:
        folder = place / name.removeprefix("name=")
        folder.mkdir(exist_ok=True)
        syscalls.mount("cgroup", str(folder), "cgroup", 0, data=f"none,{name}" if "=" in name else name)
        at[name] = folder
    with contextlib.suppress(OSError):
        bare = place / _BARE
        bare.mkdir(exist_ok=True)
        syscalls.mount("cgroup2", str(bare), "cgroup2")
        at[_BARE] = bare
    return Hierarchies(at)


def check_unified(top: Path) -> None:
    """Raise UnsupportedHostError when cgroup2, mounted at `top`, cannot hold groups with limits."""
    _need(UNIFIED, (top / "cgroup.controllers").read_text().split(), "cgroup2")
    try:
        (top / "cgroup.subtree_control").write_text(_enable())
    except OSError as error:
        # cgroups(7): only a hierarchy's own root may have both processes and groups with controllers.
        why = "it is no root, and has processes" if error.errno == errno.EBUSY else os.strerror(error.errno or 0)
        raise UnsupportedHostError(f"cgroup2 passes no controllers on here ({why}): run in the host's own") from error


def _enable() -> str:
    return " ".join(f"+{name}" for name in UNIFIED)


def unified_limits(memory_mib: int, vcpus: int) -> dict[str, str]:
    """List a machine's limits by the files of cgroup2."""
    return {
        "memory.max": str(memory_mib << 20),
        "cpu.max": f"{vcpus * _PERIOD} {_PERIOD}",
        "pids.max": str(_PIDS),
        "cgroup.max.descendants": str(MOST_GROUPS),
        "cgroup.max.depth": str(_DEPTH),
    }


class Group:
    """A machine's groups, in every hierarchy."""

    def __init__(self, hierarchies: Hierarchies, name: str) -> None:
        self._hierarchies = hierarchies
        self._folders = {kind: top / TOP / name for kind, top in hierarchies.at.items()}

    def _find(self, controller: str) -> Path:
        return next(f for kind, f in self._folders.items() if not kind or controller in kind.split(","))

    def make(self, *, memory_mib: int, vcpus: int, devices: list[str]) -> None:
        """Make them, with these limits; `devices` are the numbers ("7:3") of the block devices that are its own."""
        for kind, folder in self._folders.items():
            top = self._hierarchies.at[kind]
            for parent in reversed([p for p in folder.parents if p.is_relative_to(top)]):
                parent.mkdir(exist_ok=True)
                self._pass_on(kind, parent)
            # Left by a monitor that was killed; with groups below, devices could not be denied any more.
            remove(folder, self.unhold)
            folder.mkdir()
            self._pass_on(kind, folder)
        if self._hierarchies.unified:
            folder = self._folders[""]
            for name, value in unified_limits(memory_mib, vcpus).items():
                (folder / name).write_text(value)
            _limit_swap(folder / "memory.swap.max", 0)
        else:
            memory = self._find("memory")
            (memory / "memory.limit_in_bytes").write_text(str(memory_mib << 20))
            # Memory and swap together.
            _limit_swap(memory / "memory.memsw.limit_in_bytes", memory_mib << 20)
            self.limit_cpu(vcpus, None)
            (self._find("pids") / "pids.max").write_text(str(_PIDS))
            fence = self._find("devices")
            (fence / "devices.deny").write_text("a")
            for number in _CHARACTER:
                (fence / "devices.allow").write_text(f"c {number} rwm")
            for number in devices:
                (fence / "devices.allow").write_text(f"b {number} rwm")
        for kind, folder in self._folders.items():
            (folder / OWN).mkdir(exist_ok=True)
            self._pass_on(kind, folder / OWN, last=True)

    def limit_cpu(self, vcpus: int, percent: int | None) -> None:
        """Leave it so many percent of a processor, or (None) as many processors. Raises OSError."""
        quota = vcpus * _PERIOD if percent is None else percent * _PERIOD // 100
        if self._hierarchies.unified:
            (self._folders[""] / "cpu.max").write_text(f"{quota} {_PERIOD}")
        elif percent is not None or vcpus < len(os.sched_getaffinity(0)):
            (self._find("cpu") / _QUOTA).write_text(str(quota))
        else:
            (self._find("cpu") / _QUOTA).write_text("-1")

    def freeze(self, frozen: bool) -> None:
        """Freeze its processes, or thaw those that it has not frozen itself. Raises OSError."""
        if self._hierarchies.unified:
            (self._folders[""] / "cgroup.freeze").write_text(str(int(frozen)))
        else:
            (self._find("freezer") / "freezer.state").write_text("FROZEN" if frozen else "THAWED")

    def allow(self, number: str) -> None:
        """Let it open another block device. With cgroup2 its /dev has all that it can open."""
        if not self._hierarchies.unified:
            # From the top down: a group may be allowed only what its parent is.
            def allow(folder: int, names: list[str]) -> None:
                try:
                    treewalk.write_in(folder, "devices.allow", f"b {number} rwm")
                except OSError:
                    # A group within may be vanishing, or the group above it may allow nothing.
                    if not names:
                        raise

            treewalk.visit(self._find("devices"), before=allow)

    def _pass_on(self, kind: str, folder: Path, *, last: bool = False) -> None:
        """Prepare a group for groups below it."""
        if kind == "":
            if not last:
                (folder / "cgroup.subtree_control").write_text(_enable())
        elif "cpuset" in kind.split(","):
            for name in ("cpuset.cpus", "cpuset.mems"):
                file, above = folder / name, folder.parent / name
                if above.exists() and not file.read_text().strip():
                    file.write_text(above.read_text())

    def delegate(self, owner: int) -> None:
        """Give the group within to the user `owner` of the host."""
        for kind, folder in self._folders.items():
            own = folder / OWN
            if kind == _BARE:
                continue
            for path in (own, *own.iterdir()):
                os.chown(path, owner, owner)

    def take(self, pid: int) -> None:
        """Put a process into them."""
        for folder in self._folders.values():
            (folder / OWN / "cgroup.procs").write_text(str(pid))

    def put_beside(self, pid: int) -> None:
        """Move a process, with cgroup2, from the machine's own group to another within its limits: a group that has
        processes passes no controllers on (cgroups(7)), and this process the machine would neither see nor move."""
        if self._hierarchies.unified:
            beside = self._folders[""] / BESIDE
            beside.mkdir(exist_ok=True)
            (beside / "cgroup.procs").write_text(str(pid))

    @property
    def of_systemd(self) -> Path | None:
        """The machine's own group in the v1 hierarchy of systemd; None with cgroup2, whose groups report themselves."""
        folder = self._folders.get("name=systemd")
        return folder / OWN if folder else None

    def memory_used(self) -> int:
        """Return how many bytes it holds."""
        name = "memory.current" if self._hierarchies.unified else "memory.usage_in_bytes"
        return int((self._find("memory") / name).read_text())

    def too_many(self) -> bool:
        """Look whether it has more groups than it may in v1's hierarchy of `memory`."""
        if self._hierarchies.unified or memory_groups_of_all() <= MOST_GROUPS:
            return False
        groups = 0

        def count(_: int, __: list[str]) -> None:
            nonlocal groups
            groups += 1

        with contextlib.suppress(OSError):
            treewalk.visit(self._find("memory") / OWN, before=count)
        return groups > MOST_GROUPS

    def unhold(self) -> None:
        """Let killed processes end: those that a machine has frozen (cgroup v1), and those that wait for a FUSE program
        that has been killed too."""
        for kind, top in self._folders.items():
            if "freezer" in kind.split(","):
                with contextlib.suppress(OSError):
                    treewalk.visit(top, before=_thaw)
        with contextlib.suppress(OSError):
            users.abort_connections(self._owners())

    def _owners(self) -> set[int]:
        """List the owners of machines' groups in them: a process that is about to end is listed in none."""
        folder = next(iter(self._folders.values()))
        owners = set()
        for own in (folder / OWN, *folder.glob(f"*/{OWN}")):
            with contextlib.suppress(OSError):
                owners.add(own.stat().st_uid)
        return owners - {0}

    def remove(self) -> None:
        """Remove them. Raises OSError when something still runs in them after ten seconds."""
        for kind, folder in self._folders.items():
            remove(folder, self.unhold)
            top = self._hierarchies.at[kind]
            for parent in [p for p in folder.parents if p.is_relative_to(top) and p != top]:
                with contextlib.suppress(OSError):
                    parent.rmdir()


def memory_groups_of_all() -> int:
    """Count the `memory` groups of the host, which is cheap (cgroups(7), /proc/cgroups)."""
    lines = (line.split() for line in Path("/proc/cgroups").read_text().splitlines())
    return next((int(words[2]) for words in lines if words[0] == "memory"), 0)


def _limit_swap(file: Path, most: int) -> None:
    # A kernel without swap, or one that does not count it, has no such file.
    if file.exists():
        file.write_text(str(most))


def _thaw(folder: int, _: list[str]) -> None:
    with contextlib.suppress(OSError):
        treewalk.write_in(folder, "freezer.state", "THAWED")


def remove(folder: Path, waiting: Callable[[], None]) -> None:
    """Remove a group and all below it, waiting until it is empty; `waiting` is called while it is not.

    Raises OSError when nothing of it goes for ten seconds."""
    deadline = time.monotonic() + _EMPTY_SECONDS

    def gone(above: int, name: str) -> None:
        nonlocal deadline
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=above)
            deadline = time.monotonic() + _EMPTY_SECONDS

    while folder.exists():
        try:
            treewalk.visit(folder, leave=gone)
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            waiting()
            time.sleep(0.02)


def populated(top: Path) -> dict[str, bool]:
    """Find out for the groups below `top`, by systemd's names, whether a process is in or below them; for those that a
    path can name."""
    by_group: dict[str, bool] = {}
    # By depth: whether a group there, below the next one to be visited, has a process.
    below: dict[int, bool] = {}

    def look(folder: int, names: list[str]) -> None:
        depth = len(names)
        full = below.pop(depth + 1, False)
        try:
            with treewalk.file_in(folder, "cgroup.procs", os.O_RDONLY) as file:
                full = bool(os.read(file, 1)) or full
        except OSError:
            # The group has just been removed.
            return
        below[depth] = below.get(depth, False) or full
        if depth < _DEEPEST and len(path := f"/{'/'.join(names)}") < _PATH_BYTES:
            by_group[path] = full

    treewalk.visit(top, after=look)
    return by_group


class EmptyGroups:
    """The groups below `top`, the machine's own group in v1's hierarchy of systemd, that have run empty.

    With cgroup v1 systemd learns it from the hierarchy's release agent, of which a host has one; a machine's systemd
    would wait for ever for users' managers and scopes to end. So it is sent what the agent (systemd-cgroups-agent)
    would send: the group's path, in a datagram. systemd looks for itself before it believes it.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._populated: dict[str, bool] = {}

    def look(self) -> list[str]:
        """List the groups that are empty and were not, or did not exist, at the last call."""
        now = populated(self._top)
        emptied = [path for path, full in now.items() if not full and self._populated.get(path, True)]
        self._populated = now
        return emptied

    def report(self, root: Path) -> None:
        """Look, and report to the systemd that runs in `root`."""
        emptied = self.look()
        if not emptied:
            return
        # A group that cannot be reported now is reported the next time: systemd's queue is short.
        self._populated.update(dict.fromkeys(emptied, True))
        # systemd does not run yet, or has ended.
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, top)
            # The machine's links lead to the machine's files, wherever they point.
            agent = syscalls.open_in_root(top, AGENT, os.O_PATH)
            held.callback(os.close, agent)
            line = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            line.setblocking(False)
            for path in emptied:
                line.sendto(os.fsencode(path), f"/proc/self/fd/{agent}")
                self._populated[path] = False
