"""`agent create image`: both files in, one ISO out (reference/installer.md §2)."""

from __future__ import annotations

import base64
import ipaddress
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from installer.config.document import load_all
from installer.config.load import Inputs, load_inputs
from installer.config.state import AGENT_CONFIG, AUTH, EXTRA_MANIFESTS, INSTALL_CONFIG, State, write_private
from installer.config.types import InstallConfig
from installer.create import base_iso
from installer.create.hosts import host_files
from installer.credentials import access, certificates, tokens
from installer.ignition.live import IMAGE_VARIABLES, LiveInputs, live_config
from installer.image.copy import copy_patched
from installer.image.embed import ignition_patch
from installer.image.iso9660 import Iso
from installer.manifests.cluster import Inputs as ManifestInputs
from installer.manifests.cluster import cluster_manifests
from installer.release import DigestSource, RegistryAccess, Release, registries_conf
from installer.release.access import NEVER_CONTACT

log = logging.getLogger(__name__)

RELEASE_OVERRIDE = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
OS_OVERRIDE = "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE"
# Where this build's own release would be: a lab release, which only a mirror can answer for.
DEFAULT_RELEASE = "release.node0.example/node0/lab-release:latest"
TARGET = "Agent Installer ISO"
# Our part of the state: what wait-for reads.
OWN_STATE = "node0"
CONSUMED_NAMES = {INSTALL_CONFIG: "Install Config", AGENT_CONFIG: "Agent Config", EXTRA_MANIFESTS: "Extra Manifests"}
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "": "x86_64"}


@dataclass(frozen=True)
class Payload:
    """What was read from the release: pull specs by digest and where the base ISO lies."""

    image: str
    version: str
    components: dict[str, str]
    iso: Path


def release_image() -> str:
    """The release image's pullspec: the override of the environment, else this installer's own."""
    override = os.environ.get(RELEASE_OVERRIDE, "").strip()
    if override:
        log.warning("Found override for release image (%s). Please be warned, this is not advised", override)
    return override or DEFAULT_RELEASE


def digest_sources(config: InstallConfig) -> tuple[DigestSource, ...]:
    """The mirrors, as the registry tools want them."""
    return tuple(
        DigestSource(entry.source, entry.mirrors, entry.source_policy == NEVER_CONTACT) for entry in config.sources
    )


def read_payload(config: InstallConfig) -> Payload:
    """Resolve the release image through the mirrors and fetch the base ISO. Raises ReleaseError and its children."""
    pullspec = release_image()
    sources = digest_sources(config)
    with RegistryAccess(config.pull_secret, sources, config.additional_trust_bundle) as registry:
        release = Release(pullspec, registry)
        components = {tag: release.image_for(tag) for tag in IMAGE_VARIABLES.values()}
        architecture = config.control_plane.architecture if config.control_plane else ""
        override = os.environ.get(OS_OVERRIDE, "").strip()
        if override:
            log.warning("Found override for OS Image (%s). Please be warned, this is not advised", override)
            iso = Path(override.removeprefix("file://"))
        else:
            iso = base_iso.base_iso(release, ARCHITECTURES.get(architecture, architecture))
        return Payload(pullspec, release.version, components, iso)


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


def _own_state(inputs: Inputs, ca: bytes, watcher: str) -> dict[str, Any]:
    install = inputs.install
    return {
        "rendezvousIP": inputs.rendezvous_ip,
        "serviceCACert": ca.decode(),
        "watcherToken": watcher,
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


def split_documents(files: Mapping[str, str]) -> dict[str, bytes]:
    """Extra manifests, each document a file of its own: <base>-<n><ext>, n from 0 (reference §2.1)."""
    split: dict[str, bytes] = {}
    for name, text in files.items():
        path = Path(name)
        documents = [document for document in load_all(text) if document is not None]
        for number, document in enumerate(documents):
            split[f"{path.stem}-{number}{path.suffix}"] = yaml.safe_dump(document, sort_keys=False).encode()
    return split


def create_image(directory: Path) -> Path:
    """Write the ISO, the credentials and the state into `directory`; returns the ISO's path.

    Everything that can fail for a reason of the user's fails before the first file is written.
    """
    inputs = load_inputs(directory, TARGET)
    install = with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip)
    log.info("The rendezvous host IP (node0 IP) is %s", inputs.rendezvous_ip)
    for asset in inputs.consumed:
        log.info("Consuming %s from target directory", CONSUMED_NAMES.get(asset, asset))
    files = host_files(inputs.hosts)
    payload = read_payload(install)

    log.debug("Making credentials")
    signers = access.make_signers()
    service_ca = certificates.authority("node0-service-ca", unit="node0")
    service = certificates.leaf(service_ca, "assisted-service", addresses=(inputs.rendezvous_ip,), server=True)
    made = tokens.make_tokens()
    password = access.kubeadmin_password()
    admin_hash = access.password_hash(password)

    manifests = cluster_manifests(
        ManifestInputs(install, inputs.ntp_sources, inputs.hosts, payload.image, payload.version)
    )
    sources = digest_sources(install)
    ignition = live_config(
        LiveInputs(
            rendezvous_ip=inputs.rendezvous_ip,
            release_image=payload.image,
            release_version=payload.version,
            images=payload.components,
            public_key_pem=made.public_key_pem,
            agent_token=made.agent,
            user_token=made.user,
            watcher_token=made.watcher,
            tls_files=access.host_tls_files(signers, service_ca, service, admin_hash),
            pull_secret=install.pull_secret,
            ssh_keys=tuple(line.strip() for line in install.ssh_key.splitlines() if line.strip()),
            password_hash=admin_hash,
            manifests=manifests,
            extra_manifests=split_documents(inputs.extra_manifests),
            hosts=files,
            registries_conf=registries_conf(sources) if sources else "",
            ca_bundle=install.additional_trust_bundle,
            ntp_sources=inputs.ntp_sources,
            proxy=_proxy_environment(install),
            masters=install.masters,
            arbiters=install.arbiters,
            workers=install.workers,
        )
    )
    architecture = install.control_plane.architecture if install.control_plane else ""
    target = directory / f"agent.{ARCHITECTURES.get(architecture, architecture)}.iso"
    state = State.load(directory)
    for asset, consumed in inputs.consumed.items():
        state.put_files(asset, consumed)
    state.put(
        AUTH,
        {
            "PublicKey": base64.b64encode(made.public_key_pem.encode()).decode(),
            "AgentAuthToken": made.agent,
            "UserAuthToken": made.user,
            "WatcherAuthToken": made.watcher,
        },
    )
    state.put(OWN_STATE, _own_state(inputs, service_ca.certificate, made.watcher))
    with payload.iso.open("rb") as file:
        patch = ignition_patch(Iso(file, payload.iso), ignition)
    log.debug("Base ISO copied by %s", copy_patched(payload.iso, target, [patch]))
    (directory / "auth").mkdir(exist_ok=True)
    kubeconfig = access.kubeconfig(install.metadata.name, install.base_domain, signers)
    write_private(directory / "auth/kubeconfig", kubeconfig.encode())
    write_private(directory / "auth/kubeadmin-password", password.encode())
    write_private(directory / "rendezvousIP", inputs.rendezvous_ip.encode())
    state.save()
    for consumed in inputs.consumed.values():
        for name in consumed:
            (directory / name).unlink(missing_ok=True)
    log.info("Generated ISO at %s.", target)
    return target
