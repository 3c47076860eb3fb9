"""A lab's evidence, collected pass or fail: from outside first, so that a node that never came up leaves some too.

console/NAME.log            raw serial line; NAME.timed.log with times, NAME.txt without control sequences
screens/NAME.png            what the screen shows
libvirt/NAME.{inactive,live}.xml, network-BRIDGE.xml, qemu-NAME.log
services/*.log              DNS, DHCP leases, NTP, registry, BMC requests, supervisor
nodes/NAME/*                journal, containers, addresses, disks: over SSH, if the node answers
phases.json                 phases with durations
about.json                  what was run: cluster, release, date, the command that runs it again
lab-failed.txt              parts of the lab that ended unexpectedly, with their last lines: then the run is invalid
missing.txt                 what could not be collected, and why
index.html                  all of it on one page (lab.evidence.report); summary.md: the same in short, in Markdown
"""

from __future__ import annotations

import io
import logging
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drivers.console import strip_control
from drivers.errors import DriverError
from drivers.libvirt import Hypervisor
from drivers.protocols import PowerState
from installer.common.redact import Redactor, redact
from lab.errors import LabError
from lab.evidence import record, report
from lab.machines.factory import documents
from lab.supervisor import watch

if TYPE_CHECKING:
    from lab.layout import Layout
    from lab.machines.node import Node
    from lab.running import RunningLab
    from lab.supervisor.plan import Ended

log = logging.getLogger(__name__)

SSH_SECONDS = 20.0
#: What a machine may cost: seconds of one command and of all machines' together; bytes of one file and of all of them.
#: drivers.ssh limits the bytes of a command.
COMMAND_SECONDS, INSIDE_SECONDS = 90.0, 1200.0
FILE_BYTES, ALL_BYTES = 64 << 20, 1 << 30
COMMANDS = {
    "journal.log": "sudo journalctl --no-pager -o short-precise",
    "podman-ps.txt": "sudo podman ps -a",
    "podman-logs.txt": (
        'for c in $(sudo podman ps -aq); do echo "== $(sudo podman ps -a --filter id=$c --format {{.Names}})"; '
        "sudo podman logs $c 2>&1 | tail -n 2000; done"
    ),
    "pod-logs.txt": "sudo sh -c 'tail -n 500 /var/log/pods/*/*/*.log' 2>&1",
    "pods.txt": "sudo crictl pods 2>&1; sudo crictl ps -a 2>&1",
    "ip.txt": "ip -details address; ip route",
    "lsblk.txt": "lsblk -o NAME,SIZE,TYPE,FSTYPE,LABEL,MOUNTPOINTS",
    "units.txt": "systemctl list-units --all --no-pager; systemctl list-jobs --no-pager",
    "memory.txt": "free -m; df -h; ps axo pid,rss,pcpu,time,args --sort=-rss | head -40",
}


def copy(source: Path, target: Path) -> None:
    """Copy a log, or the end of a long one, without its secrets: consoles and daemons may print what units were
    given."""
    with source.open("rb") as log, target.open("wb") as out:
        log.seek(max(0, source.stat().st_size - FILE_BYTES))
        Redactor().copy(log, out)


def _write(text: str, target: Path) -> None:
    """Write what a machine said, without its secrets; in pieces, as it may be long and anything."""
    with target.open("wb") as out:
        Redactor().copy(io.BytesIO(text.encode(errors="surrogateescape")), out)


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - FILE_BYTES))
        return file.read(FILE_BYTES)


class Collector:
    """Collects a lab's evidence below a folder, a step at a time; `missing` says what could not be collected."""

    def __init__(self, lab: RunningLab, target: Path) -> None:
        self.lab = lab
        self.target = target
        self.missing: list[str] = []
        self._deadline = time.monotonic() + INSIDE_SECONDS
        self._bytes = ALL_BYTES

    def attempt(self, step: str, action: Callable[[], object]) -> bool:
        """Run a step, or note why it failed."""
        try:
            action()
        except (LabError, DriverError, OSError, RuntimeError) as error:
            self.missing.append(f"{step}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
            return False
        return True

    def folder(self, *names: str) -> Path:
        """Make a folder below the target."""
        path = self.target.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def outside(self, node: Node) -> bool:
        """Collect what can be seen of a node from outside; returns whether it runs."""
        console = self.folder("console")
        for path in self.lab.layout.console.glob(f"{node.name}.*log"):
            copy(path, console / path.name)
        log_of_it = _end(node.console.log) if node.console.log.exists() else b""
        _write(strip_control(log_of_it.decode(errors="replace")), console / f"{node.name}.txt")
        machine = self.lab.hypervisor.machine(node.name)
        contained = self.lab.layout.topology.machine == "container"
        descriptions = self.folder("machines" if contained else "libvirt")
        for name, text in documents(machine).items():
            (descriptions / f"{node.name}.{name}").write_text(redact(text))
        if machine.state() is PowerState.OFF:
            return False
        if contained:
            return True
        picture = self.folder("screens") / f"{node.name}.png"
        self.attempt(f"screenshot of {node.name}", lambda: node.screenshot(picture))
        return True

    def inside(self, node: Node) -> None:
        """Collect what the node reports about itself, over SSH."""
        host = node.ssh(timeout=SSH_SECONDS)
        folder = self.folder("nodes", node.name)
        for name, command in COMMANDS.items():

            def keep(name: str = name, command: str = command) -> None:
                left = self._deadline - time.monotonic()
                if left <= 0 or self._bytes <= 0:
                    raise LabError(f"{INSIDE_SECONDS:g} s or {ALL_BYTES >> 20} MiB of all machines are used up")
                host.backend.limit = min(left, COMMAND_SECONDS)
                result = host.run(f"timeout 60 sh -c {shlex.quote(command)}")
                text = result.stdout + result.stderr
                self._bytes -= len(text)
                _write(text, folder / name)

            self.attempt(f"{name} of {node.name}", keep)


def keep_logs(layout: Layout, target: Path) -> None:
    """Copy the logs of the lab's daemons, and note which of them have ended. Writes nothing of a lab that has none."""
    tell_failure(watch.noted(layout.root), target)
    sources = {"services": layout.log, "libvirt": layout.root / "libvirt/log/qemu"}
    for name, source in sources.items():
        for path in sorted(source.glob("*.*")) if source.is_dir() else []:
            (target / name).mkdir(parents=True, exist_ok=True)
            copy(path, target / name / (f"qemu-{path.name}" if name == "libvirt" else path.name))
    leases = layout.root / "dnsmasq.leases"
    if leases.exists():
        (target / "services").mkdir(parents=True, exist_ok=True)
        copy(leases, target / "services" / leases.name)


def tell_failure(ended: Sequence[Ended], target: Path) -> None:
    """Write which parts of a lab have ended into lab-failed.txt, where the report looks for it."""
    if ended:
        target.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{watch.described(e)}\n" + "".join(f"    {x}\n" for x in e.tail.splitlines()) for e in ended)
        (target / record.LAB_FAILED).write_text(text)


def _write_network(owner: Hypervisor, name: str, file: Path) -> None:
    file.write_text(owner.network_xml(name))


def collect(lab: RunningLab, target: Path) -> list[str]:
    """Collect everything below `target`; returns what could not be collected, one line each."""
    work = Collector(lab, target)
    work.attempt("which parts of the lab have ended", lambda: tell_failure(lab.ended(), target))
    work.attempt("logs of services", lambda: keep_logs(lab.layout, target))
    owner = lab.hypervisor
    if isinstance(owner, Hypervisor):
        for name in map(lab.layout.bridge, lab.layout.topology.all_networks):
            xml = work.folder("libvirt") / f"network-{name}.xml"
            work.attempt(f"XML of network {name}", partial(_write_network, owner, name, xml))
    running: list[Node] = []
    log.info("evidence: logs of services, consoles and screens")
    for node in lab.nodes.values():

        def look(node: Node = node) -> None:
            if work.outside(node):
                running.append(node)

        work.attempt(f"outside of {node.name}", look)
    for node in running:
        log.info("evidence: %s over SSH (up to %g s where it does not answer)", node.name, SSH_SECONDS)
        work.attempt(f"inside of {node.name}", partial(work.inside, node))
    trouble = "".join(f"{name}: {line}\n" for name, lines in lab.kernel_trouble().items() for line in lines)
    if trouble:
        (target / "kernel-trouble.txt").write_text(trouble)
    (target / "missing.txt").write_text("".join(line + "\n" for line in work.missing))
    report.write(target)
    log.info(
        "evidence is in %s%s", target, f"; {len(work.missing)} item(s) could not be collected" if work.missing else ""
    )
    return work.missing
