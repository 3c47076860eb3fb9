"""Bodies of requests, answers in Redfish's form, and the emulator asked as a client would (DSP0266, "Error
responses")."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast
from urllib.parse import quote

from werkzeug.exceptions import HTTPException
from werkzeug.test import Client
from werkzeug.wrappers import Request, Response

from lab.errors import LabError

__all__ = [
    "Inner", "Refusal", "Reply", "Request", "Response", "document", "no_content", "read_body", "received", "refusal",
    "shown_body",
]  # fmt: skip

_JSON = "application/json"
#: Bytes of a body, and how deep its JSON goes: more is refused. Of larger ones than the last only the size is shown.
_LARGEST, _DEEPEST, _SHOWN = 1 << 20, 64, 16 << 10
_BODY = "node0.body"


class Refusal(LabError):
    """The early end of a request, with its answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@dataclass(frozen=True)
class Reply:
    """The emulator's answer; `body` is decoded JSON, or None when there was none."""

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
        """Make one request."""
        # A request's path comes decoded.
        answer = self._client.open(quote(path), method=method, json=body)
        text = answer.get_data(as_text=True)
        try:
            content = json.loads(text) if text else None
        except ValueError:
            content = None
        return Reply(answer.status_code, content, text, answer.headers.get("Location", ""))


def received(environ: Mapping[str, Any]) -> Request:
    """Return the request; HEAD is GET, of whose answer the server sends no body (RFC 9110 §9.3.2)."""
    method = environ["REQUEST_METHOD"]
    return Request({**environ, "REQUEST_METHOD": "GET" if method == "HEAD" else method})


def read_body(environ: dict[str, Any]) -> None:
    """Read a request's body, and leave it there for who answers. Nobody's is read who has not logged in. Raises Refusal
    (400, 413)."""
    request = Request(environ)
    try:
        # Chunks do not say how much there is.
        body = io.BufferedReader(cast(io.RawIOBase, request.stream)).read(_LARGEST + 1)
    except HTTPException as failure:
        message = failure.description or failure.name
        raise refusal(failure.code or 400, "Base.1.8.GeneralError", message) from failure
    except (ConnectionError, TimeoutError):
        raise
    except OSError as failure:
        raise refusal(400, "Base.1.8.GeneralError", f"The request body cannot be read: {failure}") from failure
    if len(body) > _LARGEST:
        raise refusal(413, "Base.1.8.GeneralError", f"The request body is longer than {_LARGEST} bytes.")
    depths = accumulate((byte in b"[{") - (byte in b"]}") for byte in body if byte in b"[]{}")
    if max(depths, default=0) > _DEEPEST:
        raise refusal(400, "Base.1.8.MalformedJSON", "The request body submitted was nested too deeply.")
    environ.pop("wsgi.input_terminated", None)
    environ |= {_BODY: body, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}


def shown_body(request: Request) -> Any:
    """Return the JSON that a request brought; None when there is none, or nobody has read it."""
    body: bytes = request.environ.get(_BODY, b"")
    if len(body) > _SHOWN:
        return f"{len(body)} bytes"
    try:
        return json.loads(body)
    except ValueError:
        return None


def document(body: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """Return a resource; names of headers with _ for -."""
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(body), status, {"OData-Version": "4.0", **own}, content_type=_JSON)


def no_content() -> Response:
    """Return an answer without a body (204)."""
    return Response("", 204, {"OData-Version": "4.0"})


def refusal(status: int, code: str, message: str, *related: str, headers: Mapping[str, str] | None = None) -> Refusal:
    """Return an error with its message's id (`Base.1.8.PropertyMissing`), its text and the properties that it is
    about."""
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
