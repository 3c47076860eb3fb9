"""A Python program as one executable file, for hosts that have a Python and nothing of ours."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

START = b"#!/usr/bin/python3 -I\n"


def executable(files: Mapping[str, str]) -> bytes:
    """Return a zip file that Python runs, with these texts by path, `__main__.py` among them; the same bytes every
    time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
    return START + packed.getvalue()
