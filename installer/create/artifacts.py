"""Files out of the base ISO: the personalised ISO, full or minimal, and what a network boot needs (reference §2.2)."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from installer.config.load import Inputs
from installer.config.types import InstallConfig
from installer.create.outputs import Outputs
from installer.create.payload import architecture
from installer.errors import EmbedTooBig, IsoError
from installer.files import write_private
from installer.image import cpio
from installer.image.copy import Ahead
from installer.image.embed import CONFIG_NAME, KargsEdit, edited_kargs, kargs_area, kargs_patches
from installer.image.grow import add_to_initrd, embed_ignition
from installer.image.iso9660 import Iso
from installer.image.minimal import check_url, extract_rootfs, live_kargs, make_minimal
from installer.image.overlay import Overlay

log = logging.getLogger(__name__)

BOOT_ARTIFACTS = "boot-artifacts"
_PXE = "images/pxeboot"
_S390X = "s390x"


@dataclass(frozen=True)
class Minimal:
    """What makes an ISO a minimal one: where the hosts get the root file system from.

    `published`: it is there already, and is not written beside the ISO.
    """

    url: str
    published: bool = False


def minimal_iso(inputs: Inputs) -> Minimal | None:
    """How the ISO is to be minimal, None for a full one; without a URL if the payload has to say it.

    Raises ConfigError for a URL that cannot be used.
    """
    agent, external = inputs.agent, inputs.install.platform.external
    if not agent.minimal_iso and external is None:
        return None
    if agent.minimal_iso:
        log.info("Minimal ISO will be created based on configuration")
    else:
        log.info("Minimal ISO will be created for External platform")
    if not agent.boot_artifacts_base_url:
        return Minimal("", published=True)
    base = agent.boot_artifacts_base_url.strip("/")
    url = f"{base}/agent.{architecture(inputs.install)}-rootfs.img"
    check_url(url)
    return Minimal(url)


def log_iso(directory: Path, target: Path, minimal: Minimal | None, config: InstallConfig) -> None:
    """The last lines of `create image`."""
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


def write_iso(
    base: Path,
    target: Path,
    ignition: bytes,
    kargs: KargsEdit,
    minimal: Minimal | None,
    hint: str,
    directory: Path,
    ahead: Ahead | None = None,
    more_initrd: bytes = b"",
    outputs: Outputs | None = None,
) -> None:
    """Write the agent ISO: `base` with a config and its kernel arguments edited, in one pass. Raises IsoError.

    For a minimal one, boot-artifacts/ of `directory` gets the root file system, unless that is published.
    `ahead`: a copy that was begun before.
    `more_initrd`: compressed archives for the initrd.
    `outputs`: what puts both in place, later; without it they are there when this returns.
    """
    if outputs is None:
        with Outputs(directory) as outputs:
            write_iso(base, target, ignition, kargs, minimal, hint, directory, ahead, more_initrd, outputs)
            outputs.commit()
        return
    with base.open("rb") as file:
        overlay = Overlay(file)
        if minimal is not None:
            make_minimal(overlay, base, minimal.url)
        if more_initrd and not add_to_initrd(overlay, base, more_initrd):
            lost = "no interactive console" + ("" if minimal is None else ", and DHCP alone until they have their root")
            log.warning("The initrd of %s is part of its boot image: the hosts will have %s", base, lost)
        overlay.apply(kargs_patches(overlay.iso(base), kargs))
        try:
            if embed_ignition(overlay, base, ignition):
                log.debug("Ignition content length exceeds the default embed area, the final image grows")
        except EmbedTooBig as error:
            raise EmbedTooBig(base, "the Ignition config", error.size, error.limit, hint) from error
        if minimal is not None and not minimal.published:
            folder = outputs.folder(BOOT_ARTIFACTS)
            extract_rootfs(Overlay(file), base, folder / minimal.url.rpartition("/")[2])
        partial, how = overlay.prepare(target, ahead=ahead)
        outputs.take(partial)
        log.debug("base ISO copied by %s", how)


def _copy(file: BinaryIO, iso: Iso, path: str, dest: Path, tail: bytes = b"") -> int:
    """One file of the ISO, with more bytes behind its padded end; returns its size."""
    found = iso.find(path)
    if found is None or found.directory:
        raise IsoError(iso.path, f"has no {path}, so it cannot be booted from a network")
    part = Overlay(file)
    part.move(0, found.offset, found.length)
    part.truncate(found.length)
    if tail:
        part.write_at((found.length + 3) // 4 * 4, tail)
    part.save(dest, 0o644 if not tail else 0o600)
    return part.size


def write_pxe(
    base: Path, folder: Path, arch: str, ignition: bytes, kargs: KargsEdit, url: str, agent_files: bytes = b""
) -> str:
    """Write kernel, initrd with `agent_files` and the config, and rootfs into `folder`; returns the kernel's arguments.

    With `url` (bootArtifactsBaseURL) an iPXE script too, on s390x what its loader needs. Raises IsoError.
    """
    prefix = f"agent.{arch}"
    with base.open("rb") as file:
        iso = Iso(file, base)
        area = kargs_area(iso)
        arguments = edited_kargs(live_kargs(area.default) if area else "", kargs)
        archive = cpio.joined(agent_files, cpio.compress(cpio.pack({CONFIG_NAME: ignition})))
        initrd_size = _copy(file, iso, f"{_PXE}/initrd.img", folder / f"{prefix}-initrd.img", archive)
        _copy(file, iso, f"{_PXE}/vmlinuz", folder / f"{prefix}-vmlinuz")
        extract_rootfs(Overlay(file), base, folder / f"{prefix}-rootfs.img")
        if arch == _S390X:
            _write_s390x(iso, folder, prefix, initrd_size)
    if url:
        script = ipxe_script(url.strip("/"), prefix, arguments)
        write_private(folder / f"{prefix}.ipxe", script.encode(), 0o644)
    return arguments


def ipxe_script(url: str, prefix: str, arguments: str) -> str:
    """The iPXE script that boots the files from below `url`."""
    lines = (
        "#!ipxe",
        f"initrd --name initrd {url}/{prefix}-initrd.img",
        f"kernel {url}/{prefix}-vmlinuz initrd=initrd coreos.live.rootfs_url={url}/{prefix}-rootfs.img {arguments}",
        "boot",
    )
    return "\n".join(lines) + "\n"


def _write_s390x(iso: Iso, folder: Path, prefix: str, initrd_size: int) -> None:
    """The initrd's address and size (two big-endian 64-bit numbers), and the .ins file with the new names."""
    address = iso.file("images/initrd.addrsize")
    ins = iso.file("generic.ins")
    if address is None or len(address) < 16 or ins is None:
        raise IsoError(iso.path, "has no images/initrd.addrsize and generic.ins, which s390x boots with")
    write_private(folder / f"{prefix}-initrd.addrsize", address[:8] + struct.pack(">Q", initrd_size), 0o644)
    text = ins.decode("latin-1")
    for old in ("kernel.img", "initrd.img", "initrd.addrsize"):
        text = text.replace(old, f"{prefix}-{'vmlinuz' if old == 'kernel.img' else old}")
    write_private(folder / f"{prefix}-generic.ins", text.encode("latin-1"), 0o644)
