"""Rules 9 to 17: the cluster's networks."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config.fielderror import FieldError, internal, invalid
from installer.config.rules.catalogue import rule
from installer.config.types.install import ClusterNetworkEntry, InstallConfig, Networking
from installer.config.values import check

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
    if network is None or net.network_type.lower() != "ovnkubernetes":
        return
    for name, default in OVN_DEFAULTS:
        if name == "join" and "." in default and _join_subnet(net):
            continue
        other = check.network(default)
        if other is not None and check.overlap(network, other):
            yield invalid(path, value, f"must not overlap with OVNKubernetes default {name} subnet {default}")


def _overlaps(path: str, value: str, others: list[tuple[str, str]]) -> Iterator[FieldError]:
    """`others`: (message, CIDR) of each network that must not be overlapped. Two empty CIDRs are the same network."""
    network = check.network(value)
    for text, cidr in others:
        other = check.network(cidr)
        neither = value == cidr == ""
        if neither or (network is not None and other is not None and check.overlap(network, other)):
            yield invalid(path, check.networks([value]), text)


@rule("9", "networking.networkType")
def network_type(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the plugin is OVNKubernetes or a third party's; removed plugins have an error of their own."""
    kind = _net(config).network_type
    if kind.lower() == "kuryr":
        yield invalid("networking.networkType", kind, "networkType Kuryr is not supported on OpenShift later than 4.14")
    elif kind == "OpenShiftSDN":
        yield invalid(
            "networking.networkType", kind, "networkType OpenShiftSDN is not supported, please use OVNKubernetes"
        )


@rule("11", "networking.machineNetwork")
def machine_network(config: InstallConfig) -> Iterator[FieldError]:
    """Machine networks are valid, and overlap neither each other nor OVN's networks."""
    net = _net(config)
    before: list[tuple[str, str]] = []
    for index, entry in enumerate(net.machine_network):
        path = f"networking.machineNetwork[{index}]"
        if problem := check.cidr(entry.cidr):
            yield invalid(path, entry.cidr, problem)
        else:
            yield from _ovn_overlap(net, path, entry.cidr)
            yield from _overlaps(path, entry.cidr, before)
        before.append((f"machine network must not overlap with machine network {index}", entry.cidr))


@rule("12", "networking.serviceNetwork")
def service_network(config: InstallConfig) -> Iterator[FieldError]:
    """Real networks, small enough, apart from machine networks, each other and OVN's."""
    net = _net(config)
    text = "service network must not overlap with any of the machine networks"
    before = [(text, entry.cidr) for entry in net.machine_network]
    for index, value in enumerate(net.service_network):
        path = f"networking.serviceNetwork[{index}]"
        if problem := check.cidr(value) or _too_large(value):
            yield invalid(path, value, problem)
        else:
            yield from _ovn_overlap(net, path, value)
            yield from _overlaps(path, value, before)
        before.append((f"service network must not overlap with service network {index}", value))


def _too_large(value: str) -> str | None:
    network = check.network(value)
    if network is not None and network.version == 4 and network.prefixlen < 12:
        return "subnet size for IPv4 service network must be /12 or greater (/16 is recommended)"
    if network is not None and network.version == 6 and network.prefixlen < 108:
        return "subnet size for IPv6 service network should be /112"
    return None


@rule("13", "networking.clusterNetwork")
def cluster_network(config: InstallConfig) -> Iterator[FieldError]:
    """Real networks apart from all others; a node's part of them has one size for all of IPv4, and is a /64 of IPv6.

    A problem of the network itself is reported alone. A plugin other than OVN-Kubernetes may do without a hostPrefix.
    """
    net = _net(config)
    text = "cluster network must not overlap with any of the machine networks"
    before = [(text, entry.cidr) for entry in net.machine_network]
    before += [
        (f"cluster network must not overlap with service network {index}", value)
        for index, value in enumerate(net.service_network)
    ]
    for index, entry in enumerate(net.cluster_network):
        path = f"networking.clusterNetwork[{index}]"
        if problem := check.cidr(entry.cidr):
            yield invalid(f"{path}.cidr", entry.cidr, problem)
        else:
            yield from _ovn_overlap(net, f"{path}.cidr", entry.cidr)
            yield from _overlaps(f"{path}.cidr", entry.cidr, before)
            if entry.host_prefix or net.network_type == "OVNKubernetes":
                yield from _host_prefix(f"{path}.hostPrefix", entry, net.cluster_network[:index])
        before.append((f"cluster network must not overlap with cluster network {index}", entry.cidr))


def _host_prefix(
    path: str, entry: ClusterNetworkEntry, before: tuple[ClusterNetworkEntry, ...]
) -> Iterator[FieldError]:
    network, prefix = check.network(entry.cidr), entry.host_prefix or 0
    text = "cluster network host subnetwork prefix must"
    if prefix < 0:
        yield invalid(path, prefix, "hostPrefix must be positive")
    elif network is None:
        return
    elif prefix < network.prefixlen:
        yield invalid(path, prefix, f"{text} not be larger size than CIDR {entry.cidr}")
    elif network.version == 6 and prefix != 64:
        yield invalid(path, prefix, f"{text} be 64 for IPv6 networks")
    elif network.version == 4:
        others = [other for other in before if (net := check.network(other.cidr)) is not None and net.version == 4]
        if any((other.host_prefix or 0) != prefix for other in others):
            yield invalid(path, prefix, f"{text} be the same value for IPv4 networks")


def _cidrs(net: Networking) -> dict[str, list[str]]:
    return {
        "machineNetwork": [entry.cidr for entry in net.machine_network],
        "serviceNetwork": list(net.service_network),
        "clusterNetwork": [entry.cidr for entry in net.cluster_network],
    }


def families(net: Networking) -> dict[str, list[int]]:
    """Return the address families, 4 or 6, of the CIDRs of each list of networks, by the list's name.

    An empty entry counts as upstream counts it: what is not of IPv4 is of IPv6.
    """
    return {
        name: [parsed.version if parsed is not None else 6 for parsed in map(check.network, cidrs)]
        for name, cidrs in _cidrs(net).items()
    }


@rule("15", "networking")
def dual_stack(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the service networks say which families there are; with both, each list has both, in a right order."""
    net, platform = _net(config), config.platform.name
    lists = families(net)
    services = list(net.service_network)
    services_have = lists["serviceNetwork"]
    shown = check.networks(services)
    if {4, 6} > set(services_have):
        if services_have[:1] == [6] and platform not in _IPV6_PLATFORMS:
            yield invalid("networking", "IPv6", "single-stack IPv6 is not supported for this platform")
        if services_have[:1] == [4] and len(services) > 1:
            yield invalid("networking.serviceNetwork", shown, "only one service network can be specified")
        return
    if len(services) != 2:
        yield invalid(
            "networking.serviceNetwork",
            shown,
            "when installing dual-stack IPv4/IPv6 you must provide two service networks, one for each IP address type",
        )
    if platform not in _IPV6_PLATFORMS:
        text = "dual-stack IPv4/IPv6 is not supported for this platform, specify only one type of address"
        yield invalid("networking", "DualStack", text)
    for name, listed in sorted(lists.items()):
        cidrs = check.networks(_cidrs(net)[name])
        for family in {4, 6} - set(listed) if listed else ():
            text = f"dual-stack IPv4/IPv6 requires an IPv{family} network in this list"
            yield invalid(f"networking.{name}", cidrs, text)
        if {4, 6} <= set(listed) and listed[0] == 6 and platform not in _IPV6_FIRST_PLATFORMS:
            text = "IPv4 addresses must be listed before IPv6 addresses"
            yield invalid(f"networking.{name}", cidrs, text)


@rule("16", "networking.clusterNetworkMTU")
def cluster_network_mtu(config: InstallConfig) -> Iterator[FieldError]:
    """clusterNetworkMTU is for clouds only; 0 means that it is not set."""
    mtu = _net(config).cluster_network_mtu
    if mtu:
        yield invalid("networking.clusterNetworkMTU", mtu, "cluster network MTU is not valid with this platform")


@rule("17", "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet")
def join_subnet(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the join subnet overlaps no other network, and has an address for each node of the largest possible
    cluster."""
    net = _net(config)
    value = _join_subnet(net)
    path = "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet"
    if net.ovn_kubernetes_config is not None and net.network_type.lower() != "ovnkubernetes":
        text = "ovnKubernetesConfig may only be specified with the OVNKubernetes networkType"
        yield invalid("networking.networkType", net.network_type, text)
    if not value:
        return
    if problem := check.cidr(value):
        yield invalid(path, value, problem)
        return
    others = [(f"must not overlap with clusterNetwork {entry.cidr}", entry.cidr) for entry in net.cluster_network]
    others += [(f"must not overlap with machineNetwork {entry.cidr}", entry.cidr) for entry in net.machine_network]
    others += [(f"must not overlap with serviceNetwork {item}", item) for item in net.service_network]
    yield from _overlaps(path, value, others)
    nodes = 0
    for index, entry in enumerate(net.cluster_network):
        network, prefix = check.network(entry.cidr), entry.host_prefix or 0
        if network is None or network.version == 6:
            continue
        if prefix < network.prefixlen:
            text = f"cannot determine the number of nodes supported by cluster network {index}"
            yield internal(path, f"{text} due to invalid hostPrefix")
            return
        nodes += 1 << prefix - network.prefixlen
    # The gateway, the network itself and the broadcast address take one each.
    if nodes >= (1 << max(0, 32 - int(value.partition("/")[2]))) - 3:
        text = "is not large enough for the maximum number of nodes which can be supported by ClusterNetwork"
        yield invalid(path, value, f"ipv4InternalJoinSubnet {text}")
