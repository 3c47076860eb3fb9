"""Steps that ask web servers: Tang's advertisement, and the ignition that a later host would be given."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from installer.agent.errors import StepError

TIMEOUT = 20.0
LARGEST = 8 * 1024**2


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """A redirect would carry the token to somebody else: it counts as a failure."""


def get(url: str, headers: Mapping[str, str] | None = None, ca_pem: str = "") -> bytes:
    """Body of a GET. Raises StepError with one line."""
    if not url.startswith(("http://", "https://")):
        raise StepError(f"{url!r} is not an http or https URL")
    try:
        context = ssl.create_default_context(cadata=ca_pem or None)
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect())
        opener = urllib.request.build_opener(*handlers)
        request = urllib.request.Request(url, headers=dict(headers or {}))
        with opener.open(request, timeout=TIMEOUT) as answer:
            body: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise StepError(f"{url}: HTTP {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise StepError(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if len(body) > LARGEST:
        raise StepError(f"{url}: the answer is larger than {LARGEST} bytes")
    return body


def tang(args: dict[str, Any]) -> str:
    """Is each Tang server's signed advertisement to be had, with the thumbprint's key among its signatures?"""
    servers = args.get("tang_servers")
    servers = json.loads(servers) if isinstance(servers, str) else servers
    answers = []
    for server in servers or []:
        url = str(server["url"]).rstrip("/") + "/adv/" + str(server.get("thumbprint") or "")
        found: dict[str, Any] = {"tang_url": server["url"], "payload": "", "signatures": []}
        try:
            document = json.loads(get(url))
            found["payload"] = str(document["payload"])
            found["signatures"] = [
                {"protected": str(item["protected"]), "signature": str(item["signature"])}
                for item in document.get("signatures") or [document]
            ]
        except (StepError, ValueError, KeyError, TypeError) as error:
            found["error"] = str(error)
        answers.append(found)
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
