"""Users' operations on infra-envs: register, change, remove (installer.md §5.1)."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from installer.assisted.enums import HostStatus, Stage
from installer.assisted.errors import BadRequest, NotFound, PrepareError
from installer.rendezvous import architectures, events
from installer.rendezvous.clock import now_text
from installer.rendezvous.discovery import liveconfig
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import releases
from installer.rendezvous.resources.requests import values
from installer.rendezvous.resources.requests.hosts import InfraEnvParams, InfraEnvUpdate, StaticNetworkParams
from installer.rendezvous.resources.requests.params import required
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, InfraEnv
from installer.rendezvous.validations.hostview import inventory_of
from installer.rendezvous.validations.networks import macs_of

replace = msgspec.structs.replace
PLAIN = (
    *("openshift_version", "cpu_architecture", "ssh_authorized_key", "pull_secret", "additional_ntp_sources"),
    *("ntp_sources", "additional_trust_bundle", "proxy", "ignition_config_override"),
)
# Fields of the specification that this service does not support.
NOT_OFFERED = ("rendezvous_ip", "network_discovery_delay_seconds")
# What GRUB, ISOLINUX and iPXE hand to the kernel as it is: no comment, no word of a shell's syntax.
ARGUMENT = re.compile(r"""(?!#|(?:\[\[|]])\Z)(?:[^"\x00-\x20\x7f$\\';&|<>{}]|"[^"\x00-\x1f\x7f$\\]*")*""")
# No CoreOS image has a larger area for them (installer.md §3.4).
LONGEST_ARGUMENTS = 1139
Check = Callable[[InfraEnv], None]
IMAGE_TYPES = ("full-iso", "minimal-iso")
# Where a host boots from what was installed, even if it waits for its user to set the boot order right.
WRITTEN = (HostStatus.INSTALLING_IN_PROGRESS, HostStatus.INSTALLING_PENDING_USER_ACTION)
FROM_DISK = (Stage.REBOOTING, Stage.WAITING_IGNITION, Stage.CONFIGURING, Stage.JOINED, Stage.DONE)


def stored_fields(params: InfraEnvUpdate) -> dict[str, Any]:
    """Fields of an infra-env from a body. Raises BadRequest."""
    body = params.sent_fields()
    values.check_offered(body, NOT_OFFERED)
    fields: dict[str, Any] = {key: body[key] for key in PLAIN if key in body}
    if not fields.get("pull_secret", "x"):
        # As upstream: an empty one changes nothing. Without any, no image could be made.
        del fields["pull_secret"]
    if not fields.get("cpu_architecture", "x86_64"):
        del fields["cpu_architecture"]
    if "cpu_architecture" in fields:
        fields["cpu_architecture"] = architectures.NAMES[fields["cpu_architecture"]]
    kind = params.image_type
    if kind is not None:
        if kind not in IMAGE_TYPES:
            raise BadRequest(f"image_type {kind!r} is not one of {', '.join(IMAGE_TYPES)}")
        fields["type"] = kind
    if params.static_network_config is not None:
        _check_static(params.static_network_config)
        fields["static_network_config"] = body["static_network_config"]
    arguments = params.kernel_arguments
    if arguments is not None:
        for item in arguments:
            # Upstream's service appends only; this one edits the image's arguments as coreos-installer does. Appending
            # an empty argument is accepted, as upstream does, and adds nothing.
            if item.operation is None or item.value is None or (item.operation != "append" and not item.value):
                raise BadRequest("kernel_arguments: each needs an operation (append, replace, delete) and a value")
            if not ARGUMENT.fullmatch(item.value):
                raise BadRequest(
                    "kernel_arguments: boot loaders would change control characters, $ and \\, and outside of double "
                    f"quotes any of ' ; & | < > {{ }}, # at the start, [[ and ]], in {item.value[:80]!r}"
                )
        size = sum(len((item.value or "").encode()) + 1 for item in arguments if item.operation != "delete")
        if size > LONGEST_ARGUMENTS:
            raise BadRequest(f"kernel_arguments: {size} bytes are more than the {LONGEST_ARGUMENTS} of an image's area")
        fields["kernel_arguments"] = body["kernel_arguments"]
    values.check_infra_env(fields, body.get("static_network_config", []))
    return fields


def _check_static(items: list[StaticNetworkParams]) -> None:
    """Each static network must have its document and the NICs that it is for. Raises BadRequest."""
    problems: list[str] = []
    owners: set[str] = set()
    for index, item in enumerate(items):
        nics = item.mac_interface_map or []
        macs = [nic.mac_address.lower() for nic in nics]
        names = [nic.logical_nic_name or "" for nic in nics]
        if item.network_yaml is None:
            problems.append(f"static_network_config[{index}].network_yaml: a text is needed")
        if not nics:
            problems.append(f"at least one interface for host {index} must be provided")
        if len(set(macs)) < len(macs) or len(set(names)) < len(names):
            problems.append(f"MACs and Interfaces for host {index} must be unique")
        if "" in names:
            problems.append(f"static_network_config[{index}].mac_interface_map: each needs a logical_nic_name")
        if owners & set(macs):
            problems.append(f"MAC addresses of host {index} are another host's too: {', '.join(owners & set(macs))}")
        owners |= set(macs)
    if problems:
        raise BadRequest("; ".join(problems))


def _check(settings: Settings, infra_env: InfraEnv, cluster: Cluster | None) -> None:
    """Raise BadRequest for what cannot be installed: fields that exclude each other, another release's version or
    architecture, or hosts of which no Ignition config can be made, as it is later for each image."""
    values.check_time_sources(infra_env.ntp_sources, infra_env.additional_ntp_sources, "additional_ntp_sources")
    if infra_env.openshift_version:
        releases.check_version(settings, infra_env.openshift_version)
    try:
        liveconfig.ignition(infra_env, settings, "", "")
    except PrepareError as error:
        raise BadRequest(str(error)) from None
    if cluster is not None:
        theirs = architectures.NAMES.get(cluster.cpu_architecture, cluster.cpu_architecture)
        if theirs not in ("", "multi", infra_env.cpu_architecture):
            raise BadRequest(
                f"cpu_architecture {infra_env.cpu_architecture} does not match that of cluster {cluster.name}, {theirs}"
            )
    architectures.check_known(settings, infra_env.cpu_architecture)


def _identity(engine: Engine) -> str:
    """Return the new infra-env's id: the one of the settings for the first (bminventory's INFRA_ENV_ID), else a random
    one."""
    wanted = engine.settings.infra_env_id
    taken = not wanted or any(infra_env.id == wanted for infra_env in engine.store.infra_envs())
    return str(uuid.uuid4()) if taken else wanted


def new(settings: Settings, body: InfraEnvParams, cluster: Cluster | None, identity: str) -> InfraEnv:
    """Return the infra-env that a body asks for, of this cluster if any. Raises BadRequest."""
    required(body.name, "name")
    required(body.pull_secret or None, "pull_secret")
    stamp = now_text()
    infra_env = msgspec.convert(
        {
            **stored_fields(body),
            "id": identity,
            "name": body.name,
            "cluster_id": body.cluster_id,
            "created_at": stamp,
            "updated_at": stamp,
        },
        InfraEnv,
    )
    _check(settings, infra_env, cluster)
    return infra_env


def _cluster_of(engine: Engine, cluster_id: str | None) -> Cluster | None:
    return engine.store.cluster(cluster_id) if cluster_id else None


def _settings_for(engine: Engine, cluster: Cluster | None, version: str, architecture: str) -> Settings:
    """Return the settings of the release that an infra-env's images are of: its cluster's, else one of its version."""
    return engine.catalogue.of(cluster) if cluster else releases.chosen(engine.catalogue, version, architecture)


def register(
    engine: Engine, body: InfraEnvParams, check: Check = lambda _: None, *, identity: str = "", request: str = ""
) -> InfraEnv:
    """RegisterInfraEnv; ``request`` names what was asked for by whoever chose the id (repeatable.py).

    `check` may raise BadRequest as well. Raises BadRequest or NotFound.
    """
    cluster = _cluster_of(engine, body.cluster_id)
    settings = _settings_for(engine, cluster, body.openshift_version or "", body.cpu_architecture or "x86_64")
    infra_env = replace(new(settings, body, cluster, identity or _identity(engine)), request=request)
    if cluster is None and settings is not engine.settings:
        infra_env = replace(infra_env, release_image=settings.release_image)
    check(infra_env)
    with engine.store.change():
        engine.store.put_infra_env(infra_env)
        engine.store.add_event(events.make("infra_env_registered", infra_env=infra_env, name=infra_env.name))
    return infra_env


def update(
    engine: Engine,
    infra_env_id: str,
    body: InfraEnvUpdate,
    check: Check = lambda _: None,
    *,
    request: str | None = None,
) -> InfraEnv:
    """UpdateInfraEnv: hosts that have booted already keep what their image had. Otherwise as ``register``."""
    with engine.store.change():
        current = engine.store.infra_env(infra_env_id)
        changes = {**msgspec.to_builtins(current), **stored_fields(body), "updated_at": now_text()}
        infra_env = msgspec.convert(changes | ({} if request is None else {"request": request}), InfraEnv)
        cluster = _cluster_of(engine, infra_env.cluster_id)
        settings = engine.catalogue.of(cluster, infra_env)
        if cluster is None and infra_env.openshift_version != current.openshift_version:
            settings = _settings_for(engine, None, infra_env.openshift_version, infra_env.cpu_architecture)
            infra_env = replace(infra_env, release_image="" if settings is engine.settings else settings.release_image)
        _check(settings, infra_env, cluster)
        check(infra_env)
        engine.store.put_infra_env(infra_env)
    return infra_env


def state_of(settings: Settings, infra_env: InfraEnv) -> str:
    """Return 16 hexadecimal digits that change with what an infra-env's images are made of, and with nothing else."""
    inputs = replace(infra_env, name="", cluster_id=None, created_at="", updated_at="", request="")
    digest = hashlib.sha256(msgspec.json.encode(inputs))
    digest.update(f"{settings.release_image} {settings.base_url}".encode())
    for file in (settings.registries_conf, settings.mirror_ca_file):
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()[:16]


def check_boots_image(engine: Engine, infra_env: InfraEnv, mac: str) -> None:
    """Raise NotFound for a machine that is to boot from its disk: iPXE then goes on with the next device."""
    for host in engine.store.hosts(infra_env_id=infra_env.id):
        inventory = inventory_of(host)
        if inventory is None or mac.lower().replace("-", ":") not in macs_of(inventory):
            continue
        stage = host.progress.current_stage
        if host.status is HostStatus.INSTALLED or (host.status in WRITTEN and stage in FROM_DISK):
            raise NotFound(f"host {host.id} with MAC address {mac} boots from its disk: it is {host.status}, {stage}")


def new_image_key(engine: Engine, infra_env_id: str) -> None:
    """Make a new key: URLs of this infra-env's images that were given out before are invalid afterwards."""
    with engine.store.change():
        infra_env = engine.store.infra_env(infra_env_id)
        engine.store.put_infra_env(replace(infra_env, image_key=secrets.token_hex(32)))


def take_release(engine: Engine, settings: Settings) -> None:
    """Let infra-envs that no release was known for be of this one, if it is for their version and architecture."""
    if engine.settings.release_image:
        return
    with engine.store.change():
        for infra_env in engine.store.infra_envs():
            if infra_env.cluster_id is None and not infra_env.release_image:
                fitting = engine.catalogue.newest(infra_env.openshift_version, infra_env.cpu_architecture)
                if fitting is settings:
                    engine.store.put_infra_env(replace(infra_env, release_image=settings.release_image))


def delete(engine: Engine, infra_env_id: str) -> None:
    """Remove an infra-env that has no hosts. Raises NotFound, or BadRequest while there are some."""
    with engine.store.change():
        infra_env = engine.store.infra_env(infra_env_id)
        hosts = engine.store.hosts(infra_env_id=infra_env_id)
        if hosts:
            names = ", ".join(host.id for host in hosts)
            raise BadRequest(
                f"failed to deregister infraEnv {infra_env_id}, {len(hosts)} hosts are still associated: {names}"
            )
        engine.store.delete_infra_env(infra_env.id)
        if infra_env.cluster_id:
            engine.reconcile(infra_env.cluster_id)
