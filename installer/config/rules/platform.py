"""Rules 20 to 23: which platform, and platform external."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config.fielderror import FieldError, invalid, unsupported
from installer.config.platform_types import AGENT_PLATFORMS
from installer.config.rules.catalogue import rule
from installer.config.types import InstallConfig

BALANCERS = ("", "OpenShiftManagedDefault", "UserManaged")
DNS_RECORDS = ("", "Internal", "External")


def balancer_and_dns(path: str, balancer: str, dns: str) -> Iterator[FieldError]:
    """loadBalancer.type and dnsRecordsType of any platform that has them (rule 26)."""
    if balancer not in BALANCERS:
        yield invalid(f"{path}.loadBalancer.type", balancer, "invalid load balancer type")
    if dns not in DNS_RECORDS:
        yield invalid(f"{path}.dnsRecordsType", dns, "invalid DNS records type")
    elif dns == "External" and balancer != "UserManaged":
        yield invalid(
            f"{path}.dnsRecordsType", dns, "external DNS records can only be configured with user-managed loadbalancers"
        )


@rule("20", "platform")
def one_platform(config: InstallConfig) -> Iterator[FieldError]:
    """Exactly one."""
    names = config.platform.names()
    if not names:
        yield invalid("platform", "", f"must specify one of the platforms ({', '.join(AGENT_PLATFORMS)})")
    elif len(names) > 1:
        yield invalid(
            "platform",
            list(names),
            f"must only specify a single type of platform; cannot use {names[1]} and {names[0]} together",
        )


@rule("21", "platform")
def agent_platform(config: InstallConfig) -> Iterator[FieldError]:
    """One that the agent installer can do."""
    name = config.platform.name
    if name and name not in AGENT_PLATFORMS:
        yield unsupported("platform", name, AGENT_PLATFORMS)


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
    if platform.cloud_controller_manager not in ("", "External", "None"):
        yield unsupported(path, platform.cloud_controller_manager, ("", "External"))
    if platform.platform_name == "oci" and platform.cloud_controller_manager != "External":
        yield invalid(
            path, platform.cloud_controller_manager, f"When using external oci platform, {path} must be set to External"
        )
