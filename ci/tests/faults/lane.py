"""The real service, agents of simulated hosts, and the API of a cluster that answers once these are installed."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import threading
import time
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from ci.tests.faults.hosts import SPEED, STARTED_AGAIN_SECONDS, FailingHost, NetworkState
from installer.agent.swarm.command import PULL_SECRET
from installer.agent.swarm.host import Site
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.common.certificates import authority, leaf
from installer.testing.service.rendezvous_kit import Running
from installer.testing.service.service_kit import INSTALLER
from installer.testing.waitfor_kit import DONE
from installer.waitfor.settings import Settings
from lab.topology import Topology

INFRA_ENV = "6d3f6d5a-0000-4000-8000-00000000fa17"
POLL_SECONDS = 0.03
LIMIT_SECONDS = 90.0
#: The API of the cluster, whose CA all rows share.
KUBE_CA = authority("kube-ca")
WITHIN = Settings()
#: wait-for's limits, SPEED times shorter.
QUICK = Settings(
    interval=0.05,
    interval_quiet=0.05,
    failing_for=WITHIN.failing_for / SPEED,
    # Not shorter: the service asks simulated hosts to measure again each minute, too.
    failing_for_remeasured=WITHIN.failing_for_remeasured,
    ready_limit=WITHIN.ready_limit / SPEED,
    notice_every=0.5,
    missing_after=WITHIN.missing_after / SPEED,
    unreachable_after=WITHIN.unreachable_after / SPEED,
    # Not shorter: the service is a real process, whose restart takes as long as ever.
    lost_after=WITHIN.lost_after,
    logs_wait=0.2,
    ssh_port=1,
)
VERSION = dict.fromkeys(
    ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), "1"
)


def _short(seconds: float) -> str:
    return f"{max(round(1000 * seconds / SPEED), 100)}ms"


class SwarmLane:
    """The service, its hosts and its cluster, with what faults do to them."""

    def __init__(self, directory: Path, topology: Topology) -> None:
        self.directory, self.topology = directory, topology
        self.network = NetworkState()
        binary = directory / "openshift-install"
        binary.write_text(INSTALLER)
        binary.chmod(0o755)
        self.service = Running(
            directory, INSTALLER_BINARY=str(binary), BOOTSTRAP_HOST_MAC=topology.nodes[0].mac, INFRA_ENV_ID=INFRA_ENV,
            MONITOR_INTERVAL="100ms", HOST_DISCONNECTION_TIMEOUT=_short(180), BOOTSTRAP_DISCONNECTION_GRACE=_short(120),
            HOST_PREPARE_TIMEOUT=_short(480), PREPARE_FOR_INSTALLATION_TIMEOUT=_short(600), DISK_CHECK_TIMEOUT="1s",
            HOST_INSTALLING_TIMEOUT=_short(1200), INSTALLER_IMAGE="r.example/agent-installer-orchestrator@sha256:1",
        )  # fmt: skip
        site = Site(IPv4Network(topology.machine_network))
        agents = endpoint(self.service.url, ca_file=self.service.ca)
        token = self.service.keys.token("agentAuth")
        self.hosts = {
            node.name: FailingHost(
                number, node.name, node.ip, node.mac, site=site, network=self.network, server=agents, token=token
            )
            for number, node in enumerate(topology.nodes)
        }
        self.installed = False
        self.over = threading.Event()
        self._lock = threading.Lock()

    # -- the service -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Register the cluster and its infra-env, as the image brings them."""
        user, topology = self.service.client(), self.topology
        body: dict[str, Any] = {
            "name": topology.cluster_name,
            "base_dns_domain": topology.base_domain,
            "openshift_version": "4.18.0",
            "pull_secret": PULL_SECRET,
            "machine_networks": [{"cidr": topology.machine_network}],
            "control_plane_count": len(topology.masters),
            "platform": {"type": topology.platform},
        }
        if topology.api_vip:
            body |= {"api_vips": [{"ip": topology.api_vip}], "ingress_vips": [{"ip": topology.ingress_vip}]}
        cluster = user.register_cluster(body)
        user.register_infra_env({"name": topology.name, "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]})
        for host in self.hosts.values():
            host.infra_env = INFRA_ENV

    def kill_service(self, *, forget: bool = False) -> None:
        """Kill the service and start it again as its unit does; with `forget`, its host has lost its memory."""
        with self._lock:
            self.service.kill()
            if forget:
                shutil.rmtree(self.directory / "data", ignore_errors=True)
            time.sleep(STARTED_AGAIN_SECONDS / SPEED)
            self.service.start()
            if forget:
                self.register()

    def freeze_service(self, frozen: bool) -> None:
        """Send the service SIGSTOP or SIGCONT."""
        assert self.service.process is not None
        self.service.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def rest(self, path: str) -> Any:
        """Answer of the REST API, for the moments at which faults begin. Raises OSError while the service is away."""
        try:
            return self.service.client("watcherAuth").call("GET", f"/{path}")
        except ClientError as error:
            raise OSError(str(error)) from error

    def console_log(self, host: str) -> Path:
        """Raise AssertionError: simulated hosts have no console."""
        raise AssertionError(f"{host} has no console")

    def drive(self) -> None:
        """Start the installation once cluster and hosts are ready, and note when the cluster has its API."""
        while not self.over.wait(2.0 / SPEED):
            try:
                [cluster] = self.service.client().call("GET", "/clusters")
                ready = cluster["status"] == "ready" and cluster["total_host_count"] == len(self.hosts)
                if ready and self._all_described():
                    self.service.client().call("POST", f"/clusters/{cluster['id']}/actions/install")
                self.installed = self.installed or cluster["status"] in ("finalizing", "installed")
            except (ClientError, ValueError):
                continue

    def _all_described(self) -> bool:
        """Tell whether all nodes of the topology have sent an inventory: agent-installer-client waits for that."""
        hosts = self.service.client().call("GET", f"/infra-envs/{INFRA_ENV}/hosts")
        macs = {nic["mac_address"] for host in hosts for nic in json.loads(host["inventory"])["interfaces"]}
        return macs >= {node.mac for node in self.topology.nodes}

    def kube(self, path: str, _headers: Any) -> tuple[int, Any]:
        """Answer as the cluster's API does: with status 0, no connection, until the hosts are installed."""
        if not self.installed:
            return 0, None
        return (200, VERSION) if path == "/version" else (200, DONE[path]) if path in DONE else (404, {"code": 404})

    # -- wait-for --------------------------------------------------------------------------------------------------

    def state(self, api: ThreadingHTTPServer) -> Path:
        """Make the asset directory as `create image` leaves it."""
        folder, nodes = self.directory / "assets", self.topology.nodes
        (folder / "auth").mkdir(parents=True)
        part = {
            "rendezvousIP": "127.0.0.1",
            "serviceCACert": self.service.ca.read_text(),
            "watcherToken": self.service.keys.token("watcherAuth"),
            "clusterName": self.topology.cluster_name,
            "baseDomain": self.topology.base_domain,
            "platform": self.topology.platform,
            "expectedHosts": {
                "names": [node.name for node in nodes],
                "macAddresses": [[node.mac] for node in nodes],
                "controlPlane": len(self.topology.masters),
                "arbiters": 0,
                "workers": len(self.topology.workers),
            },
        }
        (folder / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
        admin = leaf(KUBE_CA, "system:admin")
        parts = {"ca": KUBE_CA.certificate, "crt": admin.certificate, "key": admin.key}
        coded = {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()}
        cluster = {"server": f"https://127.0.0.1:{api.server_port}", "certificate-authority-data": coded["ca"]}
        user = {"client-certificate-data": coded["crt"], "client-key-data": coded["key"]}
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "admin"}}],
            "current-context": "admin",
            "users": [{"name": "admin", "user": user}],
        }
        (folder / "auth/kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        return folder

    def end(self) -> None:
        """End the hosts and the service."""
        self.over.set()
        for host in self.hosts.values():
            host.end()
        with self._lock:
            if self.service.process is not None:
                self.service.kill()
            self.service.stop()
