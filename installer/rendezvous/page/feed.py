"""The stream of server-sent events that feeds the page.

This module is imported when the page is first asked for: without viewers it costs nothing.
A viewer gets everything once and then what has changed, at most once a second; viewers share the encoded messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import web

from installer.assisted.errors import TooMany
from installer.common.macs import ExpectedHost
from installer.rendezvous.api.bodies import joined
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.views import encode
from installer.rendezvous.page import expected
from installer.rendezvous.page import view as pageview
from installer.rendezvous.page.files import PRIVATE
from installer.rendezvous.store.model import Cluster, Host, InfraEnv

# Viewers at a time. Each costs a comparison a second, and sending what has changed.
MOST_VIEWERS = 8
PAUSE = 1.0
# Proxies and browsers give up on a connection that says nothing.
HEARTBEAT = 15.0
# A viewer that takes nothing for this long is gone.
STALLED = 30.0
# Hosts or clusters that are shown anew between two requests.
AT_A_TIME = 8
FIRST_EVENTS = 200
MOST_EVENTS = 500
NEWEST = "WHERE seq > (SELECT COALESCE(MAX(seq), 0) - ? FROM events) ORDER BY seq"


class Picture:
    """The page's content for all viewers, as encoded messages by name; made again only when the store has changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._key: object = None
        self._messages: dict[str, bytes] = {}
        self._hosts: dict[str, tuple[tuple[object, ...], bytes]] = {}

    async def look(self) -> dict[str, bytes]:
        """Messages by name; one that has not changed is the same object as the last time."""
        # Viewers share what is made, and requests have their turn while it is.
        async with self._lock:
            store = self._service.engine.store
            clusters = store.clusters()
            # Hosts of no cluster have no version; they are compared one by one.
            infra_envs = store.infra_envs()
            key = (
                [(cluster.id, store.version(cluster.id)) for cluster in clusters],
                [id(h) for h in store.unbound_hosts()],
                [(item.id, item.cluster_id, item.updated_at) for item in infra_envs],
            )
            if key != self._key:
                listed = expected.listed_hosts(self._service.settings.expected_hosts, infra_envs)
                self._messages = await self._make(clusters, store.hosts(), listed, infra_envs)
                self._key = key
            return self._messages

    async def _make(
        self,
        clusters: list[Cluster],
        hosts: list[Host],
        listed: Sequence[ExpectedHost],
        infra_envs: Sequence[InfraEnv],
    ) -> dict[str, bytes]:
        by_id = {cluster.id: cluster for cluster in clusters}
        parts = {f"cluster/{name}": b"" for name in by_id}
        for number, (host, rank) in enumerate(zip(hosts, expected.ranks(listed, hosts), strict=True)):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            parts[f"host/{host.infra_env_id}/{host.id}"] = self._host(host, by_id.get(host.cluster_id or ""), rank)
        for card in expected.missing(listed, hosts):
            name = f"expected/{card['id']}"
            parts[name] = self._unless_same(name, _message("expected", card))
        for infra_env in infra_envs:
            name = f"infra_env/{infra_env.id}"
            parts[name] = self._unless_same(name, _message("infra_env", pageview.infra_env_view(infra_env)))
        for number, item in enumerate(clusters):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            name = f"cluster/{item.id}"
            parts[name] = self._unless_same(
                name, _message("cluster", pageview.cluster_view(self._service.engine, item))
            )
        self._hosts = {name: row for name, row in self._hosts.items() if name in parts}
        return parts

    def _unless_same(self, name: str, message: bytes) -> bytes:
        before = self._messages.get(name)
        return before if before == message else message

    def _host(self, host: Host, cluster: Cluster | None, rank: int) -> bytes:
        name, traits = f"host/{host.infra_env_id}/{host.id}", (*pageview.traits(host, cluster), rank)
        cached = self._hosts.get(name)
        if cached is None or cached[0] != traits:
            shown = pageview.host_view(self._service.engine, host, cluster) | {"rank": rank}
            cached = (traits, _message("host", shown))
            self._hosts[name] = cached
        return cached[1]


class Viewers:
    """The browsers that show the page; ``closing`` ends their streams."""

    def __init__(self, service: Service) -> None:
        self.picture = Picture(service)
        self.closing = asyncio.Event()
        self.count = 0


def _message(kind: str, value: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encode(value) + b"\n\n"


async def stream(service: Service, viewers: Viewers, request: web.Request) -> web.StreamResponse:
    """GET /page/stream: everything, then what changes, until the viewer or the service goes. Raises TooMany."""
    if viewers.count >= MOST_VIEWERS:
        raise TooMany(f"{MOST_VIEWERS} viewers are looking already")
    viewers.count += 1
    answer = web.StreamResponse(headers={**PRIVATE, "Content-Type": "text/event-stream; charset=utf-8"})
    try:
        await answer.prepare(request)
        await _feed(service, viewers, request, answer)
    except (ConnectionError, TimeoutError):
        pass
    finally:
        viewers.count -= 1
    return answer


async def _feed(service: Service, viewers: Viewers, request: web.Request, answer: web.StreamResponse) -> None:
    """Write to one viewer until it goes or the service closes. Raises ConnectionError, TimeoutError."""
    seen: dict[str, bytes] = {}
    about = {
        "boot": service.views.boot,
        "open": service.settings.page_access == "open",
        "version": service.settings.openshift_version,
    }
    parts = [_message("hello", about), *_changes(await viewers.picture.look(), seen)]
    rows = service.engine.store.select_events(NEWEST, [FIRST_EVENTS])
    parts += [_event(*row) for row in rows]
    parts.append(_message("ready", {}))
    last = rows[-1][0] if rows else 0
    quiet = 0.0
    # A viewer who has reloaded the page is not counted until the next heartbeat.
    while request.transport is not None:
        if parts or quiet >= HEARTBEAT:
            for piece in joined(parts) or [b": still here\n\n"]:
                await asyncio.wait_for(answer.write(piece), STALLED)
                await asyncio.sleep(0)
            quiet = 0.0
        try:
            await asyncio.wait_for(viewers.closing.wait(), PAUSE)
        except TimeoutError:
            quiet += PAUSE
        else:
            return
        rows = service.engine.store.select_events("WHERE seq > ? ORDER BY seq LIMIT ?", [last, MOST_EVENTS])
        last = rows[-1][0] if rows else last
        parts = [*_changes(await viewers.picture.look(), seen), *(_event(*row) for row in rows)]


def _changes(messages: dict[str, bytes], seen: dict[str, bytes]) -> list[bytes]:
    """Messages that a viewer has not seen, which are then noted as seen."""
    parts = [message for name, message in messages.items() if seen.get(name) is not message]
    for name in seen.keys() - messages.keys():
        del seen[name]
        parts.append(_message("gone", {"key": name.partition("/")[2]}))
    seen.update(messages)
    return parts


def _event(number: int, doc: bytes) -> bytes:
    return _message("event", pageview.event_view(number, msgspec.json.decode(doc)))
