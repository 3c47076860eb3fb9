"""What install-config.yaml and agent-config.yaml say of a cluster and its machines."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, cast

from installer.common import hostaddresses
from lab.derive import attachment, contradictions, fencing, hints
from lab.derive.attachment import Attachment, Card
from lab.derive.contradictions import Membership
from lab.derive.fields import Field, Problems, Subnet, addresses, label
from lab.topology import Disk, Platform, Role, words

INSTALL = "install-config.yaml"
AGENT = "agent-config.yaml"
# OpenShift's defaults (reference/installer.md §1.1).
DEFAULT_NETWORK = "10.0.0.0/16"
DEFAULT_REPLICAS = 3
#: More than any machine can run, and fewer than the MAC addresses that the lab may give out.
MAX_NODES = 128
ROLES: tuple[Role, ...] = ("master", "arbiter", "worker")
PLATFORMS: tuple[Platform, ...] = ("none", "baremetal", "external")


@dataclass(frozen=True)
class Host:
    """One host. `place` is its field; without one the files do not list it. `role` is empty where they say none."""

    name: str = ""
    role: str = ""
    attachment: Attachment = field(default_factory=Attachment)
    disks: tuple[Disk, ...] = ()
    _: KW_ONLY
    place: Field | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Cluster:
    """A cluster, every machine with its role."""

    name: str
    base_domain: str
    platform: Platform
    subnets: tuple[Subnet, ...]
    _: KW_ONLY
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    rendezvous: str
    ntp: tuple[str, ...]
    minimal: bool
    hosts: tuple[tuple[Host, Role], ...]
    proxy: bool = False
    load_balancer: bool = False
    #: The networks of pods and services, as far as the files say.
    inner: tuple[Subnet, ...] = ()
    # Whether root disks are encrypted (LUKS) with keys in TPMs, or with a Tang server of the user's.
    tpm: bool = False
    tang: bool = False


def read(install: Mapping[str, Any], agent: Mapping[str, Any]) -> Cluster:
    """The cluster of the two files. Raises ConfigsError with everything that no lab can be made of."""
    problems = Problems()
    top, other = (
        Field(value=install, source=INSTALL, path="", problems=problems),
        Field(value=agent, source=AGENT, path="", problems=problems),
    )
    counts = _counts(top)
    platform = _platform(top)
    listed = _agent_hosts(other) or _baremetal_hosts(top)
    source = AGENT if other.get("hosts") else INSTALL
    subnets = _subnets(top)
    rendezvous = other.get("rendezvousIP").address()
    hosts = _placed(_with_bootstrap(listed, rendezvous, counts["master"]), counts, source, problems)
    hosts = _fenced(hosts, top.get("controlPlane", "fencing", "credentials"))
    if not hosts and not problems.lines:
        top.get("controlPlane", "replicas").wrong("a cluster has at least one node")
    if not other.get("rendezvousIP") and not any(host.attachment.addresses for _, host in listed):
        # reference/installer.md §1.5
        other.get("rendezvousIP").wrong(
            "missing, and no host has a static address that the installer could take for it"
        )
    _names(listed)
    api, ingress = _vips(top, "apiVIP", platform), _vips(top, "ingressVIP", platform)
    balancer = _own_balancer(top, platform, len(hosts))
    if not balancer:
        contradictions.virtual_ips([*api, *ingress], subnets)
    contradictions.check(
        [(entry, host.role, host.attachment) for entry, host in listed],
        subnets,
        other.get("rendezvousIP"),
        [(one.address(), one) for one in (*api, *ingress)],
        asking=[host.place for host, role in hosts if role == "master" and asks(host, rendezvous)],
        membership=_membership(platform, len(hosts), balancer=balancer),
        networks=top.get("networking", "machineNetwork"),
        unlisted=any(host.place is None for host, _ in hosts),
    )
    cluster = Cluster(
        name=top.get("metadata", "name").text(),
        base_domain=top.get("baseDomain").text().rstrip("."),
        platform=platform,
        subnets=subnets,
        api_vips=addresses(api),
        ingress_vips=addresses(ingress),
        rendezvous=rendezvous,
        # Without the servers that are given by name: the lab has none of those.
        ntp=tuple(str(one) for text in other.get("additionalNTPSources").texts() if (one := words.address(text))),
        minimal=other.get("minimalISO").value is True,
        hosts=hosts,
        # A proxy for either scheme is the registry's too, as far as the lab is concerned.
        proxy=bool(top.get("proxy", "httpProxy") or top.get("proxy", "httpsProxy")),
        load_balancer=balancer,
        inner=_inner(top),
    )
    problems.raise_if_any()
    return cluster


def _names(listed: list[tuple[Field, Host]]) -> None:
    """Note hostnames that the service would refuse, or that two hosts have."""
    seen: dict[str, Field] = {}
    for entry, host in listed:
        place = entry.get("hostname" if entry.has("hostname") else "name")
        if not host.name:
            continue
        rules = [rule for _, rule in words.label(place.path, host.name)] or [hostaddresses.hostname(place.text())]
        for rule in filter(None, rules):
            place.wrong(rule)
        if host.name in seen:
            rule = f"name {host.name} is used more than once, by {seen[host.name].path} too; labs go by its first label"
            entry.wrong(rule)
        seen.setdefault(host.name, entry)


def asks(host: Host, address: str) -> bool:
    """Whether a host may be given this address: it asks for one of its family (DHCP), and has none in its network."""
    ifaces = host.attachment.ifaces
    version = 6 if ":" in address else 4
    own = (one.network for iface in ifaces if version not in iface.dynamic for one in iface.addresses)
    parsed = words.address(address)
    held = parsed is not None and any(parsed in network for network in own)
    return not ifaces or (not held and any(version in iface.dynamic for iface in ifaces))


def _replicas(pool: Field, default: int) -> int:
    architecture = pool.get("architecture")
    if architecture.text() not in ("", "amd64"):
        architecture.wrong(f"the lab's machines are amd64, not {architecture.text()}")
    value = pool.get("replicas").value
    # 3.0 is 3 to Go, too.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return pool.get("replicas").number(default)


def _counts(top: Field) -> dict[Role, int]:
    """How many machines of each role the files ask for."""
    pools = top.get("compute").items()
    # The installer takes a pool of workers where none is given.
    workers = [_replicas(pool, DEFAULT_REPLICAS) for pool in pools] or [DEFAULT_REPLICAS]
    counts: dict[Role, int] = {
        "master": _replicas(top.get("controlPlane"), DEFAULT_REPLICAS),
        "arbiter": _replicas(top.get("arbiter"), 0),
        "worker": sum(workers),
    }
    if (total := sum(counts.values())) > MAX_NODES:
        path = "controlPlane.replicas and compute[].replicas"
        top.problems.add(INSTALL, path, f"{total} nodes in all, a lab has at most {MAX_NODES}")
        return dict.fromkeys(counts, 0)
    return counts


def _platform(top: Field) -> Platform:
    field = top.get("platform")
    names = list(field.map())
    if len(names) == 1 and names[0] in PLATFORMS:
        return names[0]
    if field.value is None or isinstance(field.value, Mapping):
        detail = f", not {', '.join(map(str, names))}" if names else "; nothing is given"
        field.wrong(f"must be none, baremetal or external in a lab{detail}")
    return "none"


def _subnets(top: Field) -> tuple[Subnet, ...]:
    """The machine networks; OpenShift's default where the files say none."""
    listed, former = top.get("networking", "machineNetwork"), top.get("networking", "machineCIDR")
    if not listed and not former:
        return (ipaddress.IPv4Network(DEFAULT_NETWORK),)
    fields = [entry.get("cidr") for entry in listed.maps()] if listed else [former]
    subnets: list[Subnet] = []
    places: list[Field] = []
    for one in fields:
        subnet = _subnet(one)
        if subnet is None:
            continue
        for other, place in zip(subnets, places, strict=True):
            if subnet.version == other.version and subnet.overlaps(other):
                one.wrong(f"{subnet} overlaps with {other} of {place.path}: networks have no address in common")
                break
        else:
            subnets.append(subnet)
            places.append(one)
    return tuple(subnets)


def _subnet(cidr: Field) -> Subnet | None:
    """A network that hosts can be in, written as Go reads it (net.ParseCIDR); what is none is noted."""
    text = cidr.text()
    if not re.fullmatch(r"[0-9a-fA-F.:]+/[0-9]+", text):
        cidr.wrong(f"{text!r} is not an address and the length of its prefix, as in 192.168.111.0/24")
        return None
    try:
        subnet = ipaddress.ip_network(text)
    except ValueError as error:
        cidr.wrong(str(error))
        return None
    if subnet.num_addresses == 1:
        cidr.wrong(f"{subnet} is one address, which is no network")
        return None
    if rule := words.no_network(subnet):
        cidr.wrong(rule)
        return None
    return subnet


def _inner(top: Field) -> tuple[Subnet, ...]:
    networking = top.get("networking").map()
    pods, services = networking.get("clusterNetwork"), networking.get("serviceNetwork")
    texts = [one.get("cidr") if isinstance(one, Mapping) else one for one in (*_list(pods), *_list(services))]
    return tuple(subnet for one in texts if (subnet := words.subnet(str(one))) is not None)


def _list(value: object) -> list[Any]:
    """A list whose items the lab does not judge; empty where it is not a list."""
    return value if isinstance(value, list) else []


def _own_balancer(top: Field, platform: Platform, nodes: int) -> bool:
    """Whether OpenShift leaves the load balancer to the user."""
    if platform == "baremetal":
        return top.get("platform", platform, "loadBalancer", "type").text() == "UserManaged"
    return nodes > 1


def _membership(platform: Platform, nodes: int, *, balancer: bool) -> Membership:
    """In which machine networks hosts must have an address (installer.md §5.4, belongs-to-machine-cidr)."""
    if platform == "baremetal":
        return Membership.ONE if balancer else Membership.EVERY
    return Membership.EVERY if nodes == 1 else Membership.RENDEZVOUS


def _vips(top: Field, name: str, platform: Platform) -> list[Field]:
    """The fields of a service's virtual IPs."""
    if platform != "baremetal":
        return []
    settings = top.get("platform", platform)
    several = settings.get(f"{name}s")
    fields = several.items() or [settings.get(name)]
    if not any(one.address() for one in fields):
        several.wrong("platform baremetal needs an address")
    return [one for one in fields if one.address()]


def _agent_hosts(agent: Field) -> list[tuple[Field, Host]]:
    hosts = []
    for entry in agent.get("hosts").maps():
        cards = _cards(entry)
        listed = isinstance(entry.get("interfaces").value, list | None)
        if not cards and listed and not entry.get("networkConfig", "interfaces"):
            entry.get("interfaces").wrong("a host is known by its MAC addresses: list at least one")
        host = Host(
            name=label(entry.get("hostname").text()),
            role=entry.get("role").text(),
            attachment=attachment.read(entry.get("networkConfig"), cards),
            disks=hints.disks(entry.get("rootDeviceHints")),
            place=entry,
        )
        hosts.append((entry, host))
    return hosts


def _cards(entry: Field) -> list[Card]:
    """The cards that a host lists, whose names are optional."""
    cards: list[Card] = []
    seen: dict[str, Field] = {}
    for number, listed in enumerate(entry.get("interfaces").few()):
        place, mac = listed.get("name"), listed.get("macAddress")
        name = place.text()
        if name and name in seen:
            place.wrong(f"{name} is the name of {seen[name].path} too; cards have one of their own")
        seen.setdefault(name, listed)
        cards.append(Card(name or (f"card {number}" if number else ""), mac.mac(), mac))
    return cards


def _baremetal_hosts(top: Field) -> list[tuple[Field, Host]]:
    """Hosts of platform.baremetal, used when agent-config.yaml lists none."""
    hosts = []
    for entry in top.get("platform").get("baremetal", "hosts").maps() if _has_baremetal(top) else []:
        document = entry.get("networkConfig")
        host = Host(
            name=label(entry.get("name").text()),
            role=entry.get("role").text(),
            attachment=attachment.read(document, _boot_card(entry, document)),
            disks=hints.disks(entry.get("rootDeviceHints")),
            place=entry,
        )
        hosts.append((entry, host))
    return hosts


def _boot_card(entry: Field, document: Field) -> list[Card]:
    """The card with the bootMACAddress of a host of platform.baremetal. Its name is that of the document's interface
    with this MAC address, or of its first where the document has no MAC addresses; else `boot`."""
    place = entry.get("bootMACAddress")
    mac = place.mac()
    if not mac:
        return []
    cards = [one for one in document.get("interfaces").items() if one.get("type").text() in ("", "ethernet")]
    named = {one.get("mac-address").mac(): one.get("name").text() for one in cards if one.get("mac-address")}
    first = "" if named or not cards else cards[0].get("name").text()
    return [Card(named.get(mac) or first or "boot", mac, place)]


def _has_baremetal(top: Field) -> bool:
    return isinstance(top.get("platform").value, Mapping)


def _with_bootstrap(listed: list[tuple[Field, Host]], rendezvous: str, masters: int) -> list[tuple[Field, Host]]:
    """The listed hosts, of which the one with the rendezvous IP is a master unless there are enough."""
    if sum(host.role == "master" for _, host in listed) >= masters:
        return listed
    return [
        (entry, replace(host, role="master"))
        if not host.role and any(str(one.ip) == rendezvous for one in host.attachment.addresses)
        else (entry, host)
        for entry, host in listed
    ]


def _fenced(hosts: tuple[tuple[Host, Role], ...], credentials: Field) -> tuple[tuple[Host, Role], ...]:
    """The hosts, where masters without a name have those of the fencing credentials."""
    masters = [index for index, (_, role) in enumerate(hosts) if role == "master"]
    names = dict(zip(masters, fencing.names([hosts[index][0].name for index in masters], credentials), strict=True))
    return tuple((replace(host, name=names.get(at, host.name)), role) for at, (host, role) in enumerate(hosts))


def _placed(
    listed: list[tuple[Field, Host]], counts: Mapping[Role, int], source: str, problems: Problems
) -> tuple[tuple[Host, Role], ...]:
    """Every listed host with its role, in the files' order, then as many more as the counts ask for."""
    if not any(counts.values()) and problems.lines:
        # There are too many hosts, which has been reported already.
        return ()
    left = Counter({role: counts[role] for role in ROLES})
    for entry, host in listed:
        if host.role in left:
            left[cast(Role, host.role)] -= 1
        elif host.role:
            entry.get("role").wrong(f"{host.role!r} is not one of {', '.join(ROLES)}")
    for role in ROLES:
        if left[role] < 0:
            problems.add(source, "hosts", f"{counts[role] - left[role]} are {role}s, {INSTALL} has {counts[role]}")
    placed: list[tuple[Host, Role]] = []
    for _, host in listed:
        fits = [r for r in ROLES if r == host.role or (not host.role and left[r] > 0)]
        if not fits:
            if not host.role:
                problems.add(source, "hosts", f"{len(listed)} are listed, {INSTALL} has {sum(counts.values())}")
            break
        if not host.role:
            left[fits[0]] -= 1
        placed.append((host, fits[0]))
    for role in ROLES:
        placed += [(Host(), role) for _ in range(left[role])]
    return tuple(placed)
