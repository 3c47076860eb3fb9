"""Handlers of files: ignition, credentials, logs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from uuid import UUID

import msgspec
from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from installer.assisted.enums import Role
from installer.assisted.errors import BadRequest, Conflict, Invalid, NotFound, Unparsable
from installer.redact import shortened
from installer.rendezvous import events
from installer.rendezvous.api.bodies import json_of, steady
from installer.rendezvous.api.context import Service, of_attempt
from installer.rendezvous.api.views import reply
from installer.rendezvous.clock import now_text
from installer.rendezvous.resources.params import REQUIRED, WRONG_TYPE, one_of
from installer.rendezvous.store.logs import CHUNK, tar
from installer.rendezvous.store.model import Cluster, Host

Response = web.StreamResponse
replace = msgspec.structs.replace
FILES = ("bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json", "install-config.yaml")
CREDENTIALS = ("kubeconfig", "kubeconfig-noingress", "kubeadmin-password")
HOST_FILE = re.compile(r"^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$")


def _attachment(content: bytes, name: str) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


def _uuid(text: str | None, what: str) -> str:
    if text is None:
        raise Invalid(f"{what} in query is required", REQUIRED)
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f"{what} in query must be of type uuid: {shortened(text, 80)!r}", WRONG_TYPE) from None


async def cluster_file(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/files"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    name = request.query.get("file_name", "")
    if name not in FILES and not HOST_FILE.fullmatch(name):
        raise NotFound(f"file_name {name!r} is not one of {', '.join(FILES)}")
    return _attachment(service.engine.store.file(cluster.id, name), name)


async def credentials_file(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/credentials"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    name = request.query.get("file_name", "")
    if name not in CREDENTIALS:
        raise NotFound(f"file_name {name!r} is not one of {', '.join(CREDENTIALS)}")
    return _attachment(service.engine.store.file(cluster.id, name), name)


async def credentials(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/credentials"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    password = service.engine.store.file(cluster.id, "kubeadmin-password").decode().strip()
    domain = f"{cluster.name}.{cluster.base_dns_domain}"
    return reply(
        {
            "username": "kubeadmin",
            "password": password,
            "console_url": f"https://console-openshift-console.apps.{domain}",
        }
    )


async def host_ignition(service: Service, request: web.Request) -> Response:
    """GET /infra-env/{id}/hosts/{id}/downloads/ignition"""
    store = service.engine.store
    host = store.host(request.match_info["infra_env_id"], request.match_info["host_id"])
    role = host.suggested_role if host.role is Role.AUTO else host.role
    prefix = role.value if role in (Role.WORKER, Role.ARBITER) else "master"
    name = f"{prefix}-{host.id}.ign"
    return _attachment(store.file(host.cluster_id or "", name), name)


async def ingress_cert(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/uploads/ingress-cert: the CA goes into the kubeconfig."""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    value = await json_of(request)
    if not isinstance(value, str) or "BEGIN CERTIFICATE" not in value:
        raise BadRequest("body must be a JSON string that holds a PEM certificate")
    store = service.engine.store
    before = store.file(cluster.id, "kubeconfig-noingress")
    config = await asyncio.to_thread(_trusting, before, value)
    with store.change():
        store.put_file(cluster.id, "kubeconfig", config)
    return web.Response(status=201)


def _trusting(kubeconfig: bytes, certificate: str) -> bytes:
    """The kubeconfig with one authority more."""
    import base64

    from installer.yamltext import dump, load

    config = load(kubeconfig)
    for entry in config.get("clusters", []):
        known = base64.b64decode(entry["cluster"].get("certificate-authority-data", "")).decode()
        joined = known.rstrip("\n") + "\n" + certificate.strip() + "\n"
        entry["cluster"]["certificate-authority-data"] = base64.b64encode(joined.encode()).decode()
    return dump(config).encode()


def _logs(path: Path, name: str) -> web.FileResponse:
    # Without a type of its own it would be that of the name: the specification has one for all.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "application/octet-stream"}
    return web.FileResponse(path, headers=headers)


def _log_host(service: Service, cluster: Cluster, request: web.Request) -> Host:
    """The host of the cluster whose logs a request is about. Raises Invalid, NotFound."""
    wanted = _uuid(request.query.get("host_id"), "host_id")
    infra_env_id = request.query.get("infra_env_id")
    if infra_env_id:
        infra_env_id = _uuid(infra_env_id, "infra_env_id")
    for host in service.engine.store.hosts(infra_env_id=infra_env_id or None, cluster_id=cluster.id):
        if host.id == wanted:
            return host
    raise NotFound(f"host {wanted} of cluster {cluster.id} was not found")


async def upload_logs(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/logs: multipart field ``upfile``, streamed to disk, then moved into place."""
    store = service.engine.store
    cluster = store.cluster(request.match_info["cluster_id"])
    if "logs_type" not in request.query:
        raise Invalid("logs_type in query is required", REQUIRED)
    one_of(request.query["logs_type"], "logs_type", "query", ("host", "controller"))
    host = _log_host(service, cluster, request) if request.query["logs_type"] == "host" else None
    if not request.content_type.startswith("multipart/"):
        raise BadRequest("body must be multipart/form-data with a field upfile")
    target = service.logs.path(cluster.id, host.id if host else None)
    async with steady(request), service.logs.upload(target) as upload, aclosing(_pieces(request)) as pieces:
        async for piece in pieces:
            await upload.write(piece)
        of_attempt(service, request)  # once more: sending them takes its time
    stamp = now_text()
    with store.change():
        if host is None:
            store.put_cluster(replace(store.cluster(cluster.id), controller_logs_collected_at=stamp))
            store.add_event(events.make("cluster_logs_uploaded", cluster=cluster))
        elif (known := store.find_host(host.infra_env_id, host.id)) is not None:
            store.put_host(replace(known, logs_collected_at=stamp))
            store.add_event(events.make("host_logs_uploaded", host=known, where=f" cluster {cluster.id}"))
    return web.Response(status=204)


async def _pieces(request: web.Request) -> AsyncGenerator[bytes, None]:
    """The field ``upfile`` of a request as it comes in. Raises BadRequest."""
    found = False
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.name != "upfile" or found:
                raise BadRequest("body must have one field, upfile")
            found = True
            while chunk := await part.read_chunk(CHUNK):
                yield chunk
    except (BadHttpMessage, ValueError) as error:
        raise Unparsable(f"body is not multipart/form-data: {' '.join(str(error).split())}") from None
    if not found:
        raise BadRequest("the field upfile is missing")


async def download_logs(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/logs: one host's, the controller's, or all in one tar."""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    kind = request.query.get("logs_type", "all")
    one_of(kind, "logs_type", "query", ("host", "controller", "all", ""))
    if kind in ("host", "controller"):
        host_id = _uuid(request.query.get("host_id"), "host_id") if kind == "host" else None
        path = service.logs.path(cluster.id, host_id)
        if path not in service.logs.files(cluster.id):
            raise NotFound(f"no {kind} logs were uploaded")
        return _logs(path, path.name)
    files = service.logs.files(cluster.id)
    if not files:
        raise Conflict("no logs were uploaded yet")
    headers = {"Content-Disposition": f'attachment; filename="{cluster.name}_logs.tar"'}
    answer = web.StreamResponse(headers={**headers, "Content-Type": "application/octet-stream"})
    await answer.prepare(request)
    try:
        async for piece in tar(files, cluster.name):
            await answer.write(piece)
    except OSError as error:
        # What has been sent says that all is well: only an end without its mark says otherwise.
        raise ConnectionResetError(f"the logs cannot be read: {error}") from None
    await answer.write_eof()
    return answer
