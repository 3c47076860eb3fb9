"""Files of pacemaker and corosync on two nodes that fence each other, as OpenShift's etcd operator sets them up (Two
Nodes with Fencing: cluster-etcd-operator, pkg/tnf): a fence agent for each node's BMC, and etcd as a clone of two."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lab.release.cluster.errors import ConfigError
from lab.release.cluster.installconfig import FencingCredential, InstallConfig
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.pod import RESOURCES

#: Their folder under static-pod-resources. The unit that starts pacemaker waits for the last of them (PLAN).
FOLDER = "pacemaker"
PLAN = "etcd.json"
#: The file by which the agent says that pacemaker runs etcd here.
RUNNING = "running"
DIRECTORY = f"{RESOURCES}/{FOLDER}"
#: The manifest of the pod that kubelet goes on with when pacemaker has taken etcd from it.
POD = "etcd-pod.yaml"
CLUSTER = "TNF"
#: Milliseconds without a word until a node counts as lost. Nodes of a lab may stall for seconds, all of them at once.
TOKEN_MS = 10_000
#: Fencing is put off for so long, so that not both nodes fence each other; pcmk_delay_base of the first and the second.
DELAYS = ("10s", "1s")
#: Seconds between two looks at etcd, and what its operations may take.
MONITOR, MONITOR_TIMEOUT, START_TIMEOUT, STOP_TIMEOUT = "10s", "90s", "600s", "120s"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Peer:
    """One of the two nodes, by the name that it has in the cluster, and its first address."""

    name: str
    address: str

    @property
    def url(self) -> str:
        """Return the URL on which its etcd listens for its peer."""
        return staticpods.peer_url(self.address)

    @property
    def client_url(self) -> str:
        """Return the URL on which its etcd listens for clients."""
        return f"https://{staticpods.url_host(self.address)}:2379"


def new_key() -> str:
    """Return a key for corosync: as many random characters as it takes."""
    return secrets.token_hex(128)


def corosync_conf(nodes: Sequence[Peer]) -> str:
    """corosync.conf of the two. A node that starts alone waits for the other before it does anything (two_node)."""
    listed = "".join(
        f"  node {{\n    nodeid: {number}\n    name: {node.name}\n    ring0_addr: {node.address}\n  }}\n"
        for number, node in enumerate(nodes, 1)
    )
    return (
        f"totem {{\n  version: 2\n  cluster_name: {CLUSTER}\n  transport: knet\n  token: {TOKEN_MS}\n"
        "  crypto_model: openssl\n  crypto_cipher: aes256\n  crypto_hash: sha256\n}\n"
        f"nodelist {{\n{listed}}}\n"
        "quorum {\n  provider: corosync_votequorum\n  two_node: 1\n}\n"
        # A container's root may neither ask for real time nor leave its control group.
        "system {\n  sched_rr: no\n  move_to_root_cgroup: no\n  allow_knet_handle_fallback: yes\n}\n"
        "logging {\n  to_syslog: no\n  to_logfile: no\n  to_stderr: yes\n}\n"
    )


def _options(parent: Element, kind: str, identity: str, values: dict[str, str]) -> None:
    pairs = SubElement(parent, kind, id=identity)
    for name, value in values.items():
        SubElement(pairs, "nvpair", id=f"{identity}-{name}", name=name, value=value)


def _operations(parent: Element, identity: str, operations: Sequence[tuple[str, str, str]]) -> None:
    group = SubElement(parent, "operations")
    for name, interval, timeout in operations:
        key = f"{identity}-{name}-{interval}"
        SubElement(group, "op", id=key, name=name, interval=interval, timeout=timeout)


def fence_options(node: str, credential: FencingCredential) -> dict[str, str]:
    """fence_redfish's parameters for a node. Raises ConfigError when the address has no port and no known scheme."""
    source = f"Secret fencing-credentials-{node}"
    url = urlsplit(credential.address)
    try:
        port = url.port or _PORTS[url.scheme.rpartition("+")[2]]
    except (ValueError, KeyError) as error:
        raise ConfigError(source, "address", "no port number found") from error
    host = url.hostname or ""
    return {
        "ip": f"[{host}]" if ":" in host else host,
        "ipport": str(port),
        "systems_uri": url.path,
        "username": credential.username,
        "password": credential.password,
        "ssl_insecure": "0" if credential.verify else "1",
        "pcmk_host_list": node,
    }


def cib(nodes: Sequence[Peer], credentials: Sequence[FencingCredential]) -> str:
    """Pacemaker's configuration to begin with, the same on both nodes. Raises ConfigError."""
    by_name = {credential.host_name: credential for credential in credentials}
    root = Element("cib", {"validate-with": "pacemaker-3.0", "admin_epoch": "1", "epoch": "1", "num_updates": "0"})
    configuration = SubElement(root, "configuration")
    _options(
        SubElement(configuration, "crm_config"),
        "cluster_property_set",
        "cib-bootstrap-options",
        {"cluster-name": CLUSTER, "stonith-enabled": "true", "start-failure-is-fatal": "false"},
    )
    listed = SubElement(configuration, "nodes")
    resources = SubElement(configuration, "resources")
    for number, (node, delay) in enumerate(zip(nodes, DELAYS, strict=True), 1):
        SubElement(listed, "node", id=str(number), uname=node.name)
        identity = f"{node.name}_redfish"
        device = SubElement(resources, "primitive", {"id": identity, "class": "stonith", "type": "fence_redfish"})
        options = fence_options(node.name, by_name[node.name]) | {"pcmk_delay_base": delay}
        _options(device, "instance_attributes", f"{identity}-options", options)
        _operations(device, identity, [("monitor", "60s", "60s")])
    clone = SubElement(resources, "clone", id="etcd-clone")
    _options(clone, "meta_attributes", "etcd-clone-meta", {"interleave": "true", "notify": "true"})
    etcd = SubElement(clone, "primitive", {"id": "etcd", "class": "ocf", "provider": "node0", "type": "podman-etcd"})
    _operations(
        etcd,
        "etcd",
        [("monitor", MONITOR, MONITOR_TIMEOUT), ("start", "0s", START_TIMEOUT), ("stop", "0s", STOP_TIMEOUT)],
    )
    SubElement(configuration, "constraints")
    SubElement(root, "status")
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def plan(config: InstallConfig, images: Images, node: Peer, other: Peer) -> str:
    """Return the agent's plan for a node: its own etcd, and where the other's is."""
    peers = ",".join(f"{peer.name}={peer.url}" for peer in (node, other))
    pod = staticpods.etcd(node.address, node.name, peers, listen=config.any_address)
    document = {
        "node": node.name,
        "url": node.url,
        "client": node.client_url,
        "other": other.name,
        "otherClient": other.client_url,
        "image": images[pod.tag],
        "command": list(pod.command),
        "env": pod.env,
    }
    return json.dumps(document, indent=1)


def node_files(
    config: InstallConfig, images: Images, *, nodes: Sequence[Peer], index: int, key: str, seed: str
) -> dict[str, str]:
    """All that one of the nodes gets, by path under static-pod-resources; `seed` is the cib."""
    files = {
        "authkey": key,
        "cib.xml": seed,
        "corosync.conf": corosync_conf(nodes),
        POD: staticpods.etcd_tools().manifest(images),
        PLAN: plan(config, images, nodes[index], nodes[1 - index]),
    }
    return {f"{FOLDER}/{name}": text for name, text in files.items()}
