"""What an image gives its kernel."""

from pathlib import Path

from installer.image.iso.embed import current_kargs, kargs_area
from installer.image.iso.iso9660 import Iso


def kernel_line(path: Path) -> list[str]:
    """The kernel arguments in an ISO's kargs area."""
    with path.open("rb") as file:
        iso = Iso(file, path)
        area = kargs_area(iso)
        assert area is not None
        return current_kargs(iso, area).split()
