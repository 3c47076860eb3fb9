"""Handlers of clusters' files: ignition, credentials, logs, and URLs that carry their own right to read them."""

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

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import BASE
from installer.assisted.errors import BadRequest, Conflict, Forbidden, NotFound, Unparsable
from installer.rendezvous.api import signing
from installer.rendezvous.api.bodies import Download, json_of, steady
from installer.rendezvous.api.context import Service, check_attempt
from installer.rendezvous.api.views import CALLER, attachment, reply
from installer.rendezvous.resources import hosts, reports
from installer.rendezvous.resources.requests.params import file_name, one_of, required
from installer.rendezvous.store.logs import CHUNK, tar
from installer.rendezvous.store.model import Cluster, Host

Response = web.StreamResponse
replace = msgspec.structs.replace
# Files that can be downloaded, and those that presigned URLs can be had for: the specification leaves out arbiter.ign.
FILES = ("bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json", "install-config.yaml")
PRESIGNED = (*(name for name in FILES if name != "arbiter.ign"), "logs", "manifests")
LOGS = ("host", "controller", "all")
CREDENTIALS = ("kubeconfig", "kubeconfig-noingress", "kubeadmin-password")
# What OpenShift's own installer of hosts asks for while it bootstraps; its agent's token is on every host.
FOR_AGENTS = ("kubeconfig-noingress",)
HOST_FILE = re.compile(r"^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$")


async def cluster_file(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/files"""
    name = request.query.get("file_name", "")
    if not HOST_FILE.fullmatch(name):
        name = file_name(request, FILES)
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    hosts.check_files_made(cluster)
    return attachment(service.engine.store.file(cluster.id, name), name)


async def credentials_file(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/credentials"""
    name = file_name(request, CREDENTIALS)
    if request.get(CALLER) is Scheme.AGENT and name not in FOR_AGENTS:
        raise Forbidden(f"{name} is for the user: agents may read {', '.join(FOR_AGENTS)}")
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    hosts.check_files_made(cluster, hosts.WITH_CREDENTIALS)
    return attachment(service.engine.store.file(cluster.id, name), name)


def _url(service: Service, path: str, query: dict[str, str]) -> web.Response:
    signed, end = signing.signed(service.url_key, f"{BASE}{path}", query, signing.FILE_LIFETIME)
    return reply({"url": service.url(signed), "expires_at": end})


async def cluster_file_url(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/files-presigned"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    name = file_name(request, PRESIGNED)
    base = f"/clusters/{cluster.id}"
    if name == "logs":
        if "logs_type" in request.query:
            one_of(request.query["logs_type"], "logs_type", "query", LOGS)
        keys = ("logs_type", "host_id")
        return _url(service, f"{base}/logs", {key: request.query[key] for key in keys if key in request.query})
    if name == "manifests":
        folder, _, wanted = request.query.get("additional_name", "").partition("/")
        if not any((m.folder, m.file_name) == (folder, wanted) for m in service.engine.store.manifests(cluster.id)):
            raise NotFound(f"manifest {folder}/{wanted} does not exist")
        return _url(service, f"{base}/manifests/files", {"folder": folder, "file_name": wanted})
    _check_exists(service, cluster, name)
    return _url(service, f"{base}/downloads/files", {"file_name": name})


async def credentials_url(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/credentials-presigned"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    name = file_name(request, CREDENTIALS)
    _check_exists(service, cluster, name)
    return _url(service, f"/clusters/{cluster.id}/downloads/credentials", {"file_name": name})


def _check_exists(service: Service, cluster: Cluster, name: str) -> None:
    """Raise Conflict unless the file is there."""
    if name not in service.engine.store.file_names(cluster.id):
        raise Conflict(f"file {name} does not exist yet")


async def credentials(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/credentials"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    hosts.check_files_made(cluster, hosts.WITH_CREDENTIALS)
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
    infra_env_id, host_id = request.match_info["infra_env_id"], request.match_info["host_id"]
    content = hosts.ignition(service.engine, infra_env_id, host_id)
    return attachment(content, service.engine.store.host(infra_env_id, host_id).ignition_file)


async def ingress_cert(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/uploads/ingress-cert: the CA goes into the kubeconfig."""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    value = await json_of(request)
    if not isinstance(value, str) or "BEGIN CERTIFICATE" not in value:
        raise BadRequest("body must be a JSON string that holds a PEM certificate")
    store = service.engine.store
    before = store.file(cluster.id, "kubeconfig-noingress")
    config = await asyncio.to_thread(_trusting, before, value)
    reports.kubeconfig(service.engine, cluster.id, config)
    return web.Response(status=201)


def _trusting(kubeconfig: bytes, certificate: str) -> bytes:
    """Return the kubeconfig with one more certificate authority."""
    import base64

    from installer.common.formats.yamltext import dump, load

    config = load(kubeconfig)
    for entry in config.get("clusters", []):
        certificates = base64.b64decode(entry["cluster"].get("certificate-authority-data", "")).decode()
        joined = certificates.rstrip("\n") + "\n" + certificate.strip() + "\n"
        entry["cluster"]["certificate-authority-data"] = base64.b64encode(joined.encode()).decode()
    return dump(config).encode()


def _logs(path: Path, name: str) -> Download:
    # Otherwise aiohttp takes the type from the file's name; the specification has one for all.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "application/octet-stream"}
    return Download(path, headers=headers)


def _log_host(service: Service, cluster: Cluster, request: web.Request) -> Host:
    """Return the host of the cluster whose logs a request is about. Raises Unparsable, NotFound."""
    wanted = str(UUID(required(request.query.get("host_id") or None, "host_id", "query")))
    infra_env_id = request.query.get("infra_env_id") or None
    if infra_env_id is not None:
        infra_env_id = str(UUID(infra_env_id))
    for host in service.engine.store.hosts(infra_env_id=infra_env_id, cluster_id=cluster.id):
        if host.id == wanted:
            return host
    raise NotFound(f"host {wanted} of cluster {cluster.id} was not found")


async def upload_logs(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/logs: multipart field ``upfile``, streamed to disk, then moved into place."""
    store = service.engine.store
    cluster = store.cluster(request.match_info["cluster_id"])
    kind = required(request.query.get("logs_type"), "logs_type", "query")
    one_of(kind, "logs_type", "query", ("host", "controller"))
    host = _log_host(service, cluster, request) if kind == "host" else None
    if not request.content_type.startswith("multipart/"):
        raise BadRequest("body must be multipart/form-data with a field upfile")
    target = service.logs.path(cluster.id, host.id if host else None)
    async with steady(request), service.logs.upload(target) as upload, aclosing(_pieces(request)) as pieces:
        async for piece in pieces:
            await upload.write(piece)
        check_attempt(service, request)  # again: the attempt may have ended during the upload
    reports.logs_uploaded(service.engine, cluster.id, host)
    return web.Response(status=204)


async def _pieces(request: web.Request) -> AsyncGenerator[bytes, None]:
    """Yield the field ``upfile`` of a request as it comes in. Raises BadRequest."""
    has_upfile = False
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.name != "upfile" or has_upfile:
                raise BadRequest("body must have one field, upfile")
            has_upfile = True
            declared, size = part.headers.get("Content-Length"), 0
            while chunk := await part.read_chunk(CHUNK):
                size += len(chunk)
                yield chunk
            if declared is not None and size != int(declared):
                raise BadRequest(f"the field upfile has {size} bytes, not the {declared} of its Content-Length")
    except (BadHttpMessage, ValueError) as error:
        raise Unparsable(f"body is not multipart/form-data: {' '.join(str(error).split())}") from None
    if not has_upfile:
        raise BadRequest("the field upfile is missing")


async def download_logs(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/logs: one host's, the controller's, or all in one tar."""
    kind = request.query.get("logs_type", "all")
    one_of(kind, "logs_type", "query", (*LOGS, ""))
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    if kind in ("host", "controller"):
        query = request.query.get("host_id") or None
        host_id = str(UUID(required(query, "host_id", "query"))) if kind == "host" else None
        if host_id is not None:
            _log_host(service, cluster, request)
        path = service.logs.path(cluster.id, host_id)
        if path not in service.logs.files(cluster.id):
            raise Conflict(f"{kind} logs of cluster {cluster.id} were not found: none were uploaded")
        return _logs(path, path.name)
    files = service.logs.files(cluster.id)
    headers = {"Content-Disposition": f'attachment; filename="{cluster.name}_logs.tar"'}
    answer = web.StreamResponse(headers={**headers, "Content-Type": "application/octet-stream"})
    await answer.prepare(request)
    try:
        async for piece in tar(files, cluster.name):
            await answer.write(piece)
    except OSError as error:
        # The status has been sent already: only a body without its end mark can tell of the error.
        raise ConnectionResetError(f"the logs cannot be read: {error}") from None
    await answer.write_eof()
    return answer
