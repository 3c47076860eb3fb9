"""A running haproxy: its configuration checked, put in place and loaded without the loss of a connection.

Its master (``-W -S RUN/master.sock``) starts a new worker at each reload, which is given the listening sockets of the
one before; that one ends with its last connection.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from installer.common.secretfiles import write_private
from lab.release.cluster.errors import ClusterError

CONFIG, MASTER = "haproxy.cfg", "master.sock"
CHECK_SECONDS = 60.0
RELOAD_SECONDS = 30.0
ANSWER_SECONDS = 5.0
_ALERT = re.compile(r"^\[ALERT\]\s+\(\d+\) : (?:config : )?(.*)$", re.MULTILINE)


class HaproxyError(ClusterError):
    """haproxy refuses a configuration, or does not take it."""


class ConfigurationRefused(HaproxyError):
    """haproxy has read a configuration, and refuses it."""


class Haproxy:
    """haproxy as it works in the directory ``run``, in which each configuration has a directory of its own."""

    def __init__(self, run: Path, program: str = "haproxy") -> None:
        self.run = run
        self.program = program
        numbers = [int(p.name.removeprefix("files-")) for p in run.glob("files-*")]
        self._number = max(numbers, default=0)

    def _write(self, files: Callable[[str], Mapping[str, str]]) -> Path:
        directory = self.run / f"files-{self._number + 1}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        for name, text in files(str(directory)).items():
            write_private(directory / name, text)
        return directory

    def _check(self, directory: Path) -> None:
        argv = [self.program, "-c", "-f", str(directory / CONFIG)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise HaproxyError(f"haproxy -c took longer than {CHECK_SECONDS:.0f} s") from error
        if done.returncode:
            said = _ALERT.findall(done.stderr) or [f"haproxy -c ended with {done.returncode}"]
            raise ConfigurationRefused(f"haproxy refuses it: {said[0].replace(f'{directory}/', '')[:300]}")

    def try_out(self, files: Callable[[str], Mapping[str, str]]) -> None:
        """Let haproxy read a configuration; ``files`` makes it for a directory. Raises HaproxyError."""
        directory = self._write(files)
        try:
            self._check(directory)
        finally:
            shutil.rmtree(directory)

    def put(self, files: Callable[[str], Mapping[str, str]]) -> None:
        """Put a configuration in place, from which haproxy starts. Raises HaproxyError, which changes nothing."""
        directory = self._write(files)
        try:
            self._check(directory)
        except BaseException:
            shutil.rmtree(directory)
            raise
        write_private(self.run / f"{CONFIG}.new", (directory / CONFIG).read_bytes())
        (self.run / f"{CONFIG}.new").rename(self.run / CONFIG)
        self._number += 1
        # One back: a worker that starts at this moment may be reading it.
        for path in self.run.glob("files-*"):
            if int(path.name.removeprefix("files-")) < self._number - 1:
                shutil.rmtree(path)

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            try:
                connection.connect(str(self.run / MASTER))
                connection.sendall(f"{command}\n".encode())
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            except OSError as error:
                raise HaproxyError(f"haproxy does not answer at {MASTER}: {error}") from error
        return answer.decode(errors="replace")

    def _workers(self) -> set[str]:
        """Return the process numbers of workers that no reload has replaced."""
        current = self._ask("show proc").partition("# old workers")[0].partition("# workers")[2]
        return {line.split()[0] for line in current.splitlines() if line and not line.startswith("#")}

    def reload(self) -> None:
        """Have haproxy load what is in place, and wait until a new worker has. Raises HaproxyError."""
        before, deadline = self._workers(), time.monotonic() + RELOAD_SECONDS
        self._ask("reload")
        seen = "the worker from before is still there"
        while time.monotonic() < deadline:
            try:
                now = self._workers()
                if now and not now & before:
                    return
            except HaproxyError as error:
                seen = str(error)
            time.sleep(0.1)
        raise HaproxyError(f"haproxy has not loaded its configuration within {RELOAD_SECONDS:.0f} s: {seen}")
