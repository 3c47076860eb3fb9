"""The changes of an image since it was made, and their undoing."""

from __future__ import annotations

from dataclasses import dataclass

from installer.common.kargareas import kargs_area
from installer.errors import NoEmbedArea
from installer.image.iso.embed import ignition_area, set_kargs_patches
from installer.image.iso.grow import INITRD, undo_growth
from installer.image.iso.overlay import Overlay


@dataclass(frozen=True)
class Growth:
    """Growth of an image: whether the embed area is longer than it was made, and by how many bytes the initrd is."""

    area: bool
    initrd: int


def _lengths(overlay: Overlay, path: object) -> tuple[int, int]:
    iso = overlay.iso(str(path))
    initrd = iso.find(INITRD)
    try:
        area = ignition_area(iso).length
    except NoEmbedArea:
        area = 0
    return area, 0 if initrd is None else initrd.length


def growth(overlay: Overlay, path: object) -> Growth:
    """Measure the growth of an image, which is not changed. Raises IsoError."""
    probe = Overlay(overlay.base)
    current = _lengths(probe, path)
    while undo_growth(probe, path):
        pass
    original = _lengths(probe, path)
    return Growth(current[0] != original[0], current[1] - original[1])


def reset_image(overlay: Overlay, path: object) -> None:
    """Undo growth, empty the Ignition area, and put the default kernel arguments back. Raises IsoError."""
    while undo_growth(overlay, path):
        pass
    iso = overlay.iso(str(path))
    area = ignition_area(iso)
    overlay.zero(area.offset, area.length)
    kargs = kargs_area(iso)
    if kargs is not None:
        overlay.apply(set_kargs_patches(iso, kargs, kargs.default))
