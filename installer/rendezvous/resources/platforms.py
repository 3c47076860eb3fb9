"""Platform, user-managed networking and the count of control plane nodes: what goes together, and what follows.

Rules of upstream's service: internal/provider/platform.go, internal/bminventory/inventory.go
(validateHighAvailabilityWithControlPlaneCount). Its limits by release are those of the newest ones.
"""

from __future__ import annotations

from installer.assisted.errors import BadRequest
from installer.rendezvous.resources.requests.clusters import LoadBalancerParams, PlatformParams
from installer.rendezvous.store.model import Cluster, JsonMap
from installer.rendezvous.store.shapes import External

# Control plane nodes of a cluster that is not a single node.
FEWEST, MOST = 2, 5
# Not every platform can have more than these.
NON_STANDARD = 3
# Platforms whose networking is always, and never, the user's own.
UMN_ALWAYS, UMN_NEVER = ("none", "external"), ("baremetal", "nutanix")
# Architectures whose clusters have the user's own networking only.
UMN_ARCHITECTURES = ("s390x", "ppc64le")
OCI = "oci"
_NAMES = {True: "enabled", False: "disabled"}


def availability(count: int | None, mode: str | None) -> tuple[int, str]:
    """Return the count of control plane nodes and the mode, each by the other where it is not given. Raises
    BadRequest."""
    if mode is None:
        mode = "None" if count == 1 else "Full"
    if count is None:
        count = 1 if mode == "None" else 3
    if mode == "None" and count != 1:
        raise BadRequest(
            f"single-node clusters (high_availability_mode None) must have a single control plane node, not {count}"
        )
    if mode == "Full" and not FEWEST <= count <= MOST:
        raise BadRequest(
            f"there should be {FEWEST}-{MOST} dedicated control plane nodes for high availability mode Full, "
            f"not {count}"
        )
    return count, mode


def _external_before(cluster: Cluster | None) -> External | None:
    """Return the settings of a cluster whose platform is external already."""
    if cluster is None or cluster.platform["type"] != "external":
        return None
    return cluster.platform.get("external")


def merged(platform: PlatformParams, cluster: Cluster) -> JsonMap:
    """Return the platform as the store keeps it; settings of an external one that are not given stay as they were."""
    fields = platform.sent_fields()
    before = _external_before(cluster)
    if platform.type == "external" and before:
        fields["external"] = {**before, **fields.get("external", {})}
    return fields


def _check_external_settings(platform: PlatformParams | None, cluster: Cluster | None) -> None:
    """Raise BadRequest unless settings of an external platform are there where they must be, and nowhere else."""
    if platform is None:
        return
    settings = platform.external
    if platform.type == "external":
        before = _external_before(cluster)
        if settings is None and before is None:
            raise BadRequest("External setting must be set when using platform type external")
        merged: JsonMap = {**(before or {}), **(settings.sent_fields() if settings is not None else {})}
        if not merged.get("platform_name"):
            raise BadRequest("Platform name must be set to a non-empty string when using platform type external")
        if merged["platform_name"] == OCI and merged.get("cloud_controller_manager") != "External":
            raise BadRequest("Cloud controller manager must be enabled when using oci external integration")
    elif settings is not None and settings.sent_fields():
        raise BadRequest("External settings can only be set with external platform type")


def _check_combination(platform: PlatformParams | None, umn: bool | None, cluster: Cluster | None) -> None:
    """Raise BadRequest unless platform and networking go together, both as asked for and with what stays."""
    kind = platform.type if platform is not None else ""
    wrong: bool | None = None
    if platform is not None and umn is not None:
        if (kind in UMN_ALWAYS and not umn) or (kind in UMN_NEVER and umn):
            wrong = umn
    elif (
        # A change from baremetal to none, or back, changes the networking with it.
        platform is not None
        and cluster is not None
        and not cluster.is_sno
        and {kind, cluster.platform["type"]} != {"baremetal", "none"}
    ):
        before = cluster.user_managed_networking
        if (kind in UMN_NEVER and before) or (kind in UMN_ALWAYS and not before):
            wrong = before
    if wrong is not None:
        raise BadRequest(f"Can't set {kind} platform with user-managed-networking {_NAMES[wrong]}")
    _check_external_settings(platform, cluster)


def check_compatible(platform: PlatformParams, umn: bool, *, count: int, balancer: LoadBalancerParams | None) -> None:
    """Raise BadRequest for features that exclude each other (upstream: internal/featuresupport)."""
    other = ""
    if balancer is not None and balancer.type == "user-managed":
        if platform.type in ("none", "nutanix", "external"):
            other = f"{platform.type.capitalize()} Platform Integration"
        elif count == 1:
            other = "Single Node OpenShift"
        elif umn:
            other = "User Managed Networking"
        if other:
            raise BadRequest(f"cannot use User Managed Load Balancer because it's not compatible with {other}")
    if count > NON_STANDARD and platform.type in ("vsphere", "nutanix"):
        names = {"vsphere": "vSphere", "nutanix": "Nutanix"}
        raise BadRequest(
            f"cannot use {names[platform.type]} Platform Integration because it's not compatible with Non-standard HA "
            "OCP Control Plane"
        )


def created(
    platform: PlatformParams | None, umn: bool | None, *, count: int, architecture: str
) -> tuple[PlatformParams, bool]:
    """Platform and user-managed networking of a new cluster. Raises BadRequest."""
    _check_combination(platform, umn, None)
    kind = platform.type if platform is not None else ""
    none = PlatformParams(type="none")
    if architecture in UMN_ARCHITECTURES:
        if umn is False:
            raise BadRequest(f"Can't disable User Managed Networking on {architecture} architecture")
        if kind not in ("", *UMN_ALWAYS):
            raise BadRequest(f"Can't set {kind} platform on {architecture} architecture")
        return (platform if platform is not None and kind == "external" else none), True
    if count == 1:
        if kind == "baremetal":
            raise BadRequest("Can't set baremetal platform on single node OpenShift")
        if kind not in ("", *UMN_ALWAYS):
            raise BadRequest(f"Single node cluster is not supported alongside {kind} platform")
        if umn is False:
            raise BadRequest("Can't disable user-managed-networking on single node OpenShift")
        return platform or none, True
    if platform is None:
        return (none, True) if umn else (PlatformParams(type="baremetal"), False)
    return platform, kind in UMN_ALWAYS or bool(umn)


def updated(
    platform: PlatformParams | None, umn: bool | None, cluster: Cluster
) -> tuple[PlatformParams | None, bool | None]:
    """Return the platform and the networking after an update, None for what stays. Raises BadRequest."""
    if platform is None and umn is None:
        return None, None
    _check_combination(platform, umn, cluster)
    kind, before = platform.type if platform is not None else "", cluster.platform["type"]
    if cluster.is_sno and (umn is False or kind not in ("", *UMN_ALWAYS)):
        raise BadRequest(
            "disabling User Managed Networking or setting platform different than none or external is not allowed "
            "in single node OpenShift"
        )
    if before == "baremetal":
        if kind == "none" or (umn and platform is None):
            return PlatformParams(type="none"), True
    elif before in UMN_ALWAYS:
        if umn is False and platform is None:
            return PlatformParams(type="baremetal"), False
        if kind == "baremetal":
            return platform, False
        return platform, None if umn is None else umn
    elif platform is None and umn and before in UMN_NEVER:
        raise BadRequest(f"User-managed-networking is not supported with platform {before}")
    return platform, (True if kind in UMN_ALWAYS else umn)
