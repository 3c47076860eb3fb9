"""Handlers that tell what this service can do: versions, features, requirements, operators."""

from __future__ import annotations

from typing import Any, get_args

from aiohttp import web

from installer.assisted import validation_ids
from installer.assisted.enums import Role
from installer.assisted.errors import NotFound
from installer.assisted.stages import SNO
from installer.common.hostaddresses import HOSTNAME
from installer.rendezvous import architectures as architectures_of
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.fields import present
from installer.rendezvous.api.views import reply
from installer.rendezvous.catalogue import newness
from installer.rendezvous.resources import releases
from installer.rendezvous.resources.requests.params import boolean, one_of, required
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.shapes import PlatformType
from installer.rendezvous.validations.hostview import FORBIDDEN_HOSTNAMES
from installer.rendezvous.validations.requirements import Requirements

Response = web.StreamResponse
SUPPORTED = frozenset(
    {
        *("SNO", "CUSTOM_MANIFEST", "BAREMETAL_PLATFORM", "NONE_PLATFORM", "EXTERNAL_PLATFORM"),
        *("CLUSTER_MANAGED_NETWORKING", "USER_MANAGED_NETWORKING", "PLATFORM_MANAGED_NETWORKING"),
        *("MINIMAL_ISO", "FULL_ISO", "OVN_NETWORK_TYPE", "CILIUM_NETWORK_TYPE", "CALICO_NETWORK_TYPE"),
        *("CISCO_ACI_NETWORK_TYPE", "NONE_NETWORK_TYPE", "USER_MANAGED_LOAD_BALANCER"),
        *("DUAL_STACK", "DUAL_STACK_VIPS"),
    }
)
FEATURES = (
    *("SNO", "TNA", "TNF", "VIP_AUTO_ALLOC", "CUSTOM_MANIFEST", "SINGLE_NODE_EXPANSION", "NUTANIX_INTEGRATION"),
    *("BAREMETAL_PLATFORM", "NONE_PLATFORM", "VSPHERE_INTEGRATION", "DUAL_STACK_VIPS", "CLUSTER_MANAGED_NETWORKING"),
    *("USER_MANAGED_NETWORKING", "MINIMAL_ISO", "FULL_ISO", "EXTERNAL_PLATFORM_OCI", "DUAL_STACK"),
    *("PLATFORM_MANAGED_NETWORKING", "EXTERNAL_PLATFORM", "OVN_NETWORK_TYPE", "SDN_NETWORK_TYPE"),
    *("CILIUM_NETWORK_TYPE", "CALICO_NETWORK_TYPE", "CISCO_ACI_NETWORK_TYPE", "NONE_NETWORK_TYPE"),
    *("NON_STANDARD_HA_CONTROL_PLANE", "USER_MANAGED_LOAD_BALANCER", "DUAL_STACK_PRIMARY_IPV6"),
)
# ocs is odf's first name, which has no support level.
OPERATORS = tuple(name.upper().replace("-", "_") for name in validation_ids.OPERATORS if name != "ocs")
ARCHITECTURES = {
    "X86_64_ARCHITECTURE": "x86_64",
    "ARM64_ARCHITECTURE": "arm64",
    "PPC64LE_ARCHITECTURE": "ppc64le",
    "S390X_ARCHITECTURE": "s390x",
}
PLATFORMS: tuple[str, ...] = get_args(PlatformType)
CPUS = ("x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi")


def _level(name: str) -> str:
    return "supported" if name in SUPPORTED else "unavailable"


def _checked(request: web.Request) -> None:
    required(request.query.get("openshift_version") or None, "openshift_version", "query")
    for name, allowed in (("cpu_architecture", CPUS), ("platform_type", PLATFORMS)):
        if name in request.query:
            one_of(request.query[name], name, "query", allowed)


async def features(service: Service, request: web.Request) -> Response:
    """GET /support-levels/features"""
    _checked(request)
    return reply({"features": {name: _level(name) for name in (*FEATURES, *OPERATORS)}})


async def features_detailed(service: Service, request: web.Request) -> Response:
    """GET /support-levels/features/detailed"""
    _checked(request)

    def entry(name: str) -> dict[str, Any]:
        return {"feature-support-level-id": name, "support_level": _level(name), "incompatibilities": []}

    operators = [{**entry(name), "name": name.lower().replace("_", "-"), "dependencies": []} for name in OPERATORS]
    return reply({"features": [entry(name) for name in FEATURES], "operators": operators})


async def architectures(service: Service, request: web.Request) -> Response:
    """GET /support-levels/architectures: those that the release exists for."""
    _checked(request)
    levels = {name: "supported" if cpu == "x86_64" else "unavailable" for name, cpu in ARCHITECTURES.items()}
    return reply({"architectures": {**levels, "MULTIARCH_RELEASE_IMAGE": "unavailable"}})


async def openshift_versions(service: Service, request: web.Request) -> Response:
    """GET /openshift-versions: the release that this service was set up with, and those that a hub has named."""
    wanted = request.query.get("version") or ""
    listed = [settings for settings in service.engine.catalogue if settings.openshift_version.startswith(wanted)]
    if boolean(request.query.get("only_latest"), "only_latest"):
        newest = {releases.minor_of(item.openshift_version): item for item in sorted(listed, key=_newness)}
        listed = [*newest.values()]
    default = service.engine.catalogue.newest()
    entries = {
        settings.openshift_version: {
            "display_name": settings.openshift_version,
            "support_level": "production",
            **({"default": True} if settings is default else {}),
            "cpu_architectures": architectures_of.offered(settings),
        }
        for settings in reversed(listed)
    }
    return reply(entries)


def _newness(settings: Settings) -> tuple[Any, ...]:
    return newness(settings.openshift_version)


async def empty(service: Service, request: web.Request) -> Response:
    """GET of releases to choose from, of DNS providers' domains, of operators and of bundles: this service has none."""
    return reply([])


async def operator_properties(service: Service, request: web.Request) -> Response:
    """GET /supported-operators/{name}"""
    raise NotFound(f"operator {request.match_info['operator_name']} is not supported")


async def bundle(service: Service, request: web.Request) -> Response:
    """GET /operators/bundles/{id}"""
    raise NotFound(f"bundle {request.match_info['id']} does not exist")


def _quantities(need: Requirements) -> dict[str, Any]:
    quantities: dict[str, Any] = {
        "cpu_cores": need.cpu_cores,
        "ram_mib": need.ram_mib,
        "disk_size_gb": need.disk_size_gb,
        "installation_disk_speed_threshold_ms": need.disk_speed_ms,
    }
    if need.latency_ms is not None:
        quantities["network_latency_threshold_ms"] = need.latency_ms
    if need.packet_loss_percent is not None:
        quantities["packet_loss_percentage"] = need.packet_loss_percent
    return quantities


async def preflight(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/preflight-requirements"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    needs = service.engine.requirements
    master = needs[SNO] if cluster.is_sno else needs[Role.MASTER]
    requirements = {
        role: {"quantitative": _quantities(need), "qualitative": []}
        for role, need in ((Role.MASTER, master), (Role.WORKER, needs[Role.WORKER]))
    }
    return reply({"operators": [], "ocp": requirements})


async def default_config(service: Service, request: web.Request) -> Response:
    """GET /clusters/default-config"""
    return reply(
        {
            "cluster_network_cidr": "10.128.0.0/14",
            "cluster_network_host_prefix": 23,
            "service_network_cidr": "172.30.0.0/16",
            "ntp_source": "",
            "forbidden_hostnames": sorted(FORBIDDEN_HOSTNAMES),
        }
    )


async def component_versions(service: Service, request: web.Request) -> Response:
    """GET /component-versions"""
    settings = service.settings
    images = {
        "discovery-agent": settings.agent_image,
        "assisted-installer": settings.installer_image,
        "assisted-installer-controller": settings.controller_image,
    }
    versions = {name: image for name, image in images.items() if image}
    shown = {"release_tag": settings.openshift_version, "versions": versions, "hostname_rule": HOSTNAME.pattern}
    return reply(present(shown))
