"""Handlers of hosts, their steps and events."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import msgspec
from aiohttp import web

from installer.assisted import plainjson
from installer.assisted.auth import ATTEMPT_HEADER
from installer.assisted.errors import BadRequest, Conflict
from installer.rendezvous.api.bodies import body_of, encoded, listed, send
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import reply, tags, unchanged
from installer.rendezvous.clock import now_text
from installer.rendezvous.resources import hosts, replies, requests
from installer.rendezvous.resources.params import integer
from installer.rendezvous.store.documents import InstallerArgs
from installer.rendezvous.store.model import Host

Response = web.StreamResponse
RETRY_SECONDS = 30


def _ids(request: web.Request) -> tuple[str, str]:
    return request.match_info["infra_env_id"], request.match_info["host_id"]


def _version(request: web.Request) -> str:
    """The agent's own version. Raises BadRequest: bytes that are no text could not be shown again."""
    version = request.headers.get("discovery_agent_version", "")
    if not version.isprintable():
        raise BadRequest("discovery_agent_version in header must be a text of printable characters")
    return version


def _shown(service: Service, host: Host) -> msgspec.Raw:
    return service.views.host(host)


async def register(service: Service, request: web.Request) -> Response:
    """POST /infra-envs/{id}/hosts"""
    body = await body_of(request, requests.HostCreate)
    try:
        host_id = str(UUID(body.host_id or ""))
    except ValueError:
        raise BadRequest(f"host_id {body.host_id!r} is not a UUID") from None
    infra_env_id = request.match_info["infra_env_id"]
    version = body.discovery_agent_version or _version(request)
    host = hosts.register(service.engine, infra_env_id, host_id, version)
    args = {"infra_env_id": infra_env_id, "host_id": host_id, "agent_version": version or service.settings.agent_image}
    command = {"command": "", "args": [json.dumps(args)], "retry_seconds": RETRY_SECONDS}
    return reply({**service.views.host_map(host), "next_step_runner_command": command}, 201)


async def list_all(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/hosts; by the specification an infra-env that does not exist has none."""
    infra_env_id = request.match_info["infra_env_id"]
    known = {item.id: item.cluster_id for item in service.engine.store.infra_envs()}
    await service.fresh(known.get(infra_env_id))
    etag = service.views.etag(known.get(infra_env_id))
    answer = unchanged(request, etag)
    if answer is not None:
        return answer
    found = service.engine.store.hosts(infra_env_id=infra_env_id)
    return await send(request, listed(await encoded(found, service.views.host)), tags(etag))


async def get(service: Service, request: web.Request) -> Response:
    """GET /infra-envs/{id}/hosts/{id}"""
    await service.fresh(service.engine.store.host(*_ids(request)).cluster_id)
    return reply(_shown(service, service.engine.store.host(*_ids(request))))


async def update(service: Service, request: web.Request) -> Response:
    """PATCH /infra-envs/{id}/hosts/{id}"""
    body = await body_of(request, requests.HostUpdate)
    return reply(_shown(service, hosts.update(service.engine, *_ids(request), body)), 201)


async def delete(service: Service, request: web.Request) -> Response:
    """DELETE /infra-envs/{id}/hosts/{id}"""
    store = service.engine.store
    with store.change():
        host = store.host(*_ids(request))
        if not hosts.is_preinstall(host.status):
            raise Conflict(f"host is in status {host.status} and cannot be removed")
        store.delete_host(*_ids(request))
        if host.cluster_id:
            service.engine.reconcile(host.cluster_id)
    return web.Response(status=204)


async def instructions(service: Service, request: web.Request) -> Response:
    """GET .../instructions"""
    timestamp = integer(request, "timestamp") or 0
    return reply(hosts.next_steps(service.engine, *_ids(request), _version(request), timestamp=timestamp))


async def step_reply(service: Service, request: web.Request) -> Response:
    """POST .../instructions"""
    replies.receive(service.engine, *_ids(request), await body_of(request, requests.StepReply))
    return web.Response(status=204)


async def progress(service: Service, request: web.Request) -> Response:
    """PUT .../progress"""
    body, named = await body_of(request, requests.HostProgressParams), bool(request.headers.get(ATTEMPT_HEADER))
    stage, info = body.current_stage or "", body.progress_info or ""
    hosts.progress(service.engine, *_ids(request), stage, info=info, named=named)
    return web.Response(status=200)


async def logs_progress(service: Service, request: web.Request) -> Response:
    """PUT .../logs-progress"""
    state = (await body_of(request, requests.LogsProgress)).logs_state or ""
    hosts.set_logs_state(service.engine, *_ids(request), state)
    return web.Response(status=204)


def _set(service: Service, request: web.Request, **changes: Any) -> Host:
    with service.engine.store.change():
        host = service.engine.store.host(*_ids(request))
        if not hosts.is_preinstall(host.status):
            raise Conflict(f"host is in status {host.status} and can no longer be changed")
        host = msgspec.structs.replace(host, **changes, updated_at=now_text())
        service.engine.store.put_host(host)
    return host


async def bind(service: Service, request: web.Request) -> Response:
    """POST .../actions/bind"""
    body = await body_of(request, requests.Binding)
    try:
        cluster_id = str(UUID(body.cluster_id or ""))
    except ValueError:
        raise BadRequest("cluster_id must be a UUID") from None
    return reply(_shown(service, hosts.bind(service.engine, *_ids(request), cluster_id)))


async def unbind(service: Service, request: web.Request) -> Response:
    """POST .../actions/unbind"""
    return reply(_shown(service, hosts.unbind(service.engine, *_ids(request))))


async def reset(service: Service, request: web.Request) -> Response:
    """POST .../actions/reset"""
    store = service.engine.store
    with store.change():
        host = hosts.reset(service.engine, store.host(*_ids(request)))
        service.engine.reconcile_host(host)
    return reply(_shown(service, store.host(*_ids(request))))


async def reset_validation(service: Service, request: web.Request) -> Response:
    """PATCH .../actions/reset-validation/{id}"""
    name = request.match_info["validation_id"]
    return reply(_shown(service, hosts.reset_validation(service.engine, *_ids(request), name)))


async def installer_args(service: Service, request: web.Request) -> Response:
    """PATCH .../installer-args"""
    args = (await body_of(request, requests.InstallerArgs)).args or []
    return reply(_shown(service, _set(service, request, installer_args=InstallerArgs.of(args))), 201)


async def get_ignition(service: Service, request: web.Request) -> Response:
    """GET .../ignition: the user's overrides"""
    return reply({"config": service.engine.store.host(*_ids(request)).ignition_config_overrides})


async def update_ignition(service: Service, request: web.Request) -> Response:
    """PATCH .../ignition"""
    from installer.assisted.errors import PrepareError
    from installer.rendezvous.prepare import hostignition

    config = (await body_of(request, requests.IgnitionParams)).config or ""
    if config:
        try:
            hostignition.parse(config, "config", plainjson.parsed)
        except PrepareError as error:
            raise BadRequest(str(error)) from None
    return reply(_shown(service, _set(service, request, ignition_config_overrides=config)), 201)
