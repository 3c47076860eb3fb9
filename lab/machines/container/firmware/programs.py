"""Programs of the host that the firmware needs."""

from __future__ import annotations

import shlex
import subprocess


class ProgramFailed(Exception):
    """A program of the host's that the firmware needs failed; ``str()`` has its words."""


def run(*command: str) -> str:
    """Run a program of this machine. Raises ProgramFailed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{shlex.join(command)}: {error}") from error
    if done.returncode:
        raise ProgramFailed(f"{shlex.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
