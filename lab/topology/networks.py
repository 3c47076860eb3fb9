"""A network of a lab: a bridge, at which the lab itself has addresses."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Mapping, Sequence

from installer.common.hostaddresses import never_within
from lab.topology import words
from lab.topology.problems import Checked, Problem, remembered, unique, within
from lab.topology.words import LAB, NONE, Subnet

# An IPv6 network's least MTU (RFC 8200 §5); IPv4 would do with less.
LEAST_MTU, MOST_MTU = 1280, 9216

# The name of a network that is not listed.
ONLY = "lab"


class Network(Checked, frozen=True, kw_only=True):
    """One network. `ipv4` and `ipv6` are its CIDRs, one of them at least; `vlan` is the tag that trunks carry it by (0:
    none carries it tagged).

    The lab has the first host's address, or `address` and `address6`, and besides it all addresses that `gateway`,
    `gateway6`, `dns`, `ntp` and `aliases` name, wherever they lie. These four are `lab` (its own address), `none`
    (not announced), or addresses. `dhcp` and `dhcpv6` give the NICs' `addresses` to them, and others to whom
    the topology does not know; `router_advertisements` let hosts make IPv6 addresses for themselves, unless `dhcpv6`
    is on too. On a network with `bmc` are the BMCs, and no machine.
    """

    name: str
    ipv4: str = ""
    ipv6: str = ""
    vlan: int = 0
    mtu: int = 1500
    address: str = ""
    address6: str = ""
    gateway: str = LAB
    gateway6: str = LAB
    dhcp: bool = False
    dhcpv6: bool = False
    router_advertisements: bool = False
    dns: str | tuple[str, ...] = LAB
    ntp: str | tuple[str, ...] = LAB
    aliases: tuple[str, ...] = ()
    bmc: bool = False

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from words.label("name", self.name)
        yield from self._families()
        yield from within("vlan", self.vlan, 0, 4094)
        yield from within("mtu", self.mtu, LEAST_MTU, MOST_MTU)
        for path in ("dns", "ntp"):
            yield from self._servers(path, getattr(self, path))
        yield from words.addresses("aliases", self.aliases)
        for path, text in self.answering():
            yield from self.reserved(path, text)
            if (answering := words.address(text)) is not None and (rule := words.never_answers(answering)):
                yield path, rule
        for path, is_on, cidr in (("dhcp", self.dhcp, self.ipv4), ("dhcpv6", self.dhcpv6, self.ipv6)):
            if is_on and not cidr:
                yield path, f"there are no {'IPv4' if path == 'dhcp' else 'IPv6'} addresses in this network"
        if self.router_advertisements and not self.ipv6:
            yield "router_advertisements", "there are no IPv6 addresses in this network"
        six = words.subnet(self.ipv6) if self.ipv6 else None
        if self.router_advertisements and not self.dhcpv6 and six is not None and six.prefixlen != 64:
            # RFC 4862 §5.5.3: prefix and interface identifier (64 bits) make an address.
            yield "router_advertisements", f"nobody makes an address of {six}; use a /64, or dhcpv6 too"
        named = [("gateway", self.gateway), ("gateway6", self.gateway6)]
        named += [(f"aliases[{index}]", text) for index, text in enumerate(self.aliases)]
        own = [("address", self.own4), ("address6", self.own6)]
        yield from unique([*own, *((path, text) for path, text in named if text not in (LAB, NONE))], "address")

    def _families(self) -> Iterator[Problem]:
        if not self.ipv4 and not self.ipv6:
            yield "ipv4", "a network needs ipv4 or ipv6"
        rows = (
            ("", self.ipv4, ipaddress.IPv4Network, 30, self.address, self.gateway),
            ("6", self.ipv6, ipaddress.IPv6Network, 126, self.address6, self.gateway6),
        )
        for suffix, cidr, kind, longest, own, gateway in rows:
            path = "ipv6" if suffix else "ipv4"
            network = words.subnet(cidr) if cidr else None
            if cidr and not isinstance(network, kind):
                yield path, f"{cidr!r} is not an {'IPv6' if suffix else 'IPv4'} network in CIDR form, without host bits"
            elif network is not None and network.prefixlen > longest:
                yield path, f"{network} has no room for a lab; use a /{longest} or wider"
            elif network is not None and (rule := words.no_network(network)):
                yield path, rule
            for name, text in ((f"address{suffix}", own), (f"gateway{suffix}", gateway)):
                if not text or text in (LAB, NONE):
                    continue
                if not cidr:
                    yield name, f"{text} is of no use without {path}"
                elif network is not None and not self.holds(text):
                    yield name, f"{text} is outside {network}"
                else:
                    yield from self.reserved(name, text)

    def _servers(self, path: str, value: str | tuple[str, ...]) -> Iterator[Problem]:
        if isinstance(value, tuple):
            yield from words.addresses(path, value)
        elif value not in (LAB, NONE):
            yield path, f"{value!r} is neither {LAB}, {NONE} nor a list of addresses"

    def reserved(self, path: str, text: str) -> Iterator[Problem]:
        """Yield a problem if this network has the address for itself."""
        subnet, address = self.subnet_of(text), words.address(text)
        if subnet is not None and address is not None and (rule := never_within(subnet, address)):
            yield path, rule

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Its CIDRs, parsed: IPv4 first."""
        parsed = (words.subnet(cidr) for cidr in (self.ipv4, self.ipv6) if cidr)
        return tuple(subnet for subnet in parsed if subnet is not None)

    def subnet_of(self, address: str) -> Subnet | None:
        """Return the subnet that has this address, if any."""
        parsed = words.address(address)
        return next((subnet for subnet in self.subnets if parsed is not None and parsed in subnet), None)

    def holds(self, address: str) -> bool:
        """Return whether the address is in this network."""
        return self.subnet_of(address) is not None

    @property
    def own4(self) -> str:
        """The lab's own IPv4 address in it, or empty."""
        return self.address or self._first(4)

    @property
    def own6(self) -> str:
        """The lab's own IPv6 address in it, or empty."""
        return self.address6 or self._first(6)

    def _first(self, version: int) -> str:
        # One address alone is no network, which `problems` tells.
        return next(
            (str(subnet[1]) for subnet in self.subnets if subnet.version == version and subnet.num_addresses > 1), ""
        )

    @property
    def own(self) -> tuple[str, ...]:
        """The lab's own addresses in it: IPv4 first."""
        return tuple(text for text in (self.own4, self.own6) if text)

    def own_like(self, address: str) -> str:
        """Return the lab's own address of the same family as this one; empty without one."""
        return self.own6 if ":" in address else self.own4

    def gateway_of(self, version: int) -> str:
        """Return the gateway's address of IPv4 or IPv6; empty when there is none."""
        named, own = (self.gateway6, self.own6) if version == 6 else (self.gateway, self.own4)
        return "" if named == NONE or not own else own if named == LAB else named

    def _or_own(self, value: str | tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return self.own if value == LAB else ()

    @property
    def dns_servers(self) -> tuple[str, ...]:
        """The DNS servers that are announced to hosts."""
        return self._or_own(self.dns)

    @property
    def ntp_servers(self) -> tuple[str, ...]:
        """The NTP servers that are announced to hosts."""
        return self._or_own(self.ntp)

    def answering(self) -> Iterator[tuple[str, str]]:
        """Yield the addresses besides its own at which the lab answers here, with their fields; routers apart."""
        for field, texts in (("dns", self.dns), ("ntp", self.ntp), ("aliases", self.aliases)):
            yield from ((f"{field}[{i}]", text) for i, text in enumerate(texts) if isinstance(texts, tuple))

    @property
    def lab_addresses(self) -> tuple[str, ...]:
        """All addresses that the lab has at it, its own first, with the length of their prefix (`192.0.2.1/24`)."""
        others = (self.gateway_of(4), self.gateway_of(6), *self.dns_servers, *self.ntp_servers, *self.aliases)
        lengths = {}
        for text in dict.fromkeys([*self.own, *(other for other in others if other)]):
            subnet = self.subnet_of(text)
            whole = 128 if ":" in text else 32
            lengths[text] = subnet.prefixlen if subnet is not None and text in self.own else whole
        return tuple(f"{text}/{length}" for text, length in lengths.items())


def conflicts(networks: Sequence[Network]) -> Iterator[Problem]:
    """Find names, tags and addresses that several networks have, and a second network of BMCs."""
    yield from unique([(f"networks[{i}].name", network.name) for i, network in enumerate(networks)], "name")
    yield from unique([(f"networks[{i}].vlan", str(network.vlan or "")) for i, network in enumerate(networks)], "VLAN")
    for (i, network), (k, other) in itertools.combinations(enumerate(networks), 2):
        for mine, theirs in itertools.product(network.subnets, other.subnets):
            if mine.version == theirs.version and mine.overlaps(theirs):
                family = f"ipv{theirs.version}"
                yield f"networks[{k}].{family}", f"{theirs} overlaps networks[{i}].{family}, {mine}"
    bmc = [i for i, network in enumerate(networks) if network.bmc]
    for i in bmc[1:]:
        yield f"networks[{i}].bmc", f"networks[{bmc[0]}] has the BMCs already"


def taken_elsewhere(networks: Sequence[Network], taken: Mapping[str, str]) -> Iterator[Problem]:
    """Routers and servers, at which the lab answers, that have another's address: `taken` has the others' fields."""
    for i, network in enumerate(networks):
        servers = [(path, text) for path, text in network.answering() if not path.startswith("aliases")]
        for path, text in (("gateway", network.gateway), ("gateway6", network.gateway6), *servers):
            if text in taken:
                yield f"networks[{i}].{path}", f"the lab answers at {text}, which is that of {taken[text]} too"


@remembered
def only_network(cidr: str, address: str, dhcp: bool, aliases: tuple[str, ...]) -> Network:
    """Return the network of a topology whose networks are not listed."""
    is_ipv6 = ":" in cidr
    return Network(
        name=ONLY,
        ipv4="" if is_ipv6 else cidr,
        ipv6=cidr if is_ipv6 else "",
        address="" if is_ipv6 else address,
        address6=address if is_ipv6 else "",
        dhcp=dhcp and not is_ipv6,
        dhcpv6=dhcp and is_ipv6,
        router_advertisements=dhcp and is_ipv6,
        aliases=aliases,
    )
