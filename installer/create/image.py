"""`agent create image`: both files in, one ISO out (reference/installer.md §2)."""

from __future__ import annotations

import logging
from pathlib import Path

from installer.config.load import Inputs
from installer.config.state import OWN, State, write_private
from installer.create import payload, secrets
from installer.create.artifacts import log_iso, minimal_iso, write_iso
from installer.create.gather import discard, gather
from installer.create.hosts import host_files
from installer.create.live import kernel_arguments, live_inputs, own_state, with_rendezvous_in_no_proxy
from installer.errors import AssetError, EmbedTooBig, IsoError
from installer.ignition.live import IMAGE_VARIABLES, live_config

log = logging.getLogger(__name__)


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
    ignition = live_config(live_inputs(gathered, found.image, found.version, found.components, made))
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
    state.put(OWN, own_state(gathered, made))
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
