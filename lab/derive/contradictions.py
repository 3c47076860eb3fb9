"""What cannot be true at once of a cluster's hosts and addresses, by the fields that say it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from lab.derive.attachment import Attachment
from lab.derive.fields import Field, Interface, Problems, Subnet


def check(
    hosts: Sequence[tuple[Field, str, Attachment]],
    subnets: Sequence[Subnet],
    rendezvous: Field,
    virtual: Sequence[tuple[str, Field]],
    *,
    elsewhere: bool,
) -> None:
    """Note what is wrong. `hosts` are those that the files list, with the role that they give; `virtual` the virtual
    IPs with their places; `elsewhere` says that there are masters that get an address of the lab."""
    problems = rendezvous.problems
    _cards(hosts)
    taken = dict(_taken(hosts))
    for text, place in virtual:
        if text in taken:
            place.wrong(f"{text} is an address of {taken[text].path} too")
    if subnets and hosts:
        _reached(hosts, subnets, problems)
    if (address := rendezvous.address()) and not problems.found:
        _rendezvous(address, hosts, subnets, place=rendezvous, taken=taken, elsewhere=elsewhere)


def outside(virtual: Sequence[Field], subnets: Sequence[Subnet]) -> None:
    """Note virtual IPs that are in none of the machine networks."""
    for place in virtual:
        text = place.address()
        if text and subnets and not any(ip_address(text) in subnet for subnet in subnets):
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
            elif text in networks and (rule := _no_host(networks[text])):
                place.wrong(rule)
            seen.setdefault(text, place)
        own = {str(one.ip) for one in attachment.addresses}
        for text in attachment.routers:
            if text in own:
                seen[text].wrong(f"{text} is the next hop of the host's own default route, which leads nowhere then")
    yield from seen.items()


def _no_host(address: Interface) -> str:
    network = address.network
    if address.version == 6 or network.prefixlen > 30:
        return ""
    kind = {network.network_address: "network's own", network.broadcast_address: "broadcast"}.get(address.ip, "")
    return f"{address.ip} is the {kind} address of {network}: no host can have it" if kind else ""


def _reached(hosts: Sequence[tuple[Field, str, Attachment]], subnets: Sequence[Subnet], problems: Problems) -> None:
    """Every host with addresses of its own alone has one in the machine networks."""
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
