"""Requests as they are taken apart, byte by byte: whoever reads a body is told when there is no more of it to come."""

from __future__ import annotations

from typing import Any

from aiohttp import StreamReader, web
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError


class Parser(HttpRequestParser):
    """aiohttp's parser, but the reader of a body that breaks off is told at once: aiohttp lets it wait."""

    # The body of the last request whose head was complete; empty ones are all the same, and have ended.
    body: StreamReader | None = None

    def feed_data(self, data: bytes, *options: Any) -> Any:
        """The next bytes. Raises HttpProcessingError where they are no HTTP; a body that they belong to ends so too."""
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
