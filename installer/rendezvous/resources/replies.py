"""Agents' answers to steps, and the change that each brings (installer.md §5.5, §6.3): a table of small functions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from installer.assisted import inventory as inv
from installer.assisted.enums import HostStatus, ImageResult, MediaStatus, Severity, StepType
from installer.assisted.errors import BadRequest, Conflict
from installer.common.formats import jsontext
from installer.common.redact import shortened
from installer.rendezvous import events
from installer.rendezvous.clock import to_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources.requests.hosts import StepReply
from installer.rendezvous.states import host as host_states
from installer.rendezvous.states.host import PRE_INSTALL, UNBOUND
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.store.documents import (
    ApiVipConnectivity,
    DiskInfo,
    DisksInfo,
    DiskSpeed,
    Document,
    FreeAddresses,
    FreeNetwork,
    HostInventory,
    Image,
    ImagesStatus,
    NameResolutions,
    NtpSource,
    Report,
    TangConnectivity,
    TimeSources,
    VerifiedVips,
)
from installer.rendezvous.store.links import Connectivity
from installer.rendezvous.store.model import Host, Machine
from installer.rendezvous.validations import disks, hardware
from installer.rendezvous.validations.networks import network_of

log = logging.getLogger("assisted-service")
replace = msgspec.structs.replace
T = StepType
P = TypeVar("P")
Handler = Callable[[Engine, Host, str], Host]
MEDIA_DISCONNECTED = 256
IMAGE_PULL_FAILED = 2
# An agent that is asked for one of these again while it runs ends the second at once, silently.
SILENT_WHILE_RUNNING = frozenset({T.DISK_SPEED, T.IMAGES})
# Interfaces that may carry a cluster, as upstream's service keeps them (internal/host/host.go); agents of old say no
# type. Hosts that are containers have veth and nothing else.
CARRIERS = frozenset({"", "physical", "vlan", "bond", "veth"})
# Not while preparing: what is installed, and where to, was decided when the installation was requested.
ACCEPTS_INVENTORY = PRE_INSTALL | UNBOUND


class _NtpSources(Report, frozen=True, gc=False):
    """The output of ntp-synchronizer."""

    ntp_sources: list[NtpSource] | None = None


class _DiskSpeed(Report, frozen=True, gc=False):
    """The output of installation-disk-speed-check: the worst synced write, ms."""

    path: str = ""
    io_sync_duration: int = 0


class _Images(Report, frozen=True, gc=False):
    """The output of container-image-availability."""

    images: list[Image] | None = None


def _read(output: str, step: str, kind: type[P]) -> tuple[P, Any]:
    """Return a step's output as a struct, and as it was sent. Raises BadRequest."""
    try:
        value = jsontext.parsed(output)
    except ValueError:
        value = None
    if value is None:
        raise BadRequest(f"the output of step {step} is not JSON")
    try:
        return msgspec.convert(value, kind), value
    except msgspec.ValidationError as error:
        raise BadRequest(f"the output of step {step} cannot be understood: {jsontext.in_words(error, 'it')}") from None


def _unreadable(document: str, error: msgspec.MsgspecError) -> BadRequest:
    """Return the BadRequest for a document that the store cannot decode."""
    words = jsontext.in_words(error, "it") if isinstance(error, msgspec.ValidationError) else str(error)
    return BadRequest(f"{document} cannot be read: {words}")


def _check_networks(networks: list[FreeNetwork], step: str) -> None:
    """Raise BadRequest for a text that is not a network."""
    for index, item in enumerate(networks):
        try:
            network_of(item.network or "0.0.0.0/0")
        except ValueError as error:
            raise BadRequest(f"the output of step {step} cannot be understood: [{index}].network: {error}") from None


# Steps whose answers are read before anything else.
SHAPES: Mapping[StepType, type[object]] = {
    T.DISK_SPEED: _DiskSpeed,
    T.IMAGES: _Images,
    T.DHCP: dict,
    T.UPGRADE: dict,
}


def _inventory(engine: Engine, host: Host, output: str) -> Host:
    try:
        inventory = inv.decode(output)
    except msgspec.MsgspecError as error:
        raise _unreadable("the inventory", error) from None
    if host.status not in ACCEPTS_INVENTORY:
        # Refused, not ignored: an agent does not send again what was accepted.
        raise Conflict(f"host is in status {host.status}: its inventory is not taken")
    host = _sent_by(engine, host, inventory)
    if host.rival is not None:
        return host  # whose disks and NICs these are nobody knows
    view = engine.view(replace(host, inventory=HostInventory.of(inventory)))
    need = view.needs(None).disk_size_gb
    inventory = disks.judge(inventory, need)
    inventory = replace(inventory, interfaces=[nic for nic in inventory.interfaces if nic.type in CARRIERS])
    host = replace(
        host,
        inventory=HostInventory.of(inventory),
        requested_hostname=host.user_hostname or inventory.hostname,
        disks_to_be_formatted=[disk.id for disk in inventory.disks if disks.is_formatted(disk)],
    )
    names = [item.id for item in host.skipped_disks]
    return _installation_disk(engine, disks.skip(host, names, inventory), inventory)


def _sent_by(engine: Engine, host: Host, inventory: inv.Inventory) -> Host:
    """Return the host with the machine that has sent this inventory; and with the one before, where that is another."""
    serial = inventory.system_vendor.serial_number
    macs = sorted({nic.mac_address.lower() for nic in inventory.interfaces if nic.mac_address})
    machine = Machine(macs, "" if serial.lower() == "unknown" else serial)
    if host.machine is None or not machine.is_another(host.machine):
        return replace(host, machine=machine)
    contested = replace(host, machine=machine, rival=host.machine, contested_at=to_text(engine.clock()))
    if host.rival is None:
        engine.store.add_event(events.make("host_id_shared", host=host, reason=hardware.rivals(contested)))
    return contested


def _installation_disk(engine: Engine, host: Host, inventory: inv.Inventory) -> Host:
    """Keep the disk that a user or a hint chose, even if unfit: has-min-valid-disks tells of that.

    The service's own choice stays while it can be installed on; otherwise it is made anew, with an event.
    """
    disk = disks.installation(host, inventory)
    if disk is not None and (host.user_disk or disk.installation_eligibility.eligible):
        return disks.select(host, disk, inventory)
    if host.user_disk:
        return host
    chosen = disks.choose(inventory)
    name = (chosen.id or chosen.path) if chosen else ""
    if host.installation_disk_id and name != host.installation_disk_id:
        reasons = disk.installation_eligibility.not_eligible_reasons if disk else ["it is gone"]
        engine.store.add_event(
            events.make(
                "host_installation_disk_changed",
                host=host,
                before=host.installation_disk_id,
                after=name or "none",
                reason=", ".join(reasons),
            )
        )
    if chosen is None:
        return replace(host, installation_disk=None, installation_disk_id="", installation_disk_path="")
    return disks.select(replace(host, installation_disk=None, installation_disk_id=""), chosen, inventory)


def _connectivity(engine: Engine, host: Host, output: str) -> Host:
    try:
        if not output:
            raise msgspec.DecodeError("it is empty")
        return replace(host, connectivity=Connectivity.received(output))
    except msgspec.MsgspecError as error:
        raise _unreadable("the connectivity report", error) from None


def _ntp(engine: Engine, host: Host, output: str) -> Host:
    answer, sent = _read(output, T.NTP, _NtpSources)
    text = json.dumps(sent.get("ntp_sources") or [])
    return replace(host, ntp_sources=TimeSources(text, answer.ntp_sources or []))


def _free_addresses(engine: Engine, host: Host, output: str) -> Host:
    answer, _ = _read(output, T.FREE_ADDRESSES, list[FreeNetwork])
    _check_networks(answer, T.FREE_ADDRESSES)
    # Big clusters have thousands of these texts, which few read: they are decoded only when somebody asks.
    return replace(host, free_addresses=FreeAddresses(output))


def _keeping(step: StepType, field: str, document: type[Document[Any]]) -> Handler:
    """Make the handler that keeps a step's whole answer in a field of the host, if it has the document's shape."""

    def keep(engine: Engine, host: Host, output: str) -> Host:
        answer, _ = _read(output, step, document.kind)
        return replace(host, **{field: document(output, answer)})

    return keep


def _set_speed(engine: Engine, host: Host, path: str, speed: DiskSpeed) -> Host:
    speeds = host.disks_info.value or {}
    return replace(host, disks_info=DisksInfo.of({**speeds, path: DiskInfo(path=path, disk_speed=speed)}))


def _disk_speed(engine: Engine, host: Host, output: str) -> Host:
    answer, _ = _read(output, T.DISK_SPEED, _DiskSpeed)
    path, duration = answer.path, answer.io_sync_duration
    needed = engine.view(host).needs().disk_speed_ms
    # 0 means that there is no threshold, as for the check itself.
    if needed and duration > needed:
        engine.store.add_event(
            events.make("disk_speed_slower_than_supported", host=host, disk=path, measured=duration, needed=needed)
        )
    return _set_speed(engine, host, path, DiskSpeed(tested=True, exit_code=0, speed_ms=duration))


def _images(engine: Engine, host: Host, output: str) -> Host:
    answer, sent = _read(output, T.IMAGES, _Images)
    for image in answer.images or []:
        good = image.result == ImageResult.SUCCESS
        size, seconds = image.size_bytes or 0.0, image.time or 0.0
        detail = f"time: {seconds:.2f} seconds; size: {size:.0f} bytes" if good else image.error or ""
        engine.store.add_event(
            events.make(
                "image_status_updated",
                host=host,
                severity=Severity.INFO if good else Severity.ERROR,
                image=image.name,
                result=image.result,
                detail=detail,
            )
        )
    return replace(host, images_status=ImagesStatus(json.dumps(sent.get("images") or []), answer.images or []))


def _images_named(engine: Engine, host: Host, output: str) -> Host | None:
    """Take a failed check's report of each image, as upstream's has with exit code 2; None without a report."""
    try:
        judged = _images(engine, host, output)
    except BadRequest:
        return None
    return judged if judged.images_status.value else None


def _ignore(engine: Engine, host: Host, output: str) -> Host:
    return host


HANDLERS: Mapping[StepType, Handler] = {
    T.INVENTORY: _inventory,
    T.CONNECTIVITY: _connectivity,
    T.NTP: _ntp,
    T.DOMAINS: _keeping(T.DOMAINS, "domain_name_resolutions", NameResolutions),
    T.FREE_ADDRESSES: _free_addresses,
    T.VERIFY_VIPS: _keeping(T.VERIFY_VIPS, "verified_vips", VerifiedVips),
    T.TANG: _keeping(T.TANG, "tang_connectivity", TangConnectivity),
    T.API_VIP: _keeping(T.API_VIP, "api_vip_connectivity", ApiVipConnectivity),
    T.DISK_SPEED: _disk_speed,
    T.IMAGES: _images,
}


def _failed(engine: Engine, host: Host, kind: StepType, *, code: int, output: str, error: str) -> Host:
    """Return a step that ended with a non-zero code: what follows depends on the step."""
    reason = (error or output or f"exit code {code}").strip()[-1000:]
    if code == MEDIA_DISCONNECTED:
        engine.store.add_event(events.make("host_media_disconnected", host=host, reason=reason))
        host = replace(host, media_status=MediaStatus.DISCONNECTED)
        engine.store.put_host(host)
        return engine.trigger(host, host_states.Trigger.MEDIA, media=reason).host
    if host.step_errors.get(kind.value) != reason:
        engine.store.add_event(events.make("host_step_failed", host=host, step=kind.value, reason=reason))
        host = replace(host, step_errors={**host.step_errors, kind.value: reason})
    if kind is T.INSTALL:
        engine.store.put_host(host)
        if host.status in host_states.INSTALLING:
            failure = "Failed to pull the installer image" if code == IMAGE_PULL_FAILED else "The installer failed"
            return engine.trigger(host, host_states.Trigger.FAILED, failure=f"{failure}: {reason}").host
        return host
    if kind is T.DISK_SPEED:
        path = host.installation_disk_path
        return _set_speed(engine, host, path, DiskSpeed(tested=True, exit_code=code, error=shortened(reason, 300)))
    if kind is T.IMAGES:
        judged = _images_named(engine, host, output)
        if judged is not None:
            return judged
        images = [
            Image(name=name, result=ImageResult.FAILURE, error=shortened(reason, 300))
            for name in steps.images_needed(engine.view(host))
        ]
        return replace(host, images_status=ImagesStatus.of(images))
    return host


def receive(engine: Engine, infra_env_id: str, host_id: str, reply: StepReply) -> None:
    """POST instructions: take one step's answer. Raises BadRequest when it cannot be understood."""
    if not reply.step_type:
        return  # as upstream does: an answer to nothing
    try:
        kind = StepType(reply.step_type)
    except ValueError:
        raise BadRequest(f"{shortened(reply.step_type, 80)!r} is not a step type") from None
    if not reply.exit_code and (reply.output or "").strip() == "null":
        return  # null is a Go program's empty list: there is nothing to report
    if not reply.exit_code and (reply.output or kind not in SILENT_WHILE_RUNNING) and kind in SHAPES:
        # Late answers too: a malformed one is its sender's error.
        _read(reply.output or "", kind, SHAPES[kind])
    if not _is_late(engine, infra_env_id, host_id, kind, step_id=reply.step_id or ""):
        _apply(
            engine,
            infra_env_id,
            host_id,
            kind=kind,
            code=reply.exit_code or 0,
            output=reply.output or "",
            error=reply.error or "",
        )


def _is_late(engine: Engine, infra_env_id: str, host_id: str, kind: StepType, *, step_id: str) -> bool:
    """Return whether this answers an attempt before the present one: then the step is handed out again at once."""
    if kind not in steps.OF_ATTEMPT:
        return False
    store = engine.store
    host = store.host(infra_env_id, host_id)
    attempt = store.cluster(host.cluster_id).attempt if host.cluster_id else ""
    if step_id == steps.step_id(kind, host, attempt):
        return False
    log.info("host %s: the answer to step %s is of an earlier attempt and is dropped", host_id, step_id)
    if kind.value in host.sent_steps:
        # An agent that is still busy with it has not begun the new one; the step still counts as handed out.
        with store.change():
            store.note_steps(replace(host, sent_steps={**host.sent_steps, kind.value: ""}))
        engine.scratch.asked.pop((infra_env_id, host_id), None)
    return True


def _apply(
    engine: Engine, infra_env_id: str, host_id: str, *, kind: StepType, code: int, output: str, error: str
) -> None:
    store = engine.store
    with store.change():
        host = store.host(infra_env_id, host_id)
        if kind in SILENT_WHILE_RUNNING and not code and not output:
            return
        if code:
            host = _failed(engine, host, kind, code=code, output=output, error=error)
        else:
            if host.media_status is MediaStatus.DISCONNECTED and host.status is HostStatus.DISCONNECTED:
                host = replace(host, media_status=MediaStatus.CONNECTED)
            host = HANDLERS.get(kind, _ignore)(engine, host, output)
        store.put_host(host)
        engine.reconcile_host_soon(store.host(infra_env_id, host_id))
