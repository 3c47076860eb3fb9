"""The texts of a run by their kind, as symptoms look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from installer.common.redact import redact
from lab.evidence.record import LAB_FAILED, files_in

#: Kind of evidence, and its files below a run's directory.
KINDS: Mapping[str, Sequence[str]] = {
    "lab": (LAB_FAILED, "services/*.log"),
    "wait-for": ("commands/*wait-for*.log",),
    "event": ("installer/logs/**/*event*", "installer/*event*"),
    "console": ("console/*.txt", "kernel-trouble.txt"),
    "journal": ("nodes/*/journal.log", "installer/logs/**/*journal*"),
}
#: Bytes that are kept of a file (its end), and of a kind.
FILE_BYTES, KIND_BYTES = 32 << 10, 128 << 10


def ends(folder: Path, *patterns: str) -> dict[Path, str]:
    """Return the ends of a run's files by their paths.

    A link that leads out of the folder is not read: evidence is shown on pages, and may have come from elsewhere.
    """
    root = folder.resolve()
    matches = (path for pattern in patterns for path in files_in(folder, pattern))
    return {path: _end(path) for path in dict.fromkeys(matches) if root in path.resolve().parents}


def _end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - FILE_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def texts(folder: Path) -> dict[str, str]:
    """Return the ends of a run's texts by kind, without secrets, each file's after a line with its name."""
    by_kind: dict[str, str] = {}
    for kind, patterns in KINDS.items():
        found = ends(folder, *patterns)
        if found:
            lines = "\n".join(f"== {_shown(path.relative_to(folder))}\n{end}" for path, end in found.items())
            by_kind[kind] = redact(lines[:KIND_BYTES])
    return by_kind


def _shown(path: Path) -> str:
    """Name a file; its name may be no UTF-8."""
    return str(path).encode(errors="replace").decode()
