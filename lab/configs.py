"""The two files that a user hands to the installer, written for a lab's topology.

They use the documented schema only (reference/installer.md §1), so any openshift-install can be run on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.release.cluster.private import write_private
from lab.topology import NodeSpec, Topology

CLUSTER_NETWORK = {"cidr": "10.128.0.0/14", "hostPrefix": 23}
SERVICE_NETWORK = "172.30.0.0/16"
NIC = "eth0"  # a logical name: the installer maps it by MAC address to the kernel's


@dataclass(frozen=True)
class Access:
    """What a cluster needs to reach the lab: `pull_secret` as dockerconfigjson text, the CA as PEM, an OpenSSH public
    key, and the release's repositories by their own names, each with the one on the lab's registry (`mirrors`)."""

    pull_secret: str = field(repr=False)
    trust_bundle: str
    ssh_key: str
    mirrors: tuple[tuple[str, str], ...]

    @property
    def digest_sources(self) -> list[dict[str, Any]]:
        """`mirrors` as install-config.yaml's imageDigestSources."""
        return [{"source": source, "mirrors": [mirror]} for source, mirror in self.mirrors]


def install_config(topology: Topology, access: Access) -> dict[str, Any]:
    """install-config.yaml of the topology."""
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "metadata": {"name": topology.cluster_name},
        "baseDomain": topology.base_domain,
        "controlPlane": {"name": "master", "replicas": len(topology.masters)},
        "compute": [{"name": "worker", "replicas": len(topology.workers)}],
        "networking": {
            "networkType": "OVNKubernetes",
            "machineNetwork": [{"cidr": topology.machine_network}],
            "clusterNetwork": [dict(CLUSTER_NETWORK)],
            "serviceNetwork": [SERVICE_NETWORK],
        },
        "platform": {"none": {}},
        "pullSecret": json.dumps(json.loads(access.pull_secret)),
        "sshKey": access.ssh_key,
        "additionalTrustBundle": access.trust_bundle,
        "imageDigestSources": access.digest_sources,
    }
    if topology.platform == "baremetal":
        config["platform"] = {
            "baremetal": {"apiVIPs": [topology.api_vip], "ingressVIPs": [topology.ingress_vip]},
        }
    return config


def nmstate(topology: Topology, node: NodeSpec) -> dict[str, Any]:
    """The node's static network: its address, the lab as gateway and DNS."""
    address = {"ip": node.ip, "prefix-length": topology.network.prefixlen}
    interface = {
        "name": NIC,
        "type": "ethernet",
        "state": "up",
        "mac-address": node.mac,
        "ipv4": {"enabled": True, "dhcp": False, "address": [address]},
        "ipv6": {"enabled": False},
    }
    return {
        "interfaces": [interface],
        "dns-resolver": {"config": {"server": [topology.gateway]}},
        "routes": {
            "config": [
                {
                    "destination": "0.0.0.0/0",
                    "next-hop-address": topology.gateway,
                    "next-hop-interface": NIC,
                    "table-id": 254,
                }
            ]
        },
    }


def root_device_hints(node: NodeSpec) -> dict[str, Any]:
    """Hints for the node's installation disk: its name where it is the only disk, else its serial number."""
    return {"serialNumber": node.serial(node.root_index)} if node.disks else {"deviceName": node.root_device}


def agent_config(topology: Topology) -> dict[str, Any]:
    """agent-config.yaml of the topology: one entry per host, matched by MAC address."""
    hosts = []
    for node in topology.nodes:
        host: dict[str, Any] = {
            "hostname": node.name,
            "role": node.role,
            "interfaces": [{"name": NIC, "macAddress": node.mac}],
            "rootDeviceHints": root_device_hints(node),
        }
        if topology.addressing == "static":
            host["networkConfig"] = nmstate(topology, node)
        hosts.append(host)
    return {
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": topology.cluster_name},
        "rendezvousIP": topology.rendezvous_ip,
        "additionalNTPSources": [topology.gateway],
        "hosts": hosts,
    }


def write_configs(
    directory: Path, topology: Topology, access: Access, edit_agent: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """Write install-config.yaml and agent-config.yaml (0600: one holds the pull secret) into `directory`.

    `edit_agent` may change the agent-config before it is written.
    """
    agent = agent_config(topology)
    if edit_agent is not None:
        edit_agent(agent)
    files = {"install-config.yaml": install_config(topology, access), "agent-config.yaml": agent}
    for name, content in files.items():
        write_private(directory / name, yaml.safe_dump(content, sort_keys=False))
