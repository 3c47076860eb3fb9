"""One vendor's BMC: a WSGI application in front of the emulator, for one of its machines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from lab.bmcs.injections import Injections
from lab.bmcs.profile import Profile
from lab.bmcs.recorded import recording
from lab.bmcs.resources.access import Access
from lab.bmcs.resources.fujitsu import Fujitsu
from lab.bmcs.resources.media import Media
from lab.bmcs.resources.power import Boot, Power
from lab.bmcs.resources.protocol import Protocol
from lab.bmcs.resources.schemafixes import SchemaFixes
from lab.bmcs.state import ROOT, State
from lab.bmcs.web import Inner, Refusal, Request, Response, document, read_body, received, refusal


class Front:
    """The BMC of the machine of that name. `account` tells whether a user's password is right, `log` gets every
    request with its answer and the seconds that it took; `restarts` as in State."""

    def __init__(
        self,
        profile: Profile,
        name: str,
        application: Any,
        account: Callable[[str, str], bool],
        *,
        restarts: bool = True,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[Request, Response, float], None] = lambda *_: None,
    ) -> None:
        self.state = State(profile, name, Inner(application), account, clock=clock, restarts=restarts)
        self._protocol = Protocol(self.state)
        self._access = Access(self.state)
        self._media = Media(self.state)
        self._fujitsu = Fujitsu(self.state, self._media)
        self._power = Power(self.state)
        self._boot = Boot(self.state)
        self._tidy = SchemaFixes(self.state.inner)
        self._recording = recording(profile.recording) if profile.recording else None
        self._injections = Injections(self._recording.rules() if self._recording else ())
        self._log = log

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request (WSGI, PEP 3333)."""
        request, begin = received(environ), time.monotonic()
        try:
            response = self._injections.answer(request, lambda: self._answered(request))
        except Refusal as error:
            response = error.response
        response = self._protocol.finish(request, response, request.path.rstrip("/"))
        self._log(request, response, time.monotonic() - begin)
        return response(environ, start_response)

    def _answered(self, request: Request) -> Response:
        """Return the answer, errors too; a document that was recorded has the machine's state in it."""
        try:
            response = self._answer(request)
        except Refusal as error:
            response = error.response
        path = request.path.rstrip("/")
        if self._recording is None or request.method != "GET" or response.status_code not in (200, 404):
            return response
        live = response.get_json() if response.status_code == 200 and response.is_json else None
        if response.status_code == 200 and live is None:
            return response
        body = self._recording.dressed(path, live)
        return response if body is None else self._tagged(request, document(body))

    def _answer(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        self._access.check(request, path)
        read_body(request.environ)
        self._protocol.check(request, path)
        self._power.unready()
        if request.method == "PATCH" and self.state.profile.if_match == "required":
            self._matched(request, path)
        for part in (self._protocol, self._access, self._fujitsu, self._media, self._power, self._boot):
            response = part.handle(request, path)
            if response is not None:
                return self._tagged(request, response)
        return self._tagged(request, self._through(request, path))

    def _through(self, request: Request, path: str) -> Response:
        """Return the emulator's answer in this BMC's words."""
        sent = request.get_json(silent=True) if request.method in ("POST", "PATCH", "PUT") else None
        reply = self.state.inner.ask(request.method, self.state.inside(path) or "/", sent)
        if reply.status in (307, 308):
            # The emulator knows machines by their names too; this BMC has one, by its id.
            raise refusal(404, "Base.1.8.ResourceMissingAtURI", f"The resource at the URI {path} was not found.")
        if not isinstance(reply.body, dict):
            return Response(reply.text, reply.status, {"OData-Version": "4.0"}, content_type="application/json")
        body = self._tidy.document(reply.body) if request.method == "GET" and reply.status == 200 else reply.body
        shown = self.state.outside(json.dumps(body))
        if request.method == "GET" and reply.status == 200:
            self._dress(shown, path)
        return document(shown, reply.status)

    def _dress(self, body: dict[str, Any], path: str) -> None:
        profile = self.state.profile
        if path == ROOT:
            body["Vendor"] = profile.manufacturer
            self._access.advertise(body)
            self._protocol.advertise(body)
        elif path == self.state.system:
            body |= {"Id": profile.system, "Manufacturer": profile.manufacturer}
            self._media.link(body, path)
            self._boot.show(body)
            self._fujitsu.show(body)
        elif path == self.state.manager:
            body |= {"Id": profile.manager, "ServiceEntryPointUUID": self.state.uuid}
            body |= {"Model": profile.model} if profile.model else {}
            self._media.link(body, path)

    # -- entity tags -----------------------------------------------------------------------------------------------

    def _tagged(self, request: Request, response: Response) -> Response:
        if request.method == "GET" and response.status_code == 200 and isinstance(body := response.get_json(), dict):
            body.pop("@odata.etag", None)
            if "@odata.id" in body and (tag := self.state.etag(body)):
                tagged = document({**body, "@odata.etag": tag})
                # Headers that say which methods are allowed stay.
                tagged.headers.update({name: value for name, value in response.headers if name == "Allow"})
                tagged.headers["ETag"] = tag
                return tagged
        return response

    def _matched(self, request: Request, path: str) -> None:
        """Raise Refusal unless a change names what it changes (RFC 9110 §13.1.1, RFC 6585 §3)."""
        etag = request.headers.get("If-Match", "")
        if not etag:
            raise refusal(
                428, "Base.1.8.PreconditionRequired", "A precondition header is required to change this resource."
            )
        seen = Request({**request.environ, "REQUEST_METHOD": "GET", "CONTENT_LENGTH": "0"})
        current = self._answer(seen).headers.get("ETag", "")
        if etag not in ("*", current):
            raise refusal(
                412, "Base.1.8.PreconditionFailed",
                "The ETag supplied did not match the ETag required to change this resource.",
            )  # fmt: skip
