"""Handlers of hosts, their steps and events."""

from __future__ import annotations

import json
from uuid import UUID

from aiohttp import web

from installer.assisted.auth import ATTEMPT_HEADER
from installer.assisted.errors import BadRequest
from installer.rendezvous.api.bodies import body_of, encoded, listed, send
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import is_user, reply, tags, unchanged, without_secrets
from installer.rendezvous.resources import addinghosts, hostchanges, hosts, replies, reports
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests import hosts as hostrequests
from installer.rendezvous.resources.requests.params import integer

Response = web.StreamResponse
RETRY_SECONDS = 30


def _ids(request: web.Request) -> tuple[str, str]:
    return request.match_info["infra_env_id"], request.match_info["host_id"]


def _version(request: web.Request) -> str:
    """Return the agent's own version. Raises BadRequest: bytes that are no text could not be shown again."""
    version = request.headers.get("discovery_agent_version", "")
    if not version.isprintable():
        raise BadRequest("discovery_agent_version in header must be a text of printable characters")
    return version


async def register(service: Service, request: web.Request) -> Response:
    """POST /infra-envs/{id}/hosts"""
    body = await body_of(request, hostrequests.HostCreate)
    host_id = str(UUID(body.host_id))
    infra_env_id = request.match_info["infra_env_id"]
    version = body.discovery_agent_version or _version(request)
    host = hosts.register(service.engine, infra_env_id, host_id, version)
    agent_image = service.engine.view(host).settings.agent_image
    args = {"infra_env_id": infra_env_id, "host_id": host_id, "agent_version": agent_image or version}
    command = {"args": [json.dumps(args)], "retry_seconds": RETRY_SECONDS}
    return reply({**without_secrets(service.views.host_map(host)), "next_step_runner_command": command}, 201)


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/hosts"""
    infra_env_id = request.match_info["infra_env_id"]
    cluster_id = service.engine.store.infra_env(infra_env_id).cluster_id
    await service.reconcile_pending(cluster_id)
    etag = service.views.etag(cluster_id)
    answer = unchanged(request, etag)
    if answer is not None:
        return answer
    registered = service.engine.store.hosts(infra_env_id=infra_env_id)
    parts = await encoded(registered, lambda host: service.views.host(host, is_user(request)))
    return await send(request, listed(parts), tags(etag))


async def get(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/hosts/{id}"""
    await service.reconcile_pending(service.engine.store.host(*_ids(request)).cluster_id)
    host = service.engine.store.host(*_ids(request))
    return reply(service.views.host(host), etag=service.views.tag(host))


async def update(service: Service, request: web.Request) -> Response:
    """PATCH /infra-envs/{id}/hosts/{id}"""
    body = await body_of(request, hostrequests.HostUpdate)
    # From here on nobody else has a turn.
    service.views.check_unchanged(request, service.engine.store.host(*_ids(request)))
    host = hostchanges.update(service.engine, *_ids(request), body)
    return reply(service.views.host(host), 201, service.views.tag(host))


async def delete(service: Service, request: web.Request) -> Response:
    """DELETE /infra-envs/{id}/hosts/{id}"""
    hosts.delete(service.engine, *_ids(request))
    return web.Response(status=204)


async def instructions(service: Service, request: web.Request) -> Response:
    """GET .../instructions"""
    timestamp = integer(request, "timestamp") or 0
    return reply(hosts.next_steps(service.engine, *_ids(request), _version(request), timestamp=timestamp))


async def step_reply(service: Service, request: web.Request) -> Response:
    """POST .../instructions"""
    replies.receive(service.engine, *_ids(request), await body_of(request, hostrequests.StepReply))
    return web.Response(status=204)


async def progress(service: Service, request: web.Request) -> Response:
    """PUT .../progress"""
    body, named = await body_of(request, hostrequests.HostProgressParams), bool(request.headers.get(ATTEMPT_HEADER))
    stage, info = body.current_stage or "", body.progress_info or ""
    hosts.progress(service.engine, *_ids(request), stage, info=info, named=named)
    return web.Response(status=200)


async def logs_progress(service: Service, request: web.Request) -> Response:
    """PUT .../logs-progress"""
    state = (await body_of(request, requests.LogsProgress)).logs_state
    reports.host_logs_state(service.engine, *_ids(request), state)
    return web.Response(status=204)


async def bind(service: Service, request: web.Request) -> Response:
    """POST .../actions/bind"""
    cluster_id = str(UUID((await body_of(request, hostrequests.Binding)).cluster_id))
    return reply(service.views.host(hosts.bind(service.engine, *_ids(request), cluster_id)))


async def unbind(service: Service, request: web.Request) -> Response:
    """POST .../actions/unbind"""
    return reply(service.views.host(hosts.unbind(service.engine, *_ids(request))))


async def reset(service: Service, request: web.Request) -> Response:
    """POST .../actions/reset: of a host that is added to an installed cluster"""
    return reply(service.views.host(addinghosts.reset(service.engine, *_ids(request))))


async def install(service: Service, request: web.Request) -> Response:
    """POST .../actions/install: of a host that is added to an installed cluster"""
    return reply(service.views.host(addinghosts.install(service.engine, *_ids(request))), 202)


async def reset_validation(service: Service, request: web.Request) -> Response:
    """PATCH .../actions/reset-validation/{id}"""
    name = request.match_info["validation_id"]
    return reply(service.views.host(hosts.reset_validation(service.engine, *_ids(request), name)))


async def installer_args(service: Service, request: web.Request) -> Response:
    """PATCH .../installer-args"""
    args = (await body_of(request, hostrequests.InstallerArgs)).args or []
    return reply(service.views.host(hostchanges.set_installer_args(service.engine, *_ids(request), args)), 201)


async def get_ignition(service: Service, request: web.Request) -> Response:
    """GET .../ignition: the host's Ignition config once it has been made"""
    return reply({"config": hosts.ignition(service.engine, *_ids(request)).decode()})


async def update_ignition(service: Service, request: web.Request) -> Response:
    """PATCH .../ignition"""
    config = (await body_of(request, hostrequests.IgnitionParams)).config or ""
    return reply(service.views.host(hostchanges.set_ignition(service.engine, *_ids(request), config)), 201)
