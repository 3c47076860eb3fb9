"""Expected hosts on the page: those that the inputs list and that have not registered, and the order of all hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from installer.common.macs import ExpectedHost, Slip, mistyped
from installer.rendezvous.store.model import Host, InfraEnv
from installer.rendezvous.validations.hostview import hostname_of, inventory_of


def macs_of(host: Host) -> frozenset[str]:
    """Return the MAC addresses of its inventory, in lower case."""
    inventory = inventory_of(host)
    return (
        frozenset(nic.mac_address.lower() for nic in inventory.interfaces if nic.mac_address)
        if inventory
        else frozenset()
    )


def listed_hosts(image: Sequence[ExpectedHost], infra_envs: Iterable[InfraEnv]) -> tuple[ExpectedHost, ...]:
    """Return the hosts that the image's inputs list; without any, those that infra-envs have static networks for."""
    if image:
        return tuple(image)
    maps = (network.mac_interface_map for item in infra_envs for network in item.static_network_config)
    hosts = (tuple(nic.mac_address.lower() for nic in nics if nic.mac_address) for nics in maps)
    return tuple(ExpectedHost("", macs) for macs in dict.fromkeys(hosts) if macs)


def ranks(listed: Sequence[ExpectedHost], hosts: Sequence[Host]) -> list[int]:
    """Return each host's place on the page: first those of the inputs in their order, then others as they came."""
    place = {mac: index for index, entry in reversed(list(enumerate(listed))) for mac in entry.macs}
    own = ([place[mac] for mac in macs_of(host) if mac in place] if listed else [] for host in hosts)
    return [min(places, default=len(listed) + index) for index, places in enumerate(own)]


def missing(listed: Sequence[ExpectedHost], hosts: Sequence[Host]) -> list[dict[str, Any]]:
    """Return a card for each listed host of which no MAC address has registered."""
    if not listed:
        return []
    described = {mac for entry in listed for mac in entry.macs}
    seen = [(host, macs_of(host)) for host in hosts]
    present = {mac for _, macs in seen for mac in macs}
    absent = [(rank, entry) for rank, entry in enumerate(listed) if present.isdisjoint(entry.macs)]
    strangers = [(host, macs) for host, macs in seen if macs and not macs & described]
    slips = mistyped([entry.macs for _, entry in absent], [macs for _, macs in strangers])
    return [
        {
            "id": entry.macs[0],
            "rank": rank,
            "name": entry.name,
            "macs": list(entry.macs),
            "hint": _hint(strangers[slips[index].stranger][0], slips[index]) if index in slips else "",
        }
        for index, (rank, entry) in enumerate(absent)
    ]


def _hint(host: Host, slip: Slip) -> str:
    name = hostname_of(host, inventory_of(host)) or host.id
    return f"{name} registered with {slip.mac}, {slip.words}: is one of the two mistyped?"
