"""The lab's names and leases: dnsmasq's configuration for DNS, DHCP, DHCPv6 and router advertisements.

api, api-int, *.apps, the nodes and the lab's own services, with PTR records; every other name does not exist, since
there is nothing beyond the lab. A resolver that *refuses* would make clients retry for a long time.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

from lab.daemons import iscsi
from lab.layout import HTTP_IMAGE, IPXE_SCRIPT, Layout
from lab.topology import Network, NodeSpec, Topology
from lab.topology.words import Subnet

SERVICES = ("registry", "bmc", "ntp", "http")


def records(topology: Topology) -> list[tuple[str, str]]:
    """Return all (name, address) pairs but the wildcard. The first name of an address is the one in its PTR record."""
    domain = topology.cluster_domain
    out = [(f"{node.name}.{domain}", text) for node in topology.nodes for text in topology.known_addresses(node)]
    for name in ("api", "api-int"):
        out += [(f"{name}.{domain}", address) for address in topology.api_addresses]
    # Behind a proxy, it is the proxy that knows where the registry is.
    services = [name for name in SERVICES if name != "registry" or not topology.proxy]
    out += [(f"{name}.{topology.base_domain}", topology.gateway) for name in services]
    return out


# dhcp-match of clients by RFC 4578's and RFC 5970's architectures: x86-64 with UEFI, and the same by HTTP.
_UEFI = ("7", "9")
IPXE_BIOS, IPXE_UEFI = "undionly.kpxe", "ipxe.efi"


def dnsmasq_config(layout: Layout, *, leases: Path, log: Path) -> str:
    """Return the text of dnsmasq.conf."""
    topology = layout.topology
    networks = topology.all_networks
    # Link-local addresses come with the first cable.
    dynamic = any(network.dhcpv6 or network.router_advertisements for network in networks)
    lines = [
        *(f"interface={layout.bridge(network)}" for network in networks),
        "except-interface=lo",
        "bind-dynamic" if dynamic else "bind-interfaces",
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
    if dynamic or any(_leased(topology, network) for network in networks):
        lines += [f"dhcp-leasefile={leases}", "dhcp-authoritative", "log-dhcp", f"domain={topology.cluster_domain}"]
        lines += [line for network in networks for line in _leases(layout.bridge(network), network, topology)]
        lines += _reservations(topology)
        lines += _boots(layout)
        lines += _attachments(layout)
    return "\n".join(lines) + "\n"


def _leased(topology: Topology, network: Network) -> bool:
    """Tell whether the lab leases IPv4 addresses in a network."""
    return network.dhcp or topology.boots_in(network)


def _boots(layout: Layout) -> Iterator[str]:
    """Name the boot loaders of each kind of firmware.

    A firmware's PXE gets iPXE by TFTP; iPXE, which says so (option 175, ipxe.org/howto/dhcpd), gets the script. UEFI's
    HTTP boot takes an answer only from who calls itself HTTPClient too (UEFI specification 2.10, chapter 24.7.3).
    """
    if layout.topology.boot == "pxe":
        yield "dhcp-match=set:ipxe,175"
        for number in _UEFI:
            yield f"dhcp-match=set:uefi,option:client-arch,{number}"
        if layout.topology.bootstrap:
            # Each machine has an Ignition config of its role, and a script that names it.
            for node in layout.topology.nodes:
                yield f"dhcp-boot=tag:ipxe,tag:{script_tag(node)},{layout.boot_url}/{node.name}.ipxe"
        else:
            yield f"dhcp-boot=tag:ipxe,{layout.boot_url}/{IPXE_SCRIPT}"
        yield f"dhcp-boot=tag:!ipxe,tag:uefi,{IPXE_UEFI}"
        yield f"dhcp-boot=tag:!ipxe,tag:!uefi,{IPXE_BIOS}"
        yield "enable-tftp"
        yield f"tftp-root={layout.tftp}"
    elif layout.topology.boot == "http-boot":
        yield "dhcp-vendorclass=set:http,HTTPClient"
        yield "dhcp-option-force=tag:http,option:vendor-class,HTTPClient"
        yield f"dhcp-boot=tag:http,{layout.boot_url}/{HTTP_IMAGE}"


def _attachments(layout: Layout) -> Iterator[str]:
    """Have iPXE attach the iSCSI disks of machines (ipxe.org/howto/dhcpd), by the machine's own name; a disk stays
    attached when it cannot be booted from (option 175.8)."""
    scripts = {node.name: iscsi.script_name(node) for node in layout.topology.nodes}
    for node in layout.topology.nodes:
        if not node.portals:
            continue
        tag = f"tag:{san_tag(node)}"
        yield f"dhcp-option={tag},203,{iscsi.initiator_name(node)}"
        if name := scripts[node.name]:
            yield f"dhcp-boot={tag},{name}"
            continue
        [path] = iscsi.root_paths(layout, node)
        yield f"dhcp-option={tag},option:root-path,{path}"
        yield f"dhcp-option={tag},encap:175,8,1b"
    if any(scripts.values()):
        yield "enable-tftp"
        yield f"tftp-root={layout.tftp}"


def script_tag(node: NodeSpec) -> str:
    """Make the tag by which dnsmasq knows a machine that boots a script of its own."""
    return f"script-{node.name}"


def san_tag(node: NodeSpec) -> str:
    """Make the tag by which dnsmasq knows a machine with an iSCSI disk."""
    return f"san-{node.name}"


def _leases(bridge: str, network: Network, topology: Topology) -> Iterator[str]:
    """Return the DHCP options and router advertisements of a network; `bridge` is its tag too."""
    tag = f"tag:{bridge}"
    for subnet in network.subnets:
        is_ipv6 = subnet.version == 6
        if network.dhcpv6 if is_ipv6 else _leased(topology, network):
            # Nodes get their reserved addresses only; unknown machines and spare NICs get one from the upper half.
            least = subnet[subnet.num_addresses // 2]
            length = str(subnet.netmask) if isinstance(subnet, IPv4Network) else str(subnet.prefixlen)
            last = max(least, subnet[-3]) if subnet.num_addresses < 1 << 16 else least + (1 << 12)
            yield f"dhcp-range=set:{bridge},{least},{last},{length},1h"
        elif is_ipv6 and network.router_advertisements:
            yield f"dhcp-range=set:{bridge},{subnet[0]},slaac,ra-stateless,{subnet.prefixlen},1h"
        else:
            continue
        yield from _options(tag, network, subnet)
    if network.router_advertisements:
        yield "enable-ra"
        # The interval in seconds: whoever comes later waits no longer. Without a gateway the router's lifetime is 0.
        yield f"ra-param={bridge},mtu:{network.mtu},10,{60 if network.gateway_of(6) else 0}"


def _options(tag: str, network: Network, subnet: Subnet) -> Iterator[str]:
    if subnet.version == 6:
        for option, servers in (("dns-server", network.dns_servers), ("ntp-server", network.ntp_servers)):
            mine = [text for text in servers if ":" in text]
            if mine or option == "dns-server":
                yield f"dhcp-option={tag},option6:{option}{''.join(f',[{text}]' for text in mine)}"
        return
    gateway = network.gateway_of(4)
    # An option without a value is not sent; without this line dnsmasq would announce itself.
    yield f"dhcp-option={tag},option:router{f',{gateway}' if gateway else ''}"
    for option, servers in (("dns-server", network.dns_servers), ("ntp-server", network.ntp_servers)):
        mine = [text for text in servers if ":" not in text]
        if mine or option == "dns-server":
            yield ",".join([f"dhcp-option={tag},option:{option}", *mine])
    if network.mtu != 1500:
        yield f"dhcp-option={tag},option:mtu,{network.mtu}"


def _reservations(topology: Topology) -> Iterator[str]:
    """Return a line for each NIC and network that leases: the NIC's addresses there, and the machine's name. Of two
    IPv4 addresses in a line dnsmasq forgets the first; of two lines it takes that of the network that is asked in."""
    for node in topology.nodes:
        for link in topology.links(node):
            leased: dict[str, list[str]] = {}
            for text, network in link.addresses:
                if network.dhcpv6 if ":" in text else _leased(topology, network):
                    leased.setdefault(network.name, []).append(f"[{text}]" if ":" in text else text)
            # A bond may have any of its NICs' addresses.
            macs = [*(nic.mac for nic in link.nics), *link.clones]
            tags = [f"set:{san_tag(node)}"] if link in topology.iscsi_links(node) else []
            tags += [f"set:{script_tag(node)}"] if topology.bootstrap and topology.boot == "pxe" else []
            for addresses in leased.values():
                yield f"dhcp-host={','.join([*macs, *tags, *addresses, node.name])}"
