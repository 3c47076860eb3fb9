"""The state that the parts of one BMC share."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from lab.bmcs.profile import Profile
from lab.bmcs.web import Inner, Reply, Request, refusal

ROOT = "/redfish/v1"


@dataclass
class State:
    """One BMC: its profile, the machine's name in the emulator, and the emulator itself.

    `account` tells whether a user's password is right; `clock` is in seconds. `restarts`: the emulator's machines
    follow a new boot order when they restart by themselves, or are asked to. `resets` are entered before each power-on
    through this BMC, and left after it or with the Refusal that says why there was none.
    """

    profile: Profile
    name: str
    inner: Inner
    account: Callable[[str, str], bool]
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    restarts: bool = True
    resets: list[Callable[[], AbstractContextManager[None]]] = field(default_factory=list)

    _uuid: str = ""

    @property
    def uuid(self) -> str:
        """The machine's UUID. Raises Refusal (503) while the lab has not defined it."""
        if not self._uuid:
            reply = self.inner.ask("GET", f"{ROOT}/Systems/{self.name}")
            if reply.status not in (307, 308):
                raise refusal(503, "Base.1.8.ServiceTemporarilyUnavailable", "The service is starting.")
            self._uuid = reply.location.rpartition("/")[2]
        return self._uuid

    @property
    def system(self) -> str:
        """The machine's path here."""
        return f"{ROOT}/Systems/{self.profile.system}"

    @property
    def manager(self) -> str:
        """The BMC's own path here."""
        return f"{ROOT}/Managers/{self.profile.manager}"

    @property
    def inner_system(self) -> str:
        """The machine's path in the emulator."""
        return f"{ROOT}/Systems/{self.uuid}"

    def inside(self, path: str) -> str:
        """Translate a path of ours to the emulator's."""
        for mine, theirs in ((self.system, self.inner_system), (self.manager, f"{ROOT}/Managers/{self.uuid}")):
            if path == mine or path.startswith(f"{mine}/"):
                return theirs + path[len(mine) :]
        return path

    def outside(self, text: str) -> Any:
        """Translate a document of the emulator's to ours: its paths, and only the machine that is ours."""
        text = text.replace(self.inner_system, self.system).replace(f"{ROOT}/Managers/{self.uuid}", self.manager)
        return _only(json.loads(text), (self.system, self.manager))

    def ask(self, method: str, path: str, body: object = None) -> Reply:
        """Ask the emulator for a path of the machine's (`/VirtualMedia/Cd`). Raises Refusal with its error."""
        reply = self.inner.ask(method, self.inner_system + path, body)
        if reply.status >= 400:
            failure = (reply.body or {}).get("error") or {}
            code, message = failure.get("code", "Base.1.8.GeneralError"), failure.get("message") or reply.text[:300]
            raise refusal(reply.status, code, str(message))
        return reply

    def etag(self, body: Any) -> str:
        """Return the entity tag of a document; empty when the BMC has none."""
        if not self.profile.etag:
            return ""
        plain = json.dumps(body, sort_keys=True).encode()
        digest = hashlib.sha256(plain).hexdigest()
        return self.profile.etag.format(int(digest[:8], 16) if self.profile.digits else digest[:16])


def _only(body: Any, mine: tuple[str, ...]) -> Any:
    """Return the document without links to other machines and their BMCs."""
    if isinstance(body, list):
        return [_only(item, mine) for item in body if not _foreign(item, mine)]
    if not isinstance(body, dict):
        return body
    own = {key: _only(value, mine) for key, value in body.items()}
    if isinstance(own.get("Members"), list):
        own["Members@odata.count"] = len(own["Members"])
    return own


def _foreign(item: Any, mine: tuple[str, ...]) -> bool:
    link = item.get("@odata.id", "") if isinstance(item, dict) else ""
    folders = (f"{ROOT}/Systems/", f"{ROOT}/Managers/")
    return link.startswith(folders) and not any(link == path or link.startswith(f"{path}/") for path in mine)


def payload(request: Request) -> dict[str, Any]:
    """Return the request's JSON object. Raises Refusal when there is none."""
    # By whatever type it is called: `curl -d` names none of its own.
    body = request.get_json(force=True, silent=True)
    if not isinstance(body, dict):
        raise refusal(400, "Base.1.8.MalformedJSON", "The request body submitted was malformed JSON.")
    return body
