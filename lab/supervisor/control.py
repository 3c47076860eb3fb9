"""Client of a running supervisor's control socket: stops and starts its services."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from lab.errors import LabBrokenError, LabError, LabGoneError
from lab.supervisor.plan import Reply, Request

_ANSWER_SECONDS = 90.0


class Control:
    """The supervisor's control socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _ask(self, request: Request) -> dict[str, bool]:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_ANSWER_SECONDS)
            try:
                line.connect(str(self._path))
                line.sendall(msgspec.json.encode(request) + b"\n")
                answer = line.makefile("rb").readline()
            except OSError as error:
                raise LabGoneError(f"the lab's supervisor does not answer: {error}") from error
        reply = msgspec.json.decode(answer, type=Reply)
        if reply.error:
            kind = LabBrokenError if reply.broken else LabError
            raise kind(f"{request.op} {request.service}: {reply.error}")
        return reply.running

    def running(self) -> dict[str, bool]:
        """List the services that run."""
        return self._ask(Request("status"))

    def stop(self, service: str) -> None:
        """Kill a service (libvirtd, dnsmasq, chronyd, registry, bmc, http); returns when it is gone."""
        self._ask(Request("stop", service))

    def start(self, service: str) -> None:
        """Start it again; returns when it is ready."""
        self._ask(Request("start", service))

    def pause(self, service: str) -> None:
        """Suspend a service: it accepts requests and does not answer them, also when it is started anew."""
        self._ask(Request("pause", service))

    def resume(self, service: str) -> None:
        """Resume it."""
        self._ask(Request("resume", service))

    def kill(self, service: str) -> None:
        """Kill a service as if it had ended by itself: the lab has failed then, and says so."""
        self._ask(Request("kill", service))
