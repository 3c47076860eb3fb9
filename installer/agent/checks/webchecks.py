"""Steps that ask web servers: Tang's advertisement, and the ignition that a later host would be given."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from installer.agent.errors import StepError
from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import BadAnswer, ClientError
from installer.assisted.transport import Request, Transport

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


def tang(args: dict[str, Any]) -> str:
    """Is each Tang server's signed advertisement to be had, with the thumbprint's key among its signatures?"""
    servers = args.get("tang_servers")
    servers = json.loads(servers) if isinstance(servers, str) else servers
    answers = []
    for server in servers or []:
        url = str(server["url"]).rstrip("/") + "/adv/" + str(server.get("thumbprint") or "")
        verdict: dict[str, Any] = {"tang_url": server["url"], "payload": "", "signatures": []}
        try:
            document = json.loads(get(url))
            verdict["payload"] = str(document["payload"])
            verdict["signatures"] = [
                {"protected": str(item["protected"]), "signature": str(item["signature"])}
                for item in document.get("signatures") or [document]
            ]
        except (StepError, ValueError, KeyError, TypeError) as error:
            verdict["error"] = str(error)
        answers.append(verdict)
    good = bool(answers) and all(item["payload"] and item["signatures"] for item in answers)
    return json.dumps({"is_success": good, "tang_server_response": answers})


def ignition(args: dict[str, Any]) -> str:
    """Can the ignition of a host that joins later be fetched, and is it one?"""
    url = str(args.get("url") or "")
    headers = {str(item["key"]): str(item["value"]) for item in args.get("request_headers") or []}
    if args.get("ignition_endpoint_token"):
        headers["Authorization"] = f"Bearer {args['ignition_endpoint_token']}"
    certificate = str(args.get("ca_certificate") or "")
    answer: dict[str, Any] = {"url": url, "is_success": False}
    try:
        pem = base64.b64decode(certificate).decode() if certificate else ""
        body = get(url, headers, pem)
        document = json.loads(body)
        if "ignition" not in document:
            raise StepError(f"{url}: the answer is not an Ignition config")
        answer |= {"is_success": True, "ignition": body.decode()}
    except (StepError, ValueError, TypeError) as error:
        answer["download_error"] = str(error)
    return json.dumps(answer)
