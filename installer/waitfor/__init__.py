"""`agent wait-for`: follows an installation through the rendezvous service, then through the cluster's own API."""

from __future__ import annotations

from pathlib import Path

from installer.waitfor.settings import Target


def run(
    target: Target, directory: Path, timeout_seconds: float | None = None, *, skip_password_print: bool = False
) -> int:
    """Wait for ``target`` and gives the exit code of reference/installer.md §8.3; never raises InstallerError.

    ``directory`` is the asset directory that `create image` filled. ``timeout_seconds`` is one budget for the whole
    command and replaces the stages' own limits (60 min bootstrap, 40 or 60 min initialisation, 30 min operators).
    """
    from installer.waitfor.command import execute
    from installer.waitfor.settings import Settings

    return execute(target, directory, timeout_seconds, Settings(print_password=not skip_password_print))
