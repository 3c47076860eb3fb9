"""Facts of a healthy host and of a healthy cluster, to be changed one at a time."""

from __future__ import annotations

from installer.assisted.enums import HostStatus as H
from installer.assisted.enums import Result, Role
from installer.rendezvous.states import cluster as cs
from installer.rendezvous.states import host as hs

GOOD = dict.fromkeys((*hs.MIN_HARDWARE, *hs.SUFFICIENT, "machine-cidr-defined"), Result.SUCCESS)


def host_facts(**changes: object) -> hs.HostFacts:
    """Return the facts of a master that is well, but for `changes`."""
    return hs.HostFacts(**{"has_inventory": True, "validations": GOOD, "role": Role.MASTER, **changes})  # type: ignore[arg-type]


CGOOD = dict.fromkeys((*cs.REQUIRED_INPUT, *cs.REQUIRED_INSTALL), Result.SUCCESS)


def cluster_facts(*hosts: tuple[H, Role], **changes: object) -> cs.ClusterFacts:
    """Return the facts of a cluster of these hosts that is well, but for `changes`."""
    members = [cs.HostInCluster(*host) for host in hosts]
    return cs.ClusterFacts(**{"validations": CGOOD, "hosts": members, "control_plane_count": 1, **changes})  # type: ignore[arg-type]
