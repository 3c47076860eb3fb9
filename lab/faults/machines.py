"""Faults of a machine: its power, its processes, its disk."""

from __future__ import annotations

import shlex
import socket
import time
from typing import Any, Literal

import msgspec

from drivers.libvirt import Machine
from lab.cleanup import finish
from lab.errors import LabError, WaitTimeout
from lab.faults.network import is_off
from lab.faults.values import Jump, Mib, Seconds
from lab.running import RunningLab
from lab.waiting import wait_until

Process = Literal[
    "agent", "assisted-service", "orchestrator", "bootkube", "cluster-bootstrap", "kubelet", "containerd", "etcd",
    "kube-apiserver", "kube-controller-manager", "haproxy", "keepalived",
]  # fmt: skip
# How its process id is found on a host: what runs in a container of podman's, as a unit, or by its program's name.
_CONTAINERS = {
    "agent": "agent",
    "assisted-service": "assisted-service",
    "orchestrator": "assisted-installer",
    "cluster-bootstrap": "cluster-bootstrap",
}
_UNITS = ("bootkube", "kubelet", "containerd")
_SSH_SECONDS = 60.0
SSH_PORT, _GREETING, GREETING_SECONDS = 22, b"SSH-", 4.0
_TAKEN = "/run/fault-memory"
# The file is removed first: a process started meanwhile with mounts of its own keeps the file system mounted.
_GIVE_BACK = f"rm -f {_TAKEN}/file && umount -l {_TAKEN}"
_RUNS_SECONDS = 60.0


class PowerCut(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine has no power until the end of the fault. A virtual one's clock is then `away` seconds further ahead, as
    if it had been off for that long."""

    node: str
    away: Jump = 0

    def begin(self, lab: RunningLab) -> None:
        """Switch it off at once. Raises LabError where its clock is the host's."""
        node = lab.nodes[self.node]
        machine = lab.hypervisor.machine(node.name) if self.away else None
        if machine is not None and not isinstance(machine, Machine):
            raise LabError(f"{self.node} is a container: its clock is the host's, and no time passes for it alone")
        if machine is None:
            node.power.off()
            return
        # It counts from the next time that the machine is on, on top of when it has been away before.
        before = machine.clock()
        machine.set_clock(before + self.away)
        try:
            node.power.off()
        except BaseException as error:
            finish(("set its clock back", lambda: machine.set_clock(before)), cause=error)
            raise

    def end(self, lab: RunningLab) -> None:
        """Switch it on."""
        lab.nodes[self.node].power.on()


class Reset(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine is reset: off and on again at once."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Off and on."""
        lab.nodes[self.node].power.cycle()

    def end(self, lab: RunningLab) -> None:
        """Do nothing: it is on already."""


class Kill(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A process of a host is killed (SIGKILL), once, as soon as it runs; whoever watches over it may start it again."""

    node: str
    process: Process

    def begin(self, lab: RunningLab) -> None:
        """Send SIGKILL as soon as the process runs."""
        send_signal(lab, self.node, self.process, "KILL")

    def end(self, lab: RunningLab) -> None:
        """Nothing is to be undone."""


class Freeze(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A process of a host is suspended (SIGSTOP): it is there and does nothing."""

    node: str
    process: Process

    def begin(self, lab: RunningLab) -> None:
        """Suspend."""
        send_signal(lab, self.node, self.process, "STOP")

    def end(self, lab: RunningLab) -> None:
        """Resume; one that has ended meanwhile, as with a reset of its host, is not frozen."""
        _root(lab, self.node, f"{_gone(self.process)} || {{ {_send(self.process, 'CONT')}; }}")


class DiskFull(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The file system of a path on a host is full: all but `left_mib` MiB are taken."""

    node: str
    path: str = "/var"
    left_mib: Mib = 0

    def begin(self, lab: RunningLab) -> None:
        """Fill it."""
        folder = shlex.quote(self.path)
        free = f"set -o pipefail; free=$(df --output=avail -k {folder} | tail -n 1) || exit"
        # Where less is free already, all is as it should be.
        fill = f"n=$((free - {self.left_mib * 1024})); [ $n -le 0 ] || fallocate -l ${{n}}K {folder}/fault-disk-full"
        _root(lab, self.node, f"{free}; {fill} || true")

    def end(self, lab: RunningLab) -> None:
        """Make room."""
        _root(lab, self.node, f"rm -f {shlex.quote(self.path)}/fault-disk-full")


class MemoryTaken(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """All of a host's memory but `left_mib` MiB is taken, by a file in memory that nothing can reclaim.

    After `seconds`, if any, the host gives it back by itself: one without memory may take no login for it.
    """

    node: str
    left_mib: Mib = 200
    seconds: Seconds = 0

    def begin(self, lab: RunningLab) -> None:
        """Take it."""
        free = f"$(( $(sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo) - {self.left_mib * 1024} ))"
        fill = f"mkdir -p {_TAKEN} && mount -t tmpfs -o size=100% fault {_TAKEN} && fallocate -l ${{n}}K {_TAKEN}/file"
        back = "systemd-run --quiet --collect --timer-property=AccuracySec=1s"
        later = f" && {back} --on-active={self.seconds} sh -c '{_GIVE_BACK}'" if self.seconds else ""
        _root(lab, self.node, f"n={free}; [ $n -gt 0 ] || exit 0; {fill}{later}")

    def end(self, lab: RunningLab) -> None:
        """Give it back; a machine that has restarted has it already."""
        _root(lab, self.node, f"! mountpoint -q {_TAKEN} || {{ {_GIVE_BACK}; }}")


class Panic(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The kernel of a virtual machine panics, and stands still until somebody resets it; the end of the fault does."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Crash it, as soon as the login that asks for it is over."""
        crash = "sysctl -q kernel.panic=0 kernel.sysrq=1; sleep 1; echo c > /proc/sysrq-trigger"
        _root(lab, self.node, f"systemd-run --no-block --quiet sh -c {shlex.quote(crash)}")

    def end(self, lab: RunningLab) -> None:
        """Off and on."""
        lab.nodes[self.node].power.cycle()


class ClockJump(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The clock of a virtual machine, and its hardware's, jump by `seconds` (backwards where negative)."""

    node: str
    seconds: Jump

    def begin(self, lab: RunningLab) -> None:
        """Set the clocks ahead or back."""
        _root(lab, self.node, f"date -s @$(( $(date +%s) + {self.seconds} )) >/dev/null && hwclock -w -u")

    def end(self, lab: RunningLab) -> None:
        """Whoever keeps the host's time has put it right, or has not."""


#: Faults that begin by a login to the host, and those that end by one.
LOGS_IN = (ClockJump, DiskFull, Freeze, Kill, MemoryTaken, Panic)
LOGS_IN_AGAIN = (DiskFull, Freeze, MemoryTaken)
#: Faults that are over once the machine has no power.
ENDS_WITH_POWER = (Freeze, MemoryTaken)


def check_login(lab: RunningLab, node: str) -> None:
    """Raise LabError, within seconds, where a host is off or does not answer SSH. Only for faults that are begun or
    ended by hand: during an installation a login may have to wait."""
    if is_off(lab, node):
        raise LabError(f"{node} is off: nobody can log in")
    place = lab.nodes[node].spec.ip

    def greeting() -> bytes:
        with socket.create_connection((place, SSH_PORT), timeout=GREETING_SECONDS) as connection:
            first_bytes, deadline = b"", time.monotonic() + GREETING_SECONDS
            while len(first_bytes) < len(_GREETING) and (piece := connection.recv(len(_GREETING) - len(first_bytes))):
                first_bytes += piece
                connection.settimeout(max(deadline - time.monotonic(), 0.01))
            return first_bytes

    try:
        first_bytes = lab.inside(greeting)
    except OSError as error:
        raise LabError(f"{node}: no SSH at {place}: {error}") from error
    if first_bytes != _GREETING:
        raise LabError(f"{node}: what listens at port {SSH_PORT} of {place} is not SSH")


def _root(lab: RunningLab, node: str, script: str) -> str:
    """Run a shell script on a host as root; its output. Raises LabError."""
    host: Any = lab.nodes[node].ssh(_SSH_SECONDS)
    try:
        completed = host.run(f"sudo bash -c {shlex.quote(script)}")
    except RuntimeError as error:
        # testinfra's, whose ssh has ended with 255.
        raise LabError(f"{node}: the connection has broken: is it going down?") from error
    if completed.rc:
        raise LabError(f"{node}: {' '.join((completed.stderr or completed.stdout).split())[:300]}")
    return str(completed.stdout)


def _pids(process: str) -> str:
    """Return a shell expression for the process ids."""
    if process in _CONTAINERS:
        return f"podman inspect --format '{{{{.State.Pid}}}}' {_CONTAINERS[process]}"
    if process in _UNITS:
        return f"systemctl show --property MainPID --value {process}"
    return f"pgrep -x {process[:15]}"


def _send(process: str, signal: str) -> str:
    """Return a shell expression that sends a signal; false where the process does not run."""
    return f'pids=$({_pids(process)}) && [ -n "$pids" ] && [ "$pids" != 0 ] && kill -{signal} $pids'


def _gone(process: str) -> str:
    """Return a shell expression: whether the process does not run, and nothing else is wrong."""
    if process in _CONTAINERS:
        # 125 is podman's exit code for a failure of its own; 127: what has been booted since has none.
        exists = f"podman container exists {_CONTAINERS[process]}; code=$?"
        return f'{{ {exists}; [ $code = 1 ] || [ $code = 127 ] || [ "$({_pids(process)})" = 0 ]; }}'
    if process in _UNITS:
        return f'[ "$({_pids(process)})" = 0 ]'
    return f"{{ {_pids(process)} >/dev/null; [ $? = 1 ]; }}"


def send_signal(lab: RunningLab, node: str, process: str, signal: str) -> None:
    """Send the signal of this name to a host's process, as soon as the host takes the login and runs it."""
    script = _send(process, signal)
    assert lab.nodes[node].name == node, "an unknown one is told at once"

    def sent() -> bool:
        _root(lab, node, script)
        return True

    try:
        # It may be about to start.
        wait_until(sent, _RUNS_SECONDS, f"{process} of {node} to run")
    except WaitTimeout as error:
        raise LabError(f"{node}: {process} does not run there ({error.last_seen})") from error
