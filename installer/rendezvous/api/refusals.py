"""Refused registrations become events, so that whoever waits for a registration can read why it does not come."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from installer.assisted.errors import Forbidden, NotFound, ServiceError, TooMany, Unauthorized
from installer.common.redact import shortened
from installer.rendezvous.api.context import Service
from installer.rendezvous.resources import reports

#: Events by the last part of the path that something is registered at.
EVENTS: Mapping[str, str] = {
    "clusters": "cluster_registration_failed",
    "infra-envs": "infra_env_registration_failed",
    "hosts": "host_registration_refused",
}
LONGEST = 300


def note(service: Service, request: web.Request, error: ServiceError) -> None:
    """Keep why a registration was refused, once.

    Left out: what a later attempt will mend, and what the state of a registered host forbids, which has its own event.
    """
    name = EVENTS.get(request.path.rpartition("/")[2])
    if request.method != "POST" or name is None or error.status >= 500 or isinstance(error, TooMany | Forbidden):
        return
    if isinstance(error, Unauthorized):
        # Callers without valid credentials leave no trace in the store.
        return
    reason = shortened(error.reason, LONGEST)
    if isinstance(error, NotFound) and name == "host_registration_refused":
        reason += ": was it booted from another image?"
    reports.refused(service.engine, name, request.remote or "an unknown address", reason)
