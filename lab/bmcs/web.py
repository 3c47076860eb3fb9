"""Answers in Redfish's form, and the emulator asked as a client would (DSP0266, "Error responses")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from werkzeug.test import Client
from werkzeug.wrappers import Request, Response

from lab.bmcs.errors import Refusal

__all__ = ["Inner", "Reply", "Request", "Response", "document", "no_content", "received", "refusal"]

_JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """What the emulator answered; `body` is decoded JSON, or None when there was none."""

    status: int
    body: Any = field(repr=False)  # what a client has set may be in it, and in the text
    text: str = field(repr=False)
    location: str = ""


class Inner:
    """The emulator, without its authentication."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self._client = Client(application, Response)

    def ask(self, method: str, path: str, body: object = None) -> Reply:
        """One request."""
        # A request's path comes decoded.
        answer = self._client.open(quote(path), method=method, json=body)
        text = answer.get_data(as_text=True)
        try:
            content = json.loads(text) if text else None
        except ValueError:
            content = None
        return Reply(answer.status_code, content, text, answer.headers.get("Location", ""))


def received(environ: Mapping[str, Any]) -> Request:
    """The request; HEAD is GET, of whose answer the server sends no body (RFC 9110 §9.3.2)."""
    method = environ["REQUEST_METHOD"]
    return Request({**environ, "REQUEST_METHOD": "GET" if method == "HEAD" else method})


def document(body: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """A resource; names of headers with _ for -."""
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(body), status, {"OData-Version": "4.0", **own}, content_type=_JSON)


def no_content() -> Response:
    """An answer without a body (204)."""
    return Response("", 204, {"OData-Version": "4.0"})


def refusal(status: int, code: str, message: str, *related: str, headers: Mapping[str, str] | None = None) -> Refusal:
    """An error with its message's id (`Base.1.8.PropertyMissing`), its text and the properties that it is about."""
    info = {
        "@odata.type": "#Message.v1_1_1.Message",
        "MessageId": code,
        "Message": message,
        "MessageArgs": list(related),
        "RelatedProperties": [f"#/{name}" for name in related],
        "Severity": "Critical",
        "Resolution": "None.",
    }
    body = {"error": {"code": code, "message": message, "@Message.ExtendedInfo": [info]}}
    response = document(body, status)
    response.headers.update(dict(headers or {}))
    return Refusal(response)
