"""The end of every `create`: credentials and state written, inputs removed, which the state holds then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from installer.config.state import OWN, State, write_private
from installer.create import secrets
from installer.create.gather import Gathered, discard
from installer.create.live import own_state
from installer.create.secrets import Secrets
from installer.errors import StateError


def persist(directory: Path, state: State, gathered: Gathered, made: Secrets | None) -> None:
    """Write auth/, rendezvousIP (both with secrets only) and the state; then remove the inputs."""
    for asset, files in gathered.consumed.items():
        state.put_files(asset, files)
    if made is not None:
        secrets.store(state, made)
        state.put(OWN, own_state(gathered, made))
        (directory / "auth").mkdir(mode=0o750, exist_ok=True)
        write_private(directory / "auth/kubeconfig", made.kubeconfig.encode())
        write_private(directory / "auth/kubeadmin-password", made.password.encode())
        write_private(directory / "rendezvousIP", gathered.inputs.rendezvous_ip.encode(), 0o644)
    state.save()
    discard(directory, gathered)
    names = [name for files in gathered.consumed.values() for name in files]
    folders = set()
    for name in names:
        (directory / name).unlink(missing_ok=True)
        folders.add((directory / name).parent)
    for folder in folders - {directory}:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make `folder` anew: `fill` gets a new empty one, which then takes its place, whole or not at all."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=0o750)
        fill(partial)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as error:
        raise StateError(f"failed to write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
