"""What users do to infra-envs: register, change, remove (installer.md §5.1)."""

from __future__ import annotations

import json
import re
import secrets
import uuid
from typing import Any

import msgspec

from installer.assisted import plainjson
from installer.assisted.errors import BadRequest, Conflict
from installer.rendezvous import architectures, events
from installer.rendezvous.clock import now_text
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import values
from installer.rendezvous.resources.params import told
from installer.rendezvous.resources.requests import InfraEnvParams
from installer.rendezvous.states.host import ACTIVE_HOST
from installer.rendezvous.store.model import InfraEnv
from installer.rendezvous.store.shapes import StaticNetwork

replace = msgspec.structs.replace
PLAIN = (
    *("openshift_version", "cpu_architecture", "ssh_authorized_key", "pull_secret", "additional_ntp_sources"),
    *("additional_trust_bundle", "proxy", "ignition_config_override"),
)
# As the specification has it.
KERNEL_ARGUMENT = re.compile(r'(?:[^ \t\n\r"]+|"[^"]*")+')
IMAGE_TYPES = ("full-iso", "minimal-iso")


def _fields(params: InfraEnvParams) -> dict[str, Any]:
    """Fields of an infra-env from a body. Raises BadRequest."""
    body = params.given()
    fields: dict[str, Any] = {key: body[key] for key in PLAIN if key in body}
    if "cpu_architecture" in fields:
        given = fields["cpu_architecture"]
        if given not in architectures.NAMES:
            raise BadRequest(f"cpu_architecture {given!r} is not one of {', '.join(architectures.NAMES)}")
        fields["cpu_architecture"] = architectures.NAMES[given]
    kind = params.image_type
    if kind is not None:
        if kind not in IMAGE_TYPES:
            raise BadRequest(f"image_type {kind!r} is not one of {', '.join(IMAGE_TYPES)}")
        fields["type"] = kind
    if params.static_network_config is not None:
        fields["static_network_config"] = _static(params.static_network_config)
    arguments = params.kernel_arguments
    if arguments is not None:
        for item in arguments:
            if item.get("operation") not in ("append", "replace", "delete"):
                raise BadRequest("kernel_arguments: each needs an operation (append, replace, delete) and a value")
            if not KERNEL_ARGUMENT.fullmatch(item.get("value") or ""):
                raise BadRequest(f"kernel_arguments: {item.get('value')!r} is not one argument; quote its blanks")
        fields["kernel_arguments"] = json.dumps(arguments) if arguments else ""
    values.check_infra_env(fields, params.static_network_config or [])
    override = params.ignition_config_override
    if override:
        from installer.assisted.errors import PrepareError
        from installer.rendezvous.prepare import hostignition

        try:
            hostignition.parse(override, "ignition_config_override", plainjson.parsed)
        except PrepareError as error:
            raise BadRequest(str(error)) from None
    return fields


def _static(items: list[StaticNetwork]) -> str:
    """The static networks as text; each must have its document and the NICs that it is for. Raises BadRequest."""
    for index, item in enumerate(items):
        where = f"static_network_config[{index}]"
        if item.get("network_yaml") is None:
            raise BadRequest(f"{where}.network_yaml: a text is needed")
        for nic in item.get("mac_interface_map") or []:
            if not nic.get("mac_address") or not nic.get("logical_nic_name"):
                raise BadRequest(f"{where}.mac_interface_map: mac_address and logical_nic_name are needed")
    return json.dumps(items) if items else ""


def _built(fields: dict[str, Any]) -> InfraEnv:
    try:
        return msgspec.convert(fields, InfraEnv)
    except msgspec.ValidationError as error:
        raise BadRequest(told(error, "infra-env")) from None


def _check_architecture(engine: Engine, infra_env: InfraEnv) -> None:
    """Is it the cluster's, and does the release offer it? Raises BadRequest."""
    if infra_env.cluster_id:
        cluster = engine.store.cluster(infra_env.cluster_id)
        theirs = architectures.NAMES.get(cluster.cpu_architecture, cluster.cpu_architecture)
        if theirs not in ("", "multi", infra_env.cpu_architecture):
            raise BadRequest(
                f"cpu_architecture {infra_env.cpu_architecture} does not match that of cluster {cluster.name}, {theirs}"
            )
    architectures.check_known(engine.settings, infra_env.cpu_architecture)


def register(engine: Engine, body: InfraEnvParams) -> InfraEnv:
    """RegisterInfraEnv. Raises BadRequest or NotFound."""
    for key in ("name", "pull_secret"):
        if not getattr(body, key):
            raise BadRequest(f"{key} is required")
    if body.cluster_id:
        engine.store.cluster(body.cluster_id)
    stamp = now_text()
    infra_env = _built(
        {
            **_fields(body),
            "id": str(uuid.uuid4()),
            "name": body.name,
            "cluster_id": body.cluster_id,
            "created_at": stamp,
            "updated_at": stamp,
        }
    )
    _check_architecture(engine, infra_env)
    with engine.store.change():
        engine.store.put_infra_env(infra_env)
        engine.store.add_event(events.make("infra_env_registered", infra_env=infra_env, name=infra_env.name))
    return infra_env


def update(engine: Engine, infra_env_id: str, body: InfraEnvParams) -> InfraEnv:
    """UpdateInfraEnv: hosts that have booted keep what their image had. Raises BadRequest or NotFound."""
    with engine.store.change():
        known = engine.store.infra_env(infra_env_id)
        infra_env = _built({**msgspec.to_builtins(known), **_fields(body), "updated_at": now_text()})
        _check_architecture(engine, infra_env)
        engine.store.put_infra_env(infra_env)
    return infra_env


def new_image_key(engine: Engine, infra_env_id: str) -> None:
    """URLs of this infra-env's images that were given out before are worth nothing afterwards."""
    with engine.store.change():
        infra_env = engine.store.infra_env(infra_env_id)
        engine.store.put_infra_env(replace(infra_env, image_key=secrets.token_hex(32)))


def delete(engine: Engine, infra_env_id: str) -> None:
    """Remove an infra-env and its hosts. Raises NotFound, or Conflict while one of them is being installed."""
    with engine.store.change():
        infra_env = engine.store.infra_env(infra_env_id)
        busy = [host.id for host in engine.store.hosts(infra_env_id=infra_env_id) if host.status in ACTIVE_HOST]
        if busy:
            raise Conflict(f"infra-env {infra_env_id} has hosts that are being installed: {', '.join(busy)}")
        engine.store.delete_infra_env(infra_env.id)
        if infra_env.cluster_id:
            engine.reconcile(infra_env.cluster_id)
