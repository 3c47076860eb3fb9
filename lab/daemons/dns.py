"""The lab's names: dnsmasq's configuration for DNS and DHCP.

api, api-int, *.apps, the nodes and the lab's own services, with PTR records; every other name does not exist, since
there is nothing beyond the lab. A resolver that *refuses* would make clients retry for a long time.
"""

from __future__ import annotations

from pathlib import Path

from lab.topology import Topology

SERVICES = ("registry", "bmc", "ntp", "http")


def records(topology: Topology) -> list[tuple[str, str]]:
    """All (name, address) pairs but the wildcard. The first name of an address is the one in its PTR record."""
    out = [(f"{node.name}.{topology.cluster_domain}", node.ip) for node in topology.nodes]
    for name in ("api", "api-int"):
        out += [(f"{name}.{topology.cluster_domain}", address) for address in topology.api_addresses]
    out += [(f"{name}.{topology.base_domain}", topology.gateway) for name in SERVICES]
    return out


def dnsmasq_config(topology: Topology, *, interface: str, leases: Path, log: Path) -> str:
    """The text of dnsmasq.conf."""
    lines = [
        f"interface={interface}",
        "except-interface=lo",
        "bind-interfaces",
        "user=root",
        "no-resolv",
        "no-hosts",
        "log-queries=extra",
        f"log-facility={log}",
        "pid-file=",
        "local-ttl=1",
        "neg-ttl=1",
        # NXDOMAIN for everything that is not listed here.
        "address=/#/",
    ]
    lines += [f"host-record={name},{address}" for name, address in records(topology)]
    lines += [f"address=/apps.{topology.cluster_domain}/{address}" for address in topology.ingress_addresses]
    if topology.addressing == "dhcp":
        network = topology.network
        lines += [
            # Nodes get their reserved addresses only; unknown machines and spare NICs get one from the upper half.
            f"dhcp-range={network[network.num_addresses // 2]},{network[-3]},{topology.network.netmask},1h",
            f"dhcp-leasefile={leases}",
            "dhcp-authoritative",
            "log-dhcp",
            f"dhcp-option=option:router,{topology.gateway}",
            f"dhcp-option=option:dns-server,{topology.gateway}",
            f"dhcp-option=option:ntp-server,{topology.gateway}",
            f"domain={topology.cluster_domain}",
        ]
        lines += [f"dhcp-host={node.mac},{node.ip},{node.name}" for node in topology.nodes]
    return "\n".join(lines) + "\n"
