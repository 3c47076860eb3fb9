"""Fourth stage of `create`: from inputs, release and secrets to what the live host carries and its kernel is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from installer.common.formats.yamltext import dump
from installer.config.types.install import InstallConfig
from installer.config.values.check import canonical_mac
from installer.create.stages.check import Inputs
from installer.create.stages.resolve import ResolvedRelease, digest_sources
from installer.create.stages.secrets import Secrets
from installer.errors import ConfigError
from installer.ignition.live import HostFiles, LiveInputs
from installer.manifests import cluster
from installer.release import registries_conf
from installer.rendezvous.rehearsal import refusals


def proxy_environment(config: InstallConfig) -> dict[str, str]:
    """Return the proxy as environment variables."""
    if config.proxy is None:
        return {}
    pairs = {
        "HTTP_PROXY": config.proxy.http_proxy,
        "HTTPS_PROXY": config.proxy.https_proxy,
        "NO_PROXY": config.proxy.no_proxy,
    }
    return {name: value for name, value in pairs.items() if value}


def kernel_arguments(config: InstallConfig) -> tuple[str, ...]:
    """Return the kernel arguments added to the live system's (reference §3.3)."""
    external = config.platform.external
    console = ("console=ttyS0",) if external is not None and external.platform_name == "oci" else ()
    return (*console, *(("fips=1",) if config.fips else ()))


def manifest_files(inputs: Inputs, release: ResolvedRelease) -> dict[str, bytes]:
    """Return cluster-manifests/ by file name: as they were given, or made from the install-config and the hosts.

    Raises ConfigError for what the rendezvous service would refuse once the hosts have booted.
    """
    source = cluster.Inputs(
        inputs.install, inputs.ntp_sources, inputs.hosts, release.image, release_version=release.version
    )
    if inputs.manifests is not None:
        files, kept = {**cluster.image_set_file(release.image, release.version), **inputs.manifests}, inputs.manifests
    else:
        files, kept = {**cluster.cluster_manifests(source), **inputs.kept}, inputs.kept
    refused = refusals(
        files,
        inputs.extra_manifests,
        release_image=release.image,
        version=release.version,
        generated=files.keys() - kept.keys(),
    )
    if refused:
        texts = [f"{name}: {reason}" for name, reason in refused]
        problems = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        raise ConfigError(
            f"the rendezvous service would refuse what the hosts register: {problems}", file=refused[0][0]
        )
    return files


def live_inputs(inputs: Inputs, release: ResolvedRelease, secrets: Secrets, *, console: bool = False) -> LiveInputs:
    """All that goes into the live host's Ignition config. `console`: whether the initrd brings agent-tui."""
    install = inputs.install
    manifests = manifest_files(inputs, release)
    if inputs.agent_text:
        manifests["agent-config.yaml"] = inputs.agent_text.encode()
    sources = digest_sources(install)
    registries = inputs.registries
    if registries is None:
        registries = registries_conf(sources) if sources else ""
    fencing, hosts = fencing_files(install, inputs.host_files)
    return LiveInputs(
        rendezvous_ip=inputs.rendezvous_ip,
        release_image=release.image,
        release_version=release.version,
        images=release.components,
        public_key_pem=secrets.tokens.public_key_pem,
        agent_token=secrets.tokens.agent,
        user_token=secrets.tokens.user,
        watcher_token=secrets.tokens.watcher,
        tls_files=secrets.tls_files(),
        pull_secret=install.pull_secret,
        ssh_keys=tuple(line.strip() for line in install.ssh_key.splitlines() if line.strip()),
        password_hash=secrets.password_hash,
        manifests=manifests,
        extra_manifests=inputs.extra_manifests,
        hosts=hosts,
        fencing_credentials=fencing,
        registries_conf=registries,
        ca_bundle=install.additional_trust_bundle,
        ntp_sources=inputs.ntp_sources,
        proxy=proxy_environment(install),
        masters=install.masters,
        arbiters=install.arbiters,
        workers=install.workers,
        console=console,
        cluster_name=f"{install.metadata.name}.{install.base_domain}",
    )


def fencing_files(config: InstallConfig, hosts: Sequence[HostFiles]) -> tuple[str, tuple[HostFiles, ...]]:
    """fencing-credentials.yaml of two nodes that fence each other, and the hosts with those of their own.

    A credential with a MAC address alone is the host's that has this NIC (reference §2.1); texts are empty without any.
    """
    pool = config.control_plane
    entries = []
    for entry in pool.fencing.credentials if pool and pool.fencing else ():
        values = {
            "hostname": entry.host_name,
            "macaddress": "" if entry.host_name else canonical_mac(entry.mac_address),
            "username": entry.username,
            "password": entry.password,
            "address": entry.address,
            "certificateVerification": entry.certificate_verification,
        }
        entries.append({name: value for name, value in values.items() if value})
    found = []
    for host in hosts:
        own = [entry for entry in entries if host.required and entry.get("macaddress") in host.macs]
        entries = [entry for entry in entries if entry not in own]
        found.append(replace(host, fencing_credentials=dump({"credentials": own})) if own else host)
    return (dump({"credentials": entries}) if entries else ""), tuple(found)
