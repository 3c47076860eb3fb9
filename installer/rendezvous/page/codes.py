"""A one-time code in the place of the token: short enough to be read off a host's console and typed into a browser.

As RFC 8628 has its user codes (§6.1: 8 letters without vowels, 34.5 bits; §5.1: five attempts). Whoever has the user's
token may make one, which hands that token, once and within two minutes, to whoever brings the code.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.errors import Unauthorized
from installer.rendezvous.api.bodies import body_of
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import reply
from installer.rendezvous.resources.requests.clusters import Body

log = logging.getLogger("assisted-service")

LETTERS, LENGTH = "BCDFGHJKLMNPQRSTVWXZ", 8
SECONDS, ATTEMPTS = 120.0, 5
WRONG = "this code is wrong, was used already or is older than two minutes: have the rendezvous host show another"
NO_STORE = {"Cache-Control": "no-store"}


class CodeParams(Body, frozen=True, kw_only=True):
    """A code as a person has typed it."""

    code: str


@dataclass
class Code:
    """The newest code: what it is good for, until when (s), what became of it. `wrong` counts attempts."""

    text: str = field(repr=False)
    token: str = field(repr=False)
    ends: float
    wrong: int = 0
    used_by: str = ""
    last: str = ""

    def state(self, now: float) -> dict[str, Any]:
        """Return what the console tells of it; not the code."""
        left = 0.0 if self.used_by or self.wrong >= ATTEMPTS else max(0.0, self.ends - now)
        return {"seconds": round(left), "wrong": self.wrong, "wrong_from": self.last, "used_by": self.used_by}


class Codes:
    """One code at a time: a new one ends the last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._code = Code("", "", 0.0)

    def make(self, token: str) -> str:
        """Return a new code for a token."""
        text = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
        self._code = Code(text, token, self._clock() + SECONDS)
        return text

    def state(self) -> dict[str, Any]:
        """Return the seconds that the newest code is good for, wrong attempts since it was made, and who used it."""
        return self._code.state(self._clock())

    def take(self, typed: str, address: str) -> str:
        """Return the code's token, once. Raises Unauthorized, with one reason for all that is wrong."""
        code, letters = self._code, "".join(letter for letter in typed.upper() if letter not in " -")
        right = hmac.compare_digest(letters.encode(errors="replace"), code.text.encode())
        if right and code.state(self._clock())["seconds"] > 0:
            code.used_by = address
            return code.token
        code.wrong += 1
        code.last = address
        raise Unauthorized(WRONG)

    async def create(self, service: Service, request: web.Request) -> web.StreamResponse:
        """POST /page/code, with the user's token"""
        code = self.make(request.headers.get(HEADERS[Scheme.USER], ""))
        return web.json_response({"code": f"{code[:4]}-{code[4:]}", "seconds": SECONDS}, headers=NO_STORE)

    async def show(self, service: Service, request: web.Request) -> web.StreamResponse:
        """GET /page/code, with the user's token"""
        return reply(self.state())

    async def exchange(self, service: Service, request: web.Request) -> web.StreamResponse:
        """POST /page/token, with a code. Attempts count as those with a wrong token do, by address."""
        address = request.remote or ""
        typed = (await body_of(request, CodeParams)).code
        try:
            token = self.take(typed, address)
        except Unauthorized:
            service.strangers.take(address)
            log.warning("a wrong code was sent to the page from %s", address)
            raise
        log.info("the page's code was used from %s", address)
        return web.json_response({"token": token}, headers=NO_STORE)
