"""Clusters, hosts and events as the API shows them: JSON that is made once for each state of an object."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from installer.assisted.auth import Scheme
from installer.assisted.enums import HostStatus, Role
from installer.assisted.errors import PreconditionFailed
from installer.common.redact import redact, without_login
from installer.rendezvous.api import fields
from installer.rendezvous.api.bodies import Encoded, encoded, listed
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources.requests.clusters import ClusterUpdate
from installer.rendezvous.resources.requests.hosts import InfraEnvUpdate
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, as_text

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
# What users set, by kind: a report of an agent, or a verdict, is no change of it.
SETTINGS: Mapping[type, tuple[str, ...]] = {
    Host: (
        *("cluster_id", "role", "requested_hostname", "installation_disk_id", "skipped_disks", "node_labels"),
        *("fencing_credentials", "machine_config_pool_name", "ignition_endpoint_token"),
        *("ignition_endpoint_http_headers", "installer_args", "ignition_config_overrides"),
    ),
    Cluster: tuple(
        name
        for name in (*ClusterUpdate.__struct_fields__, "install_config_overrides", "ui_settings")
        if name in Cluster.__struct_fields__
    ),
    InfraEnv: tuple(
        name for name in (*InfraEnvUpdate.__struct_fields__, "type", "cluster_id") if name in InfraEnv.__struct_fields__
    ),
}
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


def reply(value: Any, status: int = 200, etag: str = "") -> web.Response:
    """Return a JSON answer."""
    return web.Response(body=encode(value), status=status, content_type="application/json", headers=tags(etag))


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

    def tag(self, item: Cluster | Host | InfraEnv) -> str:
        """Return an object's ETag: names its state, and after the last `-` what users have set of it."""
        store, settings = self._engine.store, self._settings(item)
        if isinstance(item, InfraEnv):
            return f'W/"{settings}"'
        version = store.host_version(item) if isinstance(item, Host) else store.version(item.id)
        return f'W/"{self.boot}-{version}-{settings}"'

    def _settings(self, item: Cluster | Host | InfraEnv) -> str:
        # Keyed: there are secrets among them, and watchers see the tag.
        text = msgspec.json.encode([getattr(item, name) for name in SETTINGS[type(item)]], enc_hook=as_text)
        return hashlib.blake2b(text, key=self._engine.store.secret("urls"), digest_size=12).hexdigest()

    def check_unchanged(self, request: web.Request, item: Cluster | Host | InfraEnv) -> None:
        """Raise PreconditionFailed where the request is for another state of what users have set than there is.

        Weak tags will do, unlike in RFC 9110 §13.1.1: which bytes show a state makes no difference to a change.
        """
        wanted = request.headers.get("If-Match", "*").strip()
        known = {tag.strip('"').rpartition("-")[2] for tag in TAG.findall(wanted)}
        if wanted != "*" and self._settings(item) not in known:
            raise PreconditionFailed(
                f"the {type(item).__name__.lower()} {item.id} was changed by somebody else since it was read (If-Match "
                "names another state): nothing was changed; read it again, and send the change with its present ETag"
            )


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
