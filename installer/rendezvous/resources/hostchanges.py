"""Users' changes of hosts: role, name, disks, labels, arguments, Ignition (installer.md §5.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from installer.assisted.enums import Role
from installer.assisted.errors import BadRequest, Conflict, DiskRefused, PrepareError
from installer.common.hostaddresses import HOSTNAME
from installer.common.redact import shortened
from installer.rendezvous import events
from installer.rendezvous.clock import now_text
from installer.rendezvous.prepare import hostignition
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources.hosts import EDITABLE
from installer.rendezvous.resources.requests import values
from installer.rendezvous.resources.requests.hosts import ChosenDisk, FencingParams, HostUpdate, NodeLabel
from installer.rendezvous.resources.requests.params import required
from installer.rendezvous.store.documents import ApiVipConnectivity, FencingCredentials, InstallerArgs, NodeLabels
from installer.rendezvous.store.model import Cluster, Host, join_headers
from installer.rendezvous.validations import disks, hints
from installer.rendezvous.validations.hostview import FORBIDDEN_HOSTNAMES, inventory_of

replace = msgspec.structs.replace
LONGEST_NAME = 63
# Kubernetes' labels (apimachinery, util/validation): up to 63 characters, its prefix a DNS subdomain.
LABEL_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
# Platforms whose install-config may have an arbiter pool (upstream's service: baremetal, and none from 4.22 on).
WITH_ARBITERS = ("baremetal", "none", "external")
# What the installer's pointer config holds at least: overrides must be such that they can be merged into it.
POINTER = b'{"ignition": {"version": "3.2.0"}}'


def _select_disk(engine: Engine, host: Host, wanted: list[ChosenDisk]) -> Host:
    inventory = inventory_of(host)
    chosen = [item.id for item in wanted if item.role == "install"]
    if len(chosen) > 1:
        raise Conflict(f"only one installation disk can be chosen, not {len(chosen)}")
    if not chosen and inventory is None:
        return host
    if not chosen:
        raise DiskRefused("Requested installation disk is not part of the host's valid disks: none was named")
    if inventory is None:
        raise Conflict(f"host {host.id} has no inventory yet: its disks are unknown")
    disk = disks.find(inventory, chosen[0])
    if disk is None:
        found = disks.listed(inventory) or "none"
        if chosen[0] == hints.NOT_FOUND:
            raise DiskRefused(f"no disk that can be installed on matches the root device hints: {found}")
        raise DiskRefused(f"requested installation disk {chosen[0]} is not part of the host's disks: {found}")
    if not disk.installation_eligibility.eligible:
        reasons = ", ".join(disk.installation_eligibility.not_eligible_reasons)
        raise Conflict(f"requested installation disk {disk.path} is not eligible: {reasons}")
    return replace(disks.select(host, disk, inventory), user_disk=True)


def _skip_formatting(host: Host, name: str, wanted: bool) -> Host:
    """One disk on or off the list of those that stay as they are, by whichever of its names it is called."""
    skipped = {item.id: item for item in host.skipped_disks}
    inventory = inventory_of(host)
    disk = disks.find(inventory, name) if inventory is not None else None
    if wanted and inventory is not None and disk is None and (not name or name not in skipped):
        choices = ", ".join(item.id for item in inventory.disks)
        raise BadRequest(
            f"Disk identifier {shortened(name, 80)} doesn't match any disk in the inventory, it cannot be skipped. "
            f"Inventory disk identifiers are: {choices}"
        )
    same = {name} | {item.id for item in skipped.values() if item.called(name)}
    if inventory is not None and disk is not None:
        same |= {item for item, skipped_disk in disks.skipped(host, inventory) if skipped_disk == disk}
    names = [item for item in skipped if item not in same]
    return disks.skip(host, [*names, name] if wanted else names, inventory)


def update(engine: Engine, infra_env_id: str, host_id: str, body: HostUpdate) -> Host:
    """PATCH of a host: role, name, disks, labels. Raises BadRequest or Conflict."""
    try:
        return _update(engine, infra_env_id, host_id, body)
    except DiskRefused as error:
        # The script that applies host configs asks again and again: one event is enough.
        with engine.store.change():
            host = engine.store.host(infra_env_id, host_id)
            if host.step_errors.get("disk") != error.reason:
                engine.store.add_event(events.make("host_disk_not_found", host=host, reason=error.reason))
                engine.store.put_host(replace(host, step_errors={**host.step_errors, "disk": error.reason}))
        raise


def _fencing(credentials: FencingParams) -> FencingCredentials:
    """fencing-credentials-params as they are kept. Raises BadRequest, which never shows them."""
    for key in ("address", "username", "password"):
        required(getattr(credentials, key) or None, f"fencing_credentials.{key}")
    # The rule of install-config, which would refuse them when the cluster is installed. It takes a while to import.
    from installer.config.rules.fencing import credential
    from installer.config.types.install import FencingCredential

    entry = FencingCredential(
        host_name="known",
        mac_address=credentials.mac_address or "",
        address=credentials.address,
        username=credentials.username,
        password=credentials.password,
    )
    if problems := [*credential("fencing_credentials", entry, set())]:
        raise BadRequest("; ".join(map(str, problems)))
    return FencingCredentials.of(credentials.sent_fields())


def _labels(labels: Sequence[NodeLabel]) -> NodeLabels:
    """Node labels as Kubernetes takes them. Raises BadRequest with all problems."""
    problems: list[str] = []
    for label in labels:
        prefix, slash, name = label.key.rpartition("/")
        if slash and not (LABEL_PREFIX.fullmatch(prefix) and len(prefix) <= 253):
            problems.append(f"node_labels: Invalid value: {label.key[:80]!r}: its prefix must be a lower-case DNS name")
        if not LABEL_PART.fullmatch(name):
            problems.append(
                f"node_labels: Invalid value: {label.key[:80]!r}: name part must consist of up to 63 letters, digits, "
                "'-', '_' or '.', and begin and end with a letter or digit"
            )
        if label.value and not LABEL_PART.fullmatch(label.value):
            problems.append(
                f"node_labels: Invalid value: {label.value[:80]!r}: a valid label must be empty or consist of up to 63 "
                "letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
            )
    if problems:
        raise BadRequest("; ".join(problems))
    return NodeLabels.of({label.key: label.value for label in labels})


def _join_headers(host: Host, body: HostUpdate) -> Host:
    """Return the host with the token and the headers that it is to ask for its config with. Raises BadRequest."""
    token, headers = body.ignition_endpoint_token, body.ignition_endpoint_http_headers
    changed = host
    if token is not None:
        changed = replace(changed, ignition_endpoint_token=token)
    if headers is not None:
        if len({item.key for item in headers}) < len(headers):
            raise BadRequest("ignition_endpoint_http_headers: a header is there twice")
        changed = replace(changed, ignition_endpoint_http_headers={item.key: item.value for item in headers})
    if changed is host or join_headers(changed) == join_headers(host):
        return host
    values.headers(changed.ignition_endpoint_token, changed.ignition_endpoint_http_headers)
    return replace(changed, api_vip_connectivity=ApiVipConnectivity())


def _check_arbiters_allowed(cluster: Cluster, host: Host) -> None:
    """Raise BadRequest unless the cluster's platform can have arbiters."""
    if cluster.platform["type"] not in WITH_ARBITERS:
        raise BadRequest(
            f"Cannot set role arbiter to host {host.id} in infra-env {host.infra_env_id}: cluster's platform must be "
            f"one of {', '.join(WITH_ARBITERS)}"
        )


def _update(engine: Engine, infra_env_id: str, host_id: str, body: HostUpdate) -> Host:
    store = engine.store
    with store.change():
        host = store.host(infra_env_id, host_id)
        if host.status not in EDITABLE:
            raise Conflict(f"host is in status {host.status}: it can be changed only in {', '.join(sorted(EDITABLE))}")
        role = Role(body.host_role) if body.host_role is not None else host.role
        if role is Role.ARBITER and body.host_role is not None and host.cluster_id:
            _check_arbiters_allowed(store.cluster(host.cluster_id), host)
        if role is not host.role:
            host = replace(host, role=role, suggested_role=host.suggested_role if role is Role.AUTO else role)
            store.add_event(events.make("host_role_updated", host=host, role=role.value))
        name = body.host_name
        if name is not None:
            if len(name) > LONGEST_NAME:
                raise BadRequest(
                    f"hostname is too long, must be {LONGEST_NAME} characters or less. Hostname: {name[:80]}"
                )
            if name in FORBIDDEN_HOSTNAMES or not HOSTNAME.fullmatch(name):
                raise BadRequest(f"host_name {name!r} is not allowed: it must match {HOSTNAME.pattern}")
            host = replace(host, user_hostname=name, requested_hostname=name)
        if body.disks_selected_config is not None:
            host = _select_disk(engine, host, body.disks_selected_config)
        for item in body.disks_skip_formatting or []:
            host = _skip_formatting(host, item.disk_id, item.skip_formatting)
        if body.node_labels is not None:
            host = replace(host, node_labels=_labels(body.node_labels))
        if body.fencing_credentials is not None:
            host = replace(host, fencing_credentials=_fencing(body.fencing_credentials))
        host = _join_headers(host, body)
        pool = body.machine_config_pool_name
        if pool is not None:
            # It becomes part of a URL (addinghosts.py).
            if pool and not HOSTNAME.fullmatch(pool):
                raise BadRequest(f"machine_config_pool_name {pool[:80]!r} is no name of a pool: {HOSTNAME.pattern}")
            host = replace(host, machine_config_pool_name=pool)
        store.put_host(replace(host, updated_at=now_text()))
        engine.reconcile_host(store.host(infra_env_id, host_id))
    return store.host(infra_env_id, host_id)


def set_installer_args(engine: Engine, infra_env_id: str, host_id: str, args: list[str]) -> Host:
    """PATCH installer-args: what coreos-installer is to be given too. Raises BadRequest, Conflict, NotFound."""
    values.installer_args(args)
    return _set(engine, infra_env_id, host_id, installer_args=InstallerArgs.of(args))


def set_ignition(engine: Engine, infra_env_id: str, host_id: str, config: str) -> Host:
    """PATCH ignition: overrides of the host's Ignition. Raises BadRequest, Conflict, NotFound."""
    if config:
        host = Host(id=host_id, infra_env_id=infra_env_id, ignition_config_overrides=config)
        try:
            hostignition.for_host(POINTER, host, "config", ("192.0.2.1",))
        except PrepareError as error:
            raise BadRequest(str(error)) from None
    return _set(engine, infra_env_id, host_id, ignition_config_overrides=config)


def _set(engine: Engine, infra_env_id: str, host_id: str, **changes: Any) -> Host:
    with engine.store.change():
        host = engine.store.host(infra_env_id, host_id)
        if host.status not in EDITABLE:
            raise Conflict(f"host is in status {host.status} and can no longer be changed")
        host = replace(host, **changes, updated_at=now_text())
        engine.store.put_host(host)
    return host
