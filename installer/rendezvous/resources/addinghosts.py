"""Hosts that are added to an installed cluster: one that this service has installed, or one that it is told of.

Such a host is judged, installed and rebooted alone. Its Ignition config is a pointer to the cluster's machine config
server, which the payload's installer has made, or which the name of an imported cluster's API gives. This service sees
the host until it reboots; a hub reports what becomes of its Node (``joined``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from installer.assisted.enums import ClusterStatus, HostStatus, Stage
from installer.assisted.errors import BadRequest, Conflict, NotFound, PrepareError
from installer.common.hostaddresses import HOSTNAME
from installer.rendezvous import events
from installer.rendezvous.clock import to_text
from installer.rendezvous.prepare import hostignition
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import releases
from installer.rendezvous.resources.requests.hub import ImportParams
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.store.model import Cluster, Host, HostProgress, join_headers, join_server, join_url
from installer.rendezvous.validations import networks

replace = msgspec.structs.replace
T = host_states.Trigger
# Of the machine config server of a cluster of which only the API's name is known: plain HTTP.
PORT = 22624
VERSION = "3.2.0"
LONGEST_NAME = 253


def imported(engine: Engine, body: ImportParams, identity: str = "") -> Cluster:
    """Register an installed cluster; with an id, the same again is the same one. Raises BadRequest, Conflict."""
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest() if identity else ""
    existing = engine.store.find_cluster(identity)
    if existing is not None:
        if existing.request != digest:
            raise Conflict(f"cluster {identity} is registered already, with other parameters")
        return existing
    name = body.api_vip_dnsname
    if len(name) > LONGEST_NAME or not HOSTNAME.fullmatch(name):
        raise BadRequest(f"api_vip_dnsname {name[:80]!r} is no DNS name or IPv4 address")
    version = body.openshift_version or ""
    if version:
        releases.check_version(releases.chosen(engine.catalogue, version, ""), version)
    settings = engine.catalogue.newest(version) or engine.settings
    stamp = to_text(engine.clock())
    cluster = Cluster(
        id=identity or str(uuid.uuid4()),
        name=body.name,
        openshift_version=version or settings.openshift_version,
        ocp_release_image=settings.release_image,
        base_dns_domain=name.removeprefix(f"api.{body.name}.") if name.startswith(f"api.{body.name}.") else "",
        openshift_cluster_id=str(uuid.UUID(body.openshift_cluster_id)) if body.openshift_cluster_id else "",
        imported=True,
        status=ClusterStatus.ADDING_HOSTS,
        status_info=cluster_states.INFO_ADDING,
        status_updated_at=stamp,
        created_at=stamp,
        updated_at=stamp,
        request=digest,
        join_url=f"http://{name}:{PORT}/config",
    )
    with engine.store.change():
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("cluster_registration_succeeded", cluster=cluster, name=cluster.name))
        engine.reconcile(cluster.id)
    return engine.store.cluster(cluster.id)


def allow(engine: Engine, cluster_id: str) -> Cluster:
    """actions/allow-add-hosts; where hosts can be added already, nothing happens. Raises Conflict."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if cluster.status is ClusterStatus.ADDING_HOSTS:
            return cluster
        cluster = engine.trigger_cluster(cluster, cluster_states.Trigger.ADD_HOSTS)
        url, ca = _server_of(engine, cluster)
        engine.store.put_cluster(replace(cluster, join_url=url, join_ca=ca))
        return engine.reconcile(cluster_id)


def _server_of(engine: Engine, cluster: Cluster) -> tuple[str, str]:
    """Return (URL without the pool, CA as PEM) of a cluster's machine config server, as its workers are pointed to it.

    Raises Conflict.
    """
    try:
        config = hostignition.parse(engine.store.file(cluster.id, "worker.ign"), "worker.ign")
        url = str(config["ignition"]["config"]["merge"][0]["source"]).rpartition("/")[0]
        authorities = config["ignition"].get("security", {}).get("tls", {}).get("certificateAuthorities", [])
        return url, "".join(_content(item["source"]) for item in authorities)
    except (NotFound, PrepareError, LookupError, TypeError, AttributeError, ValueError):
        raise Conflict(f"cluster {cluster.id}: hosts cannot be added, its worker.ign points to no server") from None


def _content(url: str) -> str:
    head, _, data = url.partition(",")
    content = unquote_to_bytes(data)
    return (base64.b64decode(content) if head.endswith(";base64") else content).decode()


def _pointer(engine: Engine, cluster: Cluster, host: Host) -> bytes:
    """Return the Ignition config that a host of this cluster is to begin with."""
    source: dict[str, Any] = {"source": join_url(cluster, host)}
    if headers := join_headers(host):
        source["httpHeaders"] = [{"name": name, "value": value} for name, value in headers.items()]
    config: dict[str, Any] = {"ignition": {"version": VERSION, "config": {"merge": [source]}}}
    if cluster.imported or cluster.ignition_endpoint:
        if ca := join_server(cluster)[1]:
            authorities = [{"source": hostignition.data_url(ca)}]
            config["ignition"]["security"] = {"tls": {"certificateAuthorities": authorities}}
    else:
        config = hostignition.parse(engine.store.file(cluster.id, f"{host.pool}.ign"), f"{host.pool}.ign")
        config["ignition"]["config"]["merge"] = [source]
    return json.dumps(config).encode()


def install(engine: Engine, infra_env_id: str, host_id: str) -> Host:
    """actions/install of one host. Raises Conflict unless it is ready and its cluster adds hosts."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        cluster = _adding(engine, host)
        engine.reconcile(cluster.id)
        host = engine.store.host(infra_env_id, host_id)
        if host.status is not HostStatus.KNOWN:
            raise Conflict(f"host is in status {host.status} and cannot be installed: {host.status_info}")
        sources = networks.time_sources(cluster, engine.store.infra_env(infra_env_id))
        try:
            config = hostignition.for_host(_pointer(engine, cluster, host), host, f"{host.pool}.ign", sources)
        except PrepareError as error:
            raise Conflict(str(error)) from None
        engine.store.put_file(cluster.id, host.ignition_file, config)
        host = replace(host, role=host.effective_role, progress=HostProgress())
        engine.store.put_host(host)
        engine.trigger(host, T.INSTALL)
        engine.reconcile(cluster.id)
    return engine.store.host(infra_env_id, host_id)


def reset(engine: Engine, infra_env_id: str, host_id: str) -> Host:
    """actions/reset of one host. Raises Conflict unless it was being added."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        _adding(engine, host)
        host = engine.trigger(host, T.RESET).host
        engine.reconcile_host(host)
    return engine.store.host(infra_env_id, host_id)


def joined(engine: Engine, infra_env_id: str, host_id: str, stage: Stage) -> Host:
    """Note that the Node of an added host is there (Joined), or ready (Done). Raises Conflict."""
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        _adding(engine, host)
        if host.progress.current_stage in (stage, Stage.DONE):
            return host
        if host.status not in host_states.INSTALLING:
            raise Conflict(f"host is in status {host.status}: it is not being added")
        stamp = to_text(engine.clock())
        percentage = 100 if stage is Stage.DONE else host.progress.installation_percentage
        progress = replace(
            host.progress,
            current_stage=stage,
            installation_percentage=percentage,
            progress_info="",
            stage_started_at=stamp,
            stage_updated_at=stamp,
            stage_timed_out=False,
        )
        host = replace(host, progress=progress, updated_at=stamp)
        engine.store.put_host(host)
        engine.store.add_event(events.make("host_install_progress_updated", host=host, stage=stage.value, info=""))
        engine.reconcile_host(engine.trigger(host, T.PROGRESS).host)
    return engine.store.host(infra_env_id, host_id)


def _adding(engine: Engine, host: Host) -> Cluster:
    """Return the cluster that a host is added to. Raises Conflict."""
    cluster = engine.store.cluster(host.cluster_id) if host.cluster_id else None
    if cluster is None or not host.added:
        raise Conflict("method only allowed when adding hosts to an existing cluster")
    return cluster
