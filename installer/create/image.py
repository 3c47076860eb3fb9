"""`agent create image`: both files in, one ISO out (reference/installer.md §2).

Five stages, each a module: read, check, resolve, render, write.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from installer.common import cpio
from installer.config.types.install import InstallConfig
from installer.create.outputs import Outputs
from installer.create.prefetch import Prefetched
from installer.create.stages.check import Inputs, check
from installer.create.stages.places import cause_first
from installer.create.stages.read import read
from installer.create.stages.render import kernel_arguments, live_inputs
from installer.create.stages.resolve import TARGET, Payload, architecture, resolve_payload
from installer.create.stages.secrets import Secrets, secrets_for
from installer.create.stages.write import write
from installer.errors import AssetError, IsoError
from installer.ignition.early import network_archive
from installer.ignition.live import IMAGE_VARIABLES, host_config_files, live_config
from installer.image.artifacts import LiveChanges, prepare_iso, write_rootfs
from installer.image.copy import IMAGE_MODE
from installer.image.iso.minimal import check_url

log = logging.getLogger(__name__)

BOOT_ARTIFACTS = "boot-artifacts"
#: What the files in there are called; others are the user's.
OWN_ARTIFACTS = "agent.*"
NOTHING_PREFETCHED = Prefetched()


def create_image(directory: Path, prefetched: Prefetched = NOTHING_PREFETCHED) -> Path:
    """Write the ISO, the credentials and the state into `directory`; returns the ISO's path.

    All files appear at once, when nothing can fail any more; inputs are removed last, when the state holds them.
    """
    files = read(directory, TARGET, prefetched.state)
    inputs = check(files, TARGET)
    minimal = minimal_iso(inputs)

    with cause_first(inputs):
        payload = resolve_payload(
            inputs.install, IMAGE_VARIABLES.values(), want_rootfs=minimal is not None and minimal.published
        )
    secrets = secrets_for(
        files.state,
        inputs.rendezvous_ip,
        inputs.install.metadata.name,
        inputs.install.base_domain,
        in_progress=prefetched.credentials,
    )

    changes = render_iso(inputs, payload, secrets, minimal)
    url = "" if minimal is None else minimal.url or payload.rootfs_url

    target = directory / f"agent.{architecture(inputs.install)}.iso"
    with Outputs(directory) as outputs:
        try:
            copy = prefetched.copy
            outputs.take(prepare_iso(payload.iso, target, changes, rootfs_url=url, prefetched=copy, mode=IMAGE_MODE))
            if minimal is not None and not minimal.published:
                write_rootfs(payload.iso, outputs.folder(BOOT_ARTIFACTS, OWN_ARTIFACTS) / url.rpartition("/")[2])
        except IsoError as error:
            raise AssetError(f'failed to fetch {TARGET}: failed to generate asset "{TARGET}"', error) from error
        write(outputs, files.state, inputs, secrets, images=payload.release.components)

    _log_iso(directory, target, minimal, inputs.install)
    return target


@dataclass(frozen=True)
class MinimalIso:
    """The source of a minimal ISO's root file system: `url`, empty for the payload's."""

    url: str = ""

    @property
    def published(self) -> bool:
        """Return whether it is there already, and not to be written beside the ISO."""
        return not self.url


def minimal_iso(inputs: Inputs) -> MinimalIso | None:
    """Return the minimal ISO's source, None for a full one. Raises ConfigError for a URL that cannot be used."""
    agent = inputs.agent
    if agent.minimal_iso:
        log.info("Minimal ISO will be created based on configuration")
    elif inputs.install.platform.external is not None:
        log.info("Minimal ISO will be created for External platform")
    else:
        return None
    if not agent.boot_artifacts_base_url:
        return MinimalIso()
    base = agent.boot_artifacts_base_url.strip("/")
    url = f"{base}/agent.{architecture(inputs.install)}-rootfs.img"
    check_url(url)
    return MinimalIso(url)


def render_iso(inputs: Inputs, payload: Payload, secrets: Secrets, minimal: MinimalIso | None) -> LiveChanges:
    """Make the base ISO's additions. A minimal ISO's initrd has static networks: it fetches its root by them."""
    live = live_inputs(inputs, payload.release, secrets, console=bool(payload.agent_files))
    networks = network_archive(host_config_files(live)) if minimal is not None else b""
    return LiveChanges(
        live_config(live),
        kernel_arguments(inputs.install),
        cpio.joined(payload.agent_files, networks),
        hint=_biggest_input(inputs),
    )


def _biggest_input(inputs: Inputs) -> str:
    """Return the input that makes an Ignition config too big, as the end of an error; empty if there is none."""
    sizes = {f"openshift/ ({len(inputs.extra_manifests)} manifests)": sum(map(len, inputs.extra_manifests.values()))}
    sizes["additionalTrustBundle"] = len(inputs.install.additional_trust_bundle)
    biggest = max(sizes, key=lambda name: sizes[name])
    return f"; the biggest input is {biggest} with {sizes[biggest]} bytes" if sizes[biggest] else ""


def _log_iso(directory: Path, target: Path, minimal: MinimalIso | None, config: InstallConfig) -> None:
    """Log the last lines of `create image`."""
    if minimal is None:
        log.info("Generated ISO at %s.", target)
    else:
        if not minimal.published:
            log.info("RootFS file created in: %s. Upload it at %s", directory / BOOT_ARTIFACTS, minimal.url)
        log.info("Generated minimal ISO at %s", target)
    if config.platform.external is not None:
        log.info(
            "When using External oci platform, always make sure CCM manifests were added in the openshift directory."
        )
