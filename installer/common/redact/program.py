"""The redactor as one executable file, for hosts that have a Python and nothing of ours."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources

START = b"#!/usr/bin/python3 -I\n"
MODULES = ("__init__", "__main__", "hint", "looks", "names", "objects", "pairs", "prose", "redactor", "views")
_MAIN = "import sys\n\nfrom agent_redact.__main__ import main\n\nsys.exit(main())\n"


@cache
def program() -> bytes:
    """Return a zip file that Python runs; the same bytes every time."""
    package = resources.files(__package__)
    files = {"__main__.py": _MAIN}
    files |= {f"agent_redact/{name}.py": (package / f"{name}.py").read_text() for name in MODULES}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
    return START + packed.getvalue()
