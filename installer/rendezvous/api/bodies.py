"""Bodies of requests: read as long as they keep coming, and answers that go out in pieces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from installer.assisted.errors import TooSlow, Undecodable, Unparsable
from installer.common.formats import jsontext
from installer.common.redact import shortened
from installer.rendezvous.resources.requests.params import decoded

# The largest manifest or inventory that makes sense, and little enough to be parsed as JSON in a moment; logs are
# streamed and have a limit of their own.
MAX_BODY = 4 * 1024**2
# In every WINDOW seconds LEAST bytes of a body must come in, or its rest: half a kilobyte a second, a bad modem's rate.
WINDOW, LEAST = 30.0, 16 * 1024
# Answers larger than this go out in pieces of about this size: TLS takes a while for more.
PIECE = 256 * 1024
# Objects that are encoded between two requests; the costliest takes a tenth of a millisecond.
AT_A_TIME = 32

# Of so many digits as Python reads, and no suffix of nothing.
_RANGE = re.compile("bytes=(?:([0-9]{1,99})-([0-9]{0,99})|-0*[1-9][0-9]{0,99})", re.IGNORECASE)

T = TypeVar("T")
Encoded = bytes | msgspec.Raw


def _is_range(text: str) -> bool:
    """Return whether it is one range of bytes, whose end is not before its start (RFC 9110 §14.1.1)."""
    match = _RANGE.fullmatch(text)
    return match is not None and not (match[2] and int(match[2]) < int(match[1]))


class Download(web.FileResponse):
    """A file, or the part of it that is asked for, unless the client has the rest of another file (If-Range).

    aiohttp compares dates only, and takes an entity tag for no condition at all (RFC 9110 §13.1.5). Other ranges than
    one of bytes, which it refuses, and invalid ones get the whole file (§14.2).
    """

    def _is_named(self, tag: str) -> bool:
        try:
            status = self._path.stat()
        except OSError:
            return False
        return tag.strip() == f'"{status.st_mtime_ns:x}-{status.st_size:x}"'

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the head, and begin with the file."""
        tag, wanted = request.headers.get("If-Range"), request.headers.get("Range")
        if tag is not None or wanted is not None:
            named = tag is None or await asyncio.to_thread(self._is_named, tag)
            dropped = {"if-range"} if named and _is_range(wanted or "") else {"if-range", "range"}
            # A text that is no ASCII means nothing here, and may be none that can be copied.
            kept = [(k, v) for k, v in request.headers.items() if k.lower() not in dropped and v.isascii()]
            request = request.clone(headers=kept)
        return await super().prepare(request)


@asynccontextmanager
async def steady(request: web.Request, window: float = WINDOW, least: int = LEAST) -> AsyncIterator[None]:
    """Provide a context to read the request's body in: it must keep coming, in the encoding that its headers name.

    Raises TooSlow, Undecodable.
    """
    loop, content = asyncio.get_running_loop(), request.content
    before, late = content.total_bytes, False
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal before, late, timer
        transport = request.transport
        # Nothing comes in while we do not read: our own slowness is not the sender's.
        ours = transport is not None and not transport.is_reading()
        if content.total_bytes - before < least and not content.is_eof() and not ours:
            late = True
            limit.reschedule(loop.time())
            return
        before = content.total_bytes
        timer = loop.call_later(window, look)

    timer = loop.call_later(window, look)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    except TimeoutError:
        if not late:
            raise
        raise TooSlow(f"less than {least} bytes of the body came in {window:.0f} s") from None
    except web.RequestPayloadError as error:
        # Its end, as far as aiohttp is concerned: it would read on, fail once more and log that as our own fault.
        content.feed_eof()
        raise Undecodable(f"body cannot be decoded: {str(error).splitlines()[-1].strip()}") from None
    finally:
        timer.cancel()


async def json_of(request: web.Request) -> Any:
    """Return the request's JSON value. Raises Unparsable, TooSlow."""
    if request.content_type != "application/json":
        kind = shortened(request.content_type, 80)
        raise Unparsable(f'unsupported media type "{kind}", only [application/json] are allowed')
    async with steady(request):
        text = await request.read()
    try:
        return jsontext.parsed(text)
    except ValueError as error:
        raise Unparsable(f"body is not JSON: {error}") from None


async def body_of(request: web.Request, kind: type[T]) -> T:
    """Return the request's JSON object as a struct of resources/requests/. Raises Unparsable, TooSlow."""
    value = await json_of(request)
    if not isinstance(value, dict):
        raise Unparsable("body must be a JSON object")
    return decoded(value, kind)


async def encoded(items: Sequence[T], encode: Callable[[T], Encoded]) -> list[Encoded]:
    """Each item encoded; other tasks get a turn in between."""
    parts: list[Encoded] = []
    for number, item in enumerate(items):
        if number % AT_A_TIME == AT_A_TIME - 1:
            await asyncio.sleep(0)
        parts.append(encode(item))
    return parts


def listed(items: Sequence[Encoded]) -> list[Encoded]:
    """Return the parts of a JSON list."""
    parts: list[Encoded] = [b"["]
    for number, item in enumerate(items):
        parts += [b",", item] if number else [item]
    return [*parts, b"]"]


def joined(parts: Iterable[Encoded]) -> list[bytes]:
    """Return the parts, put together to pieces of about PIECE bytes."""
    pieces: list[bytes] = []
    some: list[Encoded] = []
    size = 0
    for part in parts:
        some.append(part)
        size += memoryview(part).nbytes
        if size >= PIECE:
            pieces.append(b"".join(some))
            some, size = [], 0
    return [*pieces, b"".join(some)] if some else pieces


async def send(
    request: web.Request, parts: Iterable[Encoded], headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Return a JSON answer made of parts, in pieces when it is large."""
    pieces = joined(parts) or [b""]
    kind = "application/json"
    if len(pieces) == 1:
        return web.Response(body=pieces[0], content_type=kind, headers=headers)
    answer = web.StreamResponse(headers={**(headers or {}), "Content-Type": kind})
    answer.content_length = sum(len(piece) for piece in pieces)
    await answer.prepare(request)
    for piece in pieces:
        await answer.write(piece)
        await asyncio.sleep(0)
    await answer.write_eof()
    return answer
