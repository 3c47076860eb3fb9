"""The host under the agent's feet: its files, and its programs.

In the container the host's root is mounted on /host and programs run in the host's namespaces by nsenter; run on a
host directly (root ``/``) both are plain.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer.agent.errors import CommandError

NSENTER = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class HostSystem:
    """``root``: where the host's root directory is seen."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """A path of the host, as this process sees it."""
        return self.root / name.lstrip("/")

    def read(self, name: str, default: str = "") -> str:
        """Content of a small file of the host, stripped; ``default`` when it cannot be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return default

    def command(self, args: Sequence[str]) -> list[str]:
        """The command line that runs ``args`` on the host."""
        return list(args) if self.root == Path("/") else [*NSENTER, *args]

    def run(self, *args: str, timeout: float = 60.0, check: bool = True, stdin: str | None = None) -> str:
        """Standard output of a program on the host. Raises CommandError when it fails (unless ``check`` is off)."""
        try:
            done = subprocess.run(
                self.command(args),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                input=stdin,
                env={**os.environ, "PATH": PATH, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired:
            raise CommandError(args[0], None, f"did not end within {timeout:.0f} s") from None
        except OSError as error:
            raise CommandError(args[0], None, str(error)) from None
        if check and done.returncode:
            raise CommandError(" ".join(args[:3]), done.returncode, (done.stderr or done.stdout).strip()[-2000:])
        return done.stdout

    def run_json(self, *args: str, timeout: float = 60.0) -> Any:
        """The same, parsed. Raises CommandError."""
        output = self.run(*args, timeout=timeout)
        try:
            return json.loads(output) if output.strip() else None
        except ValueError as error:
            raise CommandError(" ".join(args), 0, f"output is not JSON: {error}") from None


def detect() -> HostSystem:
    """The host from NODE0_HOST_ROOT, else /host when a host is mounted there, else ``/``."""
    given = os.environ.get("NODE0_HOST_ROOT")
    if given:
        return HostSystem(Path(given))
    return HostSystem(Path("/host") if Path("/host/etc").is_dir() else Path("/"))
