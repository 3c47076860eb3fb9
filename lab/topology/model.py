"""A whole topology: a cluster's machines and their networks."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address
from typing import Literal

import msgspec

from lab.topology import words
from lab.topology.links import Link, addresses_of, attached, portal_links, portal_problems
from lab.topology.networks import Network, conflicts, only_network, taken_elsewhere
from lab.topology.nics import Attached, Bond, Nic
from lab.topology.nodes import NodeSpec, known_bmc
from lab.topology.problems import Checked, Problem, unique, written
from lab.topology.words import Subnet

Addressing = Literal["static", "dhcp"]
Platform = Literal["none", "baremetal", "external"]
MachineKind = Literal["vm", "container"]
#: How machines come to their live system (docs/topology.md, "Ways to boot").
BootWay = Literal["iso", "minimal-iso", "pxe", "http-boot", "config-image", "discovery-iso", "usb"]
#: The ways on which the firmware itself asks the network for what it boots.
FROM_NETWORK = ("pxe", "http-boot")
#: Ways to boot on which the live system is on a USB stick.
FROM_STICK = ("usb", "config-image")

#: Ways to boot where users provide machines, the bootstrap machine among them.
USER_PROVISIONED = ("iso", "pxe")

MACHINE_NETWORK = "192.168.111.0/24"


class Topology(Checked, frozen=True, kw_only=True):
    """A cluster's machines and its networks.

    A lab has the networks that `networks` lists. Without any it has one, `machine_network`: `address` is
    the lab's own there (default: its first), `aliases` are more of the lab's addresses (they may lie outside), and with
    `addressing: dhcp` every machine has a reservation. The lab is gateway, DNS, NTP, registry, BMC and HTTP server.

    With `load_balancer`, the lab is the load balancer that OpenShift asks users for: api, api-int and *.apps lead to
    it, at the virtual IPs, which are the lab's then, or, without any, at the lab's own address.

    `boot` is how machines boot their live system. Where their firmware asks the network, the lab answers with DHCP
    in the networks of NICs without tags, whatever the machines themselves are configured with later.

    With `proxy`, hosts reach the registry through the lab's HTTP proxy alone; with `tang`, the lab has a Tang server;
    with `hub`, a Kubernetes API server of its own (lab.hub).
    `bmc` is the vendor of the machines' BMCs (docs/bmcs.md); with `ipmi` each speaks IPMI as well.

    On platform baremetal a service has one virtual IP, or several (dual stack): `api_vips` and `ingress_vips`.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    networks: tuple[Network, ...] = ()
    addressing: Addressing = "static"
    machine: MachineKind = "vm"
    boot: BootWay = "iso"
    platform: Platform = "none"
    cluster_name: str = "ostest"
    base_domain: str = "test.node0.example"
    machine_network: str = MACHINE_NETWORK
    api_vip: str | None = None
    ingress_vip: str | None = None
    api_vips: tuple[str, ...] = ()
    ingress_vips: tuple[str, ...] = ()
    address: str | None = None
    aliases: tuple[str, ...] = ()
    proxy: bool = False
    load_balancer: bool = False
    tang: bool = False
    hub: bool = False
    bmc: str = "lab"
    ipmi: bool = False

    def fill(self) -> None:
        """Set the fields that follow from `networks` and from the lists of virtual IPs."""
        if self.networks:
            if self.machine_network == MACHINE_NETWORK and (subnets := self.machine_subnets):
                msgspec.structs.force_setattr(self, "machine_network", str(subnets[0]))
            if any(network.dhcp or network.dhcpv6 for network in self.machine_networks):
                msgspec.structs.force_setattr(self, "addressing", "dhcp")
        for field, vips in (("api_vip", self.api_vips), ("ingress_vip", self.ingress_vips)):
            if vips and getattr(self, field) is None:
                msgspec.structs.force_setattr(self, field, vips[0])

    def derived_fields(self) -> Iterator[str]:
        """See Checked."""
        yield from (f"{name}_vip" for name in ("api", "ingress") if getattr(self, f"{name}_vips"))
        if self.networks and self.machine_network == str(next(iter(self.machine_subnets), "")):
            yield "machine_network"
        if self.networks and any(network.dhcp or network.dhcpv6 for network in self.machine_networks):
            yield "addressing"

    # -- validation -----------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[Problem]:
        """See Checked."""
        yield from words.label("name", self.name)
        yield from (words.domain if "." in self.cluster_name else words.label)("cluster_name", self.cluster_name)
        yield from words.domain("base_domain", self.base_domain)
        yield from known_bmc("bmc", self.bmc)
        if not self.nodes:
            yield "nodes", "a lab needs machines"
        yield from self._bootstraps()
        yield from self._listed_networks() if self.networks else self._single_network()
        yield from self._attachments()
        yield from self._vips()
        yield from self._iscsi()
        if self.boot in FROM_NETWORK:
            yield from self._network_boots()
        yield from unique([(f"nodes[{i}].name", node.name) for i, node in enumerate(self.nodes)], "name")
        macs = ((f"nodes[{i}].{path}", mac) for i, node in enumerate(self.nodes) for path, mac in node.mac_fields)
        yield from unique(macs, "mac")
        yield from unique(self._addresses(), "address")
        taken = [*addresses_of(self.nodes)]
        if not self.load_balancer:
            taken += self._virtual_addresses()
        yield from taken_elsewhere(self.networks, {text: path for path, text in reversed(taken)})

    def _bootstraps(self) -> Iterator[Problem]:
        begun = [i for i, node in enumerate(self.nodes) if node.role == "bootstrap"]
        for i in begun[1:]:
            yield f"nodes[{i}].role", f"nodes[{begun[0]}] is the bootstrap machine already"
        if begun and self.platform != "baremetal" and not self.load_balancer:
            yield "load_balancer", "must be true: api has to lead to the bootstrap machine first, then to masters"
        if begun and self.boot not in USER_PROVISIONED:
            yield (
                "boot",
                f"{self.boot} is not for machines with a bootstrap machine; use {' or '.join(USER_PROVISIONED)}",
            )

        for i, node in enumerate(self.nodes if begun and self.addressing == "static" else ()):
            held = (link for link in self.links(node) if any(text == node.ip for text, _ in link.addresses))
            if not any(link.bond is None and link.network and link.network.ipv4 for link in held):
                # The kernel's ip= tells it no more than that.
                yield f"nodes[{i}]", "with a bootstrap machine, static addresses are of IPv4 and of a NIC without tags"

    def _single_network(self) -> Iterator[Problem]:
        if words.subnet(self.machine_network) is None:
            yield "machine_network", f"{self.machine_network!r} is not a network in CIDR form, without host bits"
            return
        if self.address is not None:
            yield from words.one_address("address", self.address)
        yield from words.addresses("aliases", self.aliases)
        renamed = {
            "ipv4": "machine_network", "ipv6": "machine_network", "address6": "address", "gateway": "address",
        }  # fmt: skip
        for path, message in self.all_networks[0].problems():
            if not path.startswith("aliases"):
                yield renamed.get(path, path), message.replace(" is outside ", " is outside machine_network ")

    def _listed_networks(self) -> Iterator[Problem]:
        for path, is_set in (("address", self.address is not None), ("aliases", bool(self.aliases))):
            if is_set:
                yield path, f"with networks, {path} is a field of the network"
        yield from conflicts(self.networks)
        subnets = [str(subnet) for subnet in self.machine_subnets]
        if subnets and self.machine_network not in subnets:
            yield "machine_network", f"{self.machine_network} is none of the machines' networks, {', '.join(subnets)}"

    def _attachments(self) -> Iterator[Problem]:
        networks = {network.name: network for network in self.all_networks}
        for i, node in enumerate(self.nodes):
            for path, link in attached(node):
                place = f"nodes[{i}].{path}" if path else f"nodes[{i}]"
                first = link.network or ("" if link.trunk else next(iter(networks)))
                named = [("network", first)] if first else []
                named += [(f"trunk[{k}]", name) for k, name in enumerate(link.trunk)]
                valid = True
                for field, name in named:
                    network = networks.get(name)
                    if network is None:
                        valid = False
                        yield f"{place}.{field}", f"there is no network {name!r}; there are {', '.join(networks)}"
                    elif network.bmc:
                        valid = False
                        where = f"{place}.{field}" if path else place
                        yield where, f"{name} is the network of the BMCs, which no machine is on"
                    elif field != "network" and not network.vlan:
                        yield f"{place}.{field}", f"{name} has no vlan, so no trunk can carry it"
                if valid:
                    yield from self._address_problems(place, node, link)

    def _network_boots(self) -> Iterator[Problem]:
        for i, node in enumerate(self.nodes):
            if self.boot == "http-boot" and node.firmware != "uefi":
                yield f"nodes[{i}].firmware", f"{node.firmware} has no http-boot; use uefi, or boot: pxe"
            if not any(link.network is not None and self.boots_in(link.network) for link in self.links(node)):
                yield f"nodes[{i}]", f"boot: {self.boot} needs a NIC without tags in a network with IPv4"

    def _iscsi(self) -> Iterator[Problem]:
        for i, node in enumerate(self.nodes):
            nics = ((self._networks_of(nic), nic) for nic in node.attached if isinstance(nic, Nic))
            reached = {nets[0].name: nic for nets, nic in nics if nets and (nic.network or not nic.trunk)}
            for path, message in portal_problems(node, reached, self.all_networks):
                yield f"nodes[{i}].{path}", message
            if node.portals and self.boot in FROM_NETWORK:
                why = f"{self.boot}, but the NICs of nodes[{i}] boot its iSCSI disk; use iso, minimal-iso or usb"
                yield "boot", why

    def boots_in(self, network: Network) -> bool:
        """Return whether firmware in this network boots from the lab."""
        if not network.ipv4:
            return False
        asking = (node for node in self.nodes if self.boot in FROM_NETWORK or network.name in node.portals)
        return any(link.network == network for node in asking for link in self.links(node))

    def iscsi_links(self, node: NodeSpec) -> tuple[Link, ...]:
        """Return the NICs by which a machine reaches the portals of its iSCSI disk, in the portals' order."""
        return portal_links(node, self.links(node))

    def _address_problems(self, place: str, node: NodeSpec, link: Attached) -> Iterator[Problem]:
        networks = self._networks_of(link)
        for k, text in enumerate(link.addresses):
            where = f"{place}.addresses[{k}]" if node.nics else f"{place}.ip"
            for network in networks:
                yield from network.reserved(where, text)
            known = any(network.subnets for network in networks)
            if known and words.address(text) is not None and not any(network.holds(text) for network in networks):
                subnets = " and ".join(str(net) for n in networks for net in n.subnets)
                expected = subnets if self.networks else f"machine_network {self.machine_network}"
                yield where, f"{text} is outside {expected}"

    def _vips(self) -> Iterator[Problem]:
        for name in ("api", "ingress"):
            single, several = getattr(self, f"{name}_vip"), getattr(self, f"{name}_vips")
            vips = self.vips(name)
            if self.platform != "baremetal":
                if vips:
                    yield f"{name}_vip", f"platform {self.platform} has no {name}_vip"
                continue
            if not vips:
                yield f"{name}_vip", f"platform baremetal needs {name}_vip or {name}_vips"
            if several and single != several[0]:
                yield f"{name}_vip", f"{single} is not the first of {name}_vips, {several[0]}; leave {name}_vip out"
            yield from words.virtual_ips(name, vips, self.machine_subnets, several=bool(several))

    def _addresses(self) -> list[tuple[str, str]]:
        """Return all addresses with the paths of their fields: none may occur twice."""
        by_path = []
        for i, net in enumerate(self.all_networks):
            prefix = f"networks[{i}]." if self.networks else ""
            by_path += [(f"{prefix}address{'6' if ':' in text else ''}, the lab's own,", text) for text in net.own]
            # Repeats within a listed network are reported by Network.problems.
            aliases = dict.fromkeys(net.aliases) if self.networks else net.aliases
            mine = net.own if self.networks else ()
            by_path += [(f"{prefix}aliases[{k}]", text) for k, text in enumerate(aliases) if text not in mine]
        return [*by_path, *addresses_of(self.nodes), *self._virtual_addresses()]

    def _virtual_addresses(self) -> list[tuple[str, str]]:
        by_path = []
        for name in ("api", "ingress"):
            several = getattr(self, f"{name}_vips")
            texts = list(enumerate(self.vips(name)))
            if self.load_balancer and name == "ingress":
                # A balancer serves both at one address as well as at two.
                texts = [(k, text) for k, text in texts if text not in self.vips("api")]
            by_path += [(f"{name}_vips[{k}]" if several else f"{name}_vip", text) for k, text in texts]
        return by_path

    # -- networks --------------------------------------------------------------------------------------------------

    @property
    def all_networks(self) -> tuple[Network, ...]:
        """The listed networks, or the only one."""
        return self.networks or (
            only_network(self.machine_network, self.address or "", self.addressing == "dhcp", self.aliases),
        )

    def _networks_of(self, link: Attached) -> tuple[Network, ...]:
        """Return the networks of a NIC or bond, the one without tags first."""
        by_name = {network.name: network for network in self.all_networks}
        first = link.network or ("" if link.trunk else next(iter(by_name)))
        return tuple(by_name[name] for name in (first, *link.trunk) if name in by_name)

    def links(self, node: NodeSpec) -> tuple[Link, ...]:
        """Return a machine's links: NICs on their own, then bonds."""
        links = []
        for end in node.attached:
            networks = self._networks_of(end)
            plain = not end.trunk or bool(end.network)
            held = ((text, next((net for net in networks if net.holds(text)), networks[0])) for text in end.addresses)
            links.append(
                Link(
                    name=end.name,
                    nics=(end,) if isinstance(end, Nic) else node.members(end),
                    bond=end if isinstance(end, Bond) else None,
                    mac=node.mac_of(end),
                    network=networks[0] if plain else None,
                    trunk=networks[1:] if plain else networks,
                    addresses=tuple(held),
                    clones=end.clones,
                )
            )
        return tuple(links)

    @property
    def machine_networks(self) -> tuple[Network, ...]:
        """The networks of the addresses that the machines are known by."""
        networks = []
        for node in self.nodes:
            networks += [network for network in self.all_networks if network.holds(node.ip) and network not in networks]
        return tuple(networks) or self.all_networks[:1]

    @property
    def machine_subnets(self) -> tuple[Subnet, ...]:
        """The cluster's machine networks, the family of the first machine's address first."""
        version = 6 if ":" in next((node.ip for node in self.nodes), "") else 4
        subnets = [subnet for network in self.machine_networks for subnet in network.subnets]
        return tuple(sorted(subnets, key=lambda subnet: subnet.version != version))

    @property
    def home(self) -> Network:
        """The network with the lab's services: that of the first machine's address."""
        return self.machine_networks[0]

    @property
    def bmc_network(self) -> Network:
        """The network with the BMCs."""
        return next((network for network in self.all_networks if network.bmc), self.home)

    @property
    def network(self) -> IPv4Network:
        """`machine_network`, parsed; only where it is IPv4."""
        return IPv4Network(self.machine_network)

    @property
    def gateway(self) -> str:
        """The lab's own address on the machine network: that of its services."""
        first = next((node.ip for node in self.nodes), "")
        return self.home.own_like(first) or next(iter(self.home.own))

    # -- the cluster -----------------------------------------------------------------------------------------------

    @property
    def cluster_domain(self) -> str:
        """<cluster name>.<base domain>."""
        return f"{self.cluster_name}.{self.base_domain}"

    @property
    def masters(self) -> tuple[NodeSpec, ...]:
        """The nodes of role master, in order."""
        return tuple(n for n in self.nodes if n.role == "master")

    @property
    def fenced(self) -> bool:
        """True if there are two masters and no arbiter: they fence each other."""
        return len(self.masters) == 2 and not self.arbiters

    @property
    def bootstrap(self) -> NodeSpec | None:
        """The machine that begins the cluster and leaves, where users boot machines themselves; else None."""
        return next((n for n in self.nodes if n.role == "bootstrap"), None)

    @property
    def arbiters(self) -> tuple[NodeSpec, ...]:
        """The nodes of role arbiter, in order."""
        return tuple(n for n in self.nodes if n.role == "arbiter")

    @property
    def workers(self) -> tuple[NodeSpec, ...]:
        """The nodes of role worker, in order."""
        return tuple(n for n in self.nodes if n.role == "worker")

    @property
    def rendezvous_ip(self) -> str:
        """The address of the first master, which is node0 by convention."""
        return self.masters[0].ip

    def vips(self, service: str) -> tuple[str, ...]:
        """Return the virtual IPs of `api` or `ingress`."""
        several: tuple[str, ...] = getattr(self, f"{service}_vips")
        single: str | None = getattr(self, f"{service}_vip")
        return several or ((single,) if single else ())

    def known_addresses(self, node: NodeSpec) -> tuple[str, ...]:
        """Return a machine's addresses in the machine networks, the one that it is known by first: at most one a
        family."""
        nets = self.machine_subnets
        held = [text for text in node.addresses if any(ip_address(text) in net for net in nets)]
        firsts = {":" in text: text for text in reversed(held)}
        return tuple(text for text in held if firsts[":" in text] == text)

    @property
    def _balancer(self) -> tuple[str, ...]:
        """The lab's own addresses of the machines' families, where it is the load balancer; else none."""
        families = {subnet.version for subnet in self.machine_subnets}
        own = self.home.own if self.load_balancer else ()
        return tuple(text for text in own if ip_address(text).version in families)

    def lab_addresses(self, network: Network) -> tuple[str, ...]:
        """Return all addresses that the lab has at a network, with the length of their prefix: the load balancer's
        too."""
        vips = (*self.vips("api"), *self.vips("ingress")) if self.load_balancer else ()
        where = {text: next((net for net in self.all_networks if net.holds(text)), self.home) for text in vips}
        more = (f"{text}/{128 if ':' in text else 32}" for text in vips if where[text] == network)
        return tuple(dict.fromkeys([*network.lab_addresses, *more]))

    @property
    def api_addresses(self) -> tuple[str, ...]:
        """The addresses of api and api-int: the virtual IPs, else the lab's load balancer, else every master."""
        return (
            self.vips("api") or self._balancer or tuple(text for n in self.masters for text in self.known_addresses(n))
        )

    @property
    def ingress_addresses(self) -> tuple[str, ...]:
        """The addresses of *.apps: the virtual IPs, else the lab's load balancer, else every worker, or every
        master."""
        nodes = self.workers or self.masters
        return self.vips("ingress") or self._balancer or tuple(text for n in nodes for text in self.known_addresses(n))

    @property
    def memory_mib(self) -> int:
        """The memory of all guests, in MiB."""
        return sum(n.memory_mib for n in self.nodes)

    def node(self, name: str) -> NodeSpec | None:
        """Return the node of that name."""
        return next((n for n in self.nodes if n.name == name), None)

    def with_machines(self, machine: MachineKind | None) -> Topology:
        """Return the topology with machines of this kind; None leaves them as they are."""
        return msgspec.structs.replace(self, machine=machine) if machine else self

    def with_bmcs(self, bmc: str | None) -> Topology:
        """Return the topology with BMCs of this kind; None leaves them as they are."""
        return msgspec.structs.replace(self, bmc=bmc) if bmc else self

    def with_hub(self, hub: bool) -> Topology:
        """Return the topology with a hub; False leaves it as it is."""
        return msgspec.structs.replace(self, hub=True) if hub else self

    def bmc_of(self, node: NodeSpec) -> str:
        """Return the vendor of a machine's BMC."""
        return node.bmc or self.bmc

    def dump(self) -> str:
        """Return this topology as YAML that `load_text` reads back to an equal one."""
        return msgspec.yaml.encode(written(self)).decode()
