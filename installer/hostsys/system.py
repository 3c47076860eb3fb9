"""The host that the agent runs on: its files, and its programs.

In the container the host's root is mounted on /host, or is seen through the host's first process, and programs run in
the host's namespaces by nsenter; run on a host directly (root ``/``) both are plain.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer.hostsys import commands
from installer.hostsys.errors import CommandError

log = logging.getLogger("agent")
NSENTER = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class HostSystem:
    """``root``: where the host's root directory is seen."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return a path of the host, as this process sees it."""
        return self.root / name.lstrip("/")

    def read(self, name: str, default: str = "") -> str:
        """Content of a small file of the host, stripped; ``default`` when it cannot be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return default

    def command(self, args: Sequence[str]) -> list[str]:
        """Return the command line that runs ``args`` on the host."""
        return list(args) if self.root == Path("/") else [*NSENTER, *args]

    def run(self, *args: str, timeout: float = 60.0, check: bool = True) -> str:
        """Return the standard output of a program on the host.

        Raises CommandError when it fails, cannot be started, or has to be ended because it takes longer than
        ``timeout`` seconds or prints too much. With ``check`` off none of these is an error: what it printed is all
        there is, and callers must be right with nothing.
        """
        return self._run(args, timeout, check, {})

    def run_with(self, env: Mapping[str, str], *args: str, timeout: float = 60.0) -> str:
        """Return the standard output of a program with ``env`` added to its environment, where nobody else sees it.

        Raises CommandError as ``run`` does.
        """
        return self._run(args, timeout, True, env)

    def _run(self, args: Sequence[str], timeout: float, check: bool, env: Mapping[str, str]) -> str:
        name = " ".join(args[:3])
        environment = {**os.environ, **env, "PATH": PATH, "LC_ALL": "C.UTF-8"}
        try:
            done = commands.run(self.command(args), timeout, env=environment)
        except OSError as error:
            if check:
                raise CommandError(args[0], None, str(error)) from None
            log.warning("%s: %s", name, error)
            return ""
        if done.code is None:
            if check:
                raise CommandError(name, None, done.why)
            log.warning("%s: %s", name, done.why)
        elif check and done.code:
            words = (done.err or done.out).decode(errors="replace").strip()
            raise CommandError(name, done.code, words[-2000:])
        return done.out.decode(errors="replace")

    def run_json(self, *args: str, timeout: float = 60.0) -> Any:
        """Return the JSON that a program prints, None for nothing. Raises CommandError."""
        output = self.run(*args, timeout=timeout)
        try:
            return json.loads(output) if output.strip() else None
        except ValueError as error:
            raise CommandError(" ".join(args), 0, f"output is not JSON: {error}") from None


# What podman puts into each of its containers.
CONTAINER_MARK = Path("/run/.containerenv")
FIRST_PROCESS = Path("/proc/1")


def _sees_host() -> bool:
    """Return whether this container sees the host's processes: OpenShift's agent starts its own so, without /host."""
    try:
        own, first = os.readlink("/proc/self/ns/mnt"), os.readlink(FIRST_PROCESS / "ns/mnt")
    except OSError:
        return False
    return CONTAINER_MARK.exists() and own != first


def detect() -> HostSystem:
    """Return the host from NODE0_HOST_ROOT, else /host when a host is mounted there, else its first process's, else
    ``/``."""
    root = os.environ.get("NODE0_HOST_ROOT")
    if root:
        return HostSystem(Path(root))
    if Path("/host/etc").is_dir():
        return HostSystem(Path("/host"))
    return HostSystem(FIRST_PROCESS / "root" if _sees_host() else Path("/"))
