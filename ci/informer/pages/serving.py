"""Serves the pages, each made from the history at the time of the request."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from html import escape
from pathlib import Path
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ci.informer.errors import HistoryError, InformerError
from ci.informer.history.store import History
from ci.informer.pages import build
from ci.informer.pages.frame import STYLE, page
from ci.informer.pages.views import job_file
from lab.evidence.report import PAGE

#: Nothing from elsewhere, and no script but the one in the page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
#: What machines under test left is shown as text, and its page runs nothing.
_OF_EVIDENCE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"}
Maker = Callable[[History], str]
Kinds = tuple[Sequence[str], Sequence[str]]


def application(path: Path, kinds: Kinds = ((), ())) -> web.Application:
    """Return an application that answers with the pages of the history at `path`; `kinds` are patterns of jobs that
    block, and of those that inform."""
    few_at_a_time = asyncio.Semaphore(2)

    def render(maker: Maker) -> str:
        with History(path, make=False) as history:
            return maker(history)

    def of(choose: Callable[[web.Request], Maker]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            try:
                async with few_at_a_time:
                    text, status = await asyncio.to_thread(render, choose(request)), 200
            except HistoryError as error:
                text, status = page("Not now", [f"<p>{escape(str(error))}</p>"], up="/", live=True), 503
            except InformerError as error:
                text, status = page("Not found", [f"<p>{escape(str(error))}</p>"], up="/"), 404
            return web.Response(text=text, status=status, content_type="text/html", headers=_HEADERS)

        return handler

    def job(request: web.Request) -> Maker:
        wanted = unquote(request.match_info["job"])

        def maker(history: History) -> str:
            name = next((name for name in history.jobs() if job_file(name) == f"{wanted}.html"), wanted)
            return build.job(history, name, live=True)

        return maker

    async def evidence(request: web.Request) -> web.StreamResponse:
        """Answer with a file of a run's evidence; a link out of its folder is none."""
        number = int(request.match_info["run"])
        try:
            folder = await asyncio.to_thread(render, lambda history: history.run(number).folder)
        except InformerError:
            folder = ""
        path = Path(folder, request.match_info["path"])
        if not folder or Path(folder).resolve() not in path.resolve().parents or not path.is_file():
            raise web.HTTPNotFound(headers=_HEADERS)
        kind = {".png": "image/png"}.get(path.suffix, "text/plain; charset=utf-8")
        kind = "text/html; charset=utf-8" if path == Path(folder, PAGE) else kind
        return web.FileResponse(path, headers={**_HEADERS, **_OF_EVIDENCE, "Content-Type": kind})

    async def style(_request: web.Request) -> web.Response:
        return web.Response(text=STYLE, content_type="text/css", headers=_HEADERS)

    app = web.Application()
    first = of(lambda _: lambda history: build.index(history, *kinds, live=True))
    app.router.add_get("/", first)
    app.router.add_get("/index.html", first)
    app.router.add_get("/grid.html", of(lambda _: lambda history: build.grid(history, live=True)))
    app.router.add_get("/jobs/{job}.html", of(job))
    app.router.add_get(
        r"/runs/{run:\d{1,18}}.html",
        of(lambda request: lambda history: build.run(history, int(request.match_info["run"]), live=True)),
    )
    app.router.add_get(r"/evidence/{run:\d{1,18}}/{path:.+}", evidence)
    app.router.add_get("/style.css", style)
    return app


def _of_interest(record: logging.LogRecord) -> bool:
    """Tell whether a log record is shown: not of a request that is no HTTP (port scans, TLS): it is answered with
    400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def serve(path: Path, host: str, port: int, kinds: Kinds, *, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError where the address cannot be used."""
    logging.getLogger("aiohttp.server").addFilter(_of_interest)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        port = listening.getsockname()[1]  # 0 asks for any that is free
        url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        # aiohttp calls `print` once it answers.
        web.run_app(application(path, kinds), sock=listening, print=lambda _: say(url), handle_signals=True)
