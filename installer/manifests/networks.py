"""Rules for the networks in agent-cluster-install.yaml: what its plugin takes, and room for its hosts.

The rules are those of openshift/installer's pkg/asset/agent/manifests/agentclusterinstall.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from installer.config.fielderror import FieldError, invalid, required
from installer.config.values import check


class ClusterNetwork(Protocol):
    """A pod network, in an install-config or in a manifest."""

    @property
    def cidr(self) -> str:
        """The whole of it."""

    @property
    def host_prefix(self) -> int | None:
        """The length of a node's part of it."""


class Networks(Protocol):
    """The cluster's networks, in an install-config or in a manifest."""

    @property
    def network_type(self) -> str:
        """The plugin's name."""

    @property
    def cluster_network(self) -> Sequence[ClusterNetwork]:
        """The pods' networks."""

    @property
    def service_network(self) -> Sequence[str]:
        """The services' networks."""


def errors(networking: Networks, hosts: int) -> Iterator[FieldError]:
    """List the networks' problems for this number of hosts, by the fields of agent-cluster-install.yaml."""
    if networking.network_type == "OpenShiftSDN":
        for name, cidrs in (
            ("clusterNetwork", [entry.cidr for entry in networking.cluster_network]),
            ("serviceNetwork", list(networking.service_network)),
        ):
            nets = [check.network(cidr) for cidr in cidrs]
            if None in nets:
                yield required(f"spec.networking.{name}", f"error parsing the {name} CIDR")
            if any(net is not None and net.version == 6 for net in nets):
                yield required(
                    "spec.networking.networkType",
                    f"{name} CIDR is IPv6 and is not compatible with networkType OpenShiftSDN",
                )
        return
    # A third party's plugin is OVN-Kubernetes here: the service knows no other, and gets the real one in the overrides.
    for index, entry in enumerate(networking.cluster_network):
        path = f"spec.networking.clusterNetwork[{index}]"
        net = check.network(entry.cidr)
        if net is None:
            yield required(f"{path}.cidr", "error parsing the clusterNetwork CIDR")
            continue
        prefix = entry.host_prefix or 0
        if prefix > net.max_prefixlen - 7:
            yield invalid(f"{path}.hostPrefix", prefix, f"must be at most {net.max_prefixlen - 7}")
        if prefix - net.prefixlen < (hosts - 1).bit_length():
            yield invalid(
                path,
                entry.cidr,
                f"prefix length {net.prefixlen} not large enough to accommodate {hosts} hosts with hostPrefix length "
                f"{prefix}",
            )
