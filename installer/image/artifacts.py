"""Files out of the base ISO: the personalised ISO, full or minimal, and what a network boot needs (reference §2.2)."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from installer.common import cpio
from installer.common.iso9660 import Iso
from installer.common.kargareas import kargs_area
from installer.errors import EmbedTooBig, IsoError, NotIso9660
from installer.files import Partial, write_asset
from installer.image.copy import IMAGE_MODE, PrefetchedCopy
from installer.image.iso.embed import CONFIG_NAME, KargsEdit, edited_kargs, kargs_patches
from installer.image.iso.grow import add_to_initrd, embed_ignition
from installer.image.iso.minimal import extract_rootfs, live_kargs, make_minimal
from installer.image.iso.overlay import Overlay, put_in_place

log = logging.getLogger(__name__)

_PXE = "images/pxeboot"
_S390X = "s390x"


@dataclass(frozen=True)
class LiveChanges:
    """Changes of a base ISO's live system: an Ignition config, edited kernel arguments, and more in its initrd.

    `initrd`: compressed cpio archives, one after the other; empty for none. `hint` ends the error of a config that is
    too big.
    """

    ignition: bytes = field(repr=False)
    kargs: KargsEdit = ()
    initrd: bytes = field(default=b"", repr=False)
    hint: str = ""


def prepare_iso(
    base: Path,
    target: Path,
    changes: LiveChanges,
    *,
    rootfs_url: str = "",
    prefetched: PrefetchedCopy | None = None,
    mode: int = 0o600,
) -> Partial:
    """Write the changed ISO beside `target`, in one pass; returns the file that is to be committed.

    With `rootfs_url` it is a minimal ISO, whose hosts get their root file system from there. `prefetched`: a copy of
    `base` that was begun before. Raises IsoError, EmbedTooBig.
    """
    with base.open("rb") as file:
        overlay = Overlay(file)
        if rootfs_url:
            make_minimal(overlay, base, rootfs_url)
        if changes.initrd and not add_to_initrd(overlay, base, changes.initrd):
            lost = "no interactive console" + (", and DHCP alone until they have their root" if rootfs_url else "")
            log.warning("The initrd of %s is part of its boot image: the hosts will have %s", base, lost)
        overlay.apply(kargs_patches(overlay.iso(base), changes.kargs))
        try:
            if embed_ignition(overlay, base, changes.ignition):
                log.debug("Ignition content length exceeds the default embed area, the final image grows")
        except EmbedTooBig as error:
            raise EmbedTooBig(base, "the Ignition config", error.size, error.limit, hint=changes.hint) from error
        partial, how = overlay.prepare(target, mode, prefetched)
        log.debug("base ISO copied by %s", how)
        return partial


def write_iso(base: Path, target: Path, changes: LiveChanges, *, rootfs_url: str = "") -> None:
    """Write the changed ISO as `target`, otherwise as `prepare_iso`. Raises IsoError, EmbedTooBig."""
    put_in_place(prepare_iso(base, target, changes, rootfs_url=rootfs_url))


def write_rootfs(base: Path, dest: Path) -> None:
    """Write the root file system that is in `base`. Raises IsoError."""
    with base.open("rb") as file:
        extract_rootfs(Overlay(file), base, dest)


def _copy(file: BinaryIO, iso: Iso, path: str, dest: Path, *, tail: bytes = b"", mode: int = IMAGE_MODE) -> int:
    """Write one file of the ISO, with more bytes after its padded end; return its size."""
    extent = iso.find(path)
    if extent is None or extent.directory:
        raise IsoError(iso.path, f"has no {path}, so it cannot be booted from a network")
    part = Overlay(file)
    part.move(0, extent.offset, extent.length)
    part.truncate(extent.length)
    if tail:
        part.write_at((extent.length + 3) // 4 * 4, tail)
    part.save(dest, mode)
    return part.size


def write_pxe(
    base: Path, folder: Path, arch: str, changes: LiveChanges, *, url: str = "", mode: int = 0o600, name: str = "agent"
) -> str:
    """Write kernel, initrd with the config in it, and rootfs into `folder`; returns the kernel's arguments.

    `mode` is the initrd's, which holds secrets; `name` and the architecture begin the names of all.

    With `url` (bootArtifactsBaseURL) an iPXE script too, on s390x what its loader needs. Raises IsoError.
    """
    prefix = f"{name}.{arch}"
    with base.open("rb") as file:
        iso = Iso(file, base, NotIso9660)
        area = kargs_area(iso)
        arguments = edited_kargs(live_kargs(area.default) if area else "", changes.kargs)
        archive = cpio.joined(changes.initrd, cpio.compress(cpio.pack({CONFIG_NAME: changes.ignition})))
        initrd_size = _copy(file, iso, f"{_PXE}/initrd.img", folder / f"{prefix}-initrd.img", tail=archive, mode=mode)
        _copy(file, iso, f"{_PXE}/vmlinuz", folder / f"{prefix}-vmlinuz")
        extract_rootfs(Overlay(file), base, folder / f"{prefix}-rootfs.img")
        if arch == _S390X:
            _write_s390x(iso, folder, prefix, initrd_size)
    if url:
        script = ipxe_script(url.strip("/"), prefix, arguments)
        write_asset(folder / f"{prefix}.ipxe", script.encode(), 0o644)
    return arguments


def ipxe_script(url: str, prefix: str, arguments: str) -> str:
    """Return the iPXE script that boots the files from below `url`."""
    lines = (
        "#!ipxe",
        f"initrd --name initrd {url}/{prefix}-initrd.img",
        f"kernel {url}/{prefix}-vmlinuz initrd=initrd coreos.live.rootfs_url={url}/{prefix}-rootfs.img {arguments}",
        "boot",
    )
    return "\n".join(lines) + "\n"


def _write_s390x(iso: Iso, folder: Path, prefix: str, initrd_size: int) -> None:
    """Write the initrd's address and size (two big-endian 64-bit numbers), and the .ins file with the new names."""
    address = iso.file("images/initrd.addrsize")
    ins = iso.file("generic.ins")
    if address is None or len(address) < 16 or ins is None:
        raise IsoError(iso.path, "has no images/initrd.addrsize and generic.ins, which s390x boots with")
    write_asset(folder / f"{prefix}-initrd.addrsize", address[:8] + struct.pack(">Q", initrd_size), 0o644)
    text = ins.decode("latin-1")
    for old in ("kernel.img", "initrd.img", "initrd.addrsize"):
        text = text.replace(old, f"{prefix}-{'vmlinuz' if old == 'kernel.img' else old}")
    write_asset(folder / f"{prefix}-generic.ins", text.encode("latin-1"), 0o644)
