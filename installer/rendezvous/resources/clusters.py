"""Users' operations on clusters: register, change, install, cancel (installer.md §5.1, §5.3)."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping, Sequence, Set
from ipaddress import ip_interface, ip_network
from typing import Any

import msgspec

from installer.assisted.enums import ClusterStatus, HostStatus, PreparationStatus, Role
from installer.assisted.errors import BadRequest, Conflict
from installer.common.formats import jsontext
from installer.common.redact import redact, shortened
from installer.rendezvous import events
from installer.rendezvous.clock import now_text, to_text
from installer.rendezvous.prepare import diskencryption
from installer.rendezvous.reconcile import roles
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import hosts, networking, platforms, releases
from installer.rendezvous.resources.requests import values
from installer.rendezvous.resources.requests.clusters import (
    ClusterNetworkParams,
    ClusterParams,
    ClusterSettings,
    ClusterUpdate,
    IgnoredValidations,
    LoadBalancerParams,
    NetworkParams,
    PlatformParams,
)
from installer.rendezvous.resources.requests.overrides import InstallConfigOverrides
from installer.rendezvous.resources.requests.params import decoded, required
from installer.rendezvous.settings import Settings
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.store.documents import ApiVipConnectivity, ImagesStatus, TangConnectivity, ValidationIds
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, JsonMap, Preparation, as_map, from_map
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.rendezvous.validations.hostview import inventory_of

log = logging.getLogger("assisted-service")
replace = msgspec.structs.replace
T = cluster_states.Trigger
PLAIN = (
    *("openshift_version", "ocp_release_image", "base_dns_domain", "platform", "user_managed_networking"),
    *("network_type", "api_vips", "ingress_vips", "ssh_public_key", "pull_secret"),
    *("http_proxy", "https_proxy", "no_proxy", "additional_ntp_source", "cpu_architecture", "hyperthreading"),
    *("schedulable_masters", "disk_encryption", "load_balancer", "tags", "olm_operators", "control_plane_count"),
    *("high_availability_mode", "name", "ntp_sources", "ignition_endpoint"),
)
NETWORKS = ("cluster_networks", "service_networks", "machine_networks")
CLUSTER_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
# Fields of the specification that this service does not support: taken when empty, refused when they ask for something.
NOT_OFFERED = ("operator_bundles", "vip_dhcp_allocation", "api_vip_dns_name")


def _networks(body: ClusterSettings) -> dict[str, list[JsonMap]]:
    """Return the three lists of networks; the older single fields count for nothing, as upstream. Raises BadRequest."""
    networks: dict[str, list[JsonMap]] = {}
    for key in NETWORKS:
        items: list[NetworkParams] | None = getattr(body, key)
        if items is not None:
            networks[key] = [_network(key, item, is_new=isinstance(body, ClusterParams)) for item in items]
    return networks


def _network(key: str, item: NetworkParams, *, is_new: bool) -> JsonMap:
    """One network as the store has it: without host bits. Raises BadRequest."""
    try:
        cidr = str(ip_network(item.cidr or "", strict=False))
    except ValueError as error:
        raise BadRequest(f"{key}: {error}") from None
    if not isinstance(item, ClusterNetworkParams):
        return {"cidr": cidr}
    default = (64 if ":" in cidr else 23) if is_new else 0
    return {"cidr": cidr, "host_prefix": item.host_prefix or default}


def _changes(params: ClusterSettings) -> dict[str, Any]:
    """Fields of a cluster from a body, each checked for its value. Raises BadRequest."""
    body = params.sent_fields()
    values.check_offered(body, NOT_OFFERED)
    changes: dict[str, Any] = {key: body[key] for key in PLAIN if key in body}
    if not changes.get("cpu_architecture", "x86_64"):
        del changes["cpu_architecture"]
    for key in ("api_vips", "ingress_vips"):
        if key in changes:
            changes[key] = [{"ip": values.canonical(item.get("ip", ""))} for item in changes[key]]
    networks = _networks(params)
    if "ignition_endpoint" in changes:
        changes["ignition_endpoint"] = values.ignition_endpoint(changes["ignition_endpoint"])
    values.check_cluster(changes, networks)
    changes.update(networks)
    if "name" in changes and not CLUSTER_NAME.fullmatch(changes["name"]):
        raise BadRequest(f"name {changes['name']!r} must match {CLUSTER_NAME.pattern} and have at most 54 characters")
    if "disk_encryption" in changes:
        diskencryption.check(changes["disk_encryption"])
    return changes


def _check_host_bits(cluster: Cluster, body: ClusterUpdate, changes: dict[str, Any]) -> None:
    """Raise BadRequest for host bits in networks that are changed; at registration they are cut off instead."""
    for key in NETWORKS:
        entries: list[NetworkParams] = getattr(body, key) or []
        if entries and changes[key] != getattr(cluster, key):
            for item in entries:
                if ip_interface(item.cidr or "") != ip_interface(ip_network(item.cidr or "", strict=False)):
                    raise BadRequest(f"{key}: {item.cidr} is not a valid network CIDR")


def new(settings: Settings, body: ClusterParams, stamp: str = "", *, identity: str = "") -> Cluster:
    """Return the cluster that a body asks for, registered at `stamp`; without an id it gets one. Raises BadRequest."""
    for key in ("name", "openshift_version", "pull_secret"):
        required(getattr(body, key) or None, key)
    changes = _changes(body)
    requested = networking.Networks.of(None, changes)
    changes.setdefault("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 23}])
    changes.setdefault("service_networks", [{"cidr": "172.30.0.0/16"}])
    count, mode = platforms.availability(body.control_plane_count, body.high_availability_mode)
    platform, umn = platforms.created(
        body.platform, body.user_managed_networking, count=count, architecture=body.cpu_architecture or ""
    )
    platforms.check_compatible(platform, umn, count=count, balancer=body.load_balancer)
    changes |= {"control_plane_count": count, "high_availability_mode": mode}
    changes |= {"platform": platform.sent_fields(), "user_managed_networking": umn}
    releases.check(settings, changes)
    base = {"id": identity or str(uuid.uuid4()), "created_at": stamp, "updated_at": stamp, "status_updated_at": stamp}
    cluster = from_map({**base, **changes}, Cluster)
    values.check_time_sources(cluster.ntp_sources, cluster.additional_ntp_source, "additional_ntp_source")
    networking.check_registration(
        requested, networking.Networks.of(cluster, {}), user_managed=body.user_managed_networking or False
    )
    return cluster


def register(engine: Engine, body: ClusterParams, *, identity: str = "", request: str = "") -> Cluster:
    """RegisterCluster; ``request`` names what was asked for by whoever chose the id (repeatable.py).

    Raises BadRequest.
    """
    image = body.ocp_release_image or ""
    settings = releases.chosen(engine.catalogue, body.openshift_version or "", body.cpu_architecture or "", image)
    cluster = replace(new(settings, body, to_text(engine.clock()), identity=identity), request=request)
    if settings is not engine.settings and not image:
        cluster = replace(cluster, ocp_release_image=settings.release_image)
    with engine.store.change():
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("cluster_registration_succeeded", cluster=cluster, name=cluster.name))
        engine.reconcile(cluster.id)
    return engine.store.cluster(cluster.id)


def check_editable(cluster: Cluster) -> None:
    """Raise Conflict unless users may still change the cluster."""
    if cluster.status not in cluster_states.PRE:
        raise Conflict(f"cluster is in status {cluster.status}: it can no longer be changed")


def update(engine: Engine, cluster_id: str, body: ClusterUpdate, *, request: str | None = None) -> Cluster:
    """PATCH of a cluster; ``request`` as register's. Raises BadRequest or Conflict."""
    if body.sent_fields().keys() == {"ignition_endpoint"}:
        return _set_ignition_endpoint(engine, cluster_id, _changes(body))
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        changes = _changes(body)
        if body.control_plane_count is not None:
            platforms.availability(body.control_plane_count, cluster.high_availability_mode)
        check_editable(cluster)
        _check_host_bits(cluster, body, changes)
        platform, umn = platforms.updated(body.platform, body.user_managed_networking, cluster)
        changes = {key: value for key, value in changes.items() if key not in ("platform", "user_managed_networking")}
        platforms.check_compatible(
            platform or PlatformParams(type=cluster.platform["type"]),
            cluster.user_managed_networking if umn is None else umn,
            count=cluster.control_plane_count,
            balancer=body.load_balancer or LoadBalancerParams(type=(cluster.load_balancer or {}).get("type")),
        )
        if platform is not None:
            changes["platform"] = platforms.merged(platform, cluster)
        if umn is not None:
            changes["user_managed_networking"] = umn
        settings = engine.catalogue.of(cluster)
        releases.check(settings, {"openshift_version": cluster.openshift_version, **changes}, is_new=False)
        members = engine.store.hosts(cluster_id=cluster_id)
        changes |= networking.consequences(
            cluster,
            changes,
            [inventory for host in members if (inventory := inventory_of(host)) is not None],
            user_managed=cluster.user_managed_networking if umn is None else umn,
            named=body.user_managed_networking is True,
        )
        if changes.get("ignition_endpoint", cluster.ignition_endpoint) != cluster.ignition_endpoint:
            _forget_answers(engine, members)
        if "disk_encryption" in changes and changes["disk_encryption"] != cluster.disk_encryption:
            for host in members:
                # The old answers are of other servers.
                engine.store.put_host(replace(host, tang_connectivity=TangConnectivity()))
        changes |= {"updated_at": now_text()} | ({} if request is None else {"request": request})
        changed = from_map({**as_map(cluster), **changes}, Cluster)
        values.check_time_sources(changed.ntp_sources, changed.additional_ntp_source, "additional_ntp_source")
        engine.store.put_cluster(changed)
        engine.reconcile(cluster_id)
    return engine.store.cluster(cluster_id)


def _set_ignition_endpoint(engine: Engine, cluster_id: str, changes: dict[str, Any]) -> Cluster:
    """Change the server of hosts that are added later, which may be done at any time."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if changes["ignition_endpoint"] == cluster.ignition_endpoint:
            return cluster
        engine.store.put_cluster(replace(cluster, **changes, updated_at=now_text()))
        _forget_answers(engine, engine.store.hosts(cluster_id=cluster_id))
        return engine.reconcile(cluster_id)


def _forget_answers(engine: Engine, members: Sequence[Host]) -> None:
    """Have hosts that are added ask the cluster's new server of configs."""
    for host in members:
        engine.store.put_host(replace(host, api_vip_connectivity=ApiVipConnectivity()))


def checked_overrides(text: str) -> str:
    """Return install-config overrides, a JSON object in text, if they can be applied. Raises BadRequest."""
    try:
        value = jsontext.parsed(text) if text else {}
    except ValueError as error:
        raise BadRequest(f"install-config overrides are not JSON: {error}") from None
    if value is None:
        value, text = {}, ""
    if not isinstance(value, dict):
        raise BadRequest("install-config overrides must be a JSON object")
    bundle = decoded(value, InstallConfigOverrides).additional_trust_bundle
    if bundle and (problem := values.certificates(bundle)):
        raise BadRequest(f"install-config overrides: additionalTrustBundle {problem}")
    return text


def set_overrides(engine: Engine, cluster_id: str, text: str) -> Cluster:
    """PATCH install-config. Raises BadRequest or Conflict."""
    text = checked_overrides(text)
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        check_editable(cluster)
        cluster = replace(cluster, install_config_overrides=text, updated_at=now_text())
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("install_config_applied", cluster=cluster))
    return cluster


def _ids(text: str | None, existing: Set[str], not_ignorable: Set[str], field: str) -> ValidationIds:
    if not text:
        return ValidationIds()
    try:
        ids = jsontext.parsed(text)
    except ValueError as error:
        raise BadRequest(f"{field} is not JSON: {error}") from None
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise BadRequest(f"{field} must be a JSON list of names")
    for name in ids:
        if name != "all" and name not in existing:
            raise BadRequest(f"{field}: there is no validation {name!r}")
        if name in not_ignorable:
            raise BadRequest(f"{field}: validation {name} cannot be ignored")
    return ValidationIds.of(ids)


def ignore(engine: Engine, cluster_id: str, body: IgnoredValidations) -> Cluster:
    """PUT ignored-validations: two JSON lists of ids as texts. Raises BadRequest or NotFound."""
    host_ids, cluster_ids = {line.id for line in hv.TABLE}, {line.id for line in cv.TABLE}
    changes = {
        "ignored_host_validations": _ids(body.host_validation_ids, host_ids, hv.NOT_IGNORABLE, "host-validation-ids"),
        "ignored_cluster_validations": _ids(
            body.cluster_validation_ids, cluster_ids, cv.NOT_IGNORABLE, "cluster-validation-ids"
        ),
    }
    with engine.store.change():
        cluster = replace(engine.store.cluster(cluster_id), **changes, updated_at=now_text())
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("validations_ignored", cluster=cluster))
        engine.reconcile(cluster_id)
    return engine.store.cluster(cluster_id)


def delete(engine: Engine, cluster_id: str) -> None:
    """Deregister a cluster that is not being installed; hosts that were bound to it become unbound. Raises Conflict."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if cluster.status in cluster_states.ACTIVE:
            raise Conflict(f"cluster is in status {cluster.status} and cannot be removed")
        for host in engine.store.hosts(cluster_id=cluster_id):
            hosts.release(engine, host)
        for infra_env in engine.store.infra_envs():
            if infra_env.cluster_id == cluster_id:
                engine.store.put_infra_env(replace(infra_env, cluster_id=None, updated_at=now_text()))
        engine.store.delete_cluster(cluster_id)


def _check_hosts_ready(members: Sequence[Host]) -> None:
    """Raise BadRequest for a host that is not ready; only where roles are still to be assigned, as upstream."""
    if any(inventory_of(host) is None for host in members) or all(host.role is not Role.AUTO for host in members):
        return
    for host in members:
        if host.status is not HostStatus.KNOWN:
            name = host.requested_hostname or host.id
            raise BadRequest(f"Host {name} is in status {host.status} and not ready for install")


def install(engine: Engine, cluster_id: str) -> Cluster:
    """actions/install. Raises Conflict unless the cluster is ready, BadRequest for a host that is not."""
    with engine.store.change():
        engine.reconcile(cluster_id)
        cluster = engine.store.cluster(cluster_id)
        if cluster.status is not ClusterStatus.READY:
            if cluster.status in cluster_states.PRE:
                _check_hosts_ready(engine.store.hosts(cluster_id=cluster_id))
            raise Conflict(f"cluster is in status {cluster.status} and cannot be installed: {cluster.status_info}")
        marked = engine.store.hosts(cluster_id=cluster_id)
        for host in marked:
            engine.store.put_host(replace(host, role=host.effective_role, images_status=ImagesStatus()))
        fallback = roles.fallback_bootstrap(marked)
        if fallback is not None:
            host = next(item for item in engine.store.hosts(cluster_id=cluster_id) if item.id == fallback)
            engine.store.put_host(replace(host, bootstrap=True))
            engine.store.add_event(events.make("host_bootstrap_set", host=host))
        engine.store.add_event(events.make("cluster_prepare_installation_started", cluster=cluster))
        # Hosts must not get the files of an earlier attempt.
        engine.store.delete_files(cluster_id)
        engine.trigger_cluster(cluster, T.INSTALL)
        engine.reconcile(cluster_id)
    return engine.store.cluster(cluster_id)


class _Metadata(msgspec.Struct, frozen=True, rename={"cluster_id": "clusterID"}):
    cluster_id: str = ""


def _id_in_metadata(files: Mapping[str, bytes]) -> str:
    """Return the cluster's id (a UUID) in openshift-install's metadata.json, empty without one."""
    try:
        return msgspec.json.decode(files.get("metadata.json", b"{}"), type=_Metadata).cluster_id
    except msgspec.DecodeError as error:
        log.warning("metadata.json: %s", error)
        return ""


def finish_preparation(
    engine: Engine, cluster_id: str, attempt: str, files: dict[str, bytes] | None, *, reason: str
) -> bool:
    """Keep what an attempt's preparation made (None: it failed for ``reason``) and go on.

    False, and nothing happens, when the cluster no longer waits for this attempt: it ran out of time, was cancelled or
    reset, or was installed anew since. Raises NotFound, StoreError.
    """
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if not awaits_ignition(cluster) or cluster.attempt != attempt:
            log.info("cluster %s: what preparation attempt %s made came too late and is dropped", cluster_id, attempt)
            return False
        for name, content in (files or {}).items():
            engine.store.put_file(cluster_id, name, content)
        status = PreparationStatus.FAILED if files is None else PreparationStatus.SUCCESS
        cluster = replace(cluster, last_preparation=Preparation(status=status, reason=redact(reason)))
        engine.store.put_cluster(replace(cluster, openshift_cluster_id=_id_in_metadata(files or {})))
        engine.reconcile(cluster_id)
    return True


def check_attempt(engine: Engine, cluster_id: str, attempt: str) -> None:
    """Raise Conflict when this attempt to install is over. Raises NotFound."""
    if engine.store.cluster(cluster_id).attempt != attempt:
        raise Conflict(f"installation attempt {shortened(attempt, 40)} of cluster {cluster_id} is over")


def infra_envs(engine: Engine, cluster_id: str) -> list[InfraEnv]:
    """Those of the cluster, and those that hosts come from which were bound to it later."""
    origins = {host.infra_env_id for host in engine.store.hosts(cluster_id=cluster_id)}
    return [item for item in engine.store.infra_envs() if item.cluster_id == cluster_id or item.id in origins]


def awaits_ignition(cluster: Cluster) -> bool:
    """Return whether this cluster's ignition is still to be made."""
    return (
        cluster.status is ClusterStatus.PREPARING and cluster.last_preparation.status is PreparationStatus.NOT_STARTED
    )


def cancel(engine: Engine, cluster_id: str) -> Cluster:
    """actions/cancel. Raises Conflict when nothing is under way."""
    with engine.store.change():
        cluster = engine.trigger_cluster(engine.store.cluster(cluster_id), T.CANCEL)
        for host in engine.store.hosts(cluster_id=cluster_id):
            engine.trigger(host, host_states.Trigger.CANCEL)
        engine.store.add_event(events.make("cluster_installation_canceled", cluster=cluster))
        return engine.reconcile(cluster_id)


def reset(engine: Engine, cluster_id: str) -> Cluster:
    """actions/reset. Raises Conflict when there is nothing to reset."""
    with engine.store.change():
        cluster = engine.trigger_cluster(engine.store.cluster(cluster_id), T.RESET)
        cluster = replace(cluster, last_preparation=Preparation(), attempt="", install_started_at=None)
        engine.store.put_cluster(replace(cluster, openshift_cluster_id=""))
        engine.store.delete_files(cluster_id)
        for host in engine.store.hosts(cluster_id=cluster_id):
            engine.trigger(host, host_states.Trigger.RESET)
        engine.store.add_event(events.make("cluster_installation_reset", cluster=cluster))
        return engine.reconcile(cluster_id)


def complete(engine: Engine, cluster_id: str, success: bool, reason: str) -> Cluster:
    """actions/complete-installation. Raises Conflict in a wrong status."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        cluster = engine.trigger_cluster(cluster, T.COMPLETE if success else T.FAIL, reason=reason)
        cluster = replace(cluster, install_completed_at=to_text(engine.clock()))
        engine.store.put_cluster(cluster)
        name = "cluster_installation_completed" if success else "cluster_installation_failed"
        engine.store.add_event(events.make(name, cluster=cluster, reason=reason))
        return engine.reconcile(cluster_id)


def set_ui_settings(engine: Engine, cluster_id: str, text: str) -> None:
    """Keep a text that only the user interface understands."""
    with engine.store.change():
        engine.store.put_cluster(replace(engine.store.cluster(cluster_id), ui_settings=text))


def reconcile_soon(engine: Engine, cluster_id: str) -> None:
    """Judge a cluster because of the time alone, now or, if it is big and much is going on, later."""
    with engine.store.change():
        engine.reconcile_soon(cluster_id)
