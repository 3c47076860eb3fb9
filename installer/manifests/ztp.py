"""From cluster-manifests/ to the configuration that all outputs are made from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from installer.common.formats import jsontext
from installer.config.types.agent import Host, Interface
from installer.config.types.cloud import NutanixPlatform, VSpherePlatform
from installer.config.types.install import (
    ClusterNetworkEntry,
    DigestSource,
    Fencing,
    InstallConfig,
    MachineNetworkEntry,
    MachinePool,
    Networking,
    ObjectMeta,
)
from installer.config.types.platform import BareMetalPlatform, ExternalPlatform, NonePlatform, Platform
from installer.config.values.check import canonical_mac
from installer.errors import ConfigError
from installer.manifests.files import INSTALL, NMSTATE
from installer.manifests.overrides import ANNOTATION
from installer.manifests.read import ClusterManifests

log = logging.getLogger(__name__)

# uname's names -> those of install-config.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "": "amd64"}


def overrides(manifests: ClusterManifests) -> dict[str, Any]:
    """Return the install-config overrides of the AgentClusterInstall. Raises ConfigError if they are no JSON object."""
    text = (manifests.install.metadata.annotations or {}).get(ANNOTATION, "")
    if not text:
        return {}
    try:
        value = jsontext.loads(text)
    except ValueError as error:
        raise ConfigError(f"invalid {ANNOTATION} annotation in {INSTALL}: {error}", file=INSTALL) from error
    if not isinstance(value, dict):
        raise ConfigError(f"invalid {ANNOTATION} annotation in {INSTALL}: not a JSON object", file=INSTALL)
    return value


def _platform(manifests: ClusterManifests) -> Platform:
    spec = manifests.install.spec
    name = spec.platform_type or ("None" if spec.networking.user_managed_networking else "BareMetal")
    if name == "None":
        return Platform(none=NonePlatform())
    if name == "External":
        external = spec.external
        return Platform(
            external=ExternalPlatform(external.platform_name, external.cloud_controller_manager)
            if external
            else ExternalPlatform()
        )
    api = spec.api_vips or ((spec.api_vip,) if spec.api_vip else ())
    ingress = spec.ingress_vips or ((spec.ingress_vip,) if spec.ingress_vip else ())
    if name == "BareMetal":
        return Platform(baremetal=BareMetalPlatform(api, ingress, load_balancer=spec.load_balancer))
    if name == "VSphere":
        return Platform(vsphere=VSpherePlatform(api, ingress))
    return Platform(nutanix=NutanixPlatform(api_vips=api, ingress_vips=ingress))


def install_config(
    manifests: ClusterManifests, sources: tuple[DigestSource, ...], bundle: str, fencing: Fencing | None = None
) -> InstallConfig:
    """Translate manifests and mirror/ into install-config's words. Raises ConfigError.

    `fencing`: that of the install-config, if the manifests were made from one.
    """
    install, infra_env = manifests.install.spec, manifests.infra_env.spec
    needs = install.provision_requirements
    architecture = _ARCHITECTURES.get(infra_env.cpu_architecture, infra_env.cpu_architecture)
    extra = overrides(manifests)
    networking = install.networking
    return InstallConfig(
        api_version="v1",
        metadata=ObjectMeta(
            name=manifests.deployment.spec.cluster_name or manifests.install.metadata.name,
            namespace=manifests.install.metadata.namespace,
        ),
        base_domain=manifests.deployment.spec.base_domain,
        additional_trust_bundle=bundle or infra_env.additional_trust_bundle,
        additional_trust_bundle_policy=str(extra.get("additionalTrustBundlePolicy", "")),
        ssh_key=infra_env.ssh_authorized_key or install.ssh_public_key,
        networking=Networking(
            network_type=networking.network_type,
            machine_network=tuple(MachineNetworkEntry(entry.cidr) for entry in networking.machine_network),
            cluster_network=tuple(
                ClusterNetworkEntry(entry.cidr, entry.host_prefix) for entry in networking.cluster_network
            ),
            service_network=networking.service_network,
        ),
        control_plane=MachinePool("master", needs.control_plane_agents, architecture, fencing=fencing),
        arbiter=MachinePool("arbiter", needs.arbiter_agents, architecture) if needs.arbiter_agents else None,
        compute=(MachinePool("worker", needs.worker_agents, architecture),),
        platform=_platform(manifests),
        pull_secret=manifests.pull_secret,
        proxy=infra_env.proxy or install.proxy,
        image_digest_sources=sources,
        fips=extra.get("fips") is True,
    )


def with_networks(hosts: Sequence[Host], manifests: ClusterManifests) -> tuple[Host, ...]:
    """agent-config's hosts, each with the network of the NMStateConfig that shares a MAC address with it.

    NMStateConfigs for other hosts make hosts of their own, of which nothing else is known. Where there are none at all,
    agent-config's networks count.
    """
    if not manifests.nmstate:
        return tuple(hosts)
    configs = list(manifests.nmstate)
    merged = []
    for index, host in enumerate(hosts):
        macs = {canonical_mac(nic.mac_address) for nic in host.interfaces}
        mine = next((c for c in configs if macs & {canonical_mac(nic.mac_address) for nic in c.spec.interfaces}), None)
        if mine is None:
            if host.network_config is not None:
                log.warning(
                    "hosts[%d].networkConfig of agent-config.yaml is ignored: %s is what says the hosts' networks, and "
                    "has none for this host",
                    index,
                    NMSTATE,
                )
            merged.append(replace(host, network_config=None))
            continue
        configs.remove(mine)
        if host.network_config not in (None, mine.spec.config):
            log.warning(
                "hosts[%d].networkConfig of agent-config.yaml is ignored: %s has another for this host", index, NMSTATE
            )
        manifest_macs = {canonical_mac(nic.mac_address) for nic in mine.spec.interfaces}
        nics = [Interface(nic.name, nic.mac_address) for nic in mine.spec.interfaces]
        # The first interface names the host, so agent-config's order counts; the logical names are the manifest's.
        by_mac = {canonical_mac(nic.mac_address): nic for nic in nics}
        ordered = [by_mac.pop(canonical_mac(nic.mac_address), nic) for nic in host.interfaces]
        rest = [nic for nic in nics if canonical_mac(nic.mac_address) in manifest_macs & by_mac.keys()]
        merged.append(replace(host, interfaces=(*ordered, *rest), network_config=mine.spec.config))
    alone = [
        Host(
            interfaces=tuple(Interface(nic.name, nic.mac_address) for nic in config.spec.interfaces),
            network_config=config.spec.config,
        )
        for config in configs
    ]
    return (*merged, *alone)
