"""Simulated hosts in which things fail: the agent's own code, over a connection to the service that can be cut."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from installer.agent.containers import AgentContext
from installer.agent.errors import Refused, StepError
from installer.agent.loop import Agent
from installer.agent.steps import Step, StepContext
from installer.agent.swarm.host import SimulatedHost, Site
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Endpoint
from installer.assisted.enums import Role, Stage, StepType
from installer.assisted.errors import ClientError
from installer.assisted.stages import SNO, STAGES
from installer.assisted.steparguments import DomainsRequest
from installer.hostsys.system import HostSystem
from installer.orchestrator.errors import OrchestratorError
from installer.orchestrator.report import Reporter

#: How many times as fast as in reality everything is: the hosts' work, and the service's limits for them.
SPEED = 20.0
STAGE_SECONDS, BOOT_SECONDS, STARTED_AGAIN_SECONDS = 10.0, 20.0, 5.0


class Ended(BaseException):
    """The process has been killed, or its host has no power. Not an Exception, since an agent survives those."""


@dataclass(kw_only=True)
class NetworkState:
    """State of the network and its services, which faults change."""

    taken_addresses: set[str] = field(default_factory=set)
    #: MAC addresses of hosts that no other host reaches, and that reach no other host.
    isolated: set[str] = field(default_factory=set)
    #: Names (api, api-int) that do not resolve.
    unresolved: set[str] = field(default_factory=set)
    #: Errors of images that cannot be pulled, by a part of their name; "" is part of all names.
    failing_images: dict[str, str] = field(default_factory=dict)
    #: Percent of all messages that are lost; and of those that hosts send, beside these.
    loss: float = 0.0
    loss_sent: float = 0.0
    replayed: bool = False


class FaultyClient(AssistedClient):
    """The client of one process of a host: requests and answers may be lost, be sent twice, or wait."""

    host: FailingHost
    incarnation = 0

    def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """As AssistedClient's."""
        host, network = self.host, self.host.network
        host.check_alive(self.incarnation)
        if host.cut:
            time.sleep(0.05)
            raise ClientError(f"{method} {path}", None, "No route to host")
        if host.rng.random() * 100 < network.loss + network.loss_sent:
            raise ClientError(f"{method} {path}", None, "timed out")
        if "timestamp" in (kwargs.get("query") or {}):
            kwargs["query"] = {**kwargs["query"], "timestamp": str(int(time.time()) + host.clock_off)}
        answer = super().call(method, path, *args, **kwargs)
        if network.replayed and method in ("POST", "PUT"):
            again, host.last_sent = host.last_sent, (method, path, args, kwargs)
            if again is not None:
                with contextlib.suppress(ClientError):
                    super().call(again[0], again[1], *again[2], **again[3])
        if host.rng.random() * 100 < network.loss:
            raise ClientError(f"{method} {path}", None, "timed out")
        host.check_alive(self.incarnation)
        return answer


class FailingHost(SimulatedHost):
    """One machine with its agent, and the orchestrator that it is asked to run."""

    def __init__(
        self,
        number: int,
        name: str,
        ip: str,
        mac: str,
        *,
        site: Site,
        network: NetworkState,
        server: Endpoint,
        token: str,
    ) -> None:
        super().__init__(number, replace(site, stage_seconds=STAGE_SECONDS / SPEED, wait=self._work))
        self.name, self.ip, self.mac = name, ip, mac
        self.network, self.server, self.token = network, server, token
        self.infra_env = ""
        self.cut, self.clock_off, self.sync_ms = False, 0, 2
        self.unlike: dict[str, Any] = {}
        self.steps_failing: dict[str, tuple[str, str]] = {}
        self.rng = random.Random(name)
        self.last_sent: tuple[str, str, Any, Any] | None = None
        self.reached: list[Stage] = []
        self._thawed = threading.Event()
        self._thawed.set()
        self._orchestrates = threading.Event()
        self._orchestrates.set()
        # Counted up when the agent or the orchestrator is killed or started: one with an older number has ended.
        self._agents = self._orchestrators = 0
        self.over = False

    # -- what runs -------------------------------------------------------------------------------------------------

    def check_alive(self, incarnation: int) -> None:
        """Raise Ended when that agent has been killed (0: no agent's); wait while it is frozen."""
        while not self._thawed.wait(0.1) and not self.over:
            pass
        if self.over or incarnation not in (0, self._agents):
            raise Ended

    def sleep(self, incarnation: int) -> Callable[[float], None]:
        """Return a function that sleeps, SPEED times as fast, and raises Ended when that agent is killed."""

        def wait(seconds: float) -> None:
            end = time.monotonic() + seconds / SPEED
            while (left := end - time.monotonic()) > 0:
                self.check_alive(incarnation)
                time.sleep(min(left, 0.05))
            self.check_alive(incarnation)

        return wait

    def _client(self, incarnation: int) -> FaultyClient:
        client = FaultyClient(self.server, Scheme.AGENT, self.token)
        client.host, client.incarnation = self, incarnation
        return client

    def start(self, after: float = 0.0) -> None:
        """Start an agent, in place of the last one, after so many seconds of simulated time."""
        self._agents += 1
        threading.Thread(target=self._run, args=(self._agents, after), daemon=True).start()

    def _run(self, incarnation: int, after: float) -> None:
        client = self._client(incarnation)
        identity = AgentContext(
            url=self.server.url,
            infra_env_id=self.infra_env,
            host_id=self.id,
            token=self.token,
            ca_file="",
            insecure=False,
            agent_image="",
        )
        context = StepContext(host=HostSystem(Path("/nonexistent")), agent=identity, client=client, table=self.steps())
        sleep = self.sleep(incarnation)
        agent = Agent(context, 5.0, sleep)
        try:
            sleep(after)
            agent.run()
        except Refused:
            # Its unit starts it again.
            self.start(STARTED_AGAIN_SECONDS)
        except Ended:
            pass
        finally:
            client.close()

    def kill_agent(self) -> None:
        """SIGKILL; its unit starts it again."""
        self.start(STARTED_AGAIN_SECONDS)

    def freeze_agent(self, frozen: bool) -> None:
        """SIGSTOP, SIGCONT."""
        (self._thawed.clear if frozen else self._thawed.set)()

    def kill_orchestrator(self) -> None:
        """SIGKILL."""
        self._orchestrators += 1

    def freeze_orchestrator(self, frozen: bool) -> None:
        """SIGSTOP, SIGCONT."""
        (self._orchestrates.clear if frozen else self._orchestrates.set)()

    def power_off(self) -> None:
        """All that runs ends."""
        self._agents += 1
        self._orchestrators += 1

    def power_on(self) -> None:
        """Boot the image again: there is nothing else on its disk yet."""
        assert Stage.REBOOTING not in self.reached, "an installed system is nothing that a swarm has"
        self.start(BOOT_SECONDS)

    def end(self) -> None:
        """All threads end."""
        self.over = True
        self._thawed.set()

    # -- what it answers -------------------------------------------------------------------------------------------

    def inventory(self) -> str:
        """Return the inventory as the agent encodes it, changed where this host is unlike the others (Unlike)."""
        inventory = json.loads(super().inventory())
        unlike = self.unlike
        if unlike.get("hostname"):
            inventory["hostname"] = unlike["hostname"]
        if unlike.get("memory_mib"):
            inventory["memory"] = dict.fromkeys(("physical_bytes", "usable_bytes"), unlike["memory_mib"] << 20)
        if unlike.get("cpus"):
            inventory["cpu"]["count"] = unlike["cpus"]
        if unlike.get("disk_gb"):
            inventory["disks"][0]["size_bytes"] = unlike["disk_gb"] * 1000**3
        if unlike.get("mac"):
            inventory["interfaces"][0]["mac_address"] = unlike["mac"]
        return json.dumps(inventory)

    def steps(self) -> Mapping[str, Step]:
        """Return the steps of a simulated host, with the failures that faults have asked for."""
        usual = super().steps()
        own: dict[str, Step] = {
            StepType.CONNECTIVITY: lambda ctx, args: self._reached(usual[StepType.CONNECTIVITY](ctx, args), args),
            StepType.FREE_ADDRESSES: lambda ctx, args: json.dumps(
                [{"network": cidr, "free_addresses": self._free()} for cidr in json.loads(args[0])]
            ),
            StepType.VERIFY_VIPS: lambda ctx, args: json.dumps(
                [
                    {**item, "verification": "failed" if item["vip"] in self.network.taken_addresses else "succeeded"}
                    for item in json.loads(args[0])
                ]
            ),
            StepType.DISK_SPEED: lambda ctx, args: json.dumps(
                {"path": json.loads(args[0])["path"], "io_sync_duration": self.sync_ms}
            ),
            StepType.IMAGES: lambda ctx, args: json.dumps(
                {"images": [self._image(name) for name in json.loads(args[0])["images"]]}
            ),
        }  # fmt: skip
        return {kind: self._failing(kind, step) for kind, step in {**usual, **own}.items()}

    def _failing(self, kind: str, step: Step) -> Step:
        def run(ctx: StepContext, args: list[str]) -> str:
            how, words = self.steps_failing.get(kind, ("", ""))
            if how == "silent":
                assert isinstance(ctx.client, FaultyClient)
                self.sleep(ctx.client.incarnation)(3600)
            if how == "fails":
                raise StepError(words, 1)
            return "{no answer" if how == "nonsense" else step(ctx, args)

        return run

    def _reached(self, output: str, args: list[str]) -> str:
        """Return a connectivity report, with the isolated hosts unreachable in it."""
        isolated = self.network.isolated
        unreached = {
            peer["host_id"]
            for peer in json.loads(args[0])
            if self.mac in isolated or any(nic["mac"] in isolated for nic in peer["nics"])
        }
        report = json.loads(output)
        for peer in report["remote_hosts"]:
            if peer["host_id"] in unreached:
                for link in peer["l2_connectivity"] + peer["l3_connectivity"]:
                    link |= {"successful": False}
        return json.dumps(report)

    def _free(self) -> list[str]:
        return [
            str(address) for address in self.site.network.hosts() if str(address) not in self.network.taken_addresses
        ]

    def _image(self, name: str) -> dict[str, Any]:
        for part, why in self.network.failing_images.items():
            if part in name:
                return {"name": name, "result": "failure", "error": f"{name}: {why}"}
        return {"name": name, "result": "success", "size_bytes": 1000**3, "time": 10.0, "download_rate": 100.0}

    def _names(self, request: DomainsRequest) -> list[dict[str, Any]]:
        names = super()._names(request)
        for item in names:
            if item["domain_name"].partition(".")[0] in self.network.unresolved:
                item["ipv4_addresses"] = []
        return names

    # -- its installation ------------------------------------------------------------------------------------------

    def _work(self, seconds: float) -> None:
        """Take the time of a stage's work. Raises StepError when the orchestrator is killed."""
        incarnation, end = self._orchestrators, time.monotonic() + seconds
        while time.monotonic() < end or not self._orchestrates.is_set():
            if self.over:
                raise Ended
            if incarnation != self._orchestrators:
                raise StepError("the installer ended with code 137: ", 137)
            time.sleep(0.02)

    def _install(self, ctx: StepContext, args: list[str]) -> str:
        """Report stage by stage as the orchestrator does, which outlives the agent that started it."""
        request, incarnation = json.loads(args[0]), self._orchestrators
        role = SNO if request["control_plane_count"] == 1 else request["role"]
        client = self._client(0)
        reporter = Reporter(
            client, request["infra_env_id"], request["cluster_id"], request["host_id"], sleep=self._pause(incarnation)
        )
        self.reached.clear()
        try:
            for stage in STAGES.get(role, STAGES[Role.WORKER]):
                self._work(self.site.stage_seconds)
                if incarnation != self._orchestrators:
                    raise StepError("the installer ended with code 137: ", 137)
                for info in ["50%", "100%"] if stage is Stage.WRITING else [""]:
                    reporter.stage(stage, info)
                self.reached.append(stage)
        except OrchestratorError as error:
            raise StepError(f"the installer ended with code 1: {error}", 1) from None
        finally:
            client.close()
        return ""

    def _pause(self, incarnation: int) -> Callable[[float], None]:
        def wait(seconds: float) -> None:
            time.sleep(seconds / SPEED)
            if self.over or incarnation != self._orchestrators:
                raise Ended

        return wait
