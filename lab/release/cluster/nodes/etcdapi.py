"""etcd's cluster API, spoken as JSON through its gRPC gateway (etcd 3.4, /v3/cluster)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import requests

from lab.release.cluster.errors import EtcdError

SECONDS = 30.0
HEALTH_SECONDS = 5.0


@dataclass(frozen=True)
class Member:
    """One member; ``name`` is empty until it has been started."""

    id: str
    name: str
    peer_urls: tuple[str, ...]
    learner: bool

    @property
    def votes(self) -> bool:
        """Started, and not a learner."""
        return bool(self.name) and not self.learner

    @property
    def client_urls(self) -> tuple[str, ...]:
        """URLs for clients: in a cluster's members always at port 2379 of the peers' addresses."""
        return tuple(url.replace(":2380", ":2379") for url in self.peer_urls)


class Etcd:
    """A client of the first of ``endpoints`` (https://host:port) that answers."""

    def __init__(self, endpoints: Sequence[str], ca_file: str, cert: tuple[str, str]) -> None:
        self.endpoints = tuple(endpoints)
        # Kept, so that not every look is a handshake.
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify, self._session.cert = ca_file, cert

    def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        seen = "no endpoint is known"
        for endpoint in self.endpoints:
            try:
                answer = self._session.post(f"{endpoint}/v3/{path}", json=body, timeout=SECONDS, allow_redirects=False)
                content = answer.json()
            except (requests.RequestException, ValueError, OSError) as error:
                seen = f"{endpoint}: {error}"
                continue
            if answer.status_code == 200 and isinstance(content, dict):
                return content
            seen = f"{endpoint}: {answer.status_code} {str(content.get('error', content))[:200]}"
            if "not supported" not in seen:  # what only a learner refuses, the next endpoint may do
                break
        raise EtcdError(path, seen)

    def members(self) -> list[Member]:
        """All members. Raises EtcdError."""
        listed = self._call("cluster/member/list", {}).get("members") or []
        return [
            Member(str(m["ID"]), m.get("name", ""), tuple(m.get("peerURLs") or ()), bool(m.get("isLearner")))
            for m in listed
        ]

    def add_learner(self, peer_url: str) -> None:
        """Add a member that does not vote: until it runs, it cannot cost the others their quorum. Raises EtcdError."""
        self._call("cluster/member/add", {"peerURLs": [peer_url], "isLearner": True})

    def promote(self, member: Member) -> None:
        """Make a learner vote. Raises EtcdError while it is behind the leader."""
        self._call("cluster/member/promote", {"ID": member.id})

    def lead(self, member: Member) -> None:
        """Let a member lead, if the endpoint that is asked leads now. Raises EtcdError."""
        try:
            self._call("maintenance/transfer-leadership", {"targetID": member.id})
        except EtcdError as error:
            if "not leader" not in error.seen:
                raise

    def answers(self, member: Member) -> bool:
        """Return whether a member says within HEALTH_SECONDS that it is healthy."""
        for url in member.client_urls:
            try:
                answer = self._session.get(f"{url}/health", timeout=HEALTH_SECONDS, allow_redirects=False)
                return answer.status_code == 200 and answer.json().get("health") == "true"
            except (requests.RequestException, ValueError, OSError):
                continue
        return False

    def remove(self, member: Member) -> None:
        """Take a member out. Raises EtcdError."""
        self._call("cluster/member/remove", {"ID": member.id})
