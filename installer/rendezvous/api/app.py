"""The aiohttp application: routes with their schemes, error bodies, the monitor and the preparation thread."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler as WebHandler

from installer.assisted.auth import ATTEMPT_HEADER, Authenticator, Scheme
from installer.assisted.enums import HostStatus
from installer.assisted.errors import (
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    PrepareError,
    RendezvousError,
    ServiceError,
    StoreError,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    Unparsable,
)
from installer.rendezvous.api import signing
from installer.rendezvous.api.limits import Bucket
from installer.rendezvous.api.views import Views, reply
from installer.rendezvous.eventloop.lag import Lag
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.reconcile.slices import Slices
from installer.rendezvous.resources import clusters
from installer.rendezvous.settings import Settings
from installer.rendezvous.store import checkpoint
from installer.rendezvous.store.logs import LogStore
from installer.rendezvous.store.model import InfraEnv

if TYPE_CHECKING:
    from installer.rendezvous.eventloop.gate import Gate
    from installer.rendezvous.page.feed import Viewers

BASE = "/api/assisted-install"
log = logging.getLogger("assisted-service")
Handler = Callable[["Service", web.Request], Awaitable[web.StreamResponse]]
Generate = Callable[[prepare.Job], dict[str, bytes]]
AGENT, USER, WATCHER = Scheme.AGENT, Scheme.USER, Scheme.WATCHER
# The largest manifest or inventory that makes sense, and what is read as JSON in a moment; logs are streamed and have a
# limit of their own.
MAX_BODY = 4 * 1024**2
STRANGERS_PER_SECOND, STRANGERS_AT_ONCE = 1.0, 30.0
# Installers and images that are made at a time.
SLOW_THREADS = 4
P = ParamSpec("P")
R = TypeVar("R")
# So many hosts are looked at between two requests.
MANY = 100
# Lists that the specification has as one parameter a value.
REPEATED = frozenset({"feature_ids"})


class ImageMaker(Protocol):
    """Makes what hosts of an infra-env are booted with. Each may take long and raise RendezvousError."""

    def ignition(self, infra_env: InfraEnv) -> bytes:
        """The Ignition config."""

    def file(self, infra_env: InfraEnv, name: str) -> Path:
        """full.iso, minimal.iso, vmlinuz, initrd.img or rootfs.img."""

    def minimal_initrd(self, infra_env: InfraEnv) -> bytes:
        """What a minimal image adds to its initrd, empty if nothing."""

    def ipxe(self, infra_env: InfraEnv, urls: Mapping[str, str]) -> bytes:
        """An iPXE script that boots from these URLs."""


class Service:
    """What the handlers share."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        auth: Authenticator,
        generate: Generate,
        images: ImageMaker | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.auth = auth
        self.generate = generate
        self.images = images
        self.views = Views(engine)
        self.slices = Slices(engine)
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "slow")
        # Callers with a proof (or at what is open to all), by what they proved and their address.
        self.requests = Bucket(settings.requests_per_second, 2 * settings.requests_per_second)
        # Callers without one, by address: what a proof's check may cost.
        # docs/rendezvous.md, "Who may come in, and how much"
        self.strangers = Bucket(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE)
        # By (cluster, attempt): what makes its ignition, and what ends that.
        self.preparing: dict[tuple[str, str], tuple[asyncio.Task[None], threading.Event]] = {}
        # Those who look at the page; None until somebody does.
        self.viewers: Viewers | None = None
        self.lag = Lag()
        self.logs = LogStore(settings.work_dir / "logs")
        # Where connections come in; None where somebody else accepts them.
        self.gate: Gate | None = None

    @cached_property
    def url_key(self) -> bytes:
        """What the URLs of clusters' files are signed with."""
        return self.engine.store.secret("urls")

    async def slowly(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what takes minutes in a thread of few: the others are for those who only read and write."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, partial(work, *args, **kwargs))

    def vouch(self, request: web.Request) -> None:
        """Remember that the request's connection is no stranger's."""
        if self.gate is not None:
            self.gate.vouch(request.transport)

    def adopt(self, settings: Settings) -> None:
        """Go on with other settings: a standalone service learns of its release's images when it first reads it."""
        self.settings = settings
        self.engine.adopt(settings)

    def start_preparations(self) -> None:
        """Start generating ignition for every attempt that waits for it, also after a restart; end those of before."""
        wanted = {(item.id, item.attempt) for item in self.engine.store.clusters() if clusters.awaited(item)}
        for attempt, (_, stop) in self.preparing.items():
            if attempt not in wanted:
                stop.set()
        for attempt in wanted - self.preparing.keys():
            job = self._job(attempt[0])
            self.preparing[attempt] = asyncio.create_task(self._prepare(attempt, job)), job.stop

    def _job(self, cluster_id: str) -> prepare.Job:
        store = self.engine.store
        infra_env = next((item for item in store.infra_envs() if item.cluster_id == cluster_id), None)
        hosts, manifests = store.hosts(cluster_id=cluster_id), store.manifests(cluster_id)
        return prepare.Job(store.cluster(cluster_id), infra_env, hosts, manifests, self.settings)

    def stop_preparations(self) -> None:
        """End what is under way: the service ends, and the next one begins anew."""
        for task, stop in self.preparing.values():
            stop.set()
            task.cancel()

    async def _prepare(self, attempt: tuple[str, str], job: prepare.Job) -> None:
        try:
            files, reason = await self._generated(job)
            # What could not be kept is kept as soon as it can be, if it is still waited for.
            while not job.stop.is_set():
                try:
                    clusters.finish_preparation(self.engine, *attempt, files, reason)
                    break
                except StoreError as error:
                    log.error("cluster %s: what was prepared cannot be kept: %s", attempt[0], error)
                    await asyncio.sleep(self.settings.monitor_seconds)
        except NotFound:
            log.info("cluster %s went while it was prepared", attempt[0])
        finally:
            del self.preparing[attempt]

    async def _generated(self, job: prepare.Job) -> tuple[dict[str, bytes] | None, str]:
        """(files, "") or (None, what failed)."""
        cluster_id = job.cluster.id
        try:
            return await self.slowly(self.generate, job), ""
        except PrepareError as error:
            log.error("cluster %s: %s", cluster_id, error)
            return None, str(error)
        except Exception as error:
            log.exception("cluster %s: preparation failed", cluster_id)
            return None, f"internal error while preparing: {error}"

    async def tick(self) -> None:
        """One round of the monitor: time alone may change a state."""
        self.engine.keep_time()
        for cluster in self.engine.store.clusters():
            if not self.engine.is_calm(cluster.id):
                with self.engine.store.change():
                    self.engine.settle_in_time(cluster.id)
                # There may be many, and all of them after a start: requests that have come in go first.
                await asyncio.sleep(0)
        for number, known in enumerate(self.engine.store.unbound_hosts()):
            if number % MANY == 0:
                await asyncio.sleep(0)
            # As it is now: others have had their turn.
            host = self.engine.store.find_host(known.infra_env_id, known.id)
            if host is None or host.cluster_id is not None:
                continue
            if self.engine.view(host).connected is (host.status is HostStatus.DISCONNECTED_UNBOUND):
                with self.engine.store.change():
                    self.engine.settle_host(host)
        self.start_preparations()

    async def fresh(self, cluster_id: str | None) -> None:
        """Settle what waits of this cluster: for those who ask what is true now."""
        if cluster_id and self.engine.pace.waits(cluster_id):
            await self.slices.settle(cluster_id)

    async def monitor(self) -> None:
        """Tick for ever."""
        while True:
            try:
                await self.tick()
                await checkpoint.when_large(self.settings.db_path)
            except NotFound:
                # A cluster or host went while others were looked at; the rest has its turn next time.
                pass
            except Exception:
                log.exception("monitor")
            await asyncio.sleep(self.settings.monitor_seconds)

    async def judge(self) -> None:
        """Settle the clusters that wait for it, for ever (pace.py)."""
        pace, wake = self.engine.pace, asyncio.Event()
        pace.wake = wake.set
        while True:
            wake.clear()
            waiting = pace.next()
            if waiting is None:
                await wake.wait()
                continue
            cluster_id, pause = waiting
            await asyncio.sleep(pause)
            try:
                await self.fresh(cluster_id)
            except NotFound:
                pace.drop(cluster_id)
            except Exception:
                # The monitor comes back to it.
                pace.drop(cluster_id)
                log.exception("cluster %s cannot be judged", cluster_id)


SERVICE: web.AppKey[Service] = web.AppKey("service", Service)
_MONITOR: web.AppKey[list[asyncio.Task[None]]] = web.AppKey("monitor", list)


def error_body(error: ServiceError, path: str) -> dict[str, Any]:
    """Error for most statuses, InfraError for 401, 403 (installer.md §5.1) and all that go-swagger itself refuses."""
    if isinstance(error, Invalid):
        return {"code": error.code, "message": error.reason}
    if error.status in (401, 403) or isinstance(error, Unparsable):
        return {"code": error.status, "message": error.reason}
    return {"kind": "Error", "id": error.status, "href": path, "code": str(error.status), "reason": error.reason}


def _authorize(service: Service, request: web.Request, schemes: frozenset[Scheme], signed: bool) -> None:
    """Let the caller in or raise Unauthorized or TooMany. No signature of a token is checked past the brake."""
    address, proof = request.remote or "", "open"
    if signed and signing.SIGNATURE in request.query:
        try:
            signing.check(service.url_key, request.method, request.raw_path)
        except Unauthorized:
            service.strangers.take(address)
            raise
        proof = "url"
    elif schemes:
        known = service.auth.known(request.headers, schemes)
        if known is None:
            service.strangers.take(address)
            known = service.auth.check(request.headers, schemes)
        proof = known.value
    # Before it may be told to come back later: to do so it needs its connection.
    if proof != "open":
        service.vouch(request)
    service.requests.take(f"{proof} {address}")


def _once(request: web.Request) -> None:
    """Raise BadRequest for a parameter that is given twice, however it is spelt: which one counts must not matter."""
    seen: set[str] = set()
    for name, _ in request.query.items():  # noqa: PERF102 (keys come once each)
        if name.casefold() in seen and name not in REPEATED:
            raise BadRequest(f"{name[:80]} in query must be given once")
        seen.add(name.casefold())


def of_attempt(service: Service, request: web.Request) -> None:
    """Refuse what programs of an attempt to install that is over still ask for or tell. Raises Conflict, NotFound."""
    attempt, found = request.headers.get(ATTEMPT_HEADER), request.match_info
    if not attempt:
        return
    cluster_id = found.get("cluster_id")
    if "host_id" in found:
        cluster_id = service.engine.store.host(found["infra_env_id"], found["host_id"]).cluster_id
        if cluster_id is None:
            raise Conflict(f"host {found['host_id']} belongs to no cluster any more")
    if cluster_id:
        clusters.of_attempt(service.engine, cluster_id, attempt)


def _wrap(
    service: Service, handler: Handler, schemes: frozenset[Scheme], signed: bool = False, binary: bool = False
) -> Callable[[web.Request], Any]:
    """`binary`: the operation's content type is application/octet-stream, also of its errors, which are JSON still."""

    async def call(request: web.Request) -> web.StreamResponse:
        try:
            _authorize(service, request, schemes, signed)
            _once(request)
            of_attempt(service, request)
            return await handler(service, request)
        except ServiceError as error:
            # Whoever proves nothing does not fill the log either.
            if schemes and not isinstance(error, Unauthorized | TooMany):
                level = logging.ERROR if error.status >= 500 else logging.INFO
                log.log(level, "%s %s: %d %s", request.method, request.rel_url.raw_path, error.status, error.reason)
            body = error_body(error, request.path)
            answer = reply(body, error.status)
            if binary and "kind" in body:
                answer.content_type = "application/octet-stream"
            if isinstance(error, TooMany):
                answer.headers["Retry-After"] = "1"
            if isinstance(error, TooSlow):
                answer.force_close()
            return answer
        except RendezvousError as error:
            log.error("%s %s: %s", request.method, request.rel_url.raw_path, error)
            return reply(error_body(ServiceError(str(error)), request.path), 500)
        except web.HTTPRequestEntityTooLarge:
            return reply(error_body(TooLarge(f"body is larger than {MAX_BODY} bytes"), request.path), TooLarge.status)
        except (web.HTTPException, asyncio.CancelledError, ConnectionError):
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.exception("%s %s", request.method, request.rel_url.raw_path)
            return reply(error_body(BadRequest(f"the request cannot be understood: {error!r}"), request.path), 400)
        except Exception:
            identity = uuid4().hex[:8]
            log.exception("%s %s: internal error %s", request.method, request.rel_url.raw_path, identity)
            return reply(error_body(ServiceError(f"internal error {identity}"), request.path), 500)

    return call


def _not_offered(error: ServiceError) -> Handler:
    async def answer(service: Service, request: web.Request) -> web.Response:
        found = request.match_info
        if "host_id" in found:
            service.engine.store.host(found["infra_env_id"], found["host_id"])
        elif "cluster_id" in found:
            service.engine.store.cluster(found["cluster_id"])
        raise type(error)(error.reason)

    return answer


def _unknown(paths: Mapping[str, set[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """For every path that no route took: 405 where another method would have been right, else 404."""
    known = [(re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path)), methods) for path, methods in paths.items()]

    async def answer(request: web.Request) -> web.Response:
        for pattern, methods in known:
            if pattern.fullmatch(request.path):
                error = ServiceError(f"method {request.method} is not one of {', '.join(sorted(methods))}")
                error.status = 405
                answer = reply(error_body(error, request.path), 405)
                answer.headers["Allow"] = ", ".join(sorted(methods))
                return answer
        return reply({"code": 404, "message": f"path {request.path} was not found"}, 404)

    return answer


def build(service: Service) -> web.Application:
    """The application with all routes; the monitor runs from start to stop."""
    from installer.rendezvous.api.routes import BINARY, NOT_OFFERED, OPEN, PAGE_STREAM, ROUTES, SIGNED

    @web.middleware
    async def pass_the_gate(request: web.Request, handler: WebHandler) -> web.StreamResponse:
        if service.gate is None:
            return await handler(request)
        transport = request.transport
        service.gate.begin(transport)
        try:
            return await handler(request)
        finally:
            service.gate.end(transport)

    app = web.Application(client_max_size=MAX_BODY, middlewares=[pass_the_gate])
    app[SERVICE] = service
    paths: dict[str, set[str]] = {}
    for method, path, schemes, handler in ROUTES:
        call = _wrap(service, handler, schemes, (method, path) in SIGNED, (method, path) in BINARY)
        app.router.add_route(method, f"{BASE}/v2{path}", call)
        paths.setdefault(f"{BASE}/v2{path}", set()).add(method)
    for method, path, error in NOT_OFFERED:
        app.router.add_route(method, f"{BASE}/v2{path}", _wrap(service, _not_offered(error), frozenset({USER})))
        paths.setdefault(f"{BASE}/v2{path}", set()).add(method)
    for path, handler in OPEN:
        app.router.add_get(path, _wrap(service, handler, frozenset()))
    path, schemes, handler = PAGE_STREAM
    open_to_all = service.settings.page_access == "open"
    # Not HEAD: a stream without a body would have no end that anybody sees.
    app.router.add_get(path, _wrap(service, handler, frozenset() if open_to_all else schemes), allow_head=False)
    app.router.add_route("*", "/{tail:.*}", _unknown(paths))

    async def start(app: web.Application) -> None:
        app[_MONITOR] = [asyncio.create_task(service.monitor()), asyncio.create_task(service.judge())]

    async def stop(app: web.Application) -> None:
        for task in app[_MONITOR]:
            task.cancel()
        service.stop_preparations()

    async def let_viewers_go(app: web.Application) -> None:
        # Their streams have no end of their own, and the server waits for requests under way.
        if service.viewers is not None:
            service.viewers.closing.set()

    app.on_startup.append(start)
    app.on_shutdown.append(let_viewers_go)
    app.on_cleanup.append(stop)
    return app
