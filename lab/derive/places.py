"""What is wrong with a topology, by the fields of the files that it was derived from."""

from __future__ import annotations

import re

from lab.derive.cluster import AGENT, INSTALL, Cluster

_NODE = re.compile(r"nodes\[(\d+)\](?:\.(\w+))?")
_NETWORK = re.compile(r"networks\[\d+\](?:\.\w+)?")
_VIP = re.compile(r"(api|ingress)_vips?(\[\d+\])?")
#: Fields of a node, and what they are made of.
_OF_HOSTS = {"name": "hostname", "mac": "interfaces", "disks": "rootDeviceHints", "disk_gib": "rootDeviceHints"}
_OF_CLUSTER = {
    "name": "metadata.name",
    "cluster_name": "metadata.name",
    "base_domain": "baseDomain",
    "machine_network": "networking.machineNetwork",
    "address": "networking.machineNetwork",
    "aliases": "networking.machineNetwork",
}


def in_files(cluster: Cluster, line: str) -> tuple[str, str]:
    """A line of a TopologyError as a file and a line."""
    path, _, rule = line.partition(": ")
    rule = _NODE.sub(lambda match: _host(cluster, int(match[1])) or match[0], rule)
    rule = _NETWORK.sub("another network", rule)
    rule = re.sub(r"\b(api|ingress)_vips?(\[\d+\])?", lambda one: f"{one[1]}VIPs{one[2] or '[0]'}", rule)
    if match := _NODE.match(path):
        host, _ = cluster.hosts[int(match[1])]
        if host.place is None:
            return INSTALL, f"controlPlane.replicas and compute[].replicas: {rule}"
        source, where = host.place.source, _OF_HOSTS.get(match[2] or "", "networkConfig")
        return source, f"{host.place.path}.{where}: {rule}"
    if match := _VIP.match(path):
        return INSTALL, f"platform.baremetal.{match[1]}VIPs{match[2] or '[0]'}: {rule}"
    if path.startswith("networks["):
        first = next((host.place for host, _ in cluster.hosts if host.attachment.ifaces and host.place), None)
        source, where = (first.source, f"{first.path}.networkConfig") if first else (AGENT, "hosts")
        return source, f"{where}: {rule}"
    field = re.split(r"[.\[]", path)[0]
    return INSTALL, f"{_OF_CLUSTER.get(field, field)}: {rule.replace('machine_network', 'machineNetwork')}"


def _host(cluster: Cluster, index: int) -> str:
    place = cluster.hosts[index][0].place
    return place.path if place is not None else ""
