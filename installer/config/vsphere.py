"""The deprecated form of platform vsphere turned into vcenters and failure domains (rules 28 to 30 see only these)."""

from __future__ import annotations

import logging
import posixpath
import re
from dataclasses import replace

from installer.config.types.cloud import VCenter, VSphereFailureDomain, VSpherePlatform, VSphereTopology
from installer.config.values import check
from installer.errors import INSTALL_CONFIG_MARKER, ConfigError

log = logging.getLogger(__name__)

# Name, region and zone of the failure domain that is made from the deprecated form, as upstream calls it.
GENERATED, GENERATED_REGION, GENERATED_ZONE = "generated-failure-domain", "generated-region", "generated-zone"
_PORT = 443
_SCHEME = re.compile(r"\w+://")
_FILE = "install-config.yaml"


def upconvert(platform: VSpherePlatform) -> VSpherePlatform:
    """`platform` with vcenters and failureDomains, which the deprecated fields fill where they are missing."""
    vcenters, domains = platform.vcenters, platform.failure_domains
    old = (
        platform.datacenter,
        platform.folder,
        platform.cluster,
        platform.default_datastore,
        platform.resource_pool,
        platform.network,
    )
    if vcenters and platform.v_center:
        log.warning("vcenter field is deprecated please avoid using both vcenter and vcenters fields together")
    if not vcenters:
        if platform.v_center or platform.username or platform.password:
            log.warning("vsphere authentication fields are now deprecated; please use vcenters")
        named = (platform.datacenter, *(domain.topology.datacenter for domain in domains))
        centers = tuple(dict.fromkeys(filter(None, named)))
        vcenters = (
            VCenter(
                server=platform.v_center,
                port=_PORT,
                user=platform.username,
                password=platform.password,
                datacenters=centers,
            ),
        )
        domains = tuple(
            replace(
                domain,
                server=domain.server or platform.v_center,
                topology=replace(domain.topology, datacenter=domain.topology.datacenter or platform.datacenter),
            )
            for domain in domains
        )
    for vcenter in vcenters:
        _reachable(vcenter)
    if not domains:
        if any(old):
            log.warning("vsphere topology fields are now deprecated; please use failureDomains")
        domains = (_generated(platform, vcenters[0].server),)
    else:
        if any(old):
            log.warning(
                "vsphere topology fields are now deprecated; please avoid using failureDomains and the vsphere "
                "topology fields together"
            )
        domains = _joined(domains, {vcenter.server for vcenter in vcenters})
    return replace(platform, vcenters=vcenters, failure_domains=tuple(map(_with_pool, domains)))


def _reachable(vcenter: VCenter) -> None:
    """Upstream asks each vCenter that it has credentials for. Raises ConfigError where its name makes no URL."""
    if not (vcenter.server and vcenter.user and vcenter.password):
        return
    url = vcenter.server if _SCHEME.match(vcenter.server) else f"https://{vcenter.server}"
    if problem := check.url(url.removesuffix("/")):
        raise ConfigError(f"{INSTALL_CONFIG_MARKER}: failed to upconvert install config: {problem}", file=_FILE)


def _generated(platform: VSpherePlatform, server: str) -> VSphereFailureDomain:
    center = platform.datacenter
    topology = VSphereTopology(
        datacenter=center,
        compute_cluster=_inventory("computeCluster", "host", platform.cluster, center),
        networks=(platform.network,),
        datastore=_inventory("datastore", "datastore", platform.default_datastore, center),
        resource_pool=platform.resource_pool,
        folder=_inventory("folder", "vm", platform.folder, center),
    )
    return VSphereFailureDomain(
        name=GENERATED, region=GENERATED_REGION, zone=GENERATED_ZONE, server=server, topology=topology
    )


def _joined(domains: tuple[VSphereFailureDomain, ...], servers: set[str]) -> tuple[VSphereFailureDomain, ...]:
    """Return the failure domains with inventory paths for bare names, up to the first one whose vCenter is unknown."""
    result = list(domains)
    for index, domain in enumerate(domains):
        if domain.server not in servers:
            log.warning("unable to find finder for vCenter %s in order to do upconvert", domain.server)
            break
        old = domain.topology
        center = old.datacenter
        topology = replace(
            old,
            compute_cluster=_inventory("computeCluster", "host", old.compute_cluster, center),
            datastore=_inventory("datastore", "datastore", old.datastore, center),
            folder=_inventory("folder", "vm", old.folder, center),
        )
        result[index] = replace(domain, topology=topology)
    return tuple(result)


def _with_pool(domain: VSphereFailureDomain) -> VSphereFailureDomain:
    pool = domain.topology.resource_pool or _whole(domain.topology.compute_cluster)
    return replace(domain, topology=replace(domain.topology, resource_pool=pool))


def _whole(cluster: str) -> str:
    """Return the resource pool that is all of a cluster."""
    return f"{cluster.rstrip('/')}/Resources" if cluster else ""


def _inventory(name: str, kind: str, value: str, datacenter: str) -> str:
    """Return an inventory path; a bare name, which is deprecated, is put under its datacenter."""
    if not value or value.startswith("/"):
        return value
    path = posixpath.normpath("/" + f"{datacenter}/{kind}/{value}".lstrip("/"))
    log.warning("%s as a non-path is now deprecated; please use the joined form: %s", name, path)
    return path
