"""All targets of `agent create` but `image` (reference/installer.md §2.2)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from installer.common.inputs import read_input
from installer.config.load import AGENT_CONFIG_FILE
from installer.config.state import INSTALL_CONFIG, MANIFESTS, MIRROR, State
from installer.create.image import BOOT_ARTIFACTS, OWN_ARTIFACTS
from installer.create.outputs import Outputs
from installer.create.stages.check import Inputs, check
from installer.create.stages.places import cause_first
from installer.create.stages.read import InputFiles, read
from installer.create.stages.render import kernel_arguments, live_inputs, manifest_files
from installer.create.stages.resolve import (
    ResolvedRelease,
    architecture,
    expected_release,
    resolve_payload,
    resolve_release,
)
from installer.create.stages.secrets import Secrets, saved_secrets, secrets_for
from installer.create.stages.write import save, write
from installer.credentials import background
from installer.errors import AssetError, RegistryUnreachable, ReleaseNotByDigest, StateError
from installer.ignition.live import IMAGE_VARIABLES, live_config
from installer.image.artifacts import LiveChanges, write_pxe
from installer.image.copy import IMAGE_MODE
from installer.manifests import files as names
from installer.manifests import mirror
from installer.overrides import release_override

log = logging.getLogger(__name__)


def created_in(command: str, directory: Path, files: Iterable[str]) -> str:
    """Return the last line of most targets: up to three folders by name, of more only the asset directory."""
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
    files = read(directory, target)
    inputs = check(files, target, for_image=False)
    if Path(names.IMAGE_SET).name in (inputs.manifests or ()):
        # Nothing is made of the release, which need not be reachable; its version is not known then.
        release = ResolvedRelease(expected_release(), version("node0"), {})
    else:
        release = _release(inputs, target)
    by_name = manifest_files(inputs, release)
    manifests = {f"{names.DIRECTORY}/{name}": data for name, data in by_name.items()}
    mirrors = mirror.mirror_files(inputs.install)
    if inputs.registries is not None:
        mirrors[names.REGISTRIES] = inputs.registries.encode()
    if not (files.of(INSTALL_CONFIG) or files.of(MIRROR).get(names.CA_BUNDLE)):
        del mirrors[names.CA_BUNDLE]  # no input has certificates
    # The state keeps what is written, so that a file that the user removes comes from there the next time. Removed are
    # inputs that are not written anew; mirror/ always is, and its folder keeps its mode.
    discarded = (*{*inputs.discarded, *files.on_disk.get(MANIFESTS, {})}.difference(mirrors),)
    inputs = replace(inputs, consumed={**inputs.consumed, MANIFESTS: manifests, MIRROR: {}}, discarded=discarded)
    with Outputs(directory) as outputs:
        for name, data in (manifests | mirrors).items():
            outputs.put(name, data)
        write(outputs, files.state, inputs, None)
    log.info("%s", created_in("cluster-manifests", directory, [*manifests, *mirrors]))


def _release(inputs: Inputs, target: str) -> ResolvedRelease:
    """Return the release; where it cannot be read, without a network for example, the one that was named, of unknown
    version.

    Manifests only name it. OpenShift's installer does not look at it here at all, and puts its own version.
    """
    try:
        return resolve_release(inputs.install, (), target)
    except AssetError as error:
        image = release_override()
        if not image or isinstance(error.__cause__, ReleaseNotByDigest):
            raise
        if isinstance(error.__cause__, RegistryUnreachable):
            why = f"No registry with {image} can be reached"
        else:
            why = f"The release was not read, which an image needs ({error.__cause__})"
        log.warning("%s, so the manifests name this installer's version instead", why)
        return ResolvedRelease(image, version("node0"), {})


def pxe_files(directory: Path) -> None:
    """Write boot-artifacts/: what a network boot needs."""
    target = "Agent Installer PXE Files"
    files = read(directory, target)
    inputs = check(files, target)
    with cause_first(inputs):
        payload = resolve_payload(inputs.install, IMAGE_VARIABLES.values())
    secrets = _secrets(files, inputs)
    live = live_inputs(inputs, payload.release, secrets, console=bool(payload.agent_files))
    changes = LiveChanges(live_config(live), kernel_arguments(inputs.install), payload.agent_files)
    arch = architecture(inputs.install)
    url = inputs.agent.boot_artifacts_base_url
    with Outputs(directory) as outputs:
        arguments = write_pxe(
            payload.iso, outputs.folder(BOOT_ARTIFACTS, OWN_ARTIFACTS), arch, changes, url=url, mode=IMAGE_MODE
        )
        write(outputs, files.state, inputs, secrets, images=payload.release.components)
    folder = directory / BOOT_ARTIFACTS
    if url:
        log.info("Created iPXE script agent.%s.ipxe in %s directory", arch, folder)
    log.info("PXE boot artifacts created in: %s", folder)
    log.info("Kernel parameters for PXE boot: %s", arguments)


def config_image(directory: Path) -> None:
    """Write agentconfig.noarch.iso: one cluster's files for hosts that boot an unconfigured image."""
    from installer.image.config_image import FILE, config_iso

    target = "Agent Config ISO"
    files = read(directory, target)
    inputs = check(files, target)
    release = resolve_release(inputs.install, IMAGE_VARIABLES.values(), target)
    secrets = _secrets(files, inputs)
    ignition = live_config(live_inputs(inputs, release, secrets))
    with Outputs(directory) as outputs:
        outputs.put(FILE, config_iso(ignition), IMAGE_MODE)
        write(outputs, files.state, inputs, secrets, images=release.components)
    log.info("%s", created_in("config-image", directory, ["auth/kubeconfig", "auth/kubeadmin-password"]))


def _secrets(files: InputFiles, inputs: Inputs) -> Secrets:
    install = inputs.install
    return secrets_for(files.state, inputs.rendezvous_ip, install.metadata.name, install.base_domain)


def certificates(directory: Path) -> None:
    """Write tls/: the four signers, kubeadmin's password and its hash; those of the state where it has them."""
    secrets = saved_secrets(State.load(directory)) or background.make()
    files: dict[str, str] = {}
    for name, pair in secrets.signers.items():
        files |= {f"tls/{name}.crt": pair.certificate, f"tls/{name}.key": pair.key}
    files |= {
        "tls/kubeadmin-password": secrets.password,
        "tls/kubeadmin-password.hash": secrets.password_hash,
    }
    with Outputs(directory) as outputs:
        for name, text in files.items():
            outputs.put(name, text.encode())
        outputs.commit()
    log.info("%s", created_in("certificates", directory, files))


def unconfigured_ignition(directory: Path) -> None:
    """Write unconfigured-agent.ign: a live host's config without a cluster's, which a config image brings later."""
    from installer.create.unconfigured import FILE, unconfigured

    state = State.load(directory)
    ignition, consumed = unconfigured(directory, state)
    with Outputs(directory) as outputs:
        outputs.put(FILE, ignition)
        for asset, files in consumed.items():
            state.put_files(asset, files)
            outputs.remove(*files)
        save(outputs, state)
    log.info("Unconfigured-Ignition created in: %s", directory / FILE)
    log.info("%s", created_in("unconfigured-ignition", directory, [FILE]))


def unconfigured_image(directory: Path) -> None:
    """Write unconfigured.ARCH.iso, whose hosts ask on their consoles."""
    from installer.create.interactive import unconfigured_image as write_image

    write_image(directory)


TARGETS = {
    "agent-config-template": agent_config_template,
    "cluster-manifests": cluster_manifests,
    "pxe-files": pxe_files,
    "config-image": config_image,
    "unconfigured-image": unconfigured_image,
    "unconfigured-ignition": unconfigured_ignition,
    "certificates": certificates,
}
