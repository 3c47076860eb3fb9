"""The base path of the API: once in Python; the shell and the page, which cannot import it, have the same."""

from __future__ import annotations

import re
from pathlib import Path

import installer
from installer.assisted.endpoint import BASE

ROOT = Path(installer.__file__).parent
COPIES = ("ignition/data/bin/common.sh", "rendezvous/data/page/api.js")


def naming() -> dict[str, set[str]]:
    """Return the lines of the installer's own files that name it, by their paths."""
    files = (path for path in ROOT.rglob("*") if path.suffix in (".py", ".sh", ".js", ".html", "") and path.is_file())
    own = (path.relative_to(ROOT) for path in files)
    kept = [path for path in own if not {"tests", "testing", "__pycache__"} & set(path.parts)]
    bases = {str(path): set(re.findall(r"/api/assisted-install(?:/v\d+)?", (ROOT / path).read_text())) for path in kept}
    return {path: texts for path, texts in bases.items() if texts}


def test_the_base_path_stands_once_and_its_copies_are_the_same() -> None:
    assert naming() == {path: {BASE} for path in ("assisted/endpoint.py", *COPIES)}
