"""A machine seen from inside, over SSH, as testinfra's Host."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from testinfra.backend.base import CommandResult
from testinfra.backend.ssh import SshBackend
from testinfra.host import Host

from drivers.errors import ConnectionFailedError

_POLL_SECONDS = 1.0
#: How long one that connects is waited for in any case, in seconds: an emulated machine takes some.
_ANSWER_SECONDS = 15.0
# The shared connection ended before it took the command (it had been idle, or its machine was reset): nothing has run.
_NOT_SENT = "mux_client_request_session"
#: Bytes that are read of each stream of a command: a machine may be anybody's.
MOST_BYTES = 64 << 20
# What a shell says of a command whose output nobody reads any more.
_CUT = 128 + signal.SIGPIPE


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
    #: How long a command may take, in seconds.
    limit = 1800.0

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

    def run_local(self, command: str, *args: str) -> CommandResult:
        """Run ssh, and read no more than MOST_BYTES of each of its streams; one that says more has ended with 141.
        Raises ConnectionFailedError after `limit` seconds."""
        words = self.encode(self.quote(command, *args))
        process = subprocess.Popen(
            ["/bin/sh", "-c", words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(_beginning, stream) for stream in (process.stdout, process.stderr)]
            try:
                code = process.wait(self.limit)
            except subprocess.TimeoutExpired as error:
                raise ConnectionFailedError(f"{self.host.name}: a command did not end in {self.limit:g} s") from error
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        (out, whole), (err, all_errors) = (future.result() for future in reading)
        return self.result(code if whole and all_errors else _CUT, words, out, err)

    def run_ssh(self, command: str) -> CommandResult:
        """Run it on the host; once more where the connection broke before the command was sent."""
        try:
            return super().run_ssh(command)
        except RuntimeError as error:
            if _NOT_SENT not in _stderr(error):
                raise
            return super().run_ssh(command)


def _beginning(stream: IO[bytes]) -> tuple[bytes, bool]:
    """Return the first bytes of a stream, and whether they are all of it; it is closed then."""
    with stream:
        read = stream.read(MOST_BYTES)
        return read, not stream.read(1)


def _stderr(error: RuntimeError) -> str:
    """ssh's own error output; testinfra raises the command's result."""
    return str(getattr(error.args[0], "stderr", error)).strip() if error.args else "no answer"


def connect(address: str, prefix: Sequence[str], config: Path, *, machine: str = "", timeout: float = 60.0) -> Any:
    """Return a testinfra Host for `address`, once it has answered. Raises ConnectionFailedError after `timeout`
    seconds.

    It is built for each caller: testinfra's own cache would return hosts of machines that no longer exist.
    """
    backend = PrefixedSsh(address, prefix, config)
    host = Host(backend)
    deadline = time.monotonic() + timeout
    while True:
        # A machine may let one in, and never do anything.
        backend.limit = max(_ANSWER_SECONDS, deadline - time.monotonic())
        try:
            result = host.run("true")
            if result.rc == 0:
                backend.limit = PrefixedSsh.limit
                return host
            seen = f"exit {result.rc}: {result.stderr.strip()}"
        except RuntimeError as error:
            seen = _stderr(error)
        except ConnectionFailedError as error:
            seen = str(error)
        if time.monotonic() > deadline:
            raise ConnectionFailedError(f"no SSH at {address} within {timeout:g} s; last: {seen}", machine=machine)
        time.sleep(_POLL_SECONDS)
