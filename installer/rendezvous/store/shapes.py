"""The objects within clusters and infra-envs, as the API has them: types and values that msgspec checks.

Fields that the specification does not have are left out, as upstream's service does.
"""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypedDict

import msgspec


class Proxy(TypedDict, total=False):
    """An infra-env's proxy."""

    http_proxy: str | None
    https_proxy: str | None
    no_proxy: str | None


class Network(TypedDict, total=False):
    """A service or machine network."""

    cidr: Required[str]


class ClusterNetwork(Network, total=False):
    """Pods' network; ``host_prefix`` is the length of a node's part of it."""

    host_prefix: Annotated[int, msgspec.Meta(ge=1, le=128)]


class Vip(TypedDict, total=False):
    """A virtual address, and what a host found there."""

    ip: Required[str]
    verification: Literal["unverified", "failed", "succeeded"]


class External(TypedDict, total=False):
    """Somebody else's platform."""

    platform_name: Annotated[str, msgspec.Meta(min_length=1)] | None
    cloud_controller_manager: Literal["", "External"] | None


class Platform(TypedDict, total=False):
    """What the cluster runs on."""

    type: Required[Literal["baremetal", "none", "nutanix", "vsphere", "external"]]
    external: External | None


class LoadBalancer(TypedDict, total=False):
    """Whose load balancer it is."""

    type: Literal["cluster-managed", "user-managed"]


class DiskEncryption(TypedDict, total=False):
    """Which roles' disks are encrypted, and by what (diskencryption.py)."""

    enable_on: str
    mode: Literal["tpmv2", "tang"]
    tang_servers: str
