"""Steps that ask web servers: Tang's advertisement, and the ignition that a later host would be given."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from installer.agent.errors import StepError
from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import BadAnswer, ClientError
from installer.assisted.steparguments import ApiVipRequest, TangRequest, TangServer
from installer.assisted.transport import Request, Transport
from installer.common.formats import jsontext

TIMEOUTS = Timeouts(connect=20.0, silence=20.0, request=120.0)
LARGEST = 8 * 1024**2


def get(url: str, headers: Mapping[str, str] | None = None, ca_pem: str = "") -> bytes:
    """Body of a GET. Raises StepError with one line."""
    if not url.startswith(("http://", "https://")):
        raise StepError(f"{url!r} is not an http or https URL")
    try:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        request = Request("GET", target, url, headers or {}, seconds=TIMEOUTS.request)
        transport = Transport(endpoint(url, ca_pem=ca_pem), TIMEOUTS)
        try:
            return transport.exchange(request, lambda answer: answer.body(LARGEST))
        finally:
            transport.close()
    except ClientError as error:
        if error.status is None or isinstance(error, BadAnswer):
            raise StepError(f"{url}: {error.reason}") from None
        phrase = HTTPStatus(error.status).phrase if error.status in list(HTTPStatus) else ""
        raise StepError(f"{url}: HTTP {error.status} {phrase}".rstrip()) from None
    except ValueError as error:
        raise StepError(f"{url}: {error}") from None


class Signature(msgspec.Struct, frozen=True):
    """The signature by one key, as a JWS has it (RFC 7515 §7.2)."""

    protected: str
    signature: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Advertisement(msgspec.Struct, frozen=True):
    """Keys of a Tang server, signed: a JWS, flattened when it has one signature (RFC 7515 §7.2.2)."""

    payload: str
    signatures: list[Signature] | None = None


def _advertisement(url: str) -> tuple[str, list[Signature]]:
    """Payload and signatures of what a Tang server answers. Raises StepError."""
    body = get(url)
    try:
        answer = jsontext.typed(body, Advertisement)
        return answer.payload, answer.signatures or [jsontext.typed(body, Signature)]
    except msgspec.ValidationError as error:
        raise StepError(f"{url}: {jsontext.in_words(error, 'the answer')}") from None
    except msgspec.DecodeError as error:
        raise StepError(f"{url}: the answer is not JSON: {error}") from None


def _servers(request: TangRequest) -> list[TangServer]:
    """Return the servers that the request names. Raises StepError."""
    servers = request.tang_servers
    if not isinstance(servers, str):
        return servers or []
    try:
        return jsontext.typed(servers, list[TangServer]) if servers else []
    except msgspec.ValidationError as error:
        raise StepError(f"tang_servers: {jsontext.in_words(error, 'it')}") from None
    except msgspec.DecodeError as error:
        raise StepError(f"tang_servers is not JSON: {error}") from None


def tang(request: TangRequest) -> str:
    """Check that each Tang server gives a signed advertisement, with the thumbprint's key among its signatures."""
    answers = []
    for server in _servers(request):
        verdict: dict[str, Any] = {"tang_url": server.url, "payload": "", "signatures": []}
        try:
            payload, signatures = _advertisement(f"{server.url.rstrip('/')}/adv/{server.thumbprint or ''}")
            verdict |= {"payload": payload, "signatures": msgspec.to_builtins(signatures)}
        except StepError as error:
            verdict["error"] = error.reason
        answers.append(verdict)
    good = bool(answers) and all(item["payload"] and item["signatures"] for item in answers)
    return json.dumps({"is_success": good, "tang_server_response": answers})


def _certificate(text: str | None) -> str:
    """Return the PEM of a certificate in base64. Raises StepError."""
    try:
        return base64.b64decode(text or "").decode()
    except ValueError as error:
        raise StepError(f"ca_certificate is not PEM in base64: {error}") from None


def ignition(request: ApiVipRequest) -> str:
    """Check that the Ignition config of a host that joins later can be fetched, and that it is one."""
    url = request.url or ""
    headers = {item.key: item.value for item in request.request_headers or []}
    if request.ignition_endpoint_token:
        headers["Authorization"] = f"Bearer {request.ignition_endpoint_token}"
    answer: dict[str, Any] = {"url": url, "is_success": False}
    try:
        answer |= {"ignition": _ignition(url, headers, _certificate(request.ca_certificate)), "is_success": True}
    except StepError as error:
        answer["download_error"] = error.reason
    return json.dumps(answer)


def _ignition(url: str, headers: Mapping[str, str], ca_pem: str) -> str:
    """Return the Ignition config at ``url``. Raises StepError."""
    try:
        text = get(url, headers, ca_pem).decode()
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or "ignition" not in config:
        raise StepError(f"{url}: the answer is not an Ignition config")
    return text
