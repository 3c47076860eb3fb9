"""The redactor as one executable file, for hosts that have a Python and nothing of ours."""

from __future__ import annotations

from functools import cache
from importlib import resources

from installer.common.executable import executable

MODULES = ("__init__", "__main__", "hint", "looks", "names", "objects", "pairs", "prose", "redactor", "views")
_MAIN = "import sys\n\nfrom agent_redact.__main__ import main\n\nsys.exit(main())\n"


@cache
def program() -> bytes:
    """Return a zip file that Python runs; the same bytes every time."""
    package = resources.files(__package__)
    files = {"__main__.py": _MAIN}
    files |= {f"agent_redact/{name}.py": (package / f"{name}.py").read_text() for name in MODULES}
    return executable(files)
