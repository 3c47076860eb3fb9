"""What cannot be true at once of a cluster's hosts and addresses, by the fields that say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from ipaddress import ip_address, ip_network
from itertools import combinations, product

from lab.derive.attachment import Attachment, Face, is_default
from lab.derive.fields import Field, Problems, Subnet
from lab.topology.words import never_answers, never_within
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
    """Note what is wrong. `hosts` are those that the files list, with the role that they give; `virtual` the virtual
    IPs with their places; `asking` the masters that get an address of the lab (None: one that is not listed);
    `networks` is where the machine networks stand, `unlisted` says that there are hosts that are only counted."""
    problems = rendezvous.problems
    _cards(hosts)
    taken = dict(_taken(hosts))
    address = rendezvous.address()
    holders = [entry for entry, _, one in hosts if address in {str(own.ip) for own in one.addresses}]
    first = next(iter([*holders, *asking]), None)
    if membership is Membership.EVERY:
        _crowded(networks, subnets, unlisted=unlisted)
    elif membership is Membership.RENDEZVOUS:
        _crowded(networks, subnets, unlisted=first is None)
    for text, place in virtual:
        if text in taken:
            place.wrong(f"{text} is an address of {taken[text].path} too")
    for entry, _, attachment in hosts:
        _apart(entry, attachment)
        if attachment.mute and not attachment.adrift:
            rule = "none has an address or asks for one, and no card is left that would: the host would reach nobody"
            entry.get("networkConfig", "interfaces").wrong(rule)
        for own, interface in attachment.adrift:
            if attachment.mute or any(own.ip in subnet for subnet in subnets):
                name = interface.get("name").text()
                interface.wrong(f"{name} has {own.ip}, and lies over no card: nobody would reach the host there")
        if membership is not Membership.RENDEZVOUS or entry is first:
            _member(entry, attachment, subnets, membership)
        for place in attachment.hidden:
            rule = f"{place.mac()} takes the place of the card's own: the service knows the host by none of its cards"
            place.wrong(rule)
        if attachment.document is not None and attachment.addresses:
            _ways_out(attachment, attachment.document, {**dict(virtual), **taken})
    _tags(hosts)
    if subnets:
        asked = [one for one in hosts if membership is not Membership.RENDEZVOUS or one[0] is first]
        _reached(asked, subnets, problems)
    if address and not problems.lines:
        _rendezvous(address, hosts, subnets, place=rendezvous, taken=taken, elsewhere=bool(asking))


def outside(virtual: Sequence[Field], subnets: Sequence[Subnet]) -> None:
    """Note virtual IPs that are in none of the machine networks, or that no host of these can have."""
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


def _cards(hosts: Sequence[tuple[Field, str, Attachment]]) -> None:
    seen: dict[str, Field] = {}
    for _, _, attachment in hosts:
        for card in attachment.cards:
            if not card.mac or card.place is None:
                continue
            if card.mac in seen:
                card.place.wrong(f"{card.mac} is that of {seen[card.mac].path} too; cards have one of their own")
            seen.setdefault(card.mac, card.place)


def _taken(hosts: Sequence[tuple[Field, str, Attachment]]) -> Iterator[tuple[str, Field]]:
    """The static addresses and where they stand, each once; what is given twice is noted."""
    seen: dict[str, Field] = {}
    for _, _, attachment in hosts:
        networks = {str(one.ip): one for one in attachment.addresses}
        for text, place in attachment.places:
            if text in seen:
                place.wrong(f"{text} is that of {seen[text].path} too")
            elif text in networks and (rule := never_within(networks[text].network, networks[text].ip)):
                place.wrong(rule)
            seen.setdefault(text, place)
        own = {str(one.ip) for one in attachment.addresses}
        for text in attachment.routers:
            if text in own:
                seen[text].wrong(f"{text} is the next hop of the host's own default route, which leads nowhere then")
    yield from seen.items()


def _apart(entry: Field, attachment: Attachment) -> None:
    """Note networks that a host is in by two of its interfaces, or that overlap there: the service holds it up."""
    for one, other in combinations(attachment.faces, 2):
        for mine, theirs in product(one.addresses, other.addresses):
            if mine.version == theirs.version and mine.network.overlaps(theirs.network):
                rule = f"{mine} and {theirs} are of two interfaces, and their networks overlap: the host is held up"
                entry.get("networkConfig").wrong(f"{rule} (non-overlapping-subnets)")


def _member(entry: Field, attachment: Attachment, subnets: Sequence[Subnet], membership: Membership) -> None:
    """Note that the service would hold the host up for want of an address in the machine networks. It keeps cards,
    bonds and VLANs alone of what the agent finds, so bridges and the like count for nothing."""
    missing = _without(attachment, subnets)
    if not missing or (membership is Membership.ONE and len(missing) < len(subnets)):
        return
    versions = {subnet.version for subnet in missing}
    # Faces that have what is missing; where there are none, those that ask for it.
    others = [face for face in attachment.interfaces if face.uncounted is not None]
    holding = [face for face in others if _holds_any(face, missing)]
    for face in holding or [face for face in others if face.dynamic & versions]:
        if face.uncounted is not None:
            name, kind = face.uncounted.get("name").text(), face.uncounted.get("type").text()
            rule = f"{name} is of type {kind}, of which the service counts no addresses: the host would be held up"
            face.uncounted.wrong(f"{rule} (belongs-to-machine-cidr); give it to a card, bond or VLAN")
            return
    if len(missing) < len(subnets):
        rule = f"no address in {', '.join(map(str, missing))}: the service wants one in every machine network"
        rule = f"{rule} (belongs-to-machine-cidr); give it one there, or leave the network out of machineNetwork"
        entry.get("networkConfig").wrong(rule)


def _crowded(networks: Field, subnets: Sequence[Subnet], *, unlisted: bool) -> None:
    """Note machine networks in which no host can be that the files do not list: it has one card."""
    firsts = {subnet.version: subnet for subnet in reversed(subnets)}
    for subnet in subnets if unlisted else ():
        if (first := firsts[subnet.version]) != subnet:
            rule = f"{subnet}: a host that is not listed has one card, which is in {first}, and the service wants it in"
            networks.wrong(f"{rule} every machine network (belongs-to-machine-cidr)")


def _without(attachment: Attachment, subnets: Sequence[Subnet]) -> list[Subnet]:
    """The networks in which no interface that counts has an address, nor can get one in the lab: who asks gets one of a
    network that the host is not in yet. A host of which nothing is said asks, by one card."""
    counted = [face for face in attachment.interfaces if face.uncounted is None]
    others = [face for face in attachment.interfaces if face.uncounted is not None]
    missing = [subnet for subnet in subnets if not any(_holds_any(face, [subnet]) for face in counted)]
    free = [subnet for subnet in missing if not any(_holds_any(face, [subnet]) for face in others)]
    for version in (4, 6):
        asking = sum(version in face.dynamic for face in counted) + (not attachment.faces)
        for subnet in [one for one in free if one.version == version][:asking]:
            missing.remove(subnet)
    return missing


def _holds_any(face: Face, subnets: Sequence[Subnet]) -> bool:
    return any(address.ip in subnet for address in face.addresses for subnet in subnets)


def _tags(hosts: Sequence[tuple[Field, str, Attachment]]) -> None:
    """Note networks that hosts are in by different tags: labs carry a network with one."""
    seen: dict[Subnet, tuple[int, Field]] = {}
    for entry, _, attachment in hosts:
        for face in attachment.faces:
            for network in {address.network for address in face.addresses} if face.vlan else ():
                tag, other = seen.setdefault(network, (face.vlan, entry))
                if tag != face.vlan:
                    rule = f"{network} has the tag {face.vlan} here and {tag} at {other.path}: labs carry it with one"
                    entry.get("networkConfig").wrong(rule)


def _ways_out(attachment: Attachment, document: Field, taken: Mapping[str, Field]) -> None:
    """Note default routes that lead nowhere, and what a host lacks that is told nothing by DHCP. `taken` are addresses
    that are no router's and no server's, with their places."""
    asks = {version for face in attachment.faces for version in face.dynamic}
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
        if text in taken:
            place.wrong(f"{text} is that of {taken[text].path} too, and no router's")
        elif ip_address(text).version not in asks and not any(_holds(cidr, text) for cidr in neighbours):
            place.wrong(f"{text} is in none of the host's networks, {', '.join(neighbours)}: it cannot be reached")
    if asks:
        return
    # The kernel looks at other tables for what rules send there (linux/rtnetlink.h: RT_TABLE_MAIN).
    mains = [one for one in routes if one.get("table-id").number(0) in (0, 254)]
    defaults = (is_default(one.get("destination").text()) and one.get("next-hop-address") for one in mains)
    if not any(one.get("destination").noted for one in mains) and not any(defaults):
        rule = "no default route, and the host does not ask for one: it would never be ready (has-default-route)"
        document.get("routes", "config").wrong(rule)
    servers = document.get("dns-resolver", "config", "server")
    families = {one.version for one in attachment.addresses}
    reached = (text for text in attachment.dns if text not in taken and not never_answers(ip_address(text)))
    if not any(ip_address(text).version in families for text in reached):
        servers_text = (
            f"it reaches none of the DNS servers {', '.join(attachment.dns)}" if attachment.dns else "no DNS server"
        )
        servers.wrong(f"{servers_text}, and the host does not ask for one: it would find no registry")


def _is_destination(text: str) -> bool:
    """Whether a route can lead there; also where nothing is said."""
    try:
        network = ip_network(text or "::/0", strict=False)
    except ValueError:
        return False
    # 0.0.0.0 alone is meant to be the default route, and is one address.
    return not (network.network_address.is_unspecified and network.prefixlen == network.max_prefixlen)


def _holds(cidr: str, text: str) -> bool:
    network = network_of(cidr)
    return network is not None and ip_address(text) in network


def _reached(hosts: Sequence[tuple[Field, str, Attachment]], subnets: Sequence[Subnet], problems: Problems) -> None:
    """Note hosts that have static addresses only, none of them in the machine networks."""
    networks = ", ".join(map(str, subnets))
    for entry, _, attachment in hosts:
        asks = any(face.dynamic for face in attachment.faces)
        held = [str(one.ip) for one in attachment.addresses]
        if held and not asks and not any(ip_address(text) in subnet for text in held for subnet in subnets):
            rule = f"{', '.join(held)}: none is in machineNetwork, {networks}"
            problems.add(entry.source, f"{entry.path}.networkConfig", rule)


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
    elif not any(ip_address(address) in subnet for subnet in subnets):
        place.wrong(f"{address} is in none of the machine networks, {', '.join(map(str, subnets))}")
    elif not elsewhere:
        place.wrong(f"{address} is no host's: they have {', '.join(taken)}, and no master asks for one")
