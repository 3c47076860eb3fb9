"""The service as the handlers of requests see it: engine, limits, and the work in the background.

It knows neither routes nor the page: app.py puts them together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from aiohttp import web

from installer.assisted.auth import ATTEMPT_HEADER, Authenticator
from installer.assisted.enums import HostStatus
from installer.assisted.errors import Conflict, NotFound, PrepareError, StoreError, TooMany
from installer.rendezvous.api.views import Views
from installer.rendezvous.eventloop.lag import Lag
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.reconcile.pace import Slices
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.resources.requests import values
from installer.rendezvous.settings import Settings
from installer.rendezvous.states import host as host_states
from installer.rendezvous.store.logs import LogStore
from installer.rendezvous.store.model import InfraEnv
from installer.rendezvous.store.records import fold_large_log

if TYPE_CHECKING:
    from installer.rendezvous.discovery.images import DiscoveryImages
    from installer.rendezvous.eventloop.gate import Gate

log = logging.getLogger("assisted-service")
Handler = Callable[["Service", web.Request], Awaitable[web.StreamResponse]]
Generate = Callable[[prepare.Job], dict[str, bytes]]
STRANGERS_PER_SECOND, STRANGERS_AT_ONCE = 1.0, 30.0
# How many callers a bucket knows.
REMEMBERED = 4096
# How many installers run, and images are made, at a time.
SLOW_THREADS = 4
P = ParamSpec("P")
R = TypeVar("R")
# Hosts that are looked at between two requests.
HOSTS_AT_A_TIME = 100


class Bucket:
    """``rate`` a second in the long run, ``burst`` at once; per caller."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        # (tokens left, at which time) by caller, the one not seen for longest first.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count one. Raises TooMany; what is refused costs nothing, so that the rate holds however many ask."""
        now = self._clock()
        left, then = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]
        if not allowed:
            raise TooMany(f"too many requests from {caller or 'this address'}, try again in a second")


class Bell:
    """Wakes those that wait for the next change of the store."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.closed = False
        self.waiting = 0

    def next(self) -> asyncio.Event:
        """Return an event that is set by the next change."""
        return self._event

    def ring(self) -> None:
        """Wake all that wait."""
        self._event.set()
        self._event = asyncio.Event()

    def close(self) -> None:
        """Wake all that wait, who are then to end."""
        self.closed = True
        self.ring()


class Service:
    """The state that all handlers share."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        auth: Authenticator,
        generate: Generate,
        *,
        images: DiscoveryImages | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.auth = auth
        self.generate = generate
        self.images = images
        self.views = Views(engine)
        self.slices = Slices(engine)
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "slow")
        # Authenticated callers, and those of what is open to all: by credential and address.
        self.requests = Bucket(settings.requests_per_second, 2 * settings.requests_per_second)
        # Callers without valid credentials, by address: this bounds the cost of checking them.
        # docs/rendezvous.md, "Who may come in, and how much"
        self.strangers = Bucket(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE)
        # By (cluster, attempt): the task that makes its ignition, and the event that ends it.
        self.preparing: dict[tuple[str, str], tuple[asyncio.Task[None], threading.Event]] = {}
        self.bell = Bell()
        engine.store.announce = self.bell.ring
        self.lag = Lag()
        self.logs = LogStore(settings.work_dir / "logs")
        # Accepts connections; None where another server does.
        self.gate: Gate | None = None

    @cached_property
    def url_key(self) -> bytes:
        """The key that the URLs of clusters' files are signed with."""
        return self.engine.store.secret("urls")

    def settings_of(self, infra_env: InfraEnv | None) -> Settings:
        """Return the settings of the release that an infra-env's images are of; the service's own for none."""
        if infra_env is None:
            return self.settings
        cluster = self.engine.store.cluster(infra_env.cluster_id) if infra_env.cluster_id else None
        return self.engine.catalogue.of(cluster, infra_env)

    def url(self, path: str) -> str:
        """Return a path of this service, as others reach it."""
        return self.settings.base_url.rstrip("/") + path

    async def slowly(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what takes minutes in one of a few threads, so that the default ones stay free for reading and writing."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, partial(work, *args, **kwargs))

    def vouch(self, request: web.Request) -> None:
        """Remember that the request's connection is no stranger's."""
        if self.gate is not None:
            self.gate.vouch(request.transport)

    def adopt(self, settings: Settings) -> None:
        """Continue with other settings: a standalone service learns of its release's images when it first reads it."""
        self.settings = settings
        self.engine.adopt(settings)

    async def learn(self, pull_secret: str | None) -> None:
        """Know the release's version before a version is judged. Raises BadRequest where it cannot be read."""
        if self.images is not None and pull_secret and values.pull_secret(pull_secret) is None:
            await self.slowly(self.images.learn, pull_secret)

    def start_preparations(self) -> None:
        """Generate ignition for every attempt that waits for it, also after a restart; stop for earlier attempts."""
        wanted = {(item.id, item.attempt) for item in self.engine.store.clusters() if clusters.awaits_ignition(item)}
        for attempt, (_, stop) in self.preparing.items():
            if attempt not in wanted:
                stop.set()
        for attempt in wanted - self.preparing.keys():
            store, cluster_id = self.engine.store, attempt[0]
            job = prepare.Job(
                cluster=store.cluster(cluster_id),
                infra_envs=clusters.infra_envs(self.engine, cluster_id),
                hosts=store.hosts(cluster_id=cluster_id),
                manifests=store.manifests(cluster_id),
                settings=self.engine.catalogue.of(store.cluster(cluster_id)),
            )
            self.preparing[attempt] = asyncio.create_task(self._prepare(attempt, job)), job.stop

    def stop_preparations(self) -> None:
        """End what is under way: the service ends, and the next one begins anew."""
        for task, stop in self.preparing.values():
            stop.set()
            task.cancel()

    async def _prepare(self, attempt: tuple[str, str], job: prepare.Job) -> None:
        try:
            files, reason = await self._generated(job)
            # Where the store fails, it is tried again for as long as the attempt waits for the result.
            while not job.stop.is_set():
                try:
                    clusters.finish_preparation(self.engine, *attempt, files, reason=reason)
                    break
                except StoreError as error:
                    log.error("cluster %s: what was prepared cannot be kept: %s", attempt[0], error)
                    await asyncio.sleep(self.settings.monitor_seconds)
        except NotFound:
            log.info("cluster %s was deleted while it was prepared", attempt[0])
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
            # A bug of ours: its text goes to the log only, as that of a 500 does.
            log.exception("cluster %s: preparation failed", cluster_id)
            return (
                None,
                f"internal error while preparing ({type(error).__name__}): the log of assisted-service has more",
            )

    async def tick(self) -> None:
        """One round of the monitor: time alone may change a state."""
        self.engine.keep_time()
        for cluster in self.engine.store.clusters():
            if not self.engine.is_reconciled(cluster.id):
                clusters.reconcile_soon(self.engine, cluster.id)
                # There may be many (after a start, all): requests that have come in go first.
                await asyncio.sleep(0)
        for number, unbound in enumerate(self.engine.store.unbound_hosts()):
            if number % HOSTS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            # Read anew: other tasks have run meanwhile.
            host = self.engine.store.find_host(unbound.infra_env_id, unbound.id)
            if host is None or host.cluster_id is not None or host.status not in host_states.UNBOUND:
                continue
            if self.engine.view(host).connected is (host.status is HostStatus.DISCONNECTED_UNBOUND):
                hosts.reconcile(self.engine, host)
        self.start_preparations()

    async def reconcile_pending(self, cluster_id: str | None) -> None:
        """Reconcile the cluster if a change still waits for that: whoever reads it next sees the present state."""
        if cluster_id and self.engine.pace.waits(cluster_id):
            await self.slices.reconcile(cluster_id)

    async def monitor(self) -> None:
        """Tick for ever."""
        while True:
            try:
                await self.tick()
                await fold_large_log(self.settings.db_path)
            except NotFound:
                # A cluster or host was deleted while others were looked at; the rest has its turn next time.
                pass
            except Exception:
                log.exception("monitor")
            await asyncio.sleep(self.settings.monitor_seconds)

    async def judge(self) -> None:
        """Reconcile the clusters that wait for it, for ever (reconcile/pace.py)."""
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
                await self.reconcile_pending(cluster_id)
            except NotFound:
                pace.drop(cluster_id)
            except Exception:
                # The monitor comes back to it.
                pace.drop(cluster_id)
                log.exception("cluster %s cannot be judged", cluster_id)


def check_attempt(service: Service, request: web.Request) -> None:
    """Refuse requests of programs whose attempt to install is over. Raises Conflict, NotFound."""
    attempt, ids = request.headers.get(ATTEMPT_HEADER), request.match_info
    if not attempt:
        return
    cluster_id = ids.get("cluster_id")
    if "host_id" in ids:
        cluster_id = service.engine.store.host(ids["infra_env_id"], ids["host_id"]).cluster_id
        if cluster_id is None:
            raise Conflict(f"host {ids['host_id']} belongs to no cluster any more")
    if cluster_id:
        clusters.check_attempt(service.engine, cluster_id, attempt)
