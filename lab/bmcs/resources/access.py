"""Access to a BMC: basic authentication and sessions (DSP0266, "Authentication")."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from lab.bmcs.resources.protocol import is_open
from lab.bmcs.state import ROOT, State, payload
from lab.bmcs.web import Request, Response, document, no_content, refusal

_SERVICE = f"{ROOT}/SessionService"
_SESSIONS = f"{_SERVICE}/Sessions"


@dataclass
class Access:
    """The sessions of one BMC."""

    state: State
    _sessions: dict[str, tuple[str, str, float]] = field(default_factory=dict)  # id: token, user, last use

    def check(self, request: Request, path: str) -> None:
        """Raise Refusal (401) unless the request may pass."""
        self._expire()
        if is_open(path) or (request.method == "POST" and path in (_SESSIONS, f"{_SESSIONS}/Members")):
            return
        if not self._is_logged_in(request):
            header = {"WWW-Authenticate": 'Basic realm="BMC"'} if "basic" in self.state.profile.logins else {}
            raise refusal(
                401, "Base.1.8.NoValidSession", "There is no valid session established with the implementation.",
                headers=header,
            )  # fmt: skip

    def _is_logged_in(self, request: Request) -> bool:
        ways = self.state.profile.logins
        try:
            header = request.authorization
        except ValueError:  # what is not of ASCII
            return False
        if "basic" in ways and header is not None and header.type == "basic":
            return self.state.account(header.username or "", header.password or "")
        token = request.headers.get("X-Auth-Token", "").encode()
        for identity, (own, user, _) in list(self._sessions.items()):
            if "session" in ways and secrets.compare_digest(token, own.encode()):
                self._sessions[identity] = (own, user, self.state.clock())
                return True
        return False

    def _expire(self) -> None:
        oldest = self.state.clock() - self.state.profile.session_seconds
        for identity, (_, _, used) in list(self._sessions.items()):
            if used < oldest:
                self._sessions.pop(identity, None)

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the session service; None for other paths. Raises Refusal."""
        if "session" not in self.state.profile.logins or not f"{path}/".startswith(f"{_SERVICE}/"):
            return None
        if path == _SERVICE:
            return document(self._service())
        if path in (_SESSIONS, f"{_SESSIONS}/Members") and request.method == "POST":
            return self._begin(request)
        identity = path.removeprefix(f"{_SESSIONS}/")
        if request.method not in ("GET", "HEAD") and (path == _SESSIONS or request.method != "DELETE"):
            raise refusal(405, "Base.1.8.OperationNotAllowed", f"{request.method} is not allowed on {path}.")
        if path == _SESSIONS:
            members = [{"@odata.id": f"{_SESSIONS}/{identity}"} for identity in self._sessions]
            return document(
                {
                    "@odata.type": "#SessionCollection.SessionCollection", "@odata.id": _SESSIONS, "Name": "Sessions",
                    "Members": members, "Members@odata.count": len(members),
                }
            )  # fmt: skip
        if identity not in self._sessions:
            raise refusal(404, "Base.1.8.ResourceNotFound", f"The session {identity} was not found.")
        if request.method == "DELETE":
            self._sessions.pop(identity, None)
            return no_content()
        return document(self._session(identity))

    def _begin(self, request: Request) -> Response:
        body = payload(request)
        user = str(body.get("UserName", ""))
        if not self.state.account(user, str(body.get("Password", ""))):
            raise refusal(401, "Base.1.8.ResourceAtUriUnauthorized", "The user name or the password is wrong.")
        identity, token = secrets.token_hex(4), secrets.token_urlsafe(24)
        self._sessions[identity] = (token, user, self.state.clock())
        return document(
            self._session(identity), 201, Location=f"{_SESSIONS}/{identity}", X_Auth_Token=token,
        )  # fmt: skip

    def _session(self, identity: str) -> dict[str, object]:
        return {
            "@odata.type": "#Session.v1_0_2.Session", "@odata.id": f"{_SESSIONS}/{identity}", "Id": identity,
            "Name": "Session", "UserName": self._sessions[identity][1],
        }  # fmt: skip

    def _service(self) -> dict[str, object]:
        return {
            "@odata.type": "#SessionService.v1_1_3.SessionService", "@odata.id": _SERVICE, "Id": "SessionService",
            "Name": "Session Service", "ServiceEnabled": True, "Sessions": {"@odata.id": _SESSIONS},
            "SessionTimeout": max(30, int(self.state.profile.session_seconds)),
        }  # fmt: skip

    def advertise(self, root: dict[str, object]) -> None:
        """Put the service into the service root."""
        if "session" in self.state.profile.logins:
            root["SessionService"] = {"@odata.id": _SERVICE}
            root["Links"] = {"Sessions": {"@odata.id": _SESSIONS}}
