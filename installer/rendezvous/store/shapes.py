"""The objects within clusters and infra-envs, as the API has them: types and values that msgspec checks.

Fields that the specification does not have are left out, as upstream's service does.
"""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypedDict

import msgspec

from installer.assisted.enums import VipVerification

# What the specification lets these be.
PlatformType = Literal["baremetal", "none", "nutanix", "vsphere", "external"]
CloudControllerManager = Literal["", "External"]
LoadBalancerType = Literal["cluster-managed", "user-managed"]
EncryptionMode = Literal["tpmv2", "tang"]
KernelOperation = Literal["append", "replace", "delete"]


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
    verification: VipVerification


class External(TypedDict, total=False):
    """Somebody else's platform."""

    platform_name: Annotated[str, msgspec.Meta(min_length=1)] | None
    cloud_controller_manager: CloudControllerManager | None


class Platform(TypedDict, total=False):
    """The platform of a cluster."""

    type: Required[PlatformType]
    external: External | None


class LoadBalancer(TypedDict, total=False):
    """The load balancer of a cluster: its own or the user's."""

    type: LoadBalancerType


class IgnitionEndpoint(TypedDict, total=False):
    """The server that hosts which are added later get their config from; the CA is PEM in base64."""

    url: str | None
    ca_certificate: str | None


class DiskEncryption(TypedDict, total=False):
    """The encryption of disks: the roles, and the means (prepare/diskencryption.py)."""

    enable_on: str
    mode: EncryptionMode
    tang_servers: str
