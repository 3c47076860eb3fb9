"""A cluster's validations by their ids, and what they look at."""

from __future__ import annotations

from typing import Any

from installer.assisted.enums import HostStatus, Result, Role
from installer.rendezvous.validations.cluster import table as cv
from installer.testing.engine.verdict_kit import cluster_host

CHECKS = {line.id: line.check for line in cv.TABLE}
#: Verdicts, and changes to a cluster or a host that the tables of cases name.
OK, BAD, PENDING, ERROR = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.ERROR
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1}
MASTER, WORKER = {"role": Role.MASTER}, {"role": Role.WORKER}
DOWN = {"status": HostStatus.DISCONNECTED}
OCI = {"type": "external", "external": {"platform_name": "oci"}}
EXTERNAL = {"type": "external", "external": {"cloud_controller_manager": "External"}}
OWN_BALANCER = {"load_balancer": {"type": "user-managed"}}


def nets(*cidrs: str) -> list[dict[str, Any]]:
    """Networks as the API has them."""
    return [{"cidr": cidr} for cidr in cidrs]


def pods(cidr: str, prefix: int | None) -> dict[str, Any]:
    """Changes to a cluster: its cluster network, and how much of it a host gets."""
    return {"cluster": {"cluster_networks": [{"cidr": cidr, **({"host_prefix": prefix} if prefix else {})}]}}


def hosts(*changes: dict[str, Any]) -> dict[str, Any]:
    """Changes to a cluster: these are its hosts."""
    return {"hosts": tuple(cluster_host(number, **change) for number, change in enumerate(changes))}
