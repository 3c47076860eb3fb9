"""The two files that a user hands to the installer, written for a lab's topology.

They use the documented schema only (reference/installer.md §1), so any openshift-install can be run on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from installer.common.secretfiles import write_private
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
        """Return an entry of controlPlane.fencing.credentials without the host's name; hosts do not know the CA."""
        return {
            "address": self.address,
            "username": self.username,
            "password": self.password,
            "certificateVerification": "Disabled",
        }


@dataclass(frozen=True)
class Access:
    """The means by which a cluster reaches the lab: `pull_secret` as dockerconfigjson text, the CA as PEM, an OpenSSH
    public key, the release's repositories by their own names, each with its mirror on the lab's registry (`mirrors`),
    the machines' BMCs, and the lab's Tang server where it has one, as `diskEncryption` names servers (JSON text)."""

    pull_secret: str = field(repr=False)
    trust_bundle: str
    ssh_key: str
    mirrors: tuple[tuple[str, str], ...]
    _: KW_ONLY
    bmcs: tuple[BmcAccess, ...] = ()
    tang_servers: str = ""

    @property
    def digest_sources(self) -> list[dict[str, Any]]:
        """Return `mirrors` as install-config.yaml's imageDigestSources."""
        return [{"source": source, "mirrors": [mirror]} for source, mirror in self.mirrors]


def install_config(topology: Topology, access: Access) -> dict[str, Any]:
    """Make install-config.yaml of the topology."""
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
    """Make controlPlane.fencing for two masters that fence each other."""
    masters = {node.name for node in topology.masters}
    credentials = [{"hostName": bmc.host, **bmc.credential()} for bmc in access.bmcs if bmc.host in masters]
    return {"fencing": {"credentials": credentials}} if topology.fenced else {}


def merged_secret(text: str, access: Access) -> str:
    """Return a user's dockerconfigjson with the lab's credentials added. Raises ValueError, which quotes none of it."""
    try:
        secret = json.loads(text or "{}")
        auths = {**(secret.get("auths") or {}), **json.loads(access.pull_secret)["auths"]}
    except (ValueError, AttributeError, TypeError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"not a dockerconfigjson ({type(error).__name__}{where})") from None
    return json.dumps({**secret, "auths": auths})


def through_proxy(document: dict[str, Any], topology: Topology) -> dict[str, Any]:
    """Return a config or a spec with the lab's HTTP proxy in the place of its own; without one, as it is."""
    proxy = document.get(named := spelled(document, "proxy"))
    if not topology.proxy or not isinstance(proxy, dict):
        return document
    keys = (spelled(proxy, name) for name in ("httpProxy", "httpsProxy"))
    return {**document, named: {**proxy, **{key: proxy_url(topology) for key in keys if proxy.get(key)}}}


def spelled(fields: Mapping[str, Any], name: str) -> str:
    """Return the key by which a mapping has the field of this name: as Go reads JSON, the same in other letters' case
    counts where the right one is missing."""
    return name if name in fields else next((key for key in fields if str(key).lower() == name.lower()), name)


def _load_balancer(topology: Topology) -> dict[str, Any]:
    return {"loadBalancer": {"type": "UserManaged"}} if topology.load_balancer else {}


def _proxy(topology: Topology) -> dict[str, str]:
    """Name the lab's proxy for everything but the cluster itself and its networks."""
    direct = [f".{topology.cluster_domain}", *(str(subnet) for subnet in topology.machine_subnets)]
    return {key: proxy_url(topology) for key in ("httpProxy", "httpsProxy")} | {"noProxy": ",".join(direct)}


def root_device_hints(node: NodeSpec) -> dict[str, Any]:
    """Return hints for the node's installation disk: its name where it is the only disk, else its serial number; but a
    disk with several paths has no name of its own, and a deviceName in /dev/mapper is refused."""
    if node.all_disks[node.root_index].multipath:
        return {}
    return {"serialNumber": node.serial(node.root_index)} if node.disks else {"deviceName": node.root_device}


def boot_fields(topology: Topology) -> dict[str, Any]:
    """Return the fields of agent-config.yaml for how its hosts boot; firmware fetches a minimal image by HTTP, and for
    platform external no ISO is a full one."""
    fields: dict[str, Any] = {}
    if topology.boot in ("minimal-iso", "http-boot"):
        fields["minimalISO"] = True
    if topology.boot in ("minimal-iso", *FROM_NETWORK) or topology.platform == "external":
        fields["bootArtifactsBaseURL"] = boot_url(topology)
    return fields


def agent_config(topology: Topology) -> dict[str, Any]:
    """Make agent-config.yaml of the topology: an entry per host, matched by MAC address."""
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

    Where the user boots machines, there is no agent-config.yaml.

    `edit` may change the two before they are written.
    """
    install, agent = install_config(topology, access), agent_config(topology)
    if edit is not None:
        edit(install, agent)
    files = {"install-config.yaml": install, **({} if topology.bootstrap else {"agent-config.yaml": agent})}
    for name, content in files.items():
        write_private(directory / name, yaml.safe_dump(content, sort_keys=False))
