"""The resource records of Kubernetes' DNS-Based Service Discovery, schema 1.1.0, from the cluster's objects.

The specification: kubernetes/dns, docs/specification.md; sections are quoted as (§2.3). Where it leaves a choice, this
does as CoreDNS's plugin `kubernetes`: an endpoint without a hostname is known by its address with dashes, SRV records
of headless Services have their endpoints' port numbers, and a Namespace that exists has no data instead of no name.
Names of pods (§2.6) are computed by the server (data/unbound/pods.py): there is one for every address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Any, NamedTuple

ZONE = "cluster.local"
SCHEMA = "1.1.0"
#: Seconds that a client may keep a record: CoreDNS's.
TTL = 5
#: A type for private use (RFC 6895 §3.1): it lets a name exist that has no other data.
EXISTS = "TYPE65280"
#: The zone's name server: the Service by which pods ask.
SERVER = f"ns.dns.{ZONE}."
DNS_SERVICE = ("openshift-dns", "dns-default")
#: Characters of a name with the dot at its end, and of one of its labels.
LONGEST_NAME, LONGEST_LABEL = 254, 63
SERVICE_OF_SLICE = "kubernetes.io/service-name"

Object = dict[str, Any]


class Record(NamedTuple):
    """One resource record: its owner, absolute and in lower case, its type, and its data as in a zone file."""

    name: str
    type: str
    data: str


def service_name(namespace: str, name: str) -> str:
    """Return a Service's absolute name."""
    return f"{name}.{namespace}.svc.{ZONE}."


def _address(name: str, address: str) -> Record:
    return Record(name, "A" if ip_address(address).version == 4 else "AAAA", address)


def _pointer(address: str, target: str) -> Record:
    return Record(f"{ip_address(address).reverse_pointer}.", "PTR", target)


def _srv(port: Object, owner: str, target: str) -> Iterator[Record]:
    """Make the SRV record of a named port (§2.3.2, §2.4.2); those without a name have none."""
    if port.get("name") and port.get("port"):
        protocol = (port.get("protocol") or "TCP").lower()
        yield Record(f"_{port['name']}._{protocol}.{owner}", "SRV", f"0 100 {port['port']} {target}")


def _cluster_ips(service: Object) -> list[str]:
    spec = service["spec"]
    listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [address for address in listed if address and address != "None"]


def _of_service(service: Object) -> Iterator[Record]:
    """Make the records of a Service with addresses of its own (§2.3) or an external name (§2.5)."""
    spec, meta = service["spec"], service["metadata"]
    name = service_name(meta["namespace"], meta["name"])
    if spec.get("type") == "ExternalName":
        yield Record(name, "CNAME", f"{spec['externalName'].rstrip('.').lower()}.")
        return
    for address in _cluster_ips(service):
        yield _address(name, address)
        if (meta["namespace"], meta["name"]) == DNS_SERVICE:
            yield _address(SERVER, address)
        yield _pointer(address, name)
        for port in spec.get("ports") or []:
            yield from _srv(port, name, name)


def _is_headless(service: Object) -> bool:
    spec = service["spec"]
    return bool(spec.get("type") != "ExternalName" and spec.get("clusterIP") == "None")


def _host(endpoint: Object, address: str) -> str:
    """Return an endpoint's hostname, or else its address: unabridged, since no label ends in a dash."""
    if endpoint.get("hostname"):
        return str(endpoint["hostname"]).lower()
    parsed = ip_address(address)
    text = str(parsed) if parsed.version == 4 else parsed.exploded
    return text.replace(".", "-").replace(":", "-")


def _of_slice(part: Object, name: str) -> Iterator[Record]:
    """Make the records of the ready endpoints of a headless Service (§2.4). With publishNotReadyAddresses, the
    controller that makes the EndpointSlices calls all of them ready."""
    for endpoint in part.get("endpoints") or []:
        if (endpoint.get("conditions") or {}).get("ready") is False:
            continue
        for address in endpoint["addresses"]:
            target = f"{_host(endpoint, address)}.{name}"
            yield _address(name, address)
            yield _address(target, address)
            yield _pointer(address, target)
            for port in part.get("ports") or []:
                yield from _srv(port, name, target)


def records(services: Iterable[Object], slices: Iterable[Object], namespaces: Iterable[str]) -> frozenset[Record]:
    """Return all records: those below `cluster.local`, and PTR records below in-addr.arpa and ip6.arpa."""
    found = {Record(f"dns-version.{ZONE}.", "TXT", f'"{SCHEMA}"')}
    headless = set()
    for service in services:
        found.update(_of_service(service))
        if _is_headless(service):
            headless.add((service["metadata"]["namespace"], service["metadata"]["name"]))
    for part in slices:
        owner = (part["metadata"].get("labels") or {}).get(SERVICE_OF_SLICE, "")
        key = (part["metadata"]["namespace"], owner)
        if key in headless and part["addressType"] in ("IPv4", "IPv6"):
            found.update(_of_slice(part, service_name(*key)))
    for namespace in namespaces:
        found.update(Record(f"{namespace}.{kind}.{ZONE}.", EXISTS, r"\# 0") for kind in ("svc", "pod"))
    # The API takes labels that DNS does not: ports' names of 63 characters and an underscore, external names of any.
    return frozenset(r for r in found if _fits(r.name) and _fits(r.data.rpartition(" ")[2]))


def _fits(name: str) -> bool:
    """Return whether DNS has room for a name (RFC 1035 §2.3.4); a server would refuse the whole zone for it."""
    return len(name) <= LONGEST_NAME and all(len(label) <= LONGEST_LABEL for label in name.split("."))


def zone_file(found: Iterable[Record], serial: int) -> str:
    """Return the zone `cluster.local` as a zone file, in an order of its own; PTR records are left out."""
    head = [
        f"{ZONE}. {TTL} IN SOA {SERVER} hostmaster.{ZONE}. {serial} 7200 1800 86400 {TTL}",
        f"{ZONE}. {TTL} IN NS {SERVER}",
    ]
    lines = sorted(f"{name} {TTL} IN {kind} {data}" for name, kind, data in found if kind != "PTR")
    return "\n".join([*head, *lines, ""])
