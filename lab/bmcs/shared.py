"""The lab's own BMC: a WSGI application in front of the emulator, for all machines that have none of a vendor's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from lab.bmcs.profile import profile
from lab.bmcs.resources.access import Access
from lab.bmcs.resources.protocol import Protocol
from lab.bmcs.resources.schemafixes import SchemaFixes
from lab.bmcs.state import ROOT, State
from lab.bmcs.web import Inner, Refusal, Request, Response, document, read_body, received


class Shared:
    """The emulator with sessions, the well-known documents and links that lead somewhere. `account` and `clock` as in
    State; `log` gets every request that the emulator does not see, with its answer and its seconds."""

    def __init__(
        self,
        application: Any,
        account: Callable[[str, str], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[Request, Response, float], None] = lambda *_: None,
    ) -> None:
        self._application = application
        state = State(profile("lab"), "", Inner(application), account, clock=clock)
        self._protocol = Protocol(state)
        self._access = Access(state)
        self._fixes = SchemaFixes(state.inner)
        self._log = log

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request (WSGI, PEP 3333)."""
        request, begin = received(environ), time.monotonic()
        path = request.path.rstrip("/")
        try:
            response = self._own(request, path)
        except Refusal as failure:
            response = failure.response
        if response is None:
            response = self._emulators(request, path)
        else:
            self._log(request, response, time.monotonic() - begin)
        return self._protocol.finish(request, response, path)(environ, start_response)

    def _own(self, request: Request, path: str) -> Response | None:
        self._access.check(request, path)
        read_body(request.environ)
        self._protocol.check(request, path)
        return self._protocol.handle(request, path) or self._access.handle(request, path)

    def _emulators(self, request: Request, path: str) -> Response:
        """Return the emulator's answer; it knows no body that is not called JSON, as that of `curl -d`."""
        environ = {**request.environ, "CONTENT_TYPE": "application/json"}
        answer = Response.from_app(self._application, environ, buffered=True)
        body = answer.get_json(silent=True)
        if request.method != "GET" or answer.status_code != 200 or not isinstance(body, dict):
            return answer
        fixed = self._fixes.document(body)
        if path == ROOT:
            self._access.advertise(fixed)
            self._protocol.advertise(fixed)
        return document(fixed)
