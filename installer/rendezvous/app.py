"""The aiohttp application: routes with their schemes, error bodies, the monitor and the preparation thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from aiohttp import web

from installer.rendezvous import clusters, prepare
from installer.rendezvous.auth import Authenticator, Scheme
from installer.rendezvous.engine import Engine
from installer.rendezvous.enums import ClusterStatus
from installer.rendezvous.errors import BadRequest, PrepareError, RendezvousError, ServiceError, Unauthorized
from installer.rendezvous.settings import Settings
from installer.rendezvous.views import Views, reply

BASE = "/api/assisted-install"
log = logging.getLogger("assisted-service")
Handler = Callable[["Service", web.Request], Awaitable[web.StreamResponse]]
Generate = Callable[[prepare.Job], dict[str, bytes]]
AGENT, USER, WATCHER = Scheme.AGENT, Scheme.USER, Scheme.WATCHER
MAX_BODY = 512 * 1024**2


class Service:
    """What the handlers share."""

    def __init__(self, engine: Engine, settings: Settings, auth: Authenticator, generate: Generate) -> None:
        self.engine = engine
        self.settings = settings
        self.auth = auth
        self.generate = generate
        self.views = Views(engine)
        self.preparing: dict[str, asyncio.Task[None]] = {}

    def start_preparations(self) -> None:
        """Start generating ignition for every cluster that is preparing and has none: also after a restart."""
        for cluster in self.engine.store.clusters():
            wanted = cluster.status is ClusterStatus.PREPARING and cluster.last_preparation.status == "not_started"
            if wanted and cluster.id not in self.preparing:
                self.preparing[cluster.id] = asyncio.create_task(self._prepare(cluster.id))

    async def _prepare(self, cluster_id: str) -> None:
        store = self.engine.store
        cluster = store.cluster(cluster_id)
        hosts = store.hosts(cluster_id=cluster_id)
        infra_env = next((item for item in store.infra_envs() if item.cluster_id == cluster_id), None)
        job = prepare.Job(cluster, infra_env, hosts, store.manifests(cluster_id), self.settings)
        files: dict[str, bytes] | None = None
        reason = ""
        try:
            files = await asyncio.to_thread(self.generate, job)
        except PrepareError as error:
            reason = str(error)
            log.error("cluster %s: %s", cluster_id, reason)
        except Exception as error:
            reason = f"internal error while preparing: {error}"
            log.exception("cluster %s: preparation failed", cluster_id)
        finally:
            self.preparing.pop(cluster_id, None)
        clusters.finish_preparation(self.engine, cluster_id, files, reason)

    def tick(self) -> None:
        """One round of the monitor: time alone may change a state."""
        for cluster in self.engine.store.clusters():
            if not self.engine.is_calm(cluster.id):
                with self.engine.store.change():
                    self.engine.settle(cluster.id)
        self.start_preparations()

    async def monitor(self) -> None:
        """Tick for ever."""
        while True:
            try:
                self.tick()
            except Exception:
                log.exception("monitor")
            await asyncio.sleep(self.settings.monitor_seconds)


SERVICE: web.AppKey[Service] = web.AppKey("service", Service)
_MONITOR: web.AppKey[asyncio.Task[None]] = web.AppKey("monitor", asyncio.Task)


def error_body(error: ServiceError, path: str) -> dict[str, Any]:
    """Error for most statuses, InfraError for 401 and 403 (installer.md §5.1)."""
    if error.status in (401, 403):
        return {"code": error.status, "message": error.reason}
    return {"kind": "Error", "id": error.status, "href": path, "code": str(error.status), "reason": error.reason}


async def body_of(request: web.Request) -> dict[str, Any]:
    """The request's JSON object. Raises BadRequest."""
    try:
        value = await request.json()
    except ValueError as error:
        raise BadRequest(f"body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("body must be a JSON object")
    return value


def _wrap(service: Service, handler: Handler, schemes: frozenset[Scheme]) -> Callable[[web.Request], Any]:
    async def call(request: web.Request) -> web.StreamResponse:
        try:
            if schemes:
                service.auth.check(request.headers, schemes)
            return await handler(service, request)
        except ServiceError as error:
            if not isinstance(error, Unauthorized):
                log.info("%s %s: %d %s", request.method, request.path, error.status, error.reason)
            return reply(error_body(error, request.path), error.status)
        except RendezvousError as error:
            log.error("%s %s: %s", request.method, request.path, error)
            return reply(error_body(ServiceError(str(error)), request.path), 500)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.exception("%s %s", request.method, request.path)
            return reply(error_body(BadRequest(f"the request cannot be understood: {error!r}"), request.path), 400)
        except Exception:
            identity = uuid4().hex[:8]
            log.exception("%s %s: internal error %s", request.method, request.path, identity)
            return reply(error_body(ServiceError(f"internal error {identity}"), request.path), 500)

    return call


async def _unknown(request: web.Request) -> web.Response:
    return reply({"code": 404, "message": f"path {request.path} was not found"}, 404)


def build(service: Service) -> web.Application:
    """The application with all routes; the monitor runs from start to stop."""
    from installer.rendezvous.routes import OPEN, ROUTES

    app = web.Application(client_max_size=MAX_BODY)
    app[SERVICE] = service
    for method, path, schemes, handler in ROUTES:
        app.router.add_route(method, f"{BASE}/v2{path}", _wrap(service, handler, schemes))
    for path, handler in OPEN:
        app.router.add_get(path, _wrap(service, handler, frozenset()))
    app.router.add_route("*", "/{tail:.*}", _unknown)

    async def start(app: web.Application) -> None:
        app[_MONITOR] = asyncio.create_task(service.monitor())

    async def stop(app: web.Application) -> None:
        app[_MONITOR].cancel()

    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    return app
