"""What cannot be true at once of a cluster's hosts and addresses, by the fields that say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from ipaddress import ip_address, ip_network
from itertools import combinations, product

from installer.common import hostaddresses
from installer.common.hostaddresses import HostAddresses, never_within
from lab.derive.attachment import Attachment, Iface, is_default
from lab.derive.fields import Field, Subnet
from lab.topology.words import never_answers
from lab.topology.words import subnet as network_of


class Membership(Enum):
    """In which machine networks the service wants a host (belongs-to-machine-cidr)."""

    EVERY = "every"
    ONE = "one"
    #: Only the rendezvous host, and that in every one.
    RENDEZVOUS = "rendezvous"


def check(
    hosts: Sequence[tuple[Field, str, Attachment]],
    subnets: Sequence[Subnet],
    rendezvous: Field,
    virtual: Sequence[tuple[str, Field]],
    *,
    asking: Sequence[Field | None],
    membership: Membership,
    networks: Field,
    unlisted: bool,
) -> None:
    """Note what is wrong.

    `hosts` are the listed ones: field, role and attachment. `virtual` are the virtual IPs with their fields, `asking`
    the fields of masters that the lab gives an address (None: a host that is not listed), `networks` is the field of
    the machine networks. With `unlisted` there are hosts that the files only count.
    """
    problems = rendezvous.problems
    _repeated_macs(hosts)
    static = {entry.path: _addresses_of(entry, attachment) for entry, _, attachment in hosts}
    taken = hostaddresses.holders([*static.values()])
    _note(hostaddresses.static_addresses([*static.values()]))
    address = rendezvous.address()
    holders = [entry for entry, _, one in hosts if address in {str(own.ip) for own in one.addresses}]
    first = next(iter([*holders, *asking]), None)
    if membership is Membership.EVERY:
        _unlisted_hosts(networks, subnets, unlisted=unlisted)
    elif membership is Membership.RENDEZVOUS:
        _unlisted_hosts(networks, subnets, unlisted=first is None)
    _note(hostaddresses.virtual_addresses(virtual, taken))
    for entry, _, attachment in hosts:
        _overlapping(entry, attachment)
        if attachment.has_no_address and not attachment.over_no_card:
            rule = "none has an address or asks for one, and no card is left that would: the host would reach nobody"
            entry.get("networkConfig", "interfaces").wrong(rule)
        for own, interface in attachment.over_no_card:
            if attachment.has_no_address or any(own.ip in subnet for subnet in subnets):
                name = interface.get("name").text()
                interface.wrong(f"{name} has {own.ip}, and lies over no card: nobody would reach the host there")
        if membership is not Membership.RENDEZVOUS or entry is first:
            _belongs_to_machine_cidr(entry, attachment, subnets, membership)
        for place in attachment.replaced_macs:
            rule = f"{place.mac()} takes the place of the card's own: the service knows the host by none of its cards"
            place.wrong(rule)
        if attachment.document is not None and attachment.addresses:
            _routes_and_servers(attachment, attachment.document, {**dict(virtual), **taken})
    _tags(hosts)
    if subnets:
        _note(
            hostaddresses.outside(
                [
                    static[entry.path]
                    for entry, _, _ in hosts
                    if membership is not Membership.RENDEZVOUS or entry is first
                ],
                subnets,
            )
        )
    if address and not problems.lines:
        _rendezvous(address, hosts, subnets, place=rendezvous, taken=taken, elsewhere=bool(asking))


def virtual_ips(virtual: Sequence[Field], subnets: Sequence[Subnet]) -> None:
    """Note virtual IPs outside of the machine networks, or that no host can have (a network's own address, say)."""
    firsts = {subnet.version: subnet for subnet in reversed(subnets)}
    for place in virtual:
        text = place.address()
        holding = next((subnet for subnet in subnets if text and ip_address(text) in subnet), None)
        if holding is not None:
            if rule := never_within(holding, ip_address(text)):
                place.wrong(rule)
            if (first := firsts[holding.version]) != holding:
                rule = f"{text} is in {holding}: labs have virtual IPs in the first machine network of a family"
                place.wrong(f"{rule}, {first}; list {holding} first")
        elif text and subnets:
            place.wrong(f"{text} is in none of the machine networks, {', '.join(map(str, subnets))}")


def _repeated_macs(hosts: Sequence[tuple[Field, str, Attachment]]) -> None:
    seen: dict[str, Field] = {}
    for _, _, attachment in hosts:
        for card in attachment.cards:
            if not card.mac or card.place is None:
                continue
            if card.mac in seen:
                card.place.wrong(f"{card.mac} is that of {seen[card.mac].path} too; cards have one of their own")
            seen.setdefault(card.mac, card.place)


def _note(problems: Iterable[tuple[Field, str]]) -> None:
    for place, rule in problems:
        place.wrong(rule)


def _addresses_of(entry: Field, attachment: Attachment) -> HostAddresses[Field]:
    networks = {str(address.ip): address for address in attachment.addresses}
    return HostAddresses(
        entry.get("networkConfig"),
        tuple((text, networks.get(text), place) for text, place in attachment.places),
        routers=attachment.routers,
        asks=any(iface.dynamic for iface in attachment.ifaces),
    )


def _overlapping(entry: Field, attachment: Attachment) -> None:
    """Note interfaces of a host whose networks are the same or overlap: the service would not let it install."""
    for one, other in combinations(attachment.ifaces, 2):
        for mine, theirs in product(one.addresses, other.addresses):
            if rule := hostaddresses.overlapping(mine, theirs):
                entry.get("networkConfig").wrong(rule)


def _belongs_to_machine_cidr(
    entry: Field, attachment: Attachment, subnets: Sequence[Subnet], membership: Membership
) -> None:
    """Note that a host has no address in a machine network, which the service demands (belongs-to-machine-cidr). The
    service counts addresses of cards, bonds and VLANs only, not those of bridges and the like."""
    missing = _networks_without_address(attachment, subnets)
    if not missing or (membership is Membership.ONE and len(missing) < len(subnets)):
        return
    versions = {subnet.version for subnet in missing}
    # Interfaces with an address in a missing network; without any, those that ask for one of its family.
    others = [iface for iface in attachment.separate_ifaces if iface.not_counted is not None]
    holding = [iface for iface in others if _holds_any(iface, missing)]
    for iface in holding or [iface for iface in others if iface.dynamic & versions]:
        if iface.not_counted is not None:
            name, kind = iface.not_counted.get("name").text(), iface.not_counted.get("type").text()
            rule = f"{name} is of type {kind}, of which the service counts no addresses: the host would be held up"
            iface.not_counted.wrong(f"{rule} (belongs-to-machine-cidr); give it to a card, bond or VLAN")
            return
    if len(missing) < len(subnets):
        rule = f"no address in {', '.join(map(str, missing))}: the service wants one in every machine network"
        rule = f"{rule} (belongs-to-machine-cidr); give it one there, or leave the network out of machineNetwork"
        entry.get("networkConfig").wrong(rule)


def _unlisted_hosts(networks: Field, subnets: Sequence[Subnet], *, unlisted: bool) -> None:
    """Note machine networks that an unlisted host cannot be in: its one card is in the first network of a family."""
    firsts = {subnet.version: subnet for subnet in reversed(subnets)}
    for subnet in subnets if unlisted else ():
        if (first := firsts[subnet.version]) != subnet:
            rule = f"{subnet}: a host that is not listed has one card, which is in {first}, and the service wants it in"
            networks.wrong(f"{rule} every machine network (belongs-to-machine-cidr)")


def _networks_without_address(attachment: Attachment, subnets: Sequence[Subnet]) -> list[Subnet]:
    """The networks in which no counted interface has an address, or will get one: one that asks is given an address of
    a network that the host is not in yet. A host without interfaces asks by one card."""
    counted = [iface for iface in attachment.separate_ifaces if iface.not_counted is None]
    others = [iface for iface in attachment.separate_ifaces if iface.not_counted is not None]
    missing = [subnet for subnet in subnets if not any(_holds_any(iface, [subnet]) for iface in counted)]
    free = [subnet for subnet in missing if not any(_holds_any(iface, [subnet]) for iface in others)]
    for version in (4, 6):
        asking = sum(version in iface.dynamic for iface in counted) + (not attachment.ifaces)
        for subnet in [one for one in free if one.version == version][:asking]:
            missing.remove(subnet)
    return missing


def _holds_any(iface: Iface, subnets: Sequence[Subnet]) -> bool:
    return any(address.ip in subnet for address in iface.addresses for subnet in subnets)


def _tags(hosts: Sequence[tuple[Field, str, Attachment]]) -> None:
    """Note networks that hosts reach with different VLAN tags: labs carry a network with one."""
    seen: dict[Subnet, tuple[int, Field]] = {}
    for entry, _, attachment in hosts:
        for iface in attachment.ifaces:
            for network in {address.network for address in iface.addresses} if iface.vlan else ():
                tag, other = seen.setdefault(network, (iface.vlan, entry))
                if tag != iface.vlan:
                    rule = f"{network} has the tag {iface.vlan} here and {tag} at {other.path}: labs carry it with one"
                    entry.get("networkConfig").wrong(rule)


def _routes_and_servers(attachment: Attachment, document: Field, taken: Mapping[str, Field]) -> None:
    """Note default routes that lead nowhere, and a route or DNS server that is missing on a host without DHCP. `taken`
    are the fields of addresses that belong to machines, and so to no router or server."""
    asks = {version for iface in attachment.ifaces for version in iface.dynamic}
    neighbours = [str(one.network) for one in attachment.addresses]
    routes = document.get("routes", "config").items()
    neighbours += [one.get("destination").text() for one in routes if not one.get("next-hop-address")]
    own = {str(one.ip) for one in attachment.addresses}
    names = {one.get("name").text() for one in document.get("interfaces").items()}
    for route in routes:
        destination, place = route.get("destination"), route.get("next-hop-address")
        if route.get("state").text() != "absent" and not _is_destination(destination.text()):
            destination.wrong(f"{destination.value!r} is no network; a default route's is 0.0.0.0/0 or ::/0")
        device = route.get("next-hop-interface")
        if place.text() in attachment.routers and device and device.text() not in names:
            # nmstate drops it without a word, and the host would have no default route.
            device.wrong(f"{device.value!r} is no interface of the document, which has {', '.join(sorted(names))}")
        text = place.address()
        if text not in attachment.routers or text in own or ip_address(text).is_link_local:
            continue
        if rule := hostaddresses.no_router(text, taken):
            place.wrong(rule)
        elif ip_address(text).version not in asks and not any(_holds(cidr, text) for cidr in neighbours):
            place.wrong(hostaddresses.unreachable(text, neighbours))
    if asks:
        return
    # The kernel looks at other tables for what rules send there (linux/rtnetlink.h: RT_TABLE_MAIN).
    mains = [one for one in routes if one.get("table-id").number(0) in (0, 254)]
    defaults = (is_default(one.get("destination").text()) and one.get("next-hop-address") for one in mains)
    if not any(one.get("destination").noted for one in mains) and not any(defaults):
        document.get("routes", "config").wrong(hostaddresses.NO_ROUTE)
    servers = document.get("dns-resolver", "config", "server")
    families = {one.version for one in attachment.addresses}
    reached = (text for text in attachment.dns if text not in taken and not never_answers(ip_address(text)))
    if not any(ip_address(text).version in families for text in reached):
        reaches = f"it reaches none of the DNS servers {', '.join(attachment.dns)}"
        rule = hostaddresses.NO_SERVER
        servers.wrong(rule.replace("no DNS server", reaches) if attachment.dns else rule)


def _is_destination(text: str) -> bool:
    """Whether a route can have this destination; an empty one will do."""
    try:
        network = ip_network(text or "::/0", strict=False)
    except ValueError:
        return False
    # 0.0.0.0 alone is meant to be the default route, and is one address.
    return not (network.network_address.is_unspecified and network.prefixlen == network.max_prefixlen)


def _holds(cidr: str, text: str) -> bool:
    network = network_of(cidr)
    return network is not None and ip_address(text) in network


def _rendezvous(
    address: str,
    hosts: Sequence[tuple[Field, str, Attachment]],
    subnets: Sequence[Subnet],
    *,
    place: Field,
    taken: dict[str, Field],
    elsewhere: bool,
) -> None:
    holder = next(((entry, role) for entry, role, one in hosts if address in {str(a.ip) for a in one.addresses}), None)
    if holder is not None:
        entry, role = holder
        if role not in ("", "master"):
            place.wrong(f"{address} is the address of {entry.path}, whose role is {role}; it has to be a master's")
    elif rule := hostaddresses.rendezvous(address, [*taken], subnets, asked=elsewhere):
        place.wrong(rule)
