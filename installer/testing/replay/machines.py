"""Machines without hardware: the real agent and the real orchestrator on each, over disks and programs that are data.

Programs of a host (podman, coreos-installer, systemctl, …) are methods here that take virtual time and note their
effect; everything else of a host's part in an installation is the installer's own code.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from installer.agent import steps as agent_steps
from installer.agent.containers import AgentContext
from installer.agent.errors import Refused
from installer.agent.loop import Agent
from installer.agent.steps import Step, StepContext
from installer.agent.swarm.host import GB, SimulatedHost, Site
from installer.assisted import inventory as inv
from installer.assisted.auth import ATTEMPT_VARIABLE, Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import StepType
from installer.assisted.errors import ClientError
from installer.hostsys.commands import Completed
from installer.hostsys.system import HostSystem
from installer.orchestrator import __main__ as orchestrator
from installer.orchestrator import flow
from installer.testing.replay.service import MARK
from installer.testing.replay.turns import Worker, Workers

T = TypeVar("T")
URL = "http://192.0.2.1:8090/"
#: Disks of each machine, by a name that lasts; what the kernel calls them differs from boot to boot.
DISKS = tuple(f"/dev/disk/by-path/pci-0000:0{number}:00.0" for number in range(3))
#: The name of its thread.
ORCHESTRATOR = "orchestrator"
REAL_STEPS = (StepType.IMAGES, StepType.INSTALL, StepType.LOGS, StepType.STOP)


class Luck(Protocol):
    """The luck of machines, beyond anybody's plan."""

    struck: Counter[str]

    def seconds(self, what: str, usual: float) -> float:
        """Return how long something takes (s) that usually takes so long."""

    def fails(self, what: str) -> bool:
        """Return whether a program fails now."""


class Surroundings(Protocol):
    """A machine's site: what it is part of, and who looks."""

    workers: Workers
    luck: Luck
    folder: Path
    agent_token: str

    def note(self, who: str, text: str) -> None:
        """Add a line to the trace."""

    def written(self, machine: Machine, disk: str, attempt: str, how: str) -> None:
        """Take note of a disk whose content is destroyed or replaced."""

    def bootkube_started(self, machine: Machine) -> None:
        """Begin the temporary control plane."""

    def unit_state(self, machine: Machine, unit: str) -> str:
        """Return a unit's ActiveState."""

    def begins(self, machine: Machine, attempt: str) -> None:
        """Take note of an orchestrator that is started."""

    def hears(self, machine: Machine, attempt: str, status: int | None, *, is_report: bool) -> None:
        """Take note of what an orchestrator hears of a report, or of its cluster's hosts."""

    def reads(self, machine: Machine, made_in: str) -> None:
        """Take note of the attempt in which the config was made that a machine is about to write."""

    def rebooting(self, machine: Machine) -> None:
        """Take note of a machine that goes down to boot from what comes first now."""


@dataclass
class Container:
    """The orchestrator's container on a host."""

    attempt: str
    worker: Worker | None = None
    code: int | None = None
    words: list[str] = field(default_factory=list)


class Machine(SimulatedHost):
    """A machine of a site."""

    def __init__(self, number: int, site: Site, around: Surroundings) -> None:
        super().__init__(number, site)
        self._around = around
        self.infra_env_id = ""
        self.root = around.folder / self.name
        self.container: Container | None = None
        #: The attempt whose image each disk holds.
        self.images: dict[str, str] = {}
        self.boots = 0
        #: The kernel's names by those that last, in this boot.
        self.devices: dict[str, str] = {}
        #: Its role in the last attempt.
        self.role = ""
        #: Does it run the discovery image?
        self.is_live = False

    # Power

    def boot_live(self) -> None:
        """Start from the discovery image, with nothing of an earlier run left in memory. From the loop."""
        self.halt()
        self.boots += 1
        self.is_live = True
        turn = (self.number + self.boots) % len(DISKS)
        self.devices = {key: f"/dev/vd{'abc'[(turn + place) % 3]}" for place, key in enumerate(DISKS)}
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "etc").mkdir(parents=True)
        self.container = None
        self._around.note(self.name, "boots the discovery image")
        self._around.workers.start(f"agent {self.boots}", self.name, self._agent)

    def halt(self) -> None:
        """Stop all that runs. From the loop."""
        workers = self._around.workers
        workers.stop(workers.of(self.name))

    def kill_agent(self, seconds: float) -> None:
        """End the agent, its orchestrator not, and start it again later. From the loop."""
        workers, boots = self._around.workers, self.boots
        self._around.note(self.name, f"its agent is killed, for {seconds:.0f} s")
        workers.stop(item for item in workers.of(self.name) if item.name != ORCHESTRATOR)

        def again() -> None:
            if self.boots == boots and self.is_live:
                workers.start(f"agent {self.boots}", self.name, self._agent)

        workers.loop.call_later(seconds, again)

    def kill_orchestrator(self) -> None:
        """End the orchestrator, as the kernel does for want of memory. From the loop."""
        container = self.container
        if container is not None and container.worker is not None and container.code is None:
            self._around.note(self.name, "its orchestrator is killed")
            container.code = 137
            self._around.workers.stop((container.worker,))

    def _agent(self) -> None:
        around = self._around
        client = AssistedClient(endpoint(URL), Scheme.AGENT, around.agent_token)
        identity = AgentContext(
            url=URL, infra_env_id=self.infra_env_id, host_id=self.id, token=around.agent_token, ca_file="",
            insecure=False, agent_image="agent",
        )  # fmt: skip
        table = {str(kind): step for kind, step in self.steps().items()}
        table |= {kind.value: agent_steps.TABLE[kind] for kind in REAL_STEPS}
        context = StepContext(
            host=HostSystem(self.root),
            agent=identity,
            client=client,
            table={kind: self._taking(kind, step) for kind, step in table.items()},
        )
        try:
            Agent(context, 5.0, around.workers.sleep).run()
        except Refused as error:
            around.note(self.name, f"agent is refused: {error}")
        finally:
            client.close()

    def _taking(self, kind: str, step: Step) -> Step:
        def run(ctx: StepContext, args: list[str]) -> str:
            luck = self._around.luck
            self._around.workers.sleep(luck.seconds(f"step {kind}", 0.5))
            if kind not in REAL_STEPS and luck.fails(f"step {kind}"):
                raise OSError(5, "Input/output error")
            return step(ctx, args)

        return run

    def disk_of(self, device: str) -> str:
        """Return the lasting name of a disk that is called so in this boot."""
        return next((key for key, path in self.devices.items() if path == device), device)

    def inventory(self) -> str:
        """As the agent encodes a real one, with several disks."""
        known = inv.decode(super().inventory())
        disks = [
            msgspec.structs.replace(known.disks[0], id=key, by_path=key, path=path, name=path[5:], size_bytes=size * GB)
            for (key, path), size in zip(self.devices.items(), (240, 120, 480), strict=True)
        ]
        return inv.encode(msgspec.structs.replace(known, disks=disks))

    # Programs

    def run(self, command: Sequence[str], env: Mapping[str, str], feed: Callable[[bytes], None] | None) -> Completed:
        """As commands.run: what a program of this host prints, and its exit code."""
        words = list(
            command[command.index("--") + 1 :] if "--" in command[:12] and command[0] == "nsenter" else command
        )
        self._around.workers.sleep(0.01)
        name = words[0]
        out, code = "", 0
        match words:
            case ["podman", verb, *rest]:
                out, code = self._podman(verb, rest, env)
            case ["coreos-installer", "install", *options, device]:
                self._read_config(options[options.index("-i") + 1])
                out, code = self._write(device, feed)
            case ["realpath", *_, device]:
                out = self.devices.get(device, device)
            case ["lsblk", "-J", *_, device]:
                out = json.dumps({"blockdevices": [{"name": device, "type": "disk", "fstype": None}]})
            case ["wipefs", *_, device]:
                self._around.written(self, self.disk_of(device), self._attempt(), "wiped")
                self.images.pop(self.disk_of(device), None)
            case ["systemctl", "start", "--no-block", "bootkube.service"]:
                self._around.bootkube_started(self)
            case ["systemctl", "show", "-p", "LoadState", *_]:
                out = "loaded"
            case ["systemctl", "show", "-p", "ActiveState", *_, unit]:
                out = f"ActiveState={self._around.unit_state(self, unit)}\nInvocationID=1"
            case ["systemctl", "is-active", unit]:
                out = self._around.unit_state(self, unit)
            case ["systemd-run", *_, "reboot"]:
                self._around.rebooting(self)
        if code == 0 and name not in ("podman", "coreos-installer") and self._around.luck.fails(name):
            code, out = 1, ""
        return Completed(code, out.encode(), b"" if code == 0 else f"{name}: failed".encode())

    def _attempt(self) -> str:
        return self.container.attempt if self.container else ""

    def _podman(self, verb: str, rest: Sequence[str], env: Mapping[str, str]) -> tuple[str, int]:
        around, luck = self._around, self._around.luck
        match verb:
            case "image" if rest[0] == "exists":
                return "", 1
            case "image":
                return str(GB), 0
            case "pull":
                around.workers.sleep(luck.seconds("pull", 8.0))
                return "", 125 if luck.fails("pull") else 0
            case "rm" | "stop":
                self._end_container(remove=verb == "rm")
                return "", 0
            case "run":
                if self.container is not None:
                    return "", 125
                self._start_container(rest, env)
                return "", 0
            case "wait":
                container = self.container
                while container is not None and container.code is None:
                    around.workers.sleep(3.0)
                return ("-1", 0) if container is None else (str(container.code), 0)
        return "", 0

    def _start_container(self, rest: Sequence[str], env: Mapping[str, str]) -> None:
        variables = dict(pair.split("=", 1) for pair in rest if pair.startswith(ATTEMPT_VARIABLE))
        container = self.container = Container(variables.get(ATTEMPT_VARIABLE, ""))
        self._around.begins(self, container.attempt)
        arguments = orchestrator.parse_arguments(list(rest[rest.index("--role") :]))
        self.role = arguments.role

        def work() -> None:
            run = orchestrator.prepared(arguments, env["PULL_SECRET_TOKEN"], container.attempt, HostSystem(self.root))
            client = run.reporter.client
            for name in ("report_progress", "cluster_hosts"):
                setattr(client, name, self._heard(getattr(client, name), container.attempt))
            try:
                container.code = flow.execute(run)
            finally:
                run.reporter.client.close()
                self._around.note(self.name, f"orchestrator ends with {container.code}")

        container.worker = self._around.workers.start(ORCHESTRATOR, self.name, work)

    def _heard(self, call: Callable[..., T], attempt: str) -> Callable[..., T]:
        def observed(*words: Any, **options: Any) -> T:
            status = None
            try:
                answer = call(*words, **options)
                status = 200
            except ClientError as error:
                status = error.status
                raise
            finally:
                self._around.hears(self, attempt, status, is_report=call.__name__ == "report_progress")
            return answer

        return observed

    def _end_container(self, remove: bool) -> None:
        container = self.container
        if container is not None and container.worker is not None and container.code is None:
            container.code = 137
            self._around.workers.loop.call_soon(self._around.workers.stop, (container.worker,))
            self._around.workers.sleep(0.1)
        if remove:
            self.container = None

    def _read_config(self, path: str) -> None:
        files = json.loads((self.root / path[1:]).read_bytes()).get("storage", {}).get("files", [])
        made_in = next((file["contents"]["source"][6:] for file in files if file["path"] == MARK), "")
        self._around.reads(self, made_in)

    def _write(self, device: str, feed: Callable[[bytes], None] | None) -> tuple[str, int]:
        around, disk = self._around, self.disk_of(device)
        attempt = self._attempt()
        around.written(self, disk, attempt, "written")
        self.images.pop(disk, None)
        for percent in range(0, 101, 20):
            around.workers.sleep(around.luck.seconds("write", 4.0))
            if around.luck.fails("coreos-installer"):
                return "", 1
            if feed is not None:
                feed(f"> Read disk 1.0 GiB/1.0 GiB ({percent}%)\n".encode())
        around.written(self, disk, attempt, "written to its end")
        self.images[disk] = attempt
        return "", 0
