"""A machine seen from inside, over SSH, as testinfra's Host."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testinfra.backend.base import CommandResult
from testinfra.backend.ssh import SshBackend
from testinfra.host import Host

from drivers.errors import ConnectionFailedError

_POLL_SECONDS = 1.0
# The shared connection ended before it took the command (it had been idle, or its machine was reset): nothing has run.
_NOT_SENT = "mux_client_request_session"


def write_config(path: Path, key: Path, controls: Path) -> None:
    """Write an ssh_config(5) for the user `core` of short-lived machines.

    Host keys are not kept. A connection is shared through a socket in `controls`, since a handshake with an emulated
    machine takes seconds; one whose machine was rebooted is noticed after 15 s.
    """
    path.write_text(
        f"Host *\n  User core\n  IdentityFile {key}\n  IdentitiesOnly yes\n  BatchMode yes\n"
        "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        "  ServerAliveInterval 5\n  ServerAliveCountMax 3\n  ConnectTimeout 15\n"
        f"  ControlMaster auto\n  ControlPersist 60\n  ControlPath {controls}/%h\n"
    )


class PrefixedSsh(SshBackend):  # type: ignore[misc]  # testinfra is not typed here
    """testinfra's ssh backend, with words before `ssh`: those that enter a namespace."""

    NAME = "ssh"

    def __init__(self, hostspec: str, prefix: Sequence[str], config: Path) -> None:
        # testinfra reads HOST:PORT, and an address of IPv6 in brackets.
        spec = f"[{hostspec}]" if ":" in hostspec else hostspec
        super().__init__(spec, ssh_config=str(config), timeout=15, controlpersist=0)
        self._prefix = shlex.join(prefix).replace("%", "%%")

    def _build_ssh_command(self, command: str) -> tuple[list[str], list[str]]:
        words: list[str]
        arguments: list[str]
        words, arguments = super()._build_ssh_command(command)
        return [self._prefix, *words], arguments

    def run_ssh(self, command: str) -> CommandResult:
        """Run it on the host; once more where the connection broke before the command was sent."""
        try:
            return super().run_ssh(command)
        except RuntimeError as error:
            if _NOT_SENT not in _stderr(error):
                raise
            return super().run_ssh(command)


def _stderr(error: RuntimeError) -> str:
    """ssh's own error output; testinfra raises the command's result."""
    return str(getattr(error.args[0], "stderr", error)).strip() if error.args else "no answer"


def connect(address: str, prefix: Sequence[str], config: Path, *, machine: str = "", timeout: float = 60.0) -> Any:
    """A testinfra Host for `address`, once it has answered. Raises ConnectionFailedError after `timeout` seconds.

    It is built for each caller: testinfra's own cache would return hosts of machines that no longer exist.
    """
    host = Host(PrefixedSsh(address, prefix, config))
    deadline = time.monotonic() + timeout
    while True:
        try:
            result = host.run("true")
            if result.rc == 0:
                return host
            seen = f"exit {result.rc}: {result.stderr.strip()}"
        except RuntimeError as error:
            seen = _stderr(error)
        if time.monotonic() > deadline:
            raise ConnectionFailedError(f"no SSH at {address} within {timeout:g} s; last: {seen}", machine=machine)
        time.sleep(_POLL_SECONDS)
