"""A cluster that comes to be on the machines of a site: its control plane, its nodes, and its controller's reports."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import ClusterStatus, Role, Stage
from installer.assisted.errors import ClientError
from installer.orchestrator import bootstrap, kube
from installer.orchestrator.controller import MANIFESTS
from installer.orchestrator.controlplane import CONTROLLER_EVENT
from installer.orchestrator.errors import StageError
from installer.testing.replay.machines import URL, Luck, Machine
from installer.testing.replay.turns import Workers

MASTER = {kube.MASTER_LABELS[0]: ""}
AFTER_REBOOT = (Stage.REBOOTING, Stage.CONFIGURING, Stage.JOINED)
OVER = (ClusterStatus.INSTALLED, ClusterStatus.ERROR, ClusterStatus.CANCELLED, ClusterStatus.ADDING_HOSTS)
#: The name under which the network knows the cluster's own pods.
PODS = "cluster"
Note = Callable[[str, str], None]


class Watcher(Protocol):
    """Invariants of machines (invariants.Invariants)."""

    nodes: set[tuple[str, str]]

    def written(self, machine: Machine, disk: str, attempt: str, how: str) -> None:
        """Check a disk whose content is destroyed."""

    def begins(self, machine: Machine, attempt: str) -> None:
        """Check an orchestrator that is started."""

    def hears(self, machine: Machine, attempt: str, status: int | None, *, is_report: bool) -> None:
        """Note what an orchestrator hears."""

    def reads(self, machine: Machine, made_in: str) -> None:
        """Check a config that is about to be written."""


class Making:
    """One attempt's cluster: nodes by name, and whether each is ready."""

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt
        self.nodes: dict[str, bool] = {}
        self.bootkube = "active"
        self.is_reporting = False
        self.masters: set[str] = set()


class Cluster:
    """The surroundings of its machines (machines.Surroundings)."""

    def __init__(
        self, workers: Workers, luck: Luck, folder: Path, *, agent_token: str, note: Note, watcher: Watcher
    ) -> None:
        self.workers, self.luck, self.folder, self.agent_token = workers, luck, folder, agent_token
        self.note, self._watcher = note, watcher
        self.begins, self.reads, self.hears = watcher.begins, watcher.reads, watcher.hears
        self.machines: list[Machine] = []
        self._loop = workers.loop
        # By attempt.
        self._makings: dict[str, Making] = {}

    def _later(self, what: str, usual: float, work: Callable[[], None]) -> None:
        self._loop.call_later(self.luck.seconds(what, usual), work)

    def making(self, machine: Machine) -> Making:
        """Return what a machine's orchestrator takes part in."""
        attempt = machine.container.attempt if machine.container else ""
        return self._makings.setdefault(attempt, Making(attempt))

    def written(self, machine: Machine, disk: str, attempt: str, how: str) -> None:
        """Take note of a disk whose content is destroyed."""
        self.note(machine.name, f"{disk} is {how} in attempt {attempt}")
        self._watcher.written(machine, disk, attempt, how)

    # The bootstrap host

    def bootkube_started(self, machine: Machine) -> None:
        """Begin the temporary control plane; its API answers when kubeconfig is there."""
        making, boots = self.making(machine), machine.boots
        if self.luck.fails("bootkube hangs"):
            self.note(machine.name, "bootkube hangs")
            return

        def done() -> None:
            if machine.boots != boots:
                return
            if self.luck.fails("bootkube"):
                making.bootkube = "failed"
                return
            kubeconfig = machine.root / "opt/openshift/auth/kubeconfig"
            kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            kubeconfig.write_text("{}")
            (machine.root / bootstrap.MASTER_IGNITION[1:]).write_text('{"ignition": {"version": "3.2.0"}}')
            (machine.root / bootstrap.DONE[1:]).touch()
            self._start_reporting(machine, making)

        self._later("bootkube", 300.0, done)

    def unit_state(self, machine: Machine, unit: str) -> str:
        """Return a unit's ActiveState."""
        making = self.making(machine)
        if unit == "progress.service":
            ready = [name for name in sorted(making.masters) if making.nodes[name]]
            return "inactive" if len(ready) >= 2 else "active"
        return making.bootkube if unit == "bootkube.service" else "active"

    def api(self, kubeconfig: Path) -> Api:
        """In the place of orchestrator.kube.KubeApi. Raises StageError."""
        if not kubeconfig.is_file():
            raise StageError(str(kubeconfig), "cannot be used: it is not there")
        name = self.workers.me().host
        return Api(self, self.making(next(machine for machine in self.machines if machine.name == name)))

    # Machines that reboot

    def rebooting(self, machine: Machine) -> None:
        """Let a machine go down, and come up from the disk that was written, if its firmware does."""
        making = self.making(machine)
        boots = machine.boots

        def go_down() -> None:
            if machine.boots == boots:
                self._reboot(machine, making)

        self._loop.call_later(15.0, go_down)

    def boot_disk(self, machine: Machine) -> None:
        """Let somebody boot a machine from the disk that was written last, if there is one. From the loop."""
        attempt = next(reversed(machine.images.values()), None)
        if attempt is not None and machine.is_live:
            self._reboot(machine, self._makings[attempt], is_watched=True)

    def _reboot(self, machine: Machine, making: Making, is_watched: bool = False) -> None:
        machine.halt()
        if not is_watched and self.luck.fails("boot from disk"):
            machine.boot_live()
            return
        if self.luck.fails("boot hangs"):
            self.note(machine.name, "does not come back")
            machine.is_live = False
            return
        self.note(machine.name, "boots from its disk")
        machine.boots += 1
        machine.is_live = False
        machine.container = None
        boots = machine.boots

        def is_away() -> bool:
            return machine.boots != boots or making.attempt not in machine.images.values()

        def join() -> None:
            if is_away():
                return
            if not making.is_reporting and len(self.machines) > 1:
                # Its config comes from the control plane, which is not there yet.
                self._later("join", 30.0, join)
                return
            making.nodes[machine.name] = False
            if machine.role != Role.WORKER:
                making.masters.add(machine.name)
            self._later("ready", 40.0, ready)

        def ready() -> None:
            if is_away():
                return
            making.nodes[machine.name] = True
            self._watcher.nodes.add((machine.name, making.attempt))
            self.note(machine.name, "is a ready node")
            if len(self.machines) == 1:
                self._start_reporting(machine, making)

        self._later("join", 120.0, join)

    # The controller

    def _start_reporting(self, machine: Machine, making: Making) -> None:
        """Start the pod with what the bootstrap host left for it (orchestrator.controller)."""
        if making.is_reporting:
            return
        making.is_reporting = True
        folder = machine.root / MANIFESTS[1:]
        config = json.loads((folder / "assisted-installer-controller-cm.yaml").read_bytes())["data"]
        secret = json.loads((folder / "assisted-installer-controller-secret.yaml").read_bytes())["data"]
        token = base64.b64decode(secret["pull-secret-token"]).decode()
        self.workers.start("controller", PODS, lambda: self._report(making, config, token))

    def _report(self, making: Making, config: dict[str, str], token: str) -> None:
        attempt = config.get("installation-attempt", "")
        client = AssistedClient(endpoint(URL), Scheme.AGENT, token, attempt=attempt)
        try:
            while True:
                self.workers.sleep(self.luck.seconds("controller", 20.0))
                try:
                    if self._step(making, client, config["cluster-id"]):
                        return
                except ClientError as error:
                    if error.status in (404, 409):
                        self.note(PODS, f"controller is refused: {error.status}")
                        return
        finally:
            client.close()

    def _step(self, making: Making, client: AssistedClient, cluster_id: str) -> bool:
        """Report what has changed; returns whether reporting is over. Raises ClientError."""
        cluster = client.cluster(cluster_id)
        if cluster["status"] in OVER:
            return True
        for host in client.cluster_hosts(cluster_id):
            name, stage = str(host.get("requested_hostname")), (host.get("progress") or {}).get("current_stage")
            if stage not in AFTER_REBOOT or name not in making.nodes:
                continue
            if stage != Stage.JOINED:
                self._tell(client, host, Stage.JOINED)
            if making.nodes[name]:
                self._tell(client, host, Stage.DONE)
        if cluster["status"] != ClusterStatus.FINALIZING:
            return False
        path = f"/clusters/{cluster_id}"
        for name in ("console", "cvo"):
            self._put(client, f"{path}/monitored-operators", {"name": name, "status": "available"})
        if not self.luck.fails("operators"):
            self._put(client, f"{path}/progress", {"finalizing_stage": "Done"})
            client.call("POST", f"{path}/actions/complete-installation", {"is_success": True, "error_info": ""})
            return True
        client.call("POST", f"{path}/actions/complete-installation", {"is_success": False, "error_info": "operators"})
        return True

    def _tell(self, client: AssistedClient, host: dict[str, Any], stage: Stage) -> None:
        path = f"/infra-envs/{host['infra_env_id']}/hosts/{host['id']}/progress"
        self._put(client, path, {"current_stage": stage.value})

    def _put(self, client: AssistedClient, path: str, body: object) -> None:
        """Report; what is out of place is refused, and that is all."""
        try:
            client.call("PUT", path, body)
        except ClientError as error:
            if error.status != 409:
                raise


class Api:
    """The new cluster's API, as far as a bootstrap host asks it."""

    def __init__(self, cluster: Cluster, making: Making) -> None:
        self._cluster, self._making = cluster, making

    def close(self) -> None:
        """Close the connection."""

    def nodes(self) -> list[kube.Node]:
        """Return all nodes. Raises StageError."""
        self._ask()
        items = [
            {
                "metadata": {"name": name, "labels": MASTER if name in self._making.masters else {}},
                "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
            }
            for name, ready in self._making.nodes.items()
        ]
        return msgspec.convert(items, list[kube.Node])

    def has_event(self, namespace: str, reason_or_name: str) -> bool:
        """Return whether the controller runs. Raises StageError."""
        self._ask()
        return reason_or_name == CONTROLLER_EVENT and self._making.is_reporting

    def _ask(self) -> None:
        self._cluster.workers.sleep(self._cluster.luck.seconds("api", 0.1))
        if self._cluster.luck.fails("api"):
            raise StageError("GET /api/v1/nodes", "HTTP 503")
