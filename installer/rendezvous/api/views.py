"""Clusters, hosts and events as the API shows them: JSON that is made once for each state of an object."""

from __future__ import annotations

import re
import secrets
from typing import Any

import msgspec
from aiohttp import web

from installer.assisted.auth import Scheme
from installer.assisted.enums import HostStatus, Role
from installer.common.redact import redact, without_login
from installer.rendezvous.api import fields
from installer.rendezvous.api.bodies import Encoded, encoded, listed
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.store.model import Cluster, Host

REMEMBERED = 4096
#: Who asks: the scheme of the token that a request was let in by.
CALLER: web.RequestKey[Scheme] = web.RequestKey("caller", Scheme)
# For the user alone: URLs that are a right in themselves, and the user's own texts in which secrets may stand.
WITHHELD = frozenset(
    {
        *("download_url", "expires_at", "install_config_overrides", "static_network_config", "kernel_arguments"),
        *("ignition_config_override", "ignition_config_overrides", "installer_args"),
    }
)
# One entity tag of a list; whether it is weak does not count here.
TAG = re.compile(r'"[^"\x00-\x20\x7f]*"')


def encode(value: Any) -> bytes:
    """Return the value as JSON; parts that are encoded already are given as msgspec.Raw."""
    return msgspec.json.encode(value)


def is_user(request: web.Request) -> bool:
    """Return whether the caller may read all that the API shows."""
    return request.get(CALLER) is Scheme.USER


def without_secrets(data: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster, host or infra-env as watchers and agents see it: without WITHHELD, and without logins of
    proxies."""
    seen = {key: value for key, value in data.items() if key not in WITHHELD}
    for key in ("proxy", "disk_encryption"):
        if isinstance(seen.get(key), dict):
            seen[key] = without_secrets(seen[key])
    if "tang_servers" in seen:
        seen["tang_servers"] = redact(seen["tang_servers"])
    return seen | {key: without_login(seen[key]) for key in ("http_proxy", "https_proxy") if key in seen}


def attachment(content: bytes, name: str) -> web.Response:
    """Return a file under the name that it is to be kept by."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


def reply(value: Any, status: int = 200) -> web.Response:
    """Return a JSON answer."""
    return web.Response(body=encode(value), status=status, content_type="application/json")


class Views:
    """Encoded hosts, by (infra-env, id, whether for the user): made again when the host is another than last time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: Part of every ETag: versions start anew with the store.
        self.boot = secrets.token_hex(4)
        self._hosts: dict[tuple[str, str, bool], tuple[Host, Cluster | None, msgspec.Raw]] = {}

    def host_map(self, host: Host) -> dict[str, Any]:
        """Return a host with its stages."""
        data = fields.host(host)
        if host.cluster_id:
            data["progress_stages"] = list(self._engine.stages(host, self._engine.store.cluster(host.cluster_id)))
        return data

    def host(self, host: Host, full: bool = True) -> msgspec.Raw:
        """Return a host with its stages, encoded; made once for each state of it. `full`: for the user."""
        key = (host.infra_env_id, host.id, full)
        cluster = self._engine.store.cluster(host.cluster_id) if host.cluster_id else None
        cached = self._hosts.get(key)
        if cached is not None and cached[0] is host and cached[1] is cluster:
            return cached[2]
        if len(self._hosts) >= REMEMBERED:
            self._hosts.clear()
        data = self.host_map(host)
        raw = msgspec.Raw(encode(data if full else without_secrets(data)))
        self._hosts[key] = (host, cluster, raw)
        return raw

    def cluster(self, cluster: Cluster, with_hosts: bool = True) -> dict[str, Any]:
        """Return a cluster with counts and, if asked for, its hosts. Those of a big one take long: see ``parts``."""
        data = fields.cluster(cluster)
        hosts = self._engine.store.hosts(cluster_id=cluster.id)
        counts = {
            "total_host_count": len(hosts),
            "enabled_host_count": sum(1 for host in hosts if host.status is not HostStatus.DISABLED),
            "ready_host_count": sum(1 for host in hosts if host.status is HostStatus.KNOWN),
        }
        data |= fields.present(counts)
        data["schedulable_masters_forced_true"] = sum(1 for host in hosts if host.effective_role is Role.WORKER) < 2
        data["hosts"] = [self.host(host) for host in hosts] if with_hosts else []
        return data

    async def parts(self, cluster: Cluster, with_hosts: bool = True, *, full: bool) -> list[Encoded]:
        """Return a cluster as ``cluster`` has it, as JSON in parts; others have their turn while it is made.

        `full`: for the user.
        """
        hosts = self._engine.store.hosts(cluster_id=cluster.id) if with_hosts else []
        data = self.cluster(cluster, False)
        del data["hosts"]
        start = encode(data if full else without_secrets(data))[:-1]
        return [start, b',"hosts":', *listed(await encoded(hosts, lambda host: self.host(host, full))), b"}"]

    def etag(self, cluster_id: str | None) -> str:
        """Names the state of a cluster and all that belongs to it; a mere check-in of a host is no new state."""
        return f'W/"{self.boot}-{self._engine.store.version(cluster_id)}"' if cluster_id else ""


def knows(request: web.Request, etag: str) -> bool:
    """Return whether the caller has this state already. If-None-Match may name several, or any (RFC 9110 §13.1.2)."""
    if_none_match = request.headers.get("If-None-Match", "")
    return if_none_match.strip() == "*" or etag.removeprefix("W/") in TAG.findall(if_none_match)


def unchanged(request: web.Request, etag: str) -> web.Response | None:
    """304 when the caller has this state already."""
    if etag and knows(request, etag):
        return web.Response(status=304, headers={"ETag": etag})
    return None


def tags(etag: str) -> dict[str, str]:
    """Return the headers that name an answer's state."""
    return {"ETag": etag} if etag else {}
