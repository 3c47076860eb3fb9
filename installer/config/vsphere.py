"""The deprecated form of platform vsphere turned into vcenters and failure domains (rules 28 to 30 see only these)."""

from __future__ import annotations

import logging
from dataclasses import replace

from installer.config.platform_types import VCenter, VSphereFailureDomain, VSpherePlatform, VSphereTopology

log = logging.getLogger(__name__)

# The name of the failure domain that is made from the deprecated form, as upstream calls it.
GENERATED = "generated-failure-domain"
_PORT = 443


def upconvert(platform: VSpherePlatform) -> VSpherePlatform:
    """`platform` with vcenters and failureDomains, which the deprecated fields fill where they are missing."""
    vcenters = platform.vcenters
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
    if not vcenters and (platform.v_center or platform.username or platform.password or platform.datacenter):
        centers = (platform.datacenter,) if platform.datacenter else ()
        vcenters = (VCenter(platform.v_center, _PORT, platform.username, platform.password, centers),)
    domains = platform.failure_domains
    if domains:
        if any(old):
            log.warning(
                "vsphere topology fields are now deprecated; please avoid using failureDomains and the vsphere "
                "topology fields together"
            )
        only = vcenters[0].server if len(vcenters) == 1 else ""
        domains = tuple(_completed(domain, only, platform.datacenter) for domain in domains)
    elif any(old):
        log.warning("vsphere topology fields are now deprecated; please use failureDomains")
        domains = (_generated(platform, vcenters[0].server if vcenters else ""),)
    return replace(platform, vcenters=vcenters, failure_domains=domains)


def _generated(platform: VSpherePlatform, server: str) -> VSphereFailureDomain:
    center = platform.datacenter
    topology = VSphereTopology(
        datacenter=center,
        compute_cluster=_inventory("computeCluster", "host", platform.cluster, center),
        networks=(platform.network,) if platform.network else (),
        datastore=_inventory("datastore", "datastore", platform.default_datastore, center),
        resource_pool=platform.resource_pool,
        folder=_inventory("folder", "vm", platform.folder, center),
    )
    return VSphereFailureDomain(GENERATED, "generated-region", "generated-zone", server, topology)


def _completed(domain: VSphereFailureDomain, server: str, datacenter: str) -> VSphereFailureDomain:
    topology = domain.topology
    center = topology.datacenter or datacenter
    return replace(
        domain,
        server=domain.server or server,
        topology=replace(
            topology,
            datacenter=center,
            compute_cluster=_inventory("computeCluster", "host", topology.compute_cluster, center),
            datastore=_inventory("datastore", "datastore", topology.datastore, center),
            folder=_inventory("folder", "vm", topology.folder, center),
        ),
    )


def _inventory(name: str, kind: str, value: str, datacenter: str) -> str:
    """An inventory path; a bare name, which is deprecated, is put under its datacenter."""
    if not value or value.startswith("/") or not datacenter:
        return value
    path = f"/{datacenter}/{kind}/{value}"
    log.warning("%s as a non-path is now deprecated; please use the joined form: %s", name, path)
    return path
