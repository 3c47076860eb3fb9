"""The revision of the repository that is checked out."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]


def revision() -> str:
    """Return the commit that is checked out; empty where there is no git."""
    return _git("rev-parse", "HEAD").strip()


def changed(since: str) -> Collection[str] | None:
    """Files that differ between a commit and what is checked out; None where that commit is not known here."""
    if not since:
        return None
    is_known = _git("cat-file", "-t", since).strip() == "commit"
    return set(_git("diff", "--name-only", since).splitlines()) if is_known else None


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
