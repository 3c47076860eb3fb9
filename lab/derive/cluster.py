"""What install-config.yaml and agent-config.yaml say of a cluster and its machines."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from lab.derive import attachment, hints
from lab.derive.attachment import Attachment, Card
from lab.derive.fields import Field, Problems, addresses
from lab.topology import Disk, Platform, Role

INSTALL = "install-config.yaml"
AGENT = "agent-config.yaml"
# OpenShift's defaults (reference/installer.md §1.1).
DEFAULT_NETWORK = "10.0.0.0/16"
DEFAULT_REPLICAS = 3
#: More than any machine can run, and fewer than the MAC addresses that the lab may give out.
MAX_NODES = 128
ROLES: tuple[Role, ...] = ("master", "arbiter", "worker")
PLATFORMS: tuple[Platform, ...] = ("none", "baremetal", "external")
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Host:
    """One host of the files, or one that they only count; `role` is empty where they do not say."""

    name: str = ""
    role: str = ""
    attachment: Attachment = field(default_factory=Attachment)
    disks: tuple[Disk, ...] = ()


@dataclass(frozen=True)
class Cluster:
    """A cluster, every machine with its role; `source` is the file that lists hosts."""

    name: str
    base_domain: str
    platform: Platform
    subnets: tuple[Subnet, ...]
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    rendezvous: str
    ntp: tuple[str, ...]
    minimal: bool
    hosts: tuple[tuple[Host, Role], ...]
    proxy: bool = False
    load_balancer: bool = False


def read(install: Mapping[str, Any], agent: Mapping[str, Any]) -> Cluster:
    """The cluster. Raises ConfigsError with all that the lab cannot be."""
    problems = Problems()
    top, other = Field(install, INSTALL, "", problems), Field(agent, AGENT, "", problems)
    counts = _counts(top)
    platform = _platform(top)
    listed = _agent_hosts(other) or _baremetal_hosts(top)
    source = AGENT if other.get("hosts") else INSTALL
    subnets = _subnets(top)
    hosts = _placed(listed, counts, source, problems)
    if not hosts and not problems.found:
        top.get("controlPlane", "replicas").wrong("a cluster has at least one node")
    names = [_label(host.name) for host, _ in hosts if host.name]
    for index, name in enumerate(names):
        if name in names[:index]:
            problems.add(source, f"hosts[{index}]", f"name {name} is used more than once; labs go by its first label")
    api, ingress = _vips(top, "apiVIP", platform), _vips(top, "ingressVIP", platform)
    problems.settle()
    return Cluster(
        name=top.get("metadata", "name").text(),
        base_domain=top.get("baseDomain").text().rstrip("."),
        platform=platform,
        subnets=subnets,
        api_vips=api,
        ingress_vips=ingress,
        rendezvous=other.get("rendezvousIP").text(),
        ntp=tuple(text for text in other.get("additionalNTPSources").texts() if _is_address(text)),
        minimal=other.get("minimalISO").value is True,
        hosts=hosts,
        # Who has one for either scheme has it for the registry too, as far as the lab is concerned.
        proxy=bool(top.get("proxy", "httpProxy") or top.get("proxy", "httpsProxy")),
        load_balancer=_own_balancer(top, platform, len(hosts)),
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _label(name: str) -> str:
    """The host's name in the lab: the first label of its hostname; empty without one."""
    return name.split(".")[0]


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
    workers = [_replicas(pool, DEFAULT_REPLICAS) for pool in pools]
    if not top.has("compute"):
        workers = [DEFAULT_REPLICAS]
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
        given = f", not {', '.join(map(str, names))}" if names else "; nothing is given"
        field.wrong(f"must be none, baremetal or external in a lab{given}")
    return "none"


def _subnets(top: Field) -> tuple[Subnet, ...]:
    """The machine networks; OpenShift's default where the files say none."""
    entries = top.get("networking", "machineNetwork").items()
    fields = [entry.get("cidr") for entry in entries] or [top.get("networking", "machineCIDR")]
    if not entries and not fields[0]:
        return (ipaddress.IPv4Network(DEFAULT_NETWORK),)
    subnets: list[Subnet] = []
    for one in fields:
        try:
            subnets.append(ipaddress.ip_network(one.text()))
        except ValueError as error:
            one.wrong(str(error))
    return tuple(subnets)


def _own_balancer(top: Field, platform: Platform, nodes: int) -> bool:
    """Whether the user has to bring a load balancer: nobody else has the API's address."""
    if platform == "baremetal":
        return top.get("platform", platform, "loadBalancer", "type").text() == "UserManaged"
    return nodes > 1


def _vips(top: Field, name: str, platform: Platform) -> tuple[str, ...]:
    if platform != "baremetal":
        return ()
    settings = top.get("platform", platform)
    several = settings.get(f"{name}s")
    found = addresses(several.items()) or addresses([settings.get(name)])
    if not found:
        several.wrong("platform baremetal needs an address")
    return found


def _agent_hosts(agent: Field) -> list[tuple[Field, Host]]:
    hosts = []
    for entry in agent.get("hosts").items():
        cards = [
            Card(card.get("name").text(), card.get("macAddress").mac()) for card in entry.get("interfaces").items()
        ]
        if not cards and not entry.get("networkConfig", "interfaces"):
            entry.get("interfaces").wrong("a host is known by its MAC addresses: list at least one")
        host = Host(
            name=entry.get("hostname").text(),
            role=entry.get("role").text(),
            attachment=attachment.read(entry.get("networkConfig"), cards),
            disks=hints.disks(entry.get("rootDeviceHints")),
        )
        hosts.append((entry, host))
    return hosts


def _baremetal_hosts(top: Field) -> list[tuple[Field, Host]]:
    """Hosts of platform.baremetal, used when agent-config.yaml lists none."""
    hosts = []
    for entry in top.get("platform").get("baremetal", "hosts").items() if _has_baremetal(top) else []:
        mac = entry.get("bootMACAddress").mac()
        document = entry.get("networkConfig")
        names = [one.get("name").text() for one in document.get("interfaces").items() if one.get("mac-address").text()]
        first = [Card(names[0] if names else "boot", mac)] if mac and not names else []
        host = Host(
            name=entry.get("name").text(),
            role=entry.get("role").text(),
            attachment=attachment.read(document, first),
            disks=hints.disks(entry.get("rootDeviceHints")),
        )
        hosts.append((entry, host))
    return hosts


def _has_baremetal(top: Field) -> bool:
    return isinstance(top.get("platform").value, Mapping)


def _placed(
    listed: list[tuple[Field, Host]], counts: Mapping[Role, int], source: str, problems: Problems
) -> tuple[tuple[Host, Role], ...]:
    """Every listed host with its role, in the files' order, then as many more as the counts ask for."""
    if not any(counts.values()) and problems.found:
        # They were too many, and that is told already.
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
