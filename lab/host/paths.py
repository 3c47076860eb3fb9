"""Folders of labs: a cache that may be deleted, and the state of running labs."""

from __future__ import annotations

import os
from pathlib import Path

from lab.errors import LabError


def cache_dir() -> Path:
    """$NODE0_CACHE, else $XDG_CACHE_HOME/node0, else ~/.cache/node0; made when absent."""
    path = _chosen("NODE0_CACHE") or (_chosen("XDG_CACHE_HOME") or Path.home() / ".cache") / "node0"
    path.mkdir(parents=True, exist_ok=True)
    return path


def state_dir() -> Path:
    """$NODE0_STATE, else ~/.local/state/node0; made when absent, for the owner's eyes only."""
    path = _chosen("NODE0_STATE") or Path.home() / ".local/state/node0"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def labs_dir() -> Path:
    """Return the directory with one sub-directory a lab."""
    path = state_dir() / "labs"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def budget_file() -> Path:
    """Return the host-wide ledger: one for all users and state directories; a reboot removes it, as it ends all its
    labs."""
    path = _chosen("NODE0_BUDGET") or Path("/run/node0/budget.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def check_environment() -> None:
    """Raise LabError for a relative path: daemons, and commands called from elsewhere, would take it for another."""
    for name in ("NODE0_STATE", "NODE0_CACHE", "NODE0_BUDGET", "XDG_CACHE_HOME"):
        _chosen(name)


def _chosen(name: str) -> Path | None:
    """Return a path of the environment. Raises LabError."""
    path = os.environ.get(name, "")
    if path and not os.path.isabs(path):
        raise LabError(f"{name} is {path!r}: want an absolute path")
    return Path(path) if path else None
