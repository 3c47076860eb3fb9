"""Rules 9 to 17: the cluster's networks."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config import check
from installer.config.check import Network
from installer.config.fielderror import FieldError, invalid
from installer.config.rules.catalogue import rule
from installer.config.types import InstallConfig, Networking

# What OVN-Kubernetes uses inside the cluster unless told otherwise (rule 11).
OVN_DEFAULTS = (
    ("join", "100.64.0.0/16"),
    ("join", "fd98::/64"),
    ("transit", "100.88.0.0/16"),
    ("transit", "fd97::/64"),
    ("masquerade", "169.254.0.0/17"),
    ("masquerade", "fd69::/112"),
)
_IPV6_PLATFORMS = ("baremetal", "vsphere", "openstack", "ovirt", "nutanix", "none", "external")
_IPV6_FIRST_PLATFORMS = ("baremetal", "vsphere", "openstack", "none", "external")


def _net(config: InstallConfig) -> Networking:
    return config.networking or Networking()


def _join_subnet(net: Networking) -> str:
    ovn = net.ovn_kubernetes_config
    return ovn.ipv4.internal_join_subnet if ovn and ovn.ipv4 else ""


def _ovn_overlap(net: Networking, path: str, value: str) -> Iterator[FieldError]:
    network = check.network(value)
    if network is None or net.network_type != "OVNKubernetes":
        return
    for name, default in OVN_DEFAULTS:
        if name == "join" and "." in default and _join_subnet(net):
            continue
        other = check.network(default)
        if other is not None and check.overlap(network, other):
            yield invalid(path, value, f"must not overlap with OVNKubernetes default {name} subnet {default}")


def _earlier(path: str, value: str, others: list[tuple[str, str]]) -> Iterator[FieldError]:
    network = check.network(value)
    for label, text in others:
        other = check.network(text)
        if network is not None and other is not None and check.overlap(network, other):
            yield invalid(path, value, f"{label} overlap with {text}")


@rule("9", "networking.networkType")
def network_type(config: InstallConfig) -> Iterator[FieldError]:
    """OVNKubernetes or a third party's; the retired ones are named."""
    kind = _net(config).network_type
    if kind == "Kuryr":
        yield invalid("networking.networkType", kind, "networkType Kuryr is not supported on OpenShift later than 4.14")
    elif kind == "OpenShiftSDN":
        yield invalid(
            "networking.networkType", kind, "networkType OpenShiftSDN is not supported, please use OVNKubernetes"
        )


@rule("11", "networking.machineNetwork")
def machine_network(config: InstallConfig) -> Iterator[FieldError]:
    """Real networks, apart from each other and from OVN's."""
    net = _net(config)
    before: list[tuple[str, str]] = []
    for index, entry in enumerate(net.machine_network):
        path = f"networking.machineNetwork[{index}]"
        if problem := check.cidr(entry.cidr):
            yield invalid(path, entry.cidr, problem)
        yield from _earlier(path, entry.cidr, before)
        yield from _ovn_overlap(net, path, entry.cidr)
        before.append((f"machine network must not overlap with machine network {index}:", entry.cidr))


@rule("12", "networking.serviceNetwork")
def service_network(config: InstallConfig) -> Iterator[FieldError]:
    """Real networks, small enough, apart from machine networks, each other and OVN's."""
    net = _net(config)
    before = [
        (f"service network must not overlap with machine network {index}:", entry.cidr)
        for index, entry in enumerate(net.machine_network)
    ]
    for index, value in enumerate(net.service_network):
        path = f"networking.serviceNetwork[{index}]"
        if problem := check.cidr(value):
            yield invalid(path, value, problem)
        yield from _earlier(path, value, before)
        yield from _ovn_overlap(net, path, value)
        found = check.network(value)
        if found is not None and found.prefixlen < (12 if found.version == 4 else 108):
            yield invalid(
                path, value, f"subnet size for service network must be /{12 if found.version == 4 else 108} or longer"
            )
        before.append((f"service network must not overlap with service network {index}:", value))


@rule("13", "networking.clusterNetwork")
def cluster_network(config: InstallConfig) -> Iterator[FieldError]:
    """Real networks apart from all others."""
    net = _net(config)
    before = [
        (f"cluster network must not overlap with machine network {index}:", entry.cidr)
        for index, entry in enumerate(net.machine_network)
    ]
    before += [
        (f"cluster network must not overlap with service network {index}:", value)
        for index, value in enumerate(net.service_network)
    ]
    for index, entry in enumerate(net.cluster_network):
        path = f"networking.clusterNetwork[{index}].cidr"
        if problem := check.cidr(entry.cidr):
            yield invalid(path, entry.cidr, problem)
        yield from _earlier(path, entry.cidr, before)
        yield from _ovn_overlap(net, path, entry.cidr)
        before.append((f"cluster network must not overlap with cluster network {index}:", entry.cidr))


@rule("14", "networking.clusterNetwork[].hostPrefix")
def host_prefixes(config: InstallConfig) -> Iterator[FieldError]:
    """Such that a node's network fits into the cluster's; one value for all of IPv4, 64 for IPv6."""
    prefixes: set[int] = set()
    for index, entry in enumerate(_net(config).cluster_network):
        path, prefix = f"networking.clusterNetwork[{index}].hostPrefix", entry.host_prefix or 0
        found = check.network(entry.cidr)
        if prefix < 0:
            yield invalid(path, prefix, "hostPrefix must be positive")
        elif found is not None and prefix < found.prefixlen:
            text = "cluster network host subnetwork prefix must not be larger size than CIDR"
            yield invalid(path, prefix, f"{text} {entry.cidr}")
        elif found is not None and found.version == 6 and prefix != 64:
            yield invalid(path, prefix, "cluster network host subnetwork prefix must be 64 for IPv6 networks")
        elif found is not None and prefix > found.max_prefixlen:
            yield invalid(path, prefix, f"must not be longer than {found.max_prefixlen}")
        if found is not None and found.version == 4:
            prefixes.add(prefix)
            if len(prefixes) > 1:
                text = "cluster network host subnetwork prefix must be the same value for IPv4 networks"
                yield invalid(path, prefix, text)


def _families(values: list[str]) -> list[int]:
    nets: list[Network | None] = [check.network(value) for value in values]
    return [net.version for net in nets if net is not None]


@rule("15", "networking")
def dual_stack(config: InstallConfig) -> Iterator[FieldError]:
    """All lists speak of the same address families, in an order that the platform can do."""
    net, platform = _net(config), config.platform.name
    lists = {
        "machineNetwork": _families([entry.cidr for entry in net.machine_network]),
        "serviceNetwork": _families(list(net.service_network)),
        "clusterNetwork": _families([entry.cidr for entry in net.cluster_network]),
    }
    have4 = any(4 in found for found in lists.values())
    have6 = any(6 in found for found in lists.values())
    services = list(net.service_network)
    if have4 and have6:
        if len(services) != 2:
            yield invalid(
                "networking.serviceNetwork",
                ", ".join(services),
                "when installing dual-stack IPv4/IPv6 you must provide two service networks, one for each IP family",
            )
        for name, found in lists.items():
            for family in (4, 6):
                if found and family not in found:
                    yield invalid(
                        f"networking.{name}",
                        f"IPv{10 - family}",
                        f"dual-stack IPv4/IPv6 requires an IPv{family} network in this list",
                    )
            if found and found[0] == 6 and platform not in _IPV6_FIRST_PLATFORMS:
                yield invalid(f"networking.{name}", "IPv6", "IPv4 addresses must be listed before IPv6 addresses")
        return
    if have6 and platform and platform not in _IPV6_PLATFORMS:
        yield invalid("networking", "IPv6", f"single-stack IPv6 is not supported for platform {platform}")
    if len(services) > 1:
        yield invalid("networking.serviceNetwork", ", ".join(services), "only one service network can be specified")


@rule("16", "networking.clusterNetworkMTU")
def cluster_network_mtu(config: InstallConfig) -> Iterator[FieldError]:
    """Only clouds have it."""
    mtu = _net(config).cluster_network_mtu
    if mtu is not None:
        yield invalid("networking.clusterNetworkMTU", mtu, "cluster network MTU is not valid with this platform")


@rule("17", "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet")
def join_subnet(config: InstallConfig) -> Iterator[FieldError]:
    """A network of its own with an address for every node."""
    net = _net(config)
    value = _join_subnet(net)
    path = "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet"
    if not value:
        return
    if problem := check.cidr(value):
        yield invalid(path, value, problem)
        return
    others = [("must not overlap with clusterNetwork:", entry.cidr) for entry in net.cluster_network]
    others += [("must not overlap with machineNetwork:", entry.cidr) for entry in net.machine_network]
    others += [("must not overlap with serviceNetwork:", item) for item in net.service_network]
    yield from _earlier(path, value, others)
    found = check.network(value)
    nodes = config.masters + config.arbiters + config.workers
    if found is not None and found.num_addresses < nodes + 2:
        yield invalid(path, value, f"ipv4InternalJoinSubnet is not large enough for {nodes} nodes")
