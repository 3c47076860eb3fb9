"""Rules 20 to 23: which platform, and platform external."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config.fielderror import FieldError, forbidden, invalid, required, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types.cloud import LoadBalancer
from installer.config.types.install import InstallConfig
from installer.config.types.platform import AGENT_PLATFORMS, OTHER_PLATFORMS

BALANCERS = ("OpenShiftManagedDefault", "UserManaged")
# Platforms that are known by name alone.
_REMOVED = "ovirt"
# What clouds that the agent installer does not support ask for at least, with upstream's words.
_REQUIRED_FIELDS = {
    "azure": {
        "region": "region should be set to one of the supported Azure regions",
        "baseDomainResourceGroupName": "it names the resource group in which the Azure DNS zone is deployed",
    },
    "ibmcloud": {"region": "region must be specified"},
    "ovirt": {
        "api_vips": "must specify at least one VIP for the API",
        "ingress_vips": "must specify at least one VIP for the Ingress",
    },
    "powervs": {"zone": "zone must be specified"},
}


def balancer_and_dns(path: str, balancer: LoadBalancer | None, dns: str) -> Iterator[FieldError]:
    """loadBalancer.type and dnsRecordsType of any platform that has them (rule 26)."""
    if balancer is not None and balancer.type not in BALANCERS:
        yield invalid(f"{path}.loadBalancer.type", balancer.type, "invalid load balancer type")
    if dns == "External" and (balancer is None or balancer.type != "UserManaged"):
        yield invalid(
            f"{path}.dnsRecordsType", dns, "external DNS records can only be configured with user-managed loadbalancers"
        )


@rule("20", "platform")
def one_platform(config: InstallConfig) -> Iterator[FieldError]:
    """Exactly one platform is set; none and external beside another are ignored, since they have no settings."""
    active, names = config.platform.name, config.platform.names()
    if active in ("", _REMOVED):
        every = ", ".join(sorted({*AGENT_PLATFORMS, *OTHER_PLATFORMS} - {_REMOVED}))
        yield invalid("platform", active, f"must specify one of the platforms ({every})")
    if _REMOVED in names:
        yield forbidden(f"platform.{_REMOVED}", "Platform oVirt is no longer supported")
    for name in names:
        if name not in (active, "none", "external"):
            text = f'must only specify a single type of platform; cannot use both "{active}" and "{name}"'
            yield invalid("platform", active, text)


@rule("21", "platform")
def agent_platform(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the platform is one that the agent installer supports."""
    name = config.platform.name
    if name and name not in AGENT_PLATFORMS:
        yield unsupported("platform", name, AGENT_PLATFORMS)
    settings = getattr(config.platform, name) if name in _REQUIRED_FIELDS else None
    for field, why in _REQUIRED_FIELDS.get(name, {}).items():
        internal = field == "baseDomainResourceGroupName" and config.publish == "Internal"
        if isinstance(settings, dict) and not settings.get(field) and not internal:
            yield required(f"platform.{name}.{field}", why)


@rule("22", "platform")
def mainframes(config: InstallConfig) -> Iterator[FieldError]:
    """ppc64le and s390x have platform none only."""
    name = config.platform.name
    architecture = config.control_plane.architecture if config.control_plane else ""
    if name != "none" and architecture in ("ppc64le", "s390x"):
        yield invalid("platform", name, f'CPU architecture "{architecture}" only supports platform "none".')


@rule("23", "platform.external.cloudControllerManager")
def external(config: InstallConfig) -> Iterator[FieldError]:
    """oci needs an external cloud controller manager."""
    platform = config.platform.external
    path = "platform.external.cloudControllerManager"
    if platform is None:
        return
    if platform.platform_name == "oci" and platform.cloud_controller_manager != "External":
        yield invalid(
            path, platform.cloud_controller_manager, f"When using external oci platform, {path} must be set to External"
        )
