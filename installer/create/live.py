"""From gathered inputs, a payload and secrets to what the live host carries, and how its kernel starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from installer.config.types import InstallConfig
from installer.create import payload
from installer.create.inputs import Gathered
from installer.create.secrets import Secrets
from installer.ignition.live import HostFiles, LiveInputs
from installer.manifests import cluster
from installer.release import registries_conf
from installer.yamltext import dump


def with_rendezvous_in_no_proxy(config: InstallConfig, address: str) -> InstallConfig:
    """The machine network that holds node0 is never reached through the proxy (reference §1.1)."""
    if config.proxy is None or config.networking is None:
        return config
    ip = ipaddress.ip_address(address)
    nets = [e.cidr for e in config.networking.machine_network if ip in ipaddress.ip_network(e.cidr, strict=False)]
    parts = [part for part in config.proxy.no_proxy.split(",") if part]
    joined = ",".join([*parts, *(net for net in nets[:1] if net not in parts)])
    return replace(config, proxy=replace(config.proxy, no_proxy=joined))


def proxy_environment(config: InstallConfig) -> dict[str, str]:
    """The proxy as environment variables."""
    if config.proxy is None:
        return {}
    pairs = {
        "HTTP_PROXY": config.proxy.http_proxy,
        "HTTPS_PROXY": config.proxy.https_proxy,
        "NO_PROXY": config.proxy.no_proxy,
    }
    return {name: value for name, value in pairs.items() if value}


def kernel_arguments(config: InstallConfig) -> tuple[str, ...]:
    """What is added to the live system's kernel arguments (reference §3.3)."""
    external = config.platform.external
    console = ("console=ttyS0",) if external is not None and external.platform_name == "oci" else ()
    return (*console, *(("fips=1",) if config.fips else ()))


def manifest_files(gathered: Gathered, install: InstallConfig, image: str, version: str) -> dict[str, bytes]:
    """cluster-manifests/ by file name: as they were given, or made from `install` and the hosts."""
    if gathered.manifests is not None:
        return dict(gathered.manifests)
    inputs = gathered.inputs
    return cluster.cluster_manifests(cluster.Inputs(install, inputs.ntp_sources, inputs.hosts, image, version))


def live_inputs(
    gathered: Gathered,
    hosts: Sequence[HostFiles],
    image: str,
    version: str,
    images: Mapping[str, str],
    made: Secrets,
    console: bool = False,
) -> LiveInputs:
    """All that goes into the live host's Ignition config; `hosts` are the files of the gathered hosts.

    `console`: whether the initrd brings agent-tui.
    """
    inputs = gathered.inputs
    install = with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip)
    manifests = manifest_files(gathered, install, image, version)
    if inputs.agent_text:
        manifests["agent-config.yaml"] = inputs.agent_text.encode()
    sources = payload.digest_sources(install)
    registries = gathered.registries
    if registries is None:
        registries = registries_conf(sources) if sources else ""
    return LiveInputs(
        rendezvous_ip=inputs.rendezvous_ip,
        release_image=image,
        release_version=version,
        images=images,
        public_key_pem=made.tokens.public_key_pem,
        agent_token=made.tokens.agent,
        user_token=made.tokens.user,
        watcher_token=made.tokens.watcher,
        tls_files=made.tls_files(),
        pull_secret=install.pull_secret,
        ssh_keys=tuple(line.strip() for line in install.ssh_key.splitlines() if line.strip()),
        password_hash=made.password_hash,
        manifests=manifests,
        extra_manifests=inputs.extra_manifests,
        hosts=hosts,
        fencing_credentials=fencing_yaml(install),
        registries_conf=registries,
        ca_bundle=install.additional_trust_bundle,
        ntp_sources=inputs.ntp_sources,
        proxy=proxy_environment(install),
        masters=install.masters,
        arbiters=install.arbiters,
        workers=install.workers,
        console=console,
    )


def fencing_yaml(config: InstallConfig) -> str:
    """fencing-credentials.yaml of two nodes that fence each other (reference §2.1); empty without."""
    pool = config.control_plane
    entries = []
    for entry in pool.fencing.credentials if pool and pool.fencing else ():
        given = {
            "hostname": entry.host_name,
            "macaddress": entry.mac_address,
            "address": entry.address,
            "username": entry.username,
            "password": entry.password,
            "certificateVerification": entry.certificate_verification,
        }
        entries.append({name: value for name, value in given.items() if value})
    return dump({"credentials": entries}) if entries else ""


def own_state(gathered: Gathered, made: Secrets) -> dict[str, Any]:
    """What wait-for needs to know."""
    install = gathered.inputs.install
    return {
        "rendezvousIP": gathered.inputs.rendezvous_ip,
        "serviceCACert": made.service_ca.certificate.decode(),
        "watcherToken": made.tokens.watcher,
        "clusterName": install.metadata.name,
        "baseDomain": install.base_domain.rstrip("."),
        "platform": install.platform.name,
        "expectedHosts": {
            "names": [host.hostname for host in gathered.inputs.hosts],
            "macAddresses": [[nic.mac_address for nic in host.interfaces] for host in gathered.inputs.hosts],
            "controlPlane": install.masters,
            "arbiters": install.arbiters,
            "workers": install.workers,
        },
    }
