"""Answers to requests: callers are let in, the handler runs, and errors get their body."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

from aiohttp import web

from installer.assisted.auth import Scheme
from installer.assisted.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    PrepareError,
    RendezvousError,
    ServiceError,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    Undecodable,
    Unparsable,
)
from installer.common.redact import shortened
from installer.rendezvous.api import signing
from installer.rendezvous.api.bodies import MAX_BODY
from installer.rendezvous.api.context import Handler, Service, check_attempt
from installer.rendezvous.api.views import CALLER, reply
from installer.rendezvous.resources import reports
from installer.rendezvous.resources.requests.params import uuid

log = logging.getLogger("assisted-service")
# Lists for which the specification repeats the parameter, once for each value.
REPEATED = frozenset({"feature_ids"})
# A path of this machine, which is none of a caller's business, and its last name; not the path of an image or a URL.
_PATH = re.compile(r"(?<![\w.:/@-])/(?:[^\s/'\":,;]+/)*([^\s/'\":,;]+)")
#: Events of refused registrations, by the last part of the path that something is registered at.
REGISTRATIONS: Mapping[str, str] = {
    "clusters": "cluster_registration_failed",
    "infra-envs": "infra_env_registration_failed",
    "hosts": "host_registration_refused",
}
LONGEST_REASON = 300
UUID_PARAMETERS = ("cluster_id", "infra_env_id", "host_id", "openshift_cluster_id")


def error_body(error: ServiceError, path: str) -> dict[str, Any]:
    """Error for most statuses, InfraError for 401, 403 (installer.md §5.1) and all that go-swagger itself refuses."""
    if error.status in (401, 403) or isinstance(error, Unparsable):
        return {"code": error.status, "message": error.reason}
    return {"kind": "Error", "id": error.status, "href": path, "code": str(error.status), "reason": error.reason}


def _authorize(service: Service, request: web.Request, schemes: frozenset[Scheme], signed: bool) -> None:
    """Let the caller in or raise Unauthorized or TooMany. Past the rate limit no token's signature is checked."""
    address, proof = request.remote or "", "open"
    if signed and signing.SIGNATURE in request.query:
        try:
            signing.check(service.url_key, request.method, request.raw_path)
        except Unauthorized:
            service.strangers.take(address)
            raise
        proof = "url"
    elif schemes:
        caller = service.auth.recognized(request.headers, schemes)
        if caller is None:
            service.strangers.take(address)
            caller = service.auth.check(request.headers, schemes)
        request[CALLER], proof = caller, caller.value
    # Before the rate limit: a caller that is told to come back later needs its connection for that.
    if proof != "open":
        service.vouch(request)
    service.requests.take(f"{proof} {address}")


def _check_repeats(request: web.Request) -> None:
    """Raise BadRequest for a parameter that is given twice, however it is spelt: which one counts must not matter."""
    seen: set[str] = set()
    for name, _ in request.query.items():  # noqa: PERF102 (keys come once each)
        if name.casefold() in seen and name not in REPEATED:
            raise BadRequest(f"{name[:80]} in query must be given once")
        seen.add(name.casefold())


def _check_uuids(request: web.Request) -> None:
    """Raise Unparsable for what is named by an id and is no UUID, as go-swagger does before any handler."""
    named = [(name, text, "path") for name, text in request.match_info.items() if name in UUID_PARAMETERS]
    named += [(name, text, "query") for name in UUID_PARAMETERS for text in request.query.getall(name, ()) if text]
    for name, text, place in named:
        uuid(text, name, place)


def _note_refusal(service: Service, request: web.Request, error: ServiceError) -> None:
    """Keep why a registration was refused, once.

    Left out: what a later attempt will mend, and what the state of a registered host forbids, which has its own event.
    """
    name = REGISTRATIONS.get(request.path.rpartition("/")[2])
    if request.method != "POST" or name is None or error.status >= 500 or isinstance(error, TooMany | Forbidden):
        return
    if isinstance(error, Unauthorized):
        # Callers without valid credentials leave no trace in the store.
        return
    reason = shortened(error.reason, LONGEST_REASON)
    if isinstance(error, NotFound) and name == "host_registration_refused":
        reason += ": was it booted from another image?"
    reports.refused(service.engine, name, request.remote or "an unknown address", reason)


def answering(
    service: Service, handler: Handler, schemes: frozenset[Scheme], *, signed: bool = False, binary: bool = False
) -> Callable[[web.Request], Any]:
    """Return a handler as aiohttp calls it. Only callers with one of the schemes are let in; without schemes everybody
    is.

    `signed`: a URL's own signature will do as well.
    `binary`: the operation's content type is application/octet-stream, even of its errors, whose body is still JSON.
    """

    async def call(request: web.Request) -> web.StreamResponse:
        try:
            _authorize(service, request, schemes, signed)
            _check_repeats(request)
            _check_uuids(request)
            check_attempt(service, request)
            return await handler(service, request)
        except ServiceError as error:
            if isinstance(error.__cause__, PrepareError):
                error.reason = _PATH.sub(r"\1", error.reason)
            _note_refusal(service, request, error)
            # Callers without valid credentials must not be able to fill the log.
            if schemes and not isinstance(error, Unauthorized | Forbidden | TooMany):
                level = logging.ERROR if error.status >= 500 else logging.INFO
                log.log(level, "%s %s: %d %s", request.method, request.rel_url.raw_path, error.status, error.reason)
            body = error_body(error, request.path)
            answer = reply(body, error.status)
            if binary and "kind" in body:
                answer.content_type = "application/octet-stream"
            if isinstance(error, TooMany):
                answer.headers["Retry-After"] = "1"
            if isinstance(error, TooSlow | Undecodable):
                answer.force_close()
            return answer
        except RendezvousError as error:
            log.error("%s %s: %s", request.method, request.rel_url.raw_path, error)
            return reply(error_body(ServiceError(_PATH.sub(r"\1", str(error))), request.path), 500)
        except web.HTTPRequestEntityTooLarge:
            return reply(error_body(TooLarge(f"body is larger than {MAX_BODY} bytes"), request.path), TooLarge.status)
        except (web.HTTPException, asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            # Our own fault, whatever it is: a caller's mistake is refused where it is read (bodies, params).
            identity = uuid4().hex[:8]
            log.exception("%s %s: internal error %s", request.method, request.rel_url.raw_path, identity)
            return reply(error_body(ServiceError(f"internal error {identity}"), request.path), 500)

    return call


def not_offered(error: ServiceError) -> Handler:
    """Return a handler that answers with this error; with 404 when the request's host or cluster does not exist."""

    async def answer(service: Service, request: web.Request) -> web.Response:
        match = request.match_info
        if "host_id" in match:
            service.engine.store.host(match["infra_env_id"], match["host_id"])
        elif "cluster_id" in match:
            service.engine.store.cluster(match["cluster_id"])
        raise type(error)(error.reason)

    return answer


def unknown(paths: Mapping[str, set[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """For every path that no route took: 405 where another method would have been right, else 404."""
    patterns = [(re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path)), methods) for path, methods in paths.items()]

    async def answer(request: web.Request) -> web.Response:
        for pattern, methods in patterns:
            # With a right method it is an id that no route takes, such as one in braces.
            if pattern.fullmatch(request.path) and request.method not in methods:
                error = ServiceError(f"method {request.method} is not one of {', '.join(sorted(methods))}")
                error.status = 405
                answer = reply(error_body(error, request.path), 405)
                answer.headers["Allow"] = ", ".join(sorted(methods))
                return answer
        return reply({"code": 404, "message": f"path {request.path} was not found"}, 404)

    return answer
