"""Requests as they are taken apart, byte by byte: whoever reads a body is told when there is no more of it to come."""

from __future__ import annotations

from typing import Any

from aiohttp import StreamReader, web
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError


class Parser(HttpRequestParser):
    """aiohttp's, which keeps to itself that a body breaks off: its reader would wait until it is too late for more."""

    # Of the last request whose head was complete; empty ones are all the same, and have ended.
    body: StreamReader | None = None

    def feed_data(self, data: bytes, *options: Any) -> Any:
        """The next bytes. Raises HttpProcessingError where they are no HTTP; a body that they belong to ends so too."""
        try:
            messages, upgraded, tail = super().feed_data(data, *options)
        except HttpProcessingError as error:
            if self.body is not None and not self.body.is_eof():
                self.body.set_exception(web.RequestPayloadError(error.message.partition("\n")[0].rstrip(":")))
                # Nobody waits for its end either, to whom it was not worth reading.
                self.body.feed_eof()
            raise
        if messages:
            self.body = messages[-1][1]
        return messages, upgraded, tail
