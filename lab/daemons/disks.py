"""Holds the devices of disks that can fail (lab.machines.failing), and makes them slow: `python -m lab.daemons.disks
CONFIG`. The devices end with this process, or with whoever uses them last.

A request is a line of JSON: the disk as CONFIG has it, and how many KiB it reads and writes a second (0: as many as it
can). The answer is empty, or says why not.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.machines import failing
from lab.machines.container.kernel import throttle
from lab.machines.failing import Place

#: Seconds until control groups that a machine has made are slowed down too.
_POLL_SECONDS = 0.5
ANSWER_SECONDS = 30.0


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lab's id, its disks that can fail, where requests are taken, and a directory for what this mounts."""

    lab: str
    disks: tuple[Place, ...]
    socket: str
    groups: str


class Slow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request."""

    disk: Place
    kib: int


def slow_down(path: Path, disk: Place, kib: int) -> None:
    """Ask the lab's daemon, at the socket `path`, to slow a disk down. Raises LabError."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS)
        try:
            line.connect(str(path))
            line.sendall(msgspec.json.encode(Slow(disk, kib)) + b"\n")
            why = line.makefile("r").read()
        except OSError as error:
            raise LabError(f"the lab's daemon of disks does not answer: {error}") from error
    if why:
        raise LabError(f"{disk.device}: {why}")


class Daemon:
    """Serves requests to change what disks do, one after another."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._top: Path | None = None

    def _limit(self, request: Slow) -> str:
        if self._top is None:
            place = Path(self._config.groups)
            place.mkdir(exist_ok=True)
            try:
                self._top = throttle.mount(place)
            except OSError as error:
                return f"neither cgroup2's io nor cgroup v1's blkio, by which disks are slowed down, is here: {error}"
        throttle.limit(self._top, self._config.lab, request.disk.number, request.kib << 10)
        return ""

    def serve(self, server: socket.socket) -> None:
        """Answer requests, for ever."""
        server.settimeout(_POLL_SECONDS)
        while True:
            # A client may be gone before it has its answer.
            with contextlib.suppress(TimeoutError, ConnectionError), server.accept()[0] as line:
                line.settimeout(_POLL_SECONDS)
                # A client that only checks whether the daemon is up sends nothing.
                if asked := line.makefile("rb").readline():
                    line.sendall(self._answer(asked).encode())
            if self._top is not None:
                throttle.keep(self._top, self._config.lab)

    def _answer(self, asked: bytes) -> str:
        try:
            return self._limit(msgspec.json.decode(asked, type=Slow))
        except (OSError, msgspec.DecodeError) as error:
            return str(error)


def main(file: Path) -> None:
    """Hold the devices and answer requests, until killed."""
    config = msgspec.json.decode(file.read_bytes(), type=Config)
    with contextlib.ExitStack() as stack:
        for disk in config.disks:
            failing.hold(disk, stack)
        Path(config.socket).unlink(missing_ok=True)
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(config.socket)
        server.listen()
        Daemon(config).serve(server)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
