"""A cluster as a lab has it: every machine with its role, its networks and the addresses that are given."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import cast, get_args

from lab.derive import attachment, hints
from lab.derive.attachment import Address, Attachment, Problems
from lab.derive.inputs import Inputs
from lab.errors import ConfigsError
from lab.topology import Disk, Platform, Role, words
from lab.topology.words import Subnet

INSTALL = "install-config.yaml"
AGENT = "agent-config.yaml"
CLUSTER_INSTALL = "cluster-manifests/agent-cluster-install.yaml"
#: More than any machine can run, and fewer than the MAC addresses that the lab may give out.
MAX_NODES = 128
# In the order in which hosts without a role get theirs.
ROLES: tuple[Role, ...] = ("master", "arbiter", "worker")
DEFAULT_NETWORK = "10.0.0.0/16"
_ARCHITECTURE = "amd64"


@dataclass(frozen=True)
class Host:
    """One host. `file` and `path` are where it is listed; without them the files only count it. `role` is empty where
    they say none."""

    name: str = ""
    role: str = ""
    attachment: Attachment = field(default_factory=Attachment)
    disks: tuple[Disk, ...] = ()
    _: KW_ONLY
    file: str = ""
    path: str = ""


@dataclass(frozen=True)
class Cluster:
    """A cluster, every machine with its role. `source` is the file that describes the whole."""

    name: str
    base_domain: str
    platform: Platform
    subnets: tuple[Subnet, ...]
    _: KW_ONLY
    source: str
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    rendezvous: str
    ntp: tuple[str, ...]
    minimal: bool
    hosts: tuple[tuple[Host, Role], ...]
    proxy: bool = False
    load_balancer: bool = False
    #: The networks of pods and services.
    inner: tuple[Subnet, ...] = ()
    # Whether root disks are encrypted (LUKS) with keys in TPMs, or with a Tang server of the user's.
    tpm: bool = False
    tang: bool = False


def read(inputs: Inputs) -> Cluster:
    """Return the cluster of these inputs. Raises ConfigsError with everything that no lab can be made of."""
    problems: Problems = []
    for line in inputs.contradictions:
        file, _, rule = line.partition(": ")
        problems.append((file, rule))
    source = INSTALL if inputs.source == "configs" else CLUSTER_INSTALL
    if inputs.platform not in get_args(Platform):
        problems.append((source, f"platform: must be none, baremetal or external in a lab, not {inputs.platform}"))
    if inputs.architecture != _ARCHITECTURE:
        problems.append((source, f"architecture: the lab's machines are {_ARCHITECTURE}, not {inputs.architecture}"))
    if (total := sum(inputs.replicas.values())) > MAX_NODES:
        problems.append((source, f"replicas: {total} nodes in all, a lab has at most {MAX_NODES}"))
    if len(inputs.hosts) > total:
        first = inputs.hosts[0].file
        problems.append((first, f"{len(inputs.hosts)} hosts are listed, {source} has {total}"))
    if problems:
        raise ConfigsError(list(dict.fromkeys(problems)))
    hosts = [
        Host(
            label(host.name),
            host.role,
            attachment.read(host, problems),
            hints.disks(host, problems),
            file=host.file,
            path=host.path,
        )
        for host in inputs.hosts
    ]
    if problems:
        raise ConfigsError(problems)
    # No host leads where the user boots machines (docs/upi.md).
    alone = inputs.source == "configs" and not inputs.rendezvous_ip
    bootstrap: tuple[tuple[Host, Role], ...] = ((Host("bootstrap"), "bootstrap"),) if alone else ()
    encryption = inputs.disk_encryption
    mode = encryption.mode if encryption and encryption.enable_on not in ("", "none") else ""
    return Cluster(
        name=inputs.cluster_name,
        base_domain=inputs.base_domain.rstrip("."),
        platform=cast(Platform, inputs.platform),
        subnets=tuple(map(ip_network, inputs.machine_networks)) or _networks_of(hosts, inputs.api_vips),
        source=source,
        api_vips=inputs.api_vips,
        ingress_vips=inputs.ingress_vips,
        rendezvous=inputs.rendezvous_ip,
        # Without the servers that are given by name: the lab has none of those.
        ntp=tuple(str(clock) for text in inputs.ntp_sources if (clock := words.address(text))),
        minimal=inputs.minimal_iso,
        hosts=(*bootstrap, *_fenced(_placed(_with_bootstrap(hosts, inputs), inputs), inputs)),
        # A proxy for either scheme is the registry's too, as far as the lab is concerned.
        proxy=inputs.proxy is not None and bool(inputs.proxy.http_proxy or inputs.proxy.https_proxy),
        # Elsewhere OpenShift leaves the load balancer to the user.
        load_balancer=inputs.user_managed_load_balancer
        if inputs.platform == "baremetal"
        else total + len(bootstrap) > 1,
        inner=tuple(map(ip_network, [*(entry.cidr for entry in inputs.cluster_networks), *inputs.service_networks])),
        tpm=mode == "tpmv2",
        tang=mode == "tang",
    )


def label(name: str) -> str:
    """Return a host's name in the lab: the first label of its hostname, in lower case as kubelet has it."""
    return name.split(".")[0].lower()


def asks(host: Host, address: str) -> bool:
    """Return whether a host may be given this address: it asks for one of its family (DHCP), and has none in its
    network."""
    ifaces = host.attachment.ifaces
    version = 6 if ":" in address else 4
    own = (address.network for iface in ifaces if version not in iface.dynamic for address in iface.addresses)
    held = any(ip_address(address) in network for network in own)
    return not ifaces or (not held and any(version in iface.dynamic for iface in ifaces))


def _networks_of(hosts: Iterable[Host], virtual: Iterable[str]) -> tuple[Subnet, ...]:
    """Return networks for manifests that name none, as the service finds them: those of hosts' addresses that hold the
    API's where that is known, else the first host's, else OpenShift's default."""
    static: list[Address] = [address for host in hosts for address in host.attachment.addresses]
    holding = [address.network for address in static if any(ip_address(text) in address.network for text in virtual)]
    chosen = dict.fromkeys(holding or [address.network for address in static[:1]] or [ip_network(DEFAULT_NETWORK)])
    # The shortest prefix, where hosts have several in one network.
    wider = {
        network for network, other in itertools.permutations(chosen, 2)
        if network.version == other.version and network.prefixlen > other.prefixlen and network.overlaps(other)
    }  # fmt: skip
    return tuple(network for network in chosen if network not in wider)


def _with_bootstrap(hosts: list[Host], inputs: Inputs) -> list[Host]:
    """Return the hosts, of which the one with the rendezvous IP is a master unless there are enough."""
    if sum(host.role == "master" for host in hosts) >= inputs.replicas["master"]:
        return hosts
    return [
        replace(host, role="master")
        if not host.role and any(str(address.ip) == inputs.rendezvous_ip for address in host.attachment.addresses)
        else host
        for host in hosts
    ]


def _placed(hosts: list[Host], inputs: Inputs) -> list[tuple[Host, Role]]:
    """Return every listed host with its role, in the files' order, then as many more as the counts ask for."""
    left = Counter({role: inputs.replicas[role] for role in ROLES})
    left.subtract(Counter(cast(Role, host.role) for host in hosts if host.role))
    placed: list[tuple[Host, Role]] = []
    for host in hosts:
        role = cast(Role, host.role) or next(role for role in ROLES if left[role] > 0)
        if not host.role:
            left[role] -= 1
        placed.append((host, role))
    return placed + [(Host(), role) for role in ROLES for _ in range(left[role])]


def _fenced(hosts: list[tuple[Host, Role]], inputs: Inputs) -> tuple[tuple[Host, Role], ...]:
    """Return the hosts, where masters without a name have those of the fencing credentials that are left."""
    named = {host.name for host, role in hosts if role == "master" and host.name}
    free = iter([name for entry in inputs.fencing if (name := label(entry.host_name)) and name not in named])
    return tuple(
        (replace(host, name=next(free, "")) if role == "master" and not host.name else host, role)
        for host, role in hosts
    )
