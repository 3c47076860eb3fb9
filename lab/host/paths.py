"""Where labs keep files: a cache that may be deleted, and the state of running labs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """$NODE0_CACHE, else $XDG_CACHE_HOME/node0, else ~/.cache/node0; made when absent."""
    chosen = os.environ.get("NODE0_CACHE")
    path = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "node0"
    path.mkdir(parents=True, exist_ok=True)
    return path


def state_dir() -> Path:
    """$NODE0_STATE, else ~/.local/state/node0; made when absent, for the owner's eyes only."""
    path = Path(os.environ.get("NODE0_STATE") or Path.home() / ".local/state/node0")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def labs_dir() -> Path:
    """The directory with one sub-directory a lab."""
    path = state_dir() / "labs"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def budget_file() -> Path:
    """The host-wide ledger: one for all users and state directories; a reboot removes it, as it ends all its labs."""
    path = Path(os.environ.get("NODE0_BUDGET") or "/run/node0/budget.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
