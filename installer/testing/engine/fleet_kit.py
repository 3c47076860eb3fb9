"""Hosts that exist only as data, each answering the steps it gets as a real agent on a described network would."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from installer.assisted.enums import ClusterStatus, HostStatus, StepType
from installer.assisted.errors import ServiceError
from installer.assisted.stages import stages_of
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.store.documents import DisksInfo
from installer.rendezvous.store.model import Cluster, Host
from installer.testing.engine.world_kit import Clock, World
from installer.testing.service.rendezvous_kit import inventory

API_VIP, INGRESS_VIP = "192.168.111.5", "192.168.111.4"
BAREMETAL: dict[str, Any] = {
    "control_plane_count": 3,
    "platform": {"type": "baremetal"},
    "api_vips": [{"ip": API_VIP}],
    "ingress_vips": [{"ip": INGRESS_VIP}],
}


@dataclass
class Network:
    """The network's state: pairs that do not reach each other, addresses that somebody else holds."""

    broken: set[frozenset[str]] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    rtt_ms: float = 1.0
    loss_percent: float = 0.0


class Machine:
    """One host; ``number`` gives its MAC, address and name."""

    def __init__(self, number: int, network: Network, **changes: Any) -> None:
        self.number, self.network = number, network
        self.id = f"00000000-0000-4000-8000-{number:012d}"
        self.mac, self.ip = f"52:54:00:00:01:{number:02x}", f"192.168.111.{80 + number}"
        name = changes.pop("hostname", f"host-{number}")
        address = changes.pop("ip", f"{self.ip}/24")
        self.ip = address.split("/")[0]
        self.inventory = inventory(name, self.mac, address, **changes)
        self.images = "success"
        self.speed_ms: int | None = 3
        self.clock_offset = 0

    def answer(self, kind: str, args: list[str]) -> Any:
        """Output of a step, None for one that has no immediate end."""
        if kind == StepType.INVENTORY:
            return self.inventory
        if kind == StepType.CONNECTIVITY:
            return {"remote_hosts": [self._peer(peer) for peer in json.loads(args[0])]}
        if kind == StepType.FREE_ADDRESSES:
            every = [f"192.168.111.{last}" for last in range(1, 255)]
            free = [address for address in every if address not in self.network.taken]
            return [{"network": cidr, "free_addresses": free} for cidr in json.loads(args[0])]
        if kind == StepType.VERIFY_VIPS:
            return [
                {**item, "verification": "failed" if item["vip"] in self.network.taken else "succeeded"}
                for item in json.loads(args[0])
            ]
        if kind == StepType.NTP:
            return {"ntp_sources": [{"source_name": "192.168.111.1", "source_state": "synced"}]}
        if kind == StepType.DOMAINS:
            names = [item["domain_name"] for item in json.loads(args[0])["domains"]]
            answers = {name: [] if "validateNoWildcardDNS" in name else ["192.168.111.5"] for name in names}
            return {
                "resolutions": [
                    {"domain_name": k, "ipv4_addresses": v, "ipv6_addresses": []} for k, v in answers.items()
                ]
            }
        if kind == StepType.API_VIP:
            return {"url": json.loads(args[0])["url"], "is_success": True, "ignition": "{}"}
        if kind == StepType.DISK_SPEED and self.speed_ms is not None:
            return {"path": json.loads(args[0])["path"], "io_sync_duration": self.speed_ms}
        if kind == StepType.IMAGES:
            names = json.loads(args[0])["images"]
            return {"images": [{"name": n, "result": self.images, "size_bytes": 9, "time": 1.0} for n in names]}
        return None

    def _peer(self, peer: dict[str, Any]) -> dict[str, Any]:
        good = frozenset((self.id, peer["host_id"])) not in self.network.broken
        l2, l3 = [], []
        for nic in peer["nics"]:
            for address in nic["ip_addresses"]:
                near = good and address.startswith("192.168.111.") and self.ip.startswith("192.168.111.")
                l2 += [{"remote_ip_address": address, "remote_mac": nic["mac"], "successful": near}]
                link = {"average_rtt_ms": self.network.rtt_ms, "packet_loss_percentage": self.network.loss_percent}
                l3 += [{"remote_ip_address": address, "successful": good, **link}]
        return {"host_id": peer["host_id"], "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": []}


class Fleet:
    """Machines against one service's engine (a World of world_kit)."""

    def __init__(self, world: Any, machines: list[Machine], **cluster: Any) -> None:
        self.world, self.machines = world, machines
        self.cluster_id, self.infra_env_id = world.cluster(**{**BAREMETAL, **cluster})
        self.asked: dict[str, list[str]] = {machine.id: [] for machine in machines}

    @property
    def cluster(self) -> Cluster:
        """The cluster as it is stored now."""
        cluster: Cluster = self.world.store.cluster(self.cluster_id)
        return cluster

    def status(self) -> ClusterStatus:
        """Return the status of the cluster now."""
        return self.cluster.status

    def host(self, machine: Machine) -> Host:
        """Return a machine's host as it is stored now."""
        host: Host = self.world.store.host(self.infra_env_id, machine.id)
        return host

    def statuses(self) -> list[str]:
        """Return the statuses of all hosts, in the machines' order."""
        return [self.host(machine).status.value for machine in self.machines]

    def register(self, machine: Machine) -> None:
        """Register a machine, as its agent."""
        hosts.register(self.world.engine, self.infra_env_id, machine.id, "")

    def poll(self, machine: Machine) -> list[str]:
        """One poll of one machine, each step answered at once; the types of the steps."""
        now = int(self.world.clock().timestamp()) + machine.clock_offset
        steps = hosts.next_steps(self.world.engine, self.infra_env_id, machine.id, "", timestamp=now)
        kinds = []
        for step in steps["instructions"]:
            kinds.append(step["step_type"])
            output = machine.answer(step["step_type"], step["args"])
            if output is not None:
                self.world.reply(self.infra_env_id, StepType(step["step_type"]), output, host_id=machine.id)
        self.asked[machine.id] += kinds
        return kinds

    def go(self, seconds: float, every: float = 5.0) -> None:
        """Time passes as it does for a service: the monitor looks at the clock, everybody polls."""
        left = seconds
        while left > 0:
            self.world.wait(every)
            left -= every
            for machine in self.machines:
                self.poll(machine)
            self.tick()

    def tick(self) -> None:
        """Let the monitor look at the cluster once."""
        with self.world.store.change():
            self.world.engine.reconcile(self.cluster_id)

    def discover(self) -> None:
        """All register and answer until nothing more is asked for at once."""
        for machine in self.machines:
            self.register(machine)
            self.poll(machine)
        self.go(30)

    def prepare(self) -> None:
        """actions/install, the payload's part, and the hosts' own: ends with all hosts in ``installing``."""
        clusters.install(self.world.engine, self.cluster_id)
        self.go(10)
        self.world.prepared(self.cluster_id, {"bootstrap.ign": b"{}"})
        self.go(5)

    def forget_disk_speed(self) -> None:
        """As if no disk had been measured yet."""
        with self.world.store.change():
            for machine in self.machines:
                self.world.store.put_host(msgspec.structs.replace(self.host(machine), disks_info=DisksInfo()))

    def judgements(self) -> Any:
        """Everything that the service thinks of the hosts and the cluster."""
        hosts = self.world.store.hosts(infra_env_id=self.infra_env_id)
        validations = [host.validations_info.value for host in hosts]
        return (
            [host.status.value for host in hosts],
            self.cluster.status,
            self.cluster.validations_info.value,
            validations,
        )

    def stages(self, machine: Machine) -> list[str]:
        """Return the stages that a machine goes through in its role."""
        host = self.host(machine)
        return [stage.value for stage in stages_of(host.effective_role, host.bootstrap, self.cluster.is_sno)]

    def progress(self, machine: Machine, stage: str, info: str = "") -> bool:
        """Return False when the service refused it."""
        try:
            hosts.progress(self.world.engine, self.infra_env_id, machine.id, stage, info=info)
        except ServiceError:
            return False
        return True

    def all_known(self) -> bool:
        """Return whether all hosts are known."""
        return all(self.host(machine).status is HostStatus.KNOWN for machine in self.machines)


class _Discovered(NamedTuple):
    database: bytes
    clock: Clock
    fleet: Fleet


@cache
def _discovered(count: int) -> _Discovered:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        fleet = Fleet(world, [Machine(number, Network()) for number in range(count)])
        fleet.discover()
        world.store.close()
        return _Discovered(world.store.path.read_bytes(), world.clock, fleet)


def discovered(directory: Path, count: int = 3, /, **env: str) -> Fleet:
    """`count` hosts on one network that have answered everything, in a world of their own as after a restart.

    Discovering hosts is most of what a short test would cost, so a process does it once for each count and copies the
    database; the world's time is that of the original. `env` sets the service up.
    """
    kept = _discovered(count)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / kept.fleet.world.store.path.name).write_bytes(kept.database)
    network = Network()
    fleet = copy.copy(kept.fleet)
    fleet.world = World(directory, Clock(kept.clock.at, kept.clock.passed), **env)
    fleet.machines = [Machine(number, network) for number in range(count)]
    fleet.asked = {host: list(kinds) for host, kinds in kept.fleet.asked.items()}
    fleet.tick()
    return fleet
