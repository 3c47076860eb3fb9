"""Handlers of files: ignition, credentials, logs."""

from __future__ import annotations

import re
import tarfile
import tempfile
from pathlib import Path
from uuid import UUID

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from installer.rendezvous import events
from installer.rendezvous.app import Service, json_of
from installer.rendezvous.clock import now_text
from installer.rendezvous.enums import Role
from installer.rendezvous.errors import BadRequest, Conflict, Invalid, NotFound, TooLarge, Unparsable
from installer.rendezvous.params import REQUIRED, WRONG_TYPE
from installer.rendezvous.views import reply

Response = web.StreamResponse
replace = msgspec.structs.replace
FILES = ("bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json", "install-config.yaml")
CREDENTIALS = ("kubeconfig", "kubeconfig-noingress", "kubeadmin-password")
HOST_FILE = re.compile(r"^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$")
CHUNK = 256 * 1024
LARGEST_LOGS = 1024**3


def _attachment(content: bytes, name: str) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


def _uuid(text: str | None, what: str) -> str:
    if text is None:
        raise Invalid(f"{what} in query is required", REQUIRED)
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f"{what} in query must be of type uuid: {text[:80]!r}", WRONG_TYPE) from None


async def cluster_file(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/downloads/files"""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    name = request.query.get("file_name", "")
    if name not in FILES and not HOST_FILE.match(name):
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
    import base64

    from installer.config.document import dump, load

    store = service.engine.store
    config = load(store.file(cluster.id, "kubeconfig-noingress"))
    for entry in config.get("clusters", []):
        known = base64.b64decode(entry["cluster"].get("certificate-authority-data", "")).decode()
        joined = known.rstrip("\n") + "\n" + value.strip() + "\n"
        entry["cluster"]["certificate-authority-data"] = base64.b64encode(joined.encode()).decode()
    with store.change():
        store.put_file(cluster.id, "kubeconfig", dump(config).encode())
    return web.Response(status=201)


def _logs(path: Path, name: str) -> web.FileResponse:
    # Without a type of its own it would be that of the name: the specification has one for all.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "application/octet-stream"}
    return web.FileResponse(path, headers=headers)


def _log_path(service: Service, cluster_id: str, kind: str, host_id: str | None) -> Path:
    name = f"host_{host_id}" if host_id else kind
    return service.settings.work_dir / "logs" / cluster_id / f"{name}.tar.gz"


async def upload_logs(service: Service, request: web.Request) -> Response:
    """POST /clusters/{id}/logs: multipart field ``upfile``, streamed to disk, then moved into place."""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    kind = request.query.get("logs_type", "")
    if kind not in ("host", "controller", "node-boot"):
        raise BadRequest(f"logs_type {kind!r} is not one of host, controller, node-boot")
    host_id = None if kind == "controller" else _uuid(request.query.get("host_id"), "host_id")
    target = _log_path(service, cluster.id, kind, host_id)
    if not request.content_type.startswith("multipart/"):
        raise BadRequest("body must be multipart/form-data with a field upfile")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            found = False
            async for part in await request.multipart():
                if getattr(part, "name", None) == "upfile":
                    found = True
                    while chunk := await part.read_chunk(CHUNK):  # type: ignore[union-attr]
                        if file.tell() + len(chunk) > LARGEST_LOGS:
                            raise TooLarge(f"logs are larger than {LARGEST_LOGS} bytes")
                        file.write(chunk)
            if not found:
                raise BadRequest("the field upfile is missing")
            Path(file.name).replace(target)
        except BaseException as error:
            Path(file.name).unlink(missing_ok=True)
            if isinstance(error, BadHttpMessage):
                raise Unparsable(f"body is not multipart/form-data: {' '.join(error.message.split())}") from None
            raise
    store, stamp = service.engine.store, now_text()
    with store.change():
        if host_id is None:
            store.put_cluster(replace(store.cluster(cluster.id), controller_logs_collected_at=stamp))
            store.add_event(events.make("cluster_logs_uploaded", cluster=cluster))
        else:
            for host in store.hosts(cluster_id=cluster.id):
                if host.id == host_id:
                    store.put_host(replace(host, logs_collected_at=stamp))
                    store.add_event(events.make("host_logs_uploaded", host=host, where=f" cluster {cluster.id}"))
    return web.Response(status=204)


async def download_logs(service: Service, request: web.Request) -> Response:
    """GET /clusters/{id}/logs: one host's, the controller's, or all in one tar."""
    cluster = service.engine.store.cluster(request.match_info["cluster_id"])
    kind = request.query.get("logs_type", "all")
    directory = service.settings.work_dir / "logs" / cluster.id
    if kind in ("host", "controller", "node-boot"):
        host_id = _uuid(request.query.get("host_id"), "host_id") if kind != "controller" else None
        path = _log_path(service, cluster.id, kind, host_id)
        if not path.is_file():
            raise NotFound(f"no {kind} logs were uploaded")
        return _logs(path, path.name)
    files = sorted(directory.glob("*.tar.gz")) if directory.is_dir() else []
    if not files:
        raise Conflict("no logs were uploaded yet")
    archive = directory / "all.tar"
    # Another request may be reading the last one.
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in files:
            tar.add(path, arcname=f"{cluster.name}/{path.name}")
    Path(file.name).replace(archive)
    return _logs(archive, f"{cluster.name}_logs.tar")
