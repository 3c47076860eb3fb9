"""`agent create image`: both files in, one ISO out (reference/installer.md §2)."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from installer.config.load import Inputs
from installer.config.state import OWN, State, write_private
from installer.config.types import InstallConfig
from installer.create import payload, secrets
from installer.create.artifacts import log_iso, minimal_iso, write_iso
from installer.create.gather import Gathered, discard, gather
from installer.create.hosts import host_files
from installer.create.live import kernel_arguments, manifest_files
from installer.create.payload import Payload
from installer.create.secrets import Secrets
from installer.errors import AssetError, EmbedTooBig, IsoError
from installer.ignition.live import IMAGE_VARIABLES, LiveInputs, live_config
from installer.release import registries_conf

log = logging.getLogger(__name__)


def with_rendezvous_in_no_proxy(config: InstallConfig, address: str) -> InstallConfig:
    """The machine network that holds node0 is never reached through the proxy (reference §1.1)."""
    if config.proxy is None or config.networking is None:
        return config
    ip = ipaddress.ip_address(address)
    nets = [e.cidr for e in config.networking.machine_network if ip in ipaddress.ip_network(e.cidr, strict=False)]
    parts = [part for part in config.proxy.no_proxy.split(",") if part]
    joined = ",".join([*parts, *(net for net in nets[:1] if net not in parts)])
    return replace(config, proxy=replace(config.proxy, no_proxy=joined))


def _proxy_environment(config: InstallConfig) -> dict[str, str]:
    if config.proxy is None:
        return {}
    pairs = {
        "HTTP_PROXY": config.proxy.http_proxy,
        "HTTPS_PROXY": config.proxy.https_proxy,
        "NO_PROXY": config.proxy.no_proxy,
    }
    return {name: value for name, value in pairs.items() if value}


def _own_state(inputs: Inputs, made: Secrets) -> dict[str, Any]:
    """What wait-for needs to know."""
    install = inputs.install
    return {
        "rendezvousIP": inputs.rendezvous_ip,
        "serviceCACert": made.service_ca.certificate.decode(),
        "watcherToken": made.tokens.watcher,
        "clusterName": install.metadata.name,
        "baseDomain": install.base_domain.rstrip("."),
        "platform": install.platform.name,
        "expectedHosts": {
            "names": [host.hostname for host in inputs.hosts],
            "controlPlane": install.masters,
            "arbiters": install.arbiters,
            "workers": install.workers,
        },
    }


def _ignition(gathered: Gathered, install: InstallConfig, found: Payload, made: Secrets) -> bytes:
    inputs = gathered.inputs
    manifests = manifest_files(gathered, install, found.image, found.version)
    if inputs.agent_text:
        manifests["agent-config.yaml"] = inputs.agent_text.encode()
    sources = payload.digest_sources(install)
    return live_config(
        LiveInputs(
            rendezvous_ip=inputs.rendezvous_ip,
            release_image=found.image,
            release_version=found.version,
            images=found.components,
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
            hosts=host_files(inputs.hosts),
            registries_conf=gathered.registries or (registries_conf(sources) if sources else ""),
            ca_bundle=install.additional_trust_bundle,
            ntp_sources=inputs.ntp_sources,
            proxy=_proxy_environment(install),
            masters=install.masters,
            arbiters=install.arbiters,
            workers=install.workers,
        )
    )


def _hint(inputs: Inputs) -> str:
    """What an Ignition config that is too big is big with."""
    sizes = {f"openshift/ ({len(inputs.extra_manifests)} manifests)": sum(map(len, inputs.extra_manifests.values()))}
    sizes["additionalTrustBundle"] = len(inputs.install.additional_trust_bundle)
    biggest = max(sizes, key=lambda name: sizes[name])
    return f"; the biggest input is {biggest} with {sizes[biggest]} bytes" if sizes[biggest] else ""


def create_image(directory: Path) -> Path:
    """Write the ISO, the credentials and the state into `directory`; returns the ISO's path.

    Whatever can fail fails before the first file appears; inputs are removed last, when the state holds them.
    """
    gathered = gather(directory, payload.TARGET)
    inputs = gathered.inputs
    minimal = minimal_iso(inputs)
    host_files(inputs.hosts)  # network configs are judged before anything is fetched
    install = with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip)
    found = payload.read_payload(install, IMAGE_VARIABLES.values())
    state = State.load(directory)
    made = secrets.make(state, inputs.rendezvous_ip, install.metadata.name, install.base_domain)
    ignition = _ignition(gathered, install, found, made)
    target = directory / f"agent.{payload.architecture(install)}.iso"
    try:
        write_iso(found.iso, target, ignition, kernel_arguments(install), minimal, _hint(inputs), directory)
    except (IsoError, EmbedTooBig) as error:
        raise AssetError(
            'failed to fetch Agent Installer ISO: failed to generate asset "Agent Installer ISO"', error
        ) from error

    for asset, files in inputs.consumed.items():
        state.put_files(asset, files)
    secrets.store(state, made)
    state.put(OWN, _own_state(inputs, made))
    (directory / "auth").mkdir(mode=0o750, exist_ok=True)
    write_private(directory / "auth/kubeconfig", made.kubeconfig.encode())
    write_private(directory / "auth/kubeadmin-password", made.password.encode())
    write_private(directory / "rendezvousIP", inputs.rendezvous_ip.encode(), 0o644)
    state.save()
    _consume(directory, inputs)
    discard(directory, gathered)
    log_iso(directory, target, minimal, install)
    return target


def _consume(directory: Path, inputs: Inputs) -> None:
    """Remove the input files, which the state holds now, and the folders that this leaves empty."""
    folders = set()
    for files in inputs.consumed.values():
        for name in files:
            (directory / name).unlink(missing_ok=True)
            folders.add((directory / name).parent)
    for folder in folders - {directory}:
        if not any(folder.iterdir()):
            folder.rmdir()
