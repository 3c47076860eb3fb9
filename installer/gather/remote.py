"""One host's part, over ssh: the agent-gather script is sent along, so a host needs nothing of its own for it."""

from __future__ import annotations

import base64
import contextlib
import io
import math
import os
import re
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

from installer.common.redact import Redactor, shortened
from installer.common.redact.program import program
from installer.observe.archive import PACKED, members, safe_parts

LARGEST_PACKED = 1024**3
LARGEST_UNPACKED = 4 * 1024**3
# Bytes of what ssh complains of that are kept, and seconds that are waited for the last of them.
MOST_COMPLAINTS = 64 * 1024
COMPLAINTS_WAIT = 5.0
CHUNK = 256 * 1024
# As root, also where the user has to become root first; the script comes on standard input. A host that cannot take
# secrets out sends them: this end does so in any case.
COMMAND = 'if [ "$(id -u)" = 0 ]; then exec bash -s -- -Or; else exec sudo -n bash -s -- -Or; fi'
# Warnings that ssh prints before what matters.
NOISE = re.compile(r"^(Warning: Permanently added|\*\* )")


@dataclass(frozen=True)
class Access:
    """A login. ``key``: a private key's file, or None for what ssh uses by itself; times in seconds."""

    user: str = "core"
    key: Path | None = None
    options: Sequence[str] = ()
    connect_timeout: int = 10
    _: KW_ONLY
    timeout: float = 600.0

    def argv(self, address: str, command: str) -> list[str]:
        """ssh's command line. A live host has a new host key at each boot, which nobody can know."""
        options = [f"ConnectTimeout={self.connect_timeout}", "BatchMode=yes", "StrictHostKeyChecking=no"]
        options += ["UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ServerAliveInterval=15"]
        arguments = [part for option in (*self.options, *options) for part in ("-o", option)]
        key = ["-i", str(self.key), "-o", "IdentitiesOnly=yes"] if self.key else []
        return ["ssh", "-T", *arguments, *key, "-l", self.user, "--", address, command]


class Running:
    """The ssh processes of one gathering, so that none outlives it when it is ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    @contextlib.contextmanager
    def ended_with(self, pool: Executor) -> Iterator[None]:
        """Whatever ends the block early ends the processes: the pool would wait for them."""
        try:
            yield
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._ended = True
                for process in self._processes:
                    process.kill()
            raise

    @contextlib.contextmanager
    def tracked(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Count the process, within the block, among those that are ended with the gathering."""
        with self._lock:
            self._processes.add(process)
            if self._ended:
                process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)


def script() -> bytes:
    """Return the script that lies on a live host as /usr/local/bin/agent-gather, with the program that it needs."""
    text = (resources.files("installer.ignition") / "data/bin/agent-gather").read_bytes()
    return b"AGENT_REDACT=%s\n%s" % (base64.b64encode(program()), text)


def fetch(access: Access, address: str, target: Path, running: Running) -> str:
    """Write the host's archive (tar.xz) to ``target``; the reason when there is none, else an empty text."""
    pipe = subprocess.PIPE
    with target.open("wb") as out:
        try:
            process = subprocess.Popen(access.argv(address, COMMAND), stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            return f"ssh cannot be run: {error.strerror}"
        complaints = bytearray()
        listener = threading.Thread(target=_keep_head, args=(process.stderr, complaints), daemon=True)
        listener.start()
        with running.tracked(process):
            problem = _exchange(process, out, access.timeout)
        # A master connection that ssh leaves behind keeps the pipe open.
        listener.join(COMPLAINTS_WAIT)
    lines = [line for line in complaints.decode(errors="replace").splitlines() if not NOISE.match(line)]
    if problem:
        return problem
    if process.returncode:
        # The cause comes first, and what failed because of it after that.
        return shortened("; ".join(lines[:3] or [f"ssh ended with {process.returncode}"]), 500)
    return "" if target.stat().st_size else "the host sent nothing"


def _keep_head(source: IO[bytes], head: bytearray) -> None:
    """Read all that comes and keep the first of it, so that its writer never waits and nothing fills up."""
    with source:
        while chunk := os.read(source.fileno(), 4096):
            head += chunk[: MOST_COMPLAINTS - len(head)]


def _exchange(process: subprocess.Popen[bytes], out: IO[bytes], timeout: float) -> str:
    """Send the script and take the answer. Returns why it was cut short, or an empty text."""
    assert process.stdin is not None
    assert process.stdout is not None
    end = time.monotonic() + timeout
    # Ends the ssh to a host that never sends anything.
    limit = threading.Timer(timeout, process.kill)
    limit.start()
    size = 0
    try:
        # An ssh that has ended already says why on its standard error.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(script())
        while chunk := process.stdout.read(CHUNK):
            size += len(chunk)
            if size > LARGEST_PACKED:
                process.kill()
                return f"the host sent more than {LARGEST_PACKED} bytes"
            out.write(chunk)
        process.wait()
    finally:
        limit.cancel()
        process.stdout.close()
        # Too much, a full disk, the user's Ctrl+C: nothing is left behind.
        if process.poll() is None:
            process.kill()
        process.wait()
    return f"it did not end within {timeout:.0f} s" if time.monotonic() >= end else ""


def add(archive: tarfile.TarFile, packed: Path, folder: str, redactor: Redactor) -> int:
    """Copy plain files of a host's archive below ``folder``, secrets taken out; how many. Packed ones are left out.

    Raises tarfile.TarError, EOFError, OSError, ValueError for an archive that is damaged or too large.
    """
    count = 0
    for member, file in members(packed, LARGEST_UNPACKED):
        # What is packed once more cannot be looked into, and nothing that a host sends of itself is.
        if file is None or file.read(8).startswith(PACKED):
            continue
        file.seek(0)
        # The first part is a folder by the host's name, which is in ours already.
        parts = safe_parts(member.name) or ()
        name = "/".join((folder, *(parts[1:] or parts)))
        with tempfile.TemporaryFile() as clean:
            redactor.copy(file, clean)
            add_file(archive, name, clean, member.mtime)
        count += 1
    return count


def add_file(archive: tarfile.TarFile, name: str, file: Any, mtime: float | None = None) -> None:
    """Put an open file, from its beginning, into the archive; readable by its owner only."""
    info = tarfile.TarInfo(name)
    info.size = file.seek(0, io.SEEK_END)
    info.mtime = mtime if mtime is not None and math.isfinite(mtime) else time.time()
    info.mode = 0o600
    file.seek(0)
    archive.addfile(info, file)
