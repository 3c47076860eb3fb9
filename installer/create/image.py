"""`agent create image`: both files in, one ISO out (reference/installer.md §2)."""

from __future__ import annotations

import logging
from pathlib import Path

from installer.config.load import Inputs
from installer.config.state import State
from installer.create import payload, secrets
from installer.create.artifacts import Minimal, log_iso, minimal_iso, write_iso
from installer.create.hosts import host_files
from installer.create.inputs import gather
from installer.create.live import kernel_arguments, live_inputs, with_rendezvous_in_no_proxy
from installer.create.outputs import Outputs
from installer.create.persist import persist
from installer.create.prefetch import HeadStart
from installer.errors import AssetError, EmbedTooBig, IsoError
from installer.ignition.early import network_archive
from installer.ignition.live import IMAGE_VARIABLES, host_config_files, live_config
from installer.image import cpio

log = logging.getLogger(__name__)

NOTHING_BEGUN = HeadStart()


def _hint(inputs: Inputs) -> str:
    """What an Ignition config that is too big is big with."""
    sizes = {f"openshift/ ({len(inputs.extra_manifests)} manifests)": sum(map(len, inputs.extra_manifests.values()))}
    sizes["additionalTrustBundle"] = len(inputs.install.additional_trust_bundle)
    biggest = max(sizes, key=lambda name: sizes[name])
    return f"; the biggest input is {biggest} with {sizes[biggest]} bytes" if sizes[biggest] else ""


def create_image(directory: Path, begun: HeadStart = NOTHING_BEGUN) -> Path:
    """Write the ISO, the credentials and the state into `directory`; returns the ISO's path.

    All files appear at once, when nothing can fail any more; inputs are removed last, when the state holds them.
    `begun`: what was begun before this was called.
    """
    gathered = gather(directory, payload.TARGET)
    inputs = gathered.inputs
    minimal = minimal_iso(inputs)
    hosts = host_files(inputs.hosts)  # network configs are judged before anything is fetched
    install = with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip)
    wants_url = minimal is not None and not minimal.url
    found = payload.read_payload(install, IMAGE_VARIABLES.values(), wants_url)
    if wants_url:
        minimal = Minimal(found.rootfs_url, published=True)
    state = State.load(directory)
    made = secrets.make(state, inputs.rendezvous_ip, install.metadata.name, install.base_domain, begun.credentials)
    live = live_inputs(gathered, hosts, found.image, found.version, found.components, made, bool(found.agent_files))
    ignition = live_config(live)
    networks = network_archive(host_config_files(live)) if minimal is not None else b""
    target = directory / f"agent.{payload.architecture(install)}.iso"
    with Outputs(directory) as outputs:
        try:
            kargs = kernel_arguments(install)
            more = cpio.joined(found.agent_files, networks)
            hint = _hint(inputs)
            write_iso(found.iso, target, ignition, kargs, minimal, hint, directory, begun.copy, more, outputs)
        except (IsoError, EmbedTooBig) as error:
            raise AssetError(
                'failed to fetch Agent Installer ISO: failed to generate asset "Agent Installer ISO"', error
            ) from error
        persist(outputs, state, gathered, made)
    log_iso(directory, target, minimal, install)
    return target
