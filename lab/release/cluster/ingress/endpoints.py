"""The servers of a claim: ready endpoints of its Services, each with its share of the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from lab.release.cluster.ingress.claims import Claim, Target
from lab.release.cluster.kube.client import Object, Objects

#: EndpointSlices of Kubernetes 1.20.
API = "discovery.k8s.io/v1beta1"
SERVICE_LABEL = "kubernetes.io/service-name"
#: haproxy's largest weight.
MOST = 256
Slices = Mapping[tuple[str, str], Sequence[Object]]


@dataclass(frozen=True, order=True)
class Server:
    """An endpoint; ``service`` is the name of its Service."""

    service: str
    address: str
    port: int
    weight: int = 1


def by_service(slices: Objects) -> dict[tuple[str, str], list[Object]]:
    """Return EndpointSlices by (namespace, name) of their Service, in the order of their names."""
    found: dict[tuple[str, str], list[Object]] = {}
    for (namespace, _), entry in sorted(slices.items()):
        name = (entry["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        if name:
            found.setdefault((namespace, name), []).append(entry)
    return found


def _family(slices: Sequence[Object], service: Object | None) -> str:
    """Return the address type to use: the Service's own; of one without an address, the first that there is."""
    types = sorted({str(s["addressType"]) for s in slices} & {"IPv4", "IPv6"})
    own = str(((service or {}).get("spec") or {}).get("clusterIP") or "None")
    wanted = "IPv6" if ":" in own else "IPv4"
    return wanted if wanted in types else next(iter(types), "")


def _ports(entry: Object, target: Target, service: Object | None) -> list[int]:
    ports = [p for p in entry.get("ports") or [] if p.get("protocol", "TCP") == "TCP" and p.get("port")]
    if target.of_service:
        wanted = ((service or {}).get("spec") or {}).get("ports") or []
        names = {p.get("name") or "" for p in wanted if target.port in (p.get("name"), str(p["port"]))}
        ports = [p for p in ports if (p.get("name") or "") in names]
    elif target.port:
        ports = [p for p in ports if target.port in (p.get("name"), str(p["port"]))]
    return [int(p["port"]) for p in ports]


def _without_extras(text: str) -> IPv4Address | IPv6Address:
    """Return an address without its zone; one that is mapped into IPv6 (::ffff:127.0.0.1) is the IPv4 address."""
    address = ip_address(ip_address(text).packed)
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def _ready(entry: Object) -> list[str]:
    """Return the addresses of ready endpoints that no packet of the router's own host would answer."""
    addresses = [
        _without_extras(endpoint["addresses"][0])
        for endpoint in entry.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
    return [str(a) for a in addresses if not (a.is_loopback or a.is_link_local or a.is_multicast or a.is_unspecified)]


def servers(claim: Claim, services: Objects, slices: Slices) -> list[Server]:
    """Return the servers of a claim in a lasting order. A Service's weight is shared by its endpoints; the greatest
    share is haproxy's largest weight where Services compete, and 1 where there is but one."""
    found: dict[tuple[str, str, int], float] = {}
    for target in claim.targets:
        key = (claim.namespace, target.service)
        entries, service = slices.get(key, ()), services.get(key)
        family = _family(entries, service)
        own = {
            (target.service, address, port)
            for entry in entries
            if entry["addressType"] == family
            for port in _ports(entry, target, service)
            for address in _ready(entry)
        }
        found |= dict.fromkeys(own, target.weight / len(own) if own else 0.0)
    most = max(found.values(), default=0.0)

    def weight(share: float) -> int:
        if len(claim.targets) == 1:
            return 1 if share else 0
        return max(round(share / most * MOST), 1) if share else 0

    return sorted(Server(*where, weight(share)) for where, share in found.items())
