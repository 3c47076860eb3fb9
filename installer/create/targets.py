"""What `agent create TARGET` does for all targets but `image` (reference/installer.md §2.2)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from installer.config.load import AGENT_CONFIG_FILE
from installer.config.state import MANIFESTS, MIRROR, State
from installer.create import artifacts, payload, secrets
from installer.create.hosts import host_files
from installer.create.inputs import gather
from installer.create.live import kernel_arguments, live_inputs, manifest_files, with_rendezvous_in_no_proxy
from installer.create.outputs import Outputs
from installer.create.persist import persist, save
from installer.create.release import read_release
from installer.credentials import background as begun
from installer.errors import StateError
from installer.ignition.live import IMAGE_VARIABLES, live_config
from installer.inputs import read_input
from installer.manifests import files as names
from installer.manifests import mirror

log = logging.getLogger(__name__)


def created_in(command: str, directory: Path, files: Iterable[str]) -> str:
    """The last line of most targets: up to three folders by name, of more only the asset directory."""
    folders = sorted({str(directory / name.partition("/")[0]) if "/" in name else str(directory) for name in files})
    if len(folders) > 3:
        folders = [str(directory)]
    places = folders[0] if len(folders) == 1 else f"{', '.join(folders[:-1])} and {folders[-1]}"
    return f"{command.title()} created in: {places}"


def agent_config_template(directory: Path) -> None:
    """Write a sample agent-config.yaml. Raises StateError where there is another: OpenShift's overwrites it."""
    from installer.create.templates import AGENT_CONFIG_TEMPLATE

    path = directory / AGENT_CONFIG_FILE
    if os.path.lexists(path) and not _holds(path, AGENT_CONFIG_TEMPLATE.encode()):
        raise StateError(f"failed to write {path}: there is one already, which is not overwritten; move it away first")
    with Outputs(directory) as outputs:
        outputs.put(AGENT_CONFIG_FILE, AGENT_CONFIG_TEMPLATE.encode())
        outputs.commit()
    log.info("%s", created_in("agent-config-template", directory, [AGENT_CONFIG_FILE]))


def _holds(path: Path, data: bytes) -> bool:
    try:
        return read_input(path) == data
    except OSError:
        return False


def cluster_manifests(directory: Path) -> None:
    """Write cluster-manifests/ and mirror/, which are inputs from then on."""
    target = "Agent Manifests"
    gathered = gather(directory, target)
    host_files(gathered.inputs.hosts)  # network configs are judged before anything is written
    install = with_rendezvous_in_no_proxy(gathered.inputs.install, gathered.inputs.rendezvous_ip)
    if gathered.manifests is None:
        image, version, _ = read_release(install, (), target)
        made = manifest_files(gathered, install, image, version)
    else:
        made = gathered.manifests
    files = {f"{names.DIRECTORY}/{name}": data for name, data in made.items()}
    mirrors = mirror.mirror_files(install)
    if gathered.registries is not None:
        mirrors[names.REGISTRIES] = gathered.registries.encode()
    state = State.load(directory)
    with Outputs(directory) as outputs:
        for name, data in (files | mirrors).items():
            outputs.put(name, data)
        # Kept too, so that a file that the user removes is taken from here.
        gathered.consumed[MANIFESTS] = files
        gathered.consumed[MIRROR] = {}
        persist(outputs, state, gathered, None)
    log.info("%s", created_in("cluster-manifests", directory, [*files, *mirrors]))


def pxe_files(directory: Path) -> None:
    """Write boot-artifacts/: what a network boot needs."""
    target = "Agent Installer PXE Files"
    gathered = gather(directory, target)
    inputs = gathered.inputs
    hosts = host_files(inputs.hosts)
    found = payload.read_payload(inputs.install, IMAGE_VARIABLES.values())
    state = State.load(directory)
    made = secrets.make(state, inputs.rendezvous_ip, inputs.install.metadata.name, inputs.install.base_domain)
    ignition = live_config(
        live_inputs(gathered, hosts, found.image, found.version, found.components, made, bool(found.agent_files))
    )
    architecture = payload.architecture(inputs.install)
    url = inputs.agent.boot_artifacts_base_url
    folder = directory / artifacts.BOOT_ARTIFACTS
    with Outputs(directory) as outputs:
        kargs = kernel_arguments(inputs.install)
        new = outputs.folder(artifacts.BOOT_ARTIFACTS)
        arguments = artifacts.write_pxe(found.iso, new, architecture, ignition, kargs, url, found.agent_files)
        persist(outputs, state, gathered, made)
    if url:
        log.info("Created iPXE script agent.%s.ipxe in %s directory", architecture, folder)
    log.info("PXE boot artifacts created in: %s", folder)
    log.info("Kernel parameters for PXE boot: %s", arguments)


def config_image(directory: Path) -> None:
    """Write agentconfig.noarch.iso: one cluster's files for hosts that boot an unconfigured image."""
    from installer.create.config_image import FILE, config_iso

    target = "Agent Config ISO"
    gathered = gather(directory, target)
    inputs = gathered.inputs
    hosts = host_files(inputs.hosts)
    image, version, components = read_release(inputs.install, IMAGE_VARIABLES.values(), target)
    state = State.load(directory)
    made = secrets.make(state, inputs.rendezvous_ip, inputs.install.metadata.name, inputs.install.base_domain)
    ignition = live_config(live_inputs(gathered, hosts, image, version, components, made))
    with Outputs(directory) as outputs:
        outputs.put(FILE, config_iso(ignition))
        persist(outputs, state, gathered, made)
    log.info("%s", created_in("config-image", directory, ["auth/kubeconfig", "auth/kubeadmin-password"]))


def certificates(directory: Path) -> None:
    """Write tls/: the four signers, kubeadmin's password and its hash; those of the state where it has them."""
    state = State.load(directory)
    made = secrets.kept(state) or begun.make()
    files: dict[str, bytes] = {}
    for name, pair in made.signers.items():
        files |= {f"tls/{name}.crt": pair.certificate, f"tls/{name}.key": pair.key}
    files |= {
        "tls/kubeadmin-password": made.password.encode(),
        "tls/kubeadmin-password.hash": made.password_hash.encode(),
    }
    with Outputs(directory) as outputs:
        for name, data in files.items():
            outputs.put(name, data)
        outputs.commit()
    log.info("%s", created_in("certificates", directory, files))


def unconfigured_ignition(directory: Path) -> None:
    """Write unconfigured-agent.ign: a live host's config without a cluster's, which a config image brings later."""
    from installer.create.unconfigured import FILE, unconfigured

    ignition, consumed = unconfigured(directory)
    state = State.load(directory)
    with Outputs(directory) as outputs:
        outputs.put(FILE, ignition)
        for asset, files in consumed.items():
            state.put_files(asset, files)
            outputs.remove(*files)
        save(outputs, state)
    log.info("Unconfigured-Ignition created in: %s", directory / FILE)
    log.info("%s", created_in("unconfigured-ignition", directory, [FILE]))


TARGETS = {
    "agent-config-template": agent_config_template,
    "cluster-manifests": cluster_manifests,
    "pxe-files": pxe_files,
    "config-image": config_image,
    "unconfigured-ignition": unconfigured_ignition,
    "certificates": certificates,
}
