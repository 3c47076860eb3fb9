"""The networks of a cluster's hosts, by their addresses and tags, and the addresses that answer there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address

from lab.derive.attachment import Attachment, Iface
from lab.derive.cluster import Cluster, Host
from lab.errors import TopologyError
from lab.topology.words import Subnet, never_answers


@dataclass
class Segment:
    """A network of the lab to be. An `invented` network is for NICs that ask for an address of a network that the files
    do not name."""

    subnets: list[Subnet] = field(default_factory=list)
    vlan: int = 0
    mtu: int = 0
    _: KW_ONLY
    dynamic: set[int] = field(default_factory=set)
    routers: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    invented: bool = False

    @property
    def own_subnets(self) -> list[Subnet]:
        """Return its first subnet of each family: a lab's network has no more."""
        firsts = {subnet.version: subnet for subnet in reversed(self.subnets)}
        return [subnet for subnet in self.subnets if firsts[subnet.version] == subnet]

    @property
    def answering(self) -> list[str]:
        """Return its routers and servers: an address may be both."""
        return list(dict.fromkeys([*self.routers, *self.servers]))

    def holds(self, text: str) -> bool:
        """Return whether the address is in it."""
        return any(ip_address(text) in subnet for subnet in self.own_subnets)


class Plan:
    """The networks of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.segments: list[Segment] = []
        self._source = cluster.source
        self.machine_subnets = cluster.subnets
        # A server that is one of the machines, or a virtual IP, is not the lab's.
        self.machines = {str(address.ip) for host, _ in cluster.hosts for address in host.attachment.addresses}
        self.machines |= {*cluster.api_vips, *cluster.ingress_vips, cluster.rendezvous}
        self._placed: dict[tuple[int, str, int], Segment] = {}
        self._asking: dict[str, Segment] = {}
        self._untagged = False
        self._inner = cluster.inner
        firsts = {subnet.version: subnet for subnet in reversed(cluster.subnets)}
        # A family's further networks are those of hosts elsewhere, if there are any.
        self.home = self._segment([subnet for subnet in cluster.subnets if firsts[subnet.version] == subnet], 0)
        for host, _ in cluster.hosts:
            for iface in host.attachment.ifaces:
                if iface.addresses:
                    segment = self._segment([address.network for address in iface.addresses], iface.vlan)
                    self._untagged |= segment is self.home and not iface.vlan
                    if iface.vlan not in (0, segment.vlan):
                        rule = f"{iface.vlan} is the tag of {segment.subnets[0]} here, and {segment.vlan} elsewhere"
                        raise TopologyError(host.file, f"{host.path}.networkConfig: {rule}: labs carry it by one tag")
        for host, _ in cluster.hosts:
            self._place(host)
        for host, _ in cluster.hosts:
            self._answer(host.attachment)
        for text in cluster.ntp:
            self._serve(self._holding(text), text)

    def _segment(self, subnets: Iterable[Subnet], vlan: int) -> Segment:
        """Return the network with any of these, or with this tag and none of their family; it then has all of them."""
        wanted = list(subnets)
        versions = {subnet.version for subnet in wanted}
        connected = (found for found in self.segments if any(_same(s, t) for s in found.subnets for t in wanted))
        tagged = (
            found
            for found in self.segments
            if vlan and found.vlan == vlan and versions.isdisjoint(subnet.version for subnet in found.subnets)
        )
        segment = next(connected, None) or next(tagged, None)
        if segment is None:
            segment = Segment(vlan=vlan)
            self.segments.append(segment)
        segment.vlan = segment.vlan or vlan
        for subnet in wanted:
            like = [index for index, known in enumerate(segment.subnets) if _same(subnet, known)]
            if not like:
                segment.subnets.append(subnet)
            elif len(self.segments) > 1 and segment is not self.home:
                # Hosts may say a part of it each: the widest counts.
                widest = min(segment.subnets[like[0]], subnet, key=lambda network: network.prefixlen)
                segment.subnets[like[0]] = widest
        return segment

    def of(self, host: Host, iface: Iface) -> Segment:
        """Return the network of a host's interface."""
        return self._placed.get((id(host), iface.base, iface.vlan), self.home)

    def _place(self, host: Host) -> None:
        """Find the network of each of a host's interfaces: by address or tag, and then for those that ask for one."""
        ifaces = host.attachment.ifaces
        if not ifaces:
            self.home.dynamic |= {subnet.version for subnet in self.home.subnets}
        mine: list[Segment] = []
        # Types whose addresses the service does not count come last: it wants another interface in the machine network.
        for iface in sorted(ifaces, key=lambda iface: (not iface.addresses, not iface.counted, iface.vlan)):
            segment = self._by_address_or_tag(iface) or self._for_dhcp(iface, mine)
            mine.append(segment)
            self._placed[id(host), iface.base, iface.vlan] = segment
            segment.mtu = max(segment.mtu, iface.mtu)
            segment.dynamic |= iface.dynamic

    def _by_address_or_tag(self, iface: Iface) -> Segment | None:
        if iface.addresses:
            return self._segment([address.network for address in iface.addresses], iface.vlan)
        return next((segment for segment in self.segments if iface.vlan and segment.vlan == iface.vlan), None)

    def _for_dhcp(self, iface: Iface, mine: list[Segment]) -> Segment:
        """Return the network of an interface that asks for its addresses.

        It is the first machine network, unless the host is in it already or it is known to have another tag; then
        another machine network of that family, if there is one; else a network that is made up.
        """
        if self.home not in mine and not (iface.vlan and (self.home.vlan or self._untagged)):
            self.home.vlan = self.home.vlan or iface.vlan
            return self.home
        taken = [subnet for segment in (self.home, *mine) for subnet in segment.subnets]
        spare = [subnet for subnet in self.machine_subnets if not any(_same(subnet, other) for other in taken)]
        firsts = {subnet.version: subnet for subnet in reversed(spare) if subnet.version in iface.dynamic}
        if firsts:
            return self._segment(firsts.values(), iface.vlan)
        name = str(iface.vlan or iface.base)
        if name not in self._asking:
            subnets = [self._unused(version) for version in sorted(iface.dynamic)]
            self._asking[name] = Segment(subnets, iface.vlan, invented=True)
            self.segments.append(self._asking[name])
        return self._asking[name]

    def _unused(self, version: int) -> Subnet:
        """Return a network that nobody has. Raises TopologyError where all are taken."""
        four = (IPv4Network(f"192.168.{number}.0/24") for number in range(200, 256))
        six = (IPv6Network(f"fd6e:31:0:{number:x}::/64") for number in range(256))
        taken = [*self._inner, *(subnet for segment in self.segments for subnet in segment.subnets)]
        for subnet in four if version == 4 else six:
            if not any(_same(subnet, other) for other in taken):
                return subnet
        raise TopologyError(self._source, f"machineNetwork: no IPv{version} network is left for NICs that ask")

    def _holding(self, text: str) -> Segment:
        return next((segment for segment in self.segments if segment.holds(text)), self.home)

    def _answer(self, attachment: Attachment) -> None:
        """Have the lab answer where a host's routes lead, and at its DNS servers."""
        for text in attachment.routers:
            segment = self._holding(text)
            if text not in segment.routers and text not in self.machines:
                segment.routers.append(text)
        for text in attachment.dns:
            self._serve(self._holding(text), text)
        for text in attachment.hops:
            if (segment := self._holding(text)).holds(text) and text not in segment.routers:
                self._serve(segment, text)

    def _serve(self, segment: Segment, text: str) -> None:
        """Have the lab answer as a server at this address, unless the network has no addresses of that family."""
        address = ip_address(text)
        is_served = text in segment.servers or text in self.machines
        if address.is_link_local or never_answers(address):
            return
        if not is_served and any(subnet.version == address.version for subnet in segment.subnets):
            segment.servers.append(text)


def _same(subnet: Subnet, other: Subnet) -> bool:
    """Return whether either lies in the other: a host's prefix may be longer than its network's."""
    return subnet.version == other.version and subnet.overlaps(other)
