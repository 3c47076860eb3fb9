"""The two files that a user hands to the installer, written for a lab's topology.

They use the documented schema only (reference/installer.md §1), so any openshift-install can be run on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from installer.common.secretfiles import write_private
from lab.derive.fields import spelled
from lab.inputs import hostnetwork
from lab.layout import boot_url, proxy_url
from lab.topology import FROM_NETWORK, NodeSpec, Topology

# Pod and service networks by IP version: OpenShift's defaults, and for IPv6 those of its documentation.
CLUSTER_NETWORK: dict[int, dict[str, Any]] = {
    4: {"cidr": "10.128.0.0/14", "hostPrefix": 23},
    6: {"cidr": "fd01::/48", "hostPrefix": 64},
}
SERVICE_NETWORK = {4: "172.30.0.0/16", 6: "fd02::/112"}


@dataclass(frozen=True)
class BmcAccess:
    """The BMC of a machine: `address` is that of its system, as install-config.yaml writes it."""

    host: str
    address: str
    username: str
    password: str = field(repr=False)

    def credential(self) -> dict[str, str]:
        """An entry of controlPlane.fencing.credentials but for the host's name; hosts do not know the BMC's CA."""
        return {
            "address": self.address,
            "username": self.username,
            "password": self.password,
            "certificateVerification": "Disabled",
        }


@dataclass(frozen=True)
class Access:
    """What a cluster needs to reach the lab: `pull_secret` as dockerconfigjson text, the CA as PEM, an OpenSSH public
    key, the release's repositories by their own names, each with the one on the lab's registry (`mirrors`), the
    machines' BMCs, and the lab's Tang server where it has one, as `diskEncryption` names servers (JSON text)."""

    pull_secret: str = field(repr=False)
    trust_bundle: str
    ssh_key: str
    mirrors: tuple[tuple[str, str], ...]
    _: KW_ONLY
    bmcs: tuple[BmcAccess, ...] = ()
    tang_servers: str = ""

    @property
    def digest_sources(self) -> list[dict[str, Any]]:
        """`mirrors` as install-config.yaml's imageDigestSources."""
        return [{"source": source, "mirrors": [mirror]} for source, mirror in self.mirrors]


def install_config(topology: Topology, access: Access) -> dict[str, Any]:
    """install-config.yaml of the topology."""
    versions = list(dict.fromkeys(subnet.version for subnet in topology.machine_subnets))
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "metadata": {"name": topology.cluster_name},
        "baseDomain": topology.base_domain,
        **({"featureSet": "TechPreviewNoUpgrade"} if topology.fenced else {}),
        "controlPlane": {"name": "master", "replicas": len(topology.masters), **fencing(topology, access)},
        **({"arbiter": {"name": "arbiter", "replicas": len(topology.arbiters)}} if topology.arbiters else {}),
        "compute": [{"name": "worker", "replicas": len(topology.workers)}],
        "networking": {
            "networkType": "OVNKubernetes",
            "machineNetwork": [{"cidr": str(subnet)} for subnet in topology.machine_subnets],
            "clusterNetwork": [dict(CLUSTER_NETWORK[version]) for version in versions],
            "serviceNetwork": [SERVICE_NETWORK[version] for version in versions],
        },
        "platform": {topology.platform: {"platformName": "lab"} if topology.platform == "external" else {}},
        "pullSecret": json.dumps(json.loads(access.pull_secret)),
        "sshKey": access.ssh_key,
        "additionalTrustBundle": access.trust_bundle,
        "imageDigestSources": access.digest_sources,
        **({"proxy": _proxy(topology)} if topology.proxy else {}),
    }
    if topology.platform == "baremetal":
        config["platform"] = {
            "baremetal": {
                "apiVIPs": list(topology.vips("api")),
                "ingressVIPs": list(topology.vips("ingress")),
                **_load_balancer(topology),
            }
        }
    return config


def fencing(topology: Topology, access: Access) -> dict[str, Any]:
    """controlPlane.fencing for two masters that fence each other."""
    masters = {node.name for node in topology.masters}
    credentials = [{"hostName": bmc.host, **bmc.credential()} for bmc in access.bmcs if bmc.host in masters]
    return {"fencing": {"credentials": credentials}} if topology.fenced else {}


def merged_secret(text: str, access: Access) -> str:
    """A user's dockerconfigjson with the lab's credentials beside it. Raises ValueError, which quotes nothing of it."""
    try:
        secret = json.loads(text or "{}")
        auths = {**(secret.get("auths") or {}), **json.loads(access.pull_secret)["auths"]}
    except (ValueError, AttributeError, TypeError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"not a dockerconfigjson ({type(error).__name__}{where})") from None
    return json.dumps({**secret, "auths": auths})


def through_proxy(document: dict[str, Any], topology: Topology) -> dict[str, Any]:
    """A config or a spec with the lab's HTTP proxy in the place of the one that it names; without one, as it is."""
    proxy = document.get(named := spelled(document, "proxy"))
    if not topology.proxy or not isinstance(proxy, dict):
        return document
    keys = (spelled(proxy, name) for name in ("httpProxy", "httpsProxy"))
    return {**document, named: {**proxy, **{key: proxy_url(topology) for key in keys if proxy.get(key)}}}


def _load_balancer(topology: Topology) -> dict[str, Any]:
    return {"loadBalancer": {"type": "UserManaged"}} if topology.load_balancer else {}


def _proxy(topology: Topology) -> dict[str, str]:
    """The lab's proxy for everything but the cluster itself and its networks."""
    direct = [f".{topology.cluster_domain}", *(str(subnet) for subnet in topology.machine_subnets)]
    return {key: proxy_url(topology) for key in ("httpProxy", "httpsProxy")} | {"noProxy": ",".join(direct)}


def root_device_hints(node: NodeSpec) -> dict[str, Any]:
    """Hints for the node's installation disk: its name where it is the only disk, else its serial number; but one with
    several paths has none of its own, and a deviceName in /dev/mapper is refused: paths alone are not eligible."""
    if node.all_disks[node.root_index].multipath:
        return {}
    return {"serialNumber": node.serial(node.root_index)} if node.disks else {"deviceName": node.root_device}


def boot_fields(topology: Topology) -> dict[str, Any]:
    """What agent-config.yaml says of how its hosts boot; what a firmware fetches by HTTP is a minimal image, and for
    platform external no ISO is a full one."""
    fields: dict[str, Any] = {}
    if topology.boot in ("minimal-iso", "http-boot"):
        fields["minimalISO"] = True
    if topology.boot in ("minimal-iso", *FROM_NETWORK) or topology.platform == "external":
        fields["bootArtifactsBaseURL"] = boot_url(topology)
    return fields


def agent_config(topology: Topology) -> dict[str, Any]:
    """agent-config.yaml of the topology: one entry per host, matched by MAC address."""
    hosts = []
    for node in topology.nodes:
        host: dict[str, Any] = {
            "hostname": node.name,
            "role": node.role,
            "interfaces": hostnetwork.interfaces(node),
            "rootDeviceHints": root_device_hints(node),
        }
        if hostnetwork.needs_document(topology, node):
            host["networkConfig"] = hostnetwork.nmstate(topology, node)
        hosts.append(host)
    return {
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": topology.cluster_name},
        **boot_fields(topology),
        "rendezvousIP": topology.rendezvous_ip,
        "additionalNTPSources": [topology.gateway],
        "hosts": hosts,
    }


def write_configs(
    directory: Path,
    topology: Topology,
    access: Access,
    edit: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
) -> None:
    """Write install-config.yaml and agent-config.yaml (0600: one holds the pull secret) into `directory`.

    `edit` may change the two before they are written.
    """
    install, agent = install_config(topology, access), agent_config(topology)
    if edit is not None:
        edit(install, agent)
    files = {"install-config.yaml": install, "agent-config.yaml": agent}
    for name, content in files.items():
        write_private(directory / name, yaml.safe_dump(content, sort_keys=False))
