"""A server of boot images to BMCs, by HTTP and HTTPS, for as long as a command runs."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import SOCK_DGRAM, getaddrinfo, socket
from urllib.parse import urlsplit

from aiohttp import web

from installer.common.certificates import SERVER, authority, leaf
from installer.errors import ConfigError

_END_SECONDS = 2.0


def address_towards(url: str) -> str:
    """Return this machine's address on the route to a URL's host. Raises ConfigError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        # A datagram socket that is connected sends nothing.
        family, kind, _, _, place = getaddrinfo(host, parts.port or 443, type=SOCK_DGRAM)[0]
        with socket(family, kind) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(f"BMC {url}: there is no route to it from here: {error.strerror or error}") from error


def urls_for(bmc: str, path: str, ports: tuple[int, int]) -> tuple[str, str]:
    """Return an image's URLs for a BMC, HTTPS first: the image has secrets. `ports`: of HTTP, of HTTPS."""
    address = address_towards(bmc)
    host = f"[{address}]" if ":" in address else address
    return f"https://{host}:{ports[1]}{path}", f"http://{host}:{ports[0]}{path}"


@contextmanager
def serving(images: Mapping[str, Path], addresses: list[str], ports: tuple[int, int]) -> Iterator[None]:
    """Serve files by these paths on addresses of this machine, whole or in parts, for the block. Raises ConfigError."""
    started: list[BaseException | None] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        application = web.Application()
        for path, file in images.items():
            application.router.add_get(path, _sender(file))
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_END_SECONDS)
        await runner.setup()
        try:
            for address in addresses:
                await _listen(runner, address, ports)
            started.append(None)
            ready.set()
            await end.wait()
        finally:
            await runner.cleanup()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except (OSError, ConfigError) as error:
            started.append(error)
            ready.set()
        finally:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    if error := started[0]:
        thread.join()
        raise error
    try:
        yield
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def _sender(file: Path) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def send(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(file, headers={"Content-Type": "application/octet-stream"})

    return send


async def _listen(runner: web.AppRunner, address: str, ports: tuple[int, int]) -> None:
    for port, context, option in ((ports[0], None, "--http-port"), (ports[1], _context(address), "--https-port")):
        try:
            await web.TCPSite(runner, address, port, ssl_context=context).start()
        except OSError as error:
            raise ConfigError(f"{option} {port}: cannot listen at {address}: {error.strerror or error}") from error


def _context(address: str) -> ssl.SSLContext:
    """Make a certificate for this run: BMCs that verify whom they fetch from refuse it, and get the image by HTTP."""
    pair = leaf(authority("node0 image server"), "node0 image server", names=[address], usages=SERVER)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
