"""The console as one executable file.

curses and not textual: it is in the live system's Python, while textual and what it needs would be 21 MB in every
image's config, and their import alone takes 0.45 s here and ten times that on an emulated host (curses: 0.02 s).
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from installer.common.executable import executable

MODULES = ("__init__", "app", "checks", "host", "keyfiles", "network", "rendezvous", "screen")
_MAIN = "from installer.tui.app import main\n\nmain()\n"


@cache
def program() -> bytes:
    """Return a zip file that Python runs; the same bytes every time."""
    package = resources.files(__package__)
    files = {"__main__.py": _MAIN, "installer/__init__.py": ""}
    files |= {f"installer/tui/{name}.py": (package / f"{name}.py").read_text() for name in MODULES}
    return executable(files)
