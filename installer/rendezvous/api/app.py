"""The aiohttp application: the service, the routes and the page put together.

What handles a request imports context.py alone of the service; only serving.py and tests import this module.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler as WebHandler

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import BASE
from installer.rendezvous.api.answers import answering, not_offered, unknown
from installer.rendezvous.api.bodies import MAX_BODY
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.handlers.routes import BINARY, NOT_OFFERED, OPEN, ROUTES, SIGNED

if TYPE_CHECKING:
    from installer.rendezvous.page.codes import Codes
    from installer.rendezvous.page.feed import Viewers

# Who may read the page's stream, unless the settings open it to all.
VIEWER_SCHEMES = frozenset({Scheme.USER, Scheme.WATCHER})


class Page:
    """The status page. Its modules are imported, and its data kept, from the first visit on."""

    def __init__(self) -> None:
        # None until the first viewer comes.
        self.viewers: Viewers | None = None

    async def show(self, service: Service, request: web.Request) -> web.StreamResponse:
        """GET /"""
        from installer.rendezvous.page import files

        return await files.show(service, request)

    async def file(self, service: Service, request: web.Request) -> web.StreamResponse:
        """GET /page/{name}"""
        from installer.rendezvous.page import files

        return await files.file(service, request)

    async def stream(self, service: Service, request: web.Request) -> web.StreamResponse:
        """GET /page/stream"""
        from installer.rendezvous.page import feed

        if self.viewers is None:
            self.viewers = feed.Viewers(service)
        return await feed.stream(service, self.viewers, request)

    @cached_property
    def _codes(self) -> Codes:
        from installer.rendezvous.page.codes import Codes

        return Codes()

    async def make_code(self, service: Service, request: web.Request) -> web.StreamResponse:
        """POST /page/code"""
        return await self._codes.create(service, request)

    async def code_state(self, service: Service, request: web.Request) -> web.StreamResponse:
        """GET /page/code"""
        return await self._codes.show(service, request)

    async def token(self, service: Service, request: web.Request) -> web.StreamResponse:
        """POST /page/token"""
        return await self._codes.exchange(service, request)

    def close(self) -> None:
        """End the viewers' streams: they have no end of their own, and the server waits for requests under way."""
        if self.viewers is not None:
            self.viewers.closing.set()


SERVICE: web.AppKey[Service] = web.AppKey("service", Service)
PAGE: web.AppKey[Page] = web.AppKey("page", Page)
_MONITOR: web.AppKey[list[asyncio.Task[None]]] = web.AppKey("monitor", list)


def build(service: Service) -> web.Application:
    """Return the application with all routes; the monitor runs from start to stop."""

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
        call = answering(service, handler, schemes, signed=(method, path) in SIGNED, binary=(method, path) in BINARY)
        app.router.add_route(method, BASE + path, call)
        paths.setdefault(BASE + path, set()).add(method)
    for method, path, error in NOT_OFFERED:
        app.router.add_route(method, BASE + path, answering(service, not_offered(error), frozenset({Scheme.USER})))
        paths.setdefault(BASE + path, set()).add(method)
    page = app[PAGE] = Page()
    for path, handler in (("/", page.show), *OPEN):
        app.router.add_get(path, answering(service, handler, frozenset()))
    viewer_schemes = frozenset() if service.settings.page_access == "open" else VIEWER_SCHEMES
    # Not HEAD: a stream without a body would have no end that anybody sees.
    app.router.add_get("/page/stream", answering(service, page.stream, viewer_schemes), allow_head=False)
    app.router.add_post("/page/code", answering(service, page.make_code, frozenset({Scheme.USER})))
    app.router.add_get("/page/code", answering(service, page.code_state, frozenset({Scheme.USER})))
    app.router.add_post("/page/token", answering(service, page.token, frozenset()))
    app.router.add_get("/page/{name:.+}", answering(service, page.file, frozenset()))
    app.router.add_route("*", "/{tail:.*}", unknown(paths))

    async def start(app: web.Application) -> None:
        app[_MONITOR] = [asyncio.create_task(service.monitor()), asyncio.create_task(service.judge())]

    async def stop(app: web.Application) -> None:
        for task in app[_MONITOR]:
            task.cancel()
        service.stop_preparations()

    async def end_streams(app: web.Application) -> None:
        app[PAGE].close()
        service.bell.close()

    app.on_startup.append(start)
    app.on_shutdown.append(end_streams)
    app.on_cleanup.append(stop)
    return app
