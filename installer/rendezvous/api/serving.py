"""Serves the application until told to stop: sockets, TLS, signals, the loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import warnings
from asyncio import sslproto
from collections.abc import Callable
from typing import Any

from aiohttp import (
    BadContentDispositionHeader,
    BadContentDispositionParam,
    StreamReader,
    web,
    web_fileresponse,
    web_protocol,
)
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError

from installer.assisted.errors import ConfigurationError
from installer.rendezvous.api.app import build
from installer.rendezvous.api.context import Service
from installer.rendezvous.eventloop.gate import Gate, Limits, by_files
from installer.rendezvous.eventloop.lag import Selector, freeze_survivors

TLS_BUFFER = 32 * 1024
# How long (s) a request under way may take to end when the service stops.
SHUTDOWN_SECONDS = 60.0
log = logging.getLogger("assisted-service")


def _is_no_bad_http(record: logging.LogRecord) -> bool:
    """Keep callers from filling the log with what is no HTTP."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


class Parser(HttpRequestParser):
    """aiohttp's parser, but the reader of a body that breaks off hears of it at once: aiohttp lets it wait."""

    # The body of the last request whose head was complete; empty ones are all the same, and have ended.
    body: StreamReader | None = None

    def feed_data(self, data: bytes, *options: Any) -> Any:
        """Parse the next bytes. Raises HttpProcessingError for anything but HTTP, which ends an open body so too."""
        try:
            messages, upgraded, tail = super().feed_data(data, *options)
        except HttpProcessingError as error:
            if self.body is not None and not self.body.is_eof():
                self.body.set_exception(web.RequestPayloadError(error.message.partition("\n")[0].rstrip(":")))
                # Its reader did not want it and does not wait for its end either.
                self.body.feed_eof()
            raise
        if messages:
            self.body = messages[-1][1]
        return messages, upgraded, tail


def prepare() -> None:
    """Set up the libraries for many connections of unknown callers."""
    # Each TLS connection has a read buffer of this size. CPython's 256 KiB would be most of what a host costs; a record
    # of TLS has at most 16 KiB.
    sslproto.SSLProtocol.max_size = TLS_BUFFER
    # sendfile() takes a connection away from its protocol, which then does not see that nobody reads. With TLS it saves
    # nothing.
    setattr(web_fileresponse, "NOSENDFILE", True)  # noqa: B010 (a constant to the type checker)
    # aiohttp has no setting for the parser of requests, either.
    setattr(web_protocol, "HttpRequestParser", Parser)  # noqa: B010
    # A part of a form that has no name is refused as such, whatever hides its name.
    for malformed in (BadContentDispositionHeader, BadContentDispositionParam):
        warnings.simplefilter("ignore", malformed)
    quiet = logging.getLogger("aiohttp.server")
    if _is_no_bad_http not in quiet.filters:
        quiet.addFilter(_is_no_bad_http)


async def opened(
    service: Service, host: str, port: int, context: ssl.SSLContext | None, *, limits: Limits | None = None
) -> web.AppRunner:
    """Return the service, listening; its gate is ``service.gate``. Raises OSError when it cannot listen."""
    prepare()
    limits = limits or by_files()
    runner = web.AppRunner(
        build(service),
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        keepalive_timeout=limits.idle,
        lingering_time=limits.farewell,
        # No body is decompressed before a handler asks for it: a small one may expand to a large one.
        auto_decompress=False,
    )
    await runner.setup()
    assert runner.server is not None
    gate = service.gate = Gate(runner.server, context, limits, service.settings.base_url)
    try:
        gate.listen(host, port)
    except OSError:
        await runner.cleanup()
        raise
    return runner


async def _serve(service: Service, context: ssl.SSLContext | None, started: Callable[[], None]) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = service.settings
    try:
        runner = await opened(service, config.listen_host, config.port, context)
    except OSError as error:
        text = f"{config.listen_host}:{config.port} cannot be listened on: {error.strerror or error}"
        raise ConfigurationError("LISTEN_HOST, LISTEN_PORT (--listen)", text) from None
    tidying = asyncio.create_task(freeze_survivors())
    log.info("listening on port %d%s", config.port, " (TLS)" if context else "")
    started()
    await stop.wait()
    tidying.cancel()
    assert service.gate is not None
    await service.gate.close()
    await runner.cleanup()


def run(service: Service, context: ssl.SSLContext | None, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; ``started`` is called as soon as it listens. Raises ConfigurationError."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Selector(service.lag))) as runner:
        runner.run(_serve(service, context, started))
