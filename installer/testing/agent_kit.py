"""A host for the agent's own code: files in a folder, and programs that are real processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from installer.agent.containers import AgentContext
from installer.assisted.client import AssistedClient
from installer.hostsys import system as hostsys
from installer.hostsys.system import HostSystem

AGENT = AgentContext(
    url="https://192.0.2.1:8090/",
    infra_env_id="i",
    host_id="h",
    token="TOKEN",
    ca_file="/opt/agent/tls/ca.crt",
    insecure=False,
    agent_image="agent@sha256:1",
)


class Host(HostSystem):
    """A host whose files lie below ``root``; its programs run here, those of ``put`` before the machine's own."""

    def command(self, args: Sequence[str]) -> list[str]:
        """Return the program as it is, to be run here."""
        return list(args)

    def write(self, name: str, content: str | bytes) -> Path:
        """Return a file of the host."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


class Programs:
    """Programs by name, each a shell script; what they were called with is noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def put(self, name: str, script: str) -> None:
        """Make or replace a program; ``$log`` in it is a file of its own."""
        text = f'#!/bin/bash\nlog={self.folder}/{name}.log\necho "$*" >> {self.folder}/{name}.calls\n{script}\n'
        partial = self.folder / f".{name}.new"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(self.folder / name)

    def calls(self, name: str) -> list[str]:
        """Return the arguments of each call, joined by spaces."""
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def log(self, name: str) -> str:
        """Return the program's writing to ``$log``."""
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""


def programs_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Programs that the agent finds before the machine's."""
    programs = Programs(folder)
    monkeypatch.setattr(hostsys, "PATH", f"{folder}:{hostsys.PATH}")
    return programs


def hasten(monkeypatch: pytest.MonkeyPatch, **divisors: float) -> None:
    """Shorten the time-outs of these programs on a ``Host``: a minute through 60 is a second. Others keep theirs."""
    run = Host.run

    def hasty(self: Host, *args: str, timeout: float = 60.0, check: bool = True) -> str:
        return run(self, *args, timeout=timeout / divisors.get(args[0], 1.0), check=check)

    monkeypatch.setattr(Host, "run", hasty)


class FakeClient(AssistedClient):
    """A service with scripted answers: exceptions are raised, all else is returned, then None for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, Any]] = []

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Note the call, and give the next of the scripted answers."""
        self.calls.append((method, body))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer
