"""Making an image again what it was before anything was embedded."""

from __future__ import annotations

from installer.image.embed import ignition_area, kargs_area, set_kargs_patches
from installer.image.grow import undo_growth
from installer.image.overlay import Overlay


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
