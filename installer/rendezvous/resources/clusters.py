"""What users do to clusters and infra-envs: register, change, manifests, install, cancel (installer.md §5.1, §5.3)."""

from __future__ import annotations

import base64
import logging
import re
import uuid
from ipaddress import ip_network
from typing import Any

import msgspec

from installer.assisted import plainjson
from installer.assisted.enums import ClusterStatus, PreparationStatus, Role
from installer.assisted.errors import BadRequest, Conflict, NotFound
from installer.redact import redact, shortened
from installer.rendezvous import events
from installer.rendezvous.clock import now_text, to_text
from installer.rendezvous.prepare import diskencryption
from installer.rendezvous.reconcile import roles
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import hosts, values
from installer.rendezvous.resources.params import told
from installer.rendezvous.resources.requests import ClusterParams, IgnoredValidations, ManifestParams, NetworkParams
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states
from installer.rendezvous.store.documents import ImagesStatus, TangConnectivity, ValidationIds
from installer.rendezvous.store.model import Cluster, JsonMap, Manifest, Preparation, built, plain
from installer.rendezvous.validations import cluster as cv
from installer.rendezvous.validations import host as hv

log = logging.getLogger("assisted-service")
replace = msgspec.structs.replace
T = cluster_states.Trigger
PLAIN = (
    *("openshift_version", "ocp_release_image", "base_dns_domain", "platform", "user_managed_networking"),
    *("vip_dhcp_allocation", "network_type", "api_vips", "ingress_vips", "ssh_public_key", "pull_secret"),
    *("http_proxy", "https_proxy", "no_proxy", "additional_ntp_source", "cpu_architecture", "hyperthreading"),
    *("schedulable_masters", "disk_encryption", "load_balancer", "tags", "olm_operators", "control_plane_count"),
    *("high_availability_mode", "name"),
)
PLATFORMS = ("baremetal", "none", "nutanix", "vsphere", "external")
ENUMS = {
    "network_type": ("OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None"),
    "high_availability_mode": ("Full", "None"),
    "cpu_architecture": ("x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"),
    "hyperthreading": (
        *("none", "all", "masters", "arbiters", "workers"),
        *("masters,arbiters", "masters,workers", "arbiters,workers", "masters,arbiters,workers"),
    ),
}
NETWORKS = ("cluster_networks", "service_networks", "machine_networks")
MANIFEST_NAME = re.compile(r"^[^/]*\.(json|ya?ml(\.patch_?[a-zA-Z0-9_]*)?)$")
CLUSTER_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
FOLDERS = ("manifests", "openshift")
# Whoever asks for one of them is told by its validation that it cannot be installed; others do not exist.
OPERATORS = frozenset(name.removesuffix("-requirements-satisfied") for name in host_states.OPERATORS)


def _networks(body: ClusterParams) -> dict[str, list[NetworkParams]]:
    """The three lists of networks, also from the older single fields. Raises BadRequest."""
    single = {
        "cluster_networks": body.cluster_network_cidr,
        "service_networks": body.service_network_cidr,
        "machine_networks": body.machine_network_cidr,
    }
    found: dict[str, list[NetworkParams]] = {}
    for key in NETWORKS:
        items: list[NetworkParams] | None = getattr(body, key)
        if items is None and single[key]:
            items = [{"cidr": single[key]}]
        if items is None:
            continue
        for item in items:
            try:
                ip_network(str(item.get("cidr")))
            except ValueError as error:
                raise BadRequest(f"{key}: {error}") from None
            if key == "cluster_networks" and not item.get("host_prefix"):
                default = 64 if ":" in str(item.get("cidr")) else 23
                item["host_prefix"] = body.cluster_network_host_prefix or default
        found[key] = items
    return found


def _changes(params: ClusterParams) -> dict[str, Any]:
    """Fields of a cluster from a body, each checked for its value. Raises BadRequest."""
    body = params.given()
    changes: dict[str, Any] = {key: body[key] for key in PLAIN if key in body}
    networks = _networks(params)
    values.check_cluster(changes, networks, OPERATORS)
    changes.update(networks)
    if "name" in changes and (not CLUSTER_NAME.fullmatch(changes["name"]) or len(changes["name"]) > 54):
        raise BadRequest(f"name {changes['name']!r} must match {CLUSTER_NAME.pattern} and have at most 54 characters")
    if changes.get("vip_dhcp_allocation"):
        raise BadRequest("vip_dhcp_allocation is not supported: give api_vips and ingress_vips")
    kind = (changes.get("platform") or {}).get("type")
    if kind is not None and kind not in PLATFORMS:
        raise BadRequest(f"platform.type {kind!r} is not one of {', '.join(PLATFORMS)}")
    for key, allowed in ENUMS.items():
        if key in changes and changes[key] not in allowed:
            raise BadRequest(f"{key} {changes[key]!r} is not one of {', '.join(allowed)}")
    if "disk_encryption" in changes:
        diskencryption.check(changes["disk_encryption"])
    count = changes.get("control_plane_count")
    if count is not None and not 1 <= count <= 5:
        raise BadRequest(f"control_plane_count must be 1 to 5, not {count!r}")
    mode = changes.get("high_availability_mode")
    if count is not None and mode is not None and (mode == "None") is not (count == 1):
        raise BadRequest(f"high_availability_mode {mode} and control_plane_count {count} contradict each other")
    if "control_plane_count" in changes:
        changes["high_availability_mode"] = "None" if changes["control_plane_count"] == 1 else "Full"
    elif changes.get("high_availability_mode") == "None":
        changes["control_plane_count"] = 1
    return changes


def _built(base: JsonMap, changes: JsonMap) -> Cluster:
    try:
        return built({**base, **changes}, Cluster)
    except msgspec.ValidationError as error:
        raise BadRequest(told(error, "cluster")) from None


def register(engine: Engine, body: ClusterParams) -> Cluster:
    """RegisterCluster. Raises BadRequest."""
    for key in ("name", "openshift_version", "pull_secret"):
        if not getattr(body, key):
            raise BadRequest(f"{key} is required")
    stamp = to_text(engine.clock())
    identity = str(uuid.uuid4())
    changes = _changes(body)
    changes.setdefault("cluster_networks", [{"cidr": "10.128.0.0/14", "host_prefix": 23}])
    changes.setdefault("service_networks", [{"cidr": "172.30.0.0/16"}])
    kind = str((changes.get("platform") or {}).get("type", ""))
    if changes.get("control_plane_count") == 1 and not kind:
        changes["platform"] = {"type": "none"}
        kind = "none"
    if kind in ("none", "external"):
        changes.setdefault("user_managed_networking", True)
    cluster = _built({"id": identity, "created_at": stamp, "updated_at": stamp, "status_updated_at": stamp}, changes)
    with engine.store.change():
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("cluster_registration_succeeded", cluster=cluster, name=cluster.name))
        engine.reconcile(identity)
    return engine.store.cluster(identity)


def _editable(cluster: Cluster) -> None:
    if cluster.status not in cluster_states.PRE:
        raise Conflict(f"cluster is in status {cluster.status}: it can no longer be changed")


def update(engine: Engine, cluster_id: str, body: ClusterParams) -> Cluster:
    """PATCH of a cluster. Raises BadRequest or Conflict."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        _editable(cluster)
        changes, mode = _changes(body), body.high_availability_mode
        if body.control_plane_count is None and mode is not None and (mode == "None") is not cluster.is_sno:
            count = cluster.control_plane_count
            raise BadRequest(f"high_availability_mode {mode} and control_plane_count {count} contradict each other")
        if "disk_encryption" in changes and changes["disk_encryption"] != cluster.disk_encryption:
            for host in engine.store.hosts(cluster_id=cluster_id):
                # What other servers than these have answered says nothing.
                engine.store.put_host(replace(host, tang_connectivity=TangConnectivity()))
        base = plain(cluster)
        engine.store.put_cluster(_built(base, {**changes, "updated_at": now_text()}))
        engine.reconcile(cluster_id)
    return engine.store.cluster(cluster_id)


def set_overrides(engine: Engine, cluster_id: str, text: str) -> Cluster:
    """PATCH install-config: overrides as a JSON object in text. Raises BadRequest or Conflict."""
    try:
        value = plainjson.parsed(text) if text else {}
    except ValueError as error:
        raise BadRequest(f"install-config overrides are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("install-config overrides must be a JSON object")
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        _editable(cluster)
        cluster = replace(cluster, install_config_overrides=text, updated_at=now_text())
        engine.store.put_cluster(cluster)
        engine.store.add_event(events.make("install_config_applied", cluster=cluster))
    return cluster


def _ids(text: str | None, known: set[str], never: frozenset[str], what: str) -> ValidationIds:
    if not text:
        return ValidationIds()
    try:
        ids = plainjson.parsed(text)
    except ValueError as error:
        raise BadRequest(f"{what} is not JSON: {error}") from None
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise BadRequest(f"{what} must be a JSON list of names")
    for name in ids:
        if name != "all" and name not in known:
            raise BadRequest(f"{what}: there is no validation {name!r}")
        if name in never:
            raise BadRequest(f"{what}: validation {name} cannot be ignored")
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
    """Deregister a cluster that is not being installed. Raises Conflict."""
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if cluster.status in cluster_states.ACTIVE:
            raise Conflict(f"cluster is in status {cluster.status} and cannot be removed")
        for host in engine.store.hosts(cluster_id=cluster_id):
            engine.store.delete_host(host.infra_env_id, host.id)
        for infra_env in engine.store.infra_envs():
            if infra_env.cluster_id == cluster_id:
                engine.store.put_infra_env(replace(infra_env, cluster_id=None, updated_at=now_text()))
        engine.store.delete_cluster(cluster_id)


def check_manifest(body: ManifestParams, replacing: bool) -> None:
    """Parse the content of a body for ``put_manifest``: a large one takes seconds. Raises BadRequest."""
    encoded = body.updated_content if replacing else body.content
    try:
        content = base64.b64decode(encoded or "", validate=True)
    except ValueError:
        return
    _check_content(body.updated_file_name or body.file_name or "", content)


def put_manifest(
    engine: Engine, cluster_id: str, body: ManifestParams, replacing: bool = False, *, checked: bool = False
) -> Manifest:
    """Create (or with ``replacing`` change) a manifest. Raises BadRequest, NotFound or Conflict.

    ``checked``: by ``check_manifest``.
    """
    folder = body.folder or "manifests"
    name = body.file_name or ""
    if folder not in FOLDERS:
        raise BadRequest(f"folder {folder!r} is not one of {', '.join(FOLDERS)}")
    if not MANIFEST_NAME.fullmatch(name):
        raise BadRequest(f"file_name {name!r} must match {MANIFEST_NAME.pattern}")
    new_folder = body.updated_folder or folder
    new_name = body.updated_file_name or name
    if new_folder not in FOLDERS or not MANIFEST_NAME.fullmatch(new_name):
        raise BadRequest(f"{new_folder}/{new_name} is not a manifest's name")
    encoded = body.updated_content if replacing else body.content
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        _editable(cluster)
        known = next((m for m in engine.store.manifests(cluster_id) if (m.folder, m.file_name) == (folder, name)), None)
        if replacing and known is None:
            raise NotFound(f"manifest {folder}/{name} does not exist")
        try:
            content = base64.b64decode(encoded, validate=True) if encoded else known.content if known else b""
        except ValueError:
            raise BadRequest(f"content of {name} is not base64") from None
        if not content.strip():
            raise BadRequest(f"manifest {name} is empty")
        if not (checked and encoded):
            _check_content(new_name, content)
        if replacing and (new_folder, new_name) != (folder, name):
            if any((m.folder, m.file_name) == (new_folder, new_name) for m in engine.store.manifests(cluster_id)):
                raise Conflict(f"manifest {new_folder}/{new_name} exists already")
            engine.store.delete_manifest(cluster_id, folder, name)
        manifest = Manifest(folder=new_folder, file_name=new_name, content=content)
        engine.store.put_manifest(cluster_id, manifest)
        engine.reconcile(cluster_id)
    return manifest


def _check_content(name: str, content: bytes) -> None:
    from installer.yamltext import YamlError, load_all

    if ".patch" in name:
        return
    try:
        load_all(content)
    except YamlError as error:
        raise BadRequest(f"manifest {name} is not valid YAML or JSON: {error}") from None


def install(engine: Engine, cluster_id: str) -> Cluster:
    """actions/install. Raises Conflict unless the cluster is ready."""
    with engine.store.change():
        engine.reconcile(cluster_id)
        cluster = engine.store.cluster(cluster_id)
        if cluster.status is not ClusterStatus.READY:
            raise Conflict(f"cluster is in status {cluster.status} and cannot be installed: {cluster.status_info}")
        marked = engine.store.hosts(cluster_id=cluster_id)
        for host in marked:
            chosen = host.suggested_role if host.role is Role.AUTO else host.role
            engine.store.put_host(replace(host, role=chosen, images_status=ImagesStatus()))
        fallback = roles.fallback_bootstrap(marked)
        if fallback is not None:
            host = next(item for item in engine.store.hosts(cluster_id=cluster_id) if item.id == fallback)
            engine.store.put_host(replace(host, bootstrap=True))
            engine.store.add_event(events.make("host_bootstrap_set", host=host))
        engine.store.add_event(events.make("cluster_prepare_installation_started", cluster=cluster))
        # What an attempt before this one made is nothing that this one's hosts may get.
        engine.store.delete_files(cluster_id)
        engine.trigger_cluster(cluster, T.INSTALL)
        engine.reconcile(cluster_id)
    return engine.store.cluster(cluster_id)


def finish_preparation(
    engine: Engine, cluster_id: str, attempt: str, files: dict[str, bytes] | None, *, reason: str
) -> bool:
    """Keep what an attempt's preparation made (None: it failed for ``reason``) and go on.

    False, and nothing happens, when the cluster no longer waits for this attempt: it ran out of time, was cancelled or
    reset, or was installed anew since. Raises NotFound, StoreError.
    """
    with engine.store.change():
        cluster = engine.store.cluster(cluster_id)
        if not awaited(cluster) or cluster.attempt != attempt:
            log.info("cluster %s: what preparation attempt %s made came too late and is dropped", cluster_id, attempt)
            return False
        for name, content in (files or {}).items():
            engine.store.put_file(cluster_id, name, content)
        status = PreparationStatus.FAILED if files is None else PreparationStatus.SUCCESS
        engine.store.put_cluster(replace(cluster, last_preparation=Preparation(status=status, reason=redact(reason))))
        engine.reconcile(cluster_id)
    return True


def of_attempt(engine: Engine, cluster_id: str, attempt: str) -> None:
    """Does what ``attempt``'s programs ask for still count? Raises Conflict when it is over, NotFound."""
    if engine.store.cluster(cluster_id).attempt != attempt:
        raise Conflict(f"installation attempt {shortened(attempt, 40)} of cluster {cluster_id} is over")


def awaited(cluster: Cluster) -> bool:
    """Is this cluster's ignition still to be made?"""
    return (
        cluster.status is ClusterStatus.PREPARING and cluster.last_preparation.status is PreparationStatus.NOT_STARTED
    )


def cancel(engine: Engine, cluster_id: str) -> Cluster:
    """actions/cancel. Raises Conflict when nothing is under way."""
    with engine.store.change():
        cluster = engine.trigger_cluster(engine.store.cluster(cluster_id), T.CANCEL)
        for host in engine.store.hosts(cluster_id=cluster_id):
            hosts.cancel(engine, host)
        engine.store.add_event(events.make("cluster_installation_canceled", cluster=cluster))
        return engine.reconcile(cluster_id)


def reset(engine: Engine, cluster_id: str) -> Cluster:
    """actions/reset. Raises Conflict when there is nothing to reset."""
    with engine.store.change():
        cluster = engine.trigger_cluster(engine.store.cluster(cluster_id), T.RESET)
        engine.store.put_cluster(replace(cluster, last_preparation=Preparation(), attempt="", install_started_at=None))
        engine.store.delete_files(cluster_id)
        for host in engine.store.hosts(cluster_id=cluster_id):
            hosts.reset(engine, host)
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
