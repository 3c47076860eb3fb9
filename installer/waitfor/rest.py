"""The rendezvous service's REST API as wait-for uses it (reference/installer.md §5.1), over verified TLS."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import requests

from installer.errors import RestError
from installer.secretfiles import MemoryFile
from installer.waitfor.errors import ServiceUntrusted, innermost

BASE = "/api/assisted-install/v2"
LOGS_LIMIT = 2 * 1024**3
Json = dict[str, Any]


def base_url(address: str, port: int) -> str:
    """https://ADDRESS:PORT/api/assisted-install/v2, IPv6 in brackets."""
    host = f"[{address}]" if ip_address(address).version == 6 else address
    return f"https://{host}:{port}{BASE}"


class RestClient:
    """Every call raises RestError; its status is 0 when no answer came. Times in seconds."""

    def __init__(self, url: str, ca_pem: str, token: str, *, connect_timeout: float, read_timeout: float) -> None:
        self.url = url
        self._timeout = (connect_timeout, read_timeout)
        self._session = requests.Session()
        # Proxies, .netrc and REQUESTS_CA_BUNDLE of the environment have no say here: the address is a host of the
        # machine network, and exactly one CA is trusted.
        self._session.trust_env = False
        self._session.headers["Watcher-Authorization"] = token
        # (ETag, answer) by path: a state that has not changed is neither sent nor read again.
        self._seen: dict[str, tuple[str, Any]] = {}
        self._ca = MemoryFile("service-ca.pem", ca_pem.encode())

    def close(self) -> None:
        """Drops connections and the CA."""
        self._session.close()
        self._ca.close()

    def _get(
        self, path: str, params: Mapping[str, str] | None = None, *, stream: bool = False, etag: str = ""
    ) -> requests.Response:
        try:
            answer = self._session.get(
                self.url + path,
                params=params,
                headers={"If-None-Match": etag} if etag else None,
                timeout=self._timeout,
                verify=self._ca.path,
                stream=stream,
                allow_redirects=False,
            )
        except requests.exceptions.SSLError as error:
            raise ServiceUntrusted(f"TLS with {self.url} failed: {innermost(error)}") from error
        except requests.exceptions.RequestException as error:
            raise RestError(f"{self.url} does not answer: {innermost(error)}") from error
        if answer.status_code != 200 and not (etag and answer.status_code == 304):
            with answer:
                raise RestError(f"GET {path}: {answer.status_code} {_reason(answer)}", answer.status_code)
        return answer

    def _json(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        known = None if params else self._seen.get(path)
        answer = self._get(path, params, etag=known[0] if known else "")
        if known and answer.status_code == 304:
            return known[1]
        try:
            value = answer.json()
        except ValueError as error:
            raise RestError(f"GET {path}: the answer is not JSON", answer.status_code) from error
        if not params and answer.headers.get("ETag"):
            self._seen[path] = (answer.headers["ETag"], value)
        return value

    def _list(self, path: str, params: Mapping[str, str] | None = None) -> list[Json]:
        items = self._json(path, params)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise RestError(f"GET {path}: the answer is not a list of objects", 200)
        return items

    def infra_envs(self) -> list[Json]:
        """All infra-envs."""
        return self._list("/infra-envs")

    def clusters(self) -> list[Json]:
        """All clusters."""
        return self._list("/clusters")

    def cluster(self, cluster_id: str) -> Json:
        """One cluster with its validations."""
        found = self._json(f"/clusters/{cluster_id}")
        if not isinstance(found, dict):
            raise RestError(f"GET /clusters/{cluster_id}: the answer is not an object", 200)
        return found

    def hosts(self, infra_env_id: str) -> list[Json]:
        """Hosts that registered with the infra-env."""
        return self._list(f"/infra-envs/{infra_env_id}/hosts")

    def events(self, infra_env_id: str, offset: int = 0) -> list[Json]:
        """Events of the infra-env after the first ``offset``, the oldest first; also the probe for life."""
        query = {"infra_env_id": infra_env_id, "order": "ascending"}
        return self._list("/events", query | ({"offset": str(offset)} if offset else {}))

    def download_logs(self, cluster_id: str, target: Path) -> int:
        """Streams the cluster's log archive (tar.gz) to ``target``; gives its size in bytes."""
        path = f"/clusters/{cluster_id}/logs"
        size = 0
        with self._get(path, stream=True) as answer, target.open("wb") as file:
            try:
                for chunk in answer.iter_content(1024 * 1024):
                    size += len(chunk)
                    if size > LOGS_LIMIT:
                        raise RestError(f"GET {path}: more than {LOGS_LIMIT} bytes", 200)
                    file.write(chunk)
            except requests.exceptions.RequestException as error:
                raise RestError(f"GET {path}: broke off after {size} bytes: {innermost(error)}") from error
        return size


def _reason(answer: requests.Response) -> str:
    try:
        body = answer.json()
    except (ValueError, requests.exceptions.RequestException):
        return answer.reason or ""
    if isinstance(body, dict):
        return str(body.get("reason") or body.get("message") or answer.reason or "")
    return answer.reason or ""
