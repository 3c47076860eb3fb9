"""One of the services, as its clients see it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from installer.testing.service.rendezvous_kit import running
from installer.testing.service.words_kit import HEADERS, Scheme

ANY_VERSION = "4.20"
BASE = "/api/assisted-install/v2"
_OBJECTS = re.compile(r"/clusters|/infra-envs(/[^/]+/hosts)?")
# node0's service slows callers without a valid token down, and says for how long.
_BRAKED = urllib3.Retry(total=100, connect=3, read=3, status_forcelist=[429], allowed_methods=None)


@dataclass
class Api:
    """A service. `tokens`: those of users and agents, none where it asks for none."""

    name: str
    url: str
    tokens: Mapping[Scheme, str] = field(repr=False)
    ca: Path | None = None
    _: KW_ONLY
    _made: dict[str, None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        ca = str(self.ca) if self.ca else None
        self._pool = urllib3.PoolManager(maxsize=8, ca_certs=ca, retries=_BRAKED, timeout=120)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        scheme: Scheme | None = Scheme.USER,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status code and decoded body of one request; bytes are sent as they are, without a scheme goes no token."""
        token = {HEADERS[scheme]: self.tokens[scheme]} if scheme and scheme in self.tokens else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        url = self.url.rstrip("/") + BASE + path
        answer = self._pool.request(method, url, body=data, headers={**kind, **token, **(headers or {})})
        decoded: Any
        try:
            decoded = json.loads(answer.data) if answer.data else None
        except ValueError:
            decoded = answer.data.decode(errors="replace")
        if method == "POST" and answer.status == 201 and _OBJECTS.fullmatch(path):
            self._made[f"{path}/{decoded['id']}"] = None
        return answer.status, decoded

    def version(self) -> str:
        """Return the release that it installs by default; one that lists none takes any. SystemExit without an
        answer."""
        try:
            code, versions = self.ask("GET", "/openshift-versions")
        except urllib3.exceptions.HTTPError as error:
            raise SystemExit(f"{self.url}: {error}") from None
        if code != 200:
            raise SystemExit(f"{self.url}: GET openshift-versions: {code} {versions}")
        return max(versions, key=lambda name: bool(versions[name].get("default")), default=ANY_VERSION)

    def agent_image(self) -> str:
        """Return the image of the agent that hosts are to have."""
        return str((self.ask("GET", "/component-versions")[1].get("versions") or {}).get("discovery-agent", ""))

    def remove_made(self) -> None:
        """Remove the clusters, infra-envs and hosts that were registered here, the last first."""
        for path in reversed(self._made):
            self.ask("DELETE", path)
        self._made.clear()


@contextmanager
def services(theirs: Api, directory: Path) -> Iterator[tuple[Api, Api]]:
    """Provide a running service, and node0's of the same release and agent; what was registered there is removed."""
    version = theirs.version()
    release = {"url": f"registry.test.node0.example/release@sha256:{'0' * 64}", "version": version}
    settings = {"RELEASE_IMAGES": json.dumps([release]), "AGENT_DOCKER_IMAGE": theirs.agent_image()}
    with running(directory, **settings, HW_VALIDATOR_REQUIREMENTS="", HOST_DISCONNECTION_TIMEOUT="3h") as service:
        tokens = {scheme: service.keys.token(scheme) for scheme in (Scheme.USER, Scheme.AGENT)}
        try:
            yield theirs, Api("node0", service.url, tokens, service.ca)
        finally:
            theirs.remove_made()
