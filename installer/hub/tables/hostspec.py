"""An Agent's spec against the service's host: the changes that are to be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from installer.assisted.errors import BadRequest
from installer.common.formats import jsontext
from installer.hub.kube.kinds import Key
from installer.hub.tables.clusterspec import SpecError
from installer.hub.tables.facts import Json
from installer.rendezvous.resources.requests.values import headers

#: Entries of a Secret with the BMC's login, by their names in the API; the last may be missing.
FENCING = {
    "address": "address",
    "username": "username",
    "password": "password",
    "certificate_verification": "certificateVerification",
}


@dataclass(frozen=True)
class HostChanges:
    """Changes of a host: host-update-params, and what has requests of its own; None: none."""

    params: Json = field(default_factory=dict, repr=False)
    installer_args: list[str] | None = None
    ignition: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.params) or self.installer_args is not None or self.ignition is not None


def installer_args(spec: Mapping[str, Any]) -> list[str]:
    """Return the arguments of coreos-installer, a JSON list in a text. Raises SpecError."""
    text = spec.get("installerArgs") or ""
    try:
        found = jsontext.parsed(text) if text else []
    except ValueError as error:
        raise SpecError(f"spec.installerArgs is not JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise SpecError("spec.installerArgs must be a JSON list of strings")
    return found


def check(spec: Mapping[str, Any]) -> None:
    """Raise SpecError for what is wrong with an Agent's spec in itself."""
    if spec.get("installation_disk_id") and spec.get("installation_disk_path"):
        raise SpecError("spec.installation_disk_id and spec.installation_disk_path exclude each other")
    installer_args(spec)
    try:
        headers("", spec.get("ignitionEndpointHTTPHeaders") or {})
    except BadRequest as error:
        raise SpecError(
            error.reason.replace("ignition_endpoint_http_headers", "spec.ignitionEndpointHTTPHeaders")
        ) from None


def token_key(agent: Mapping[str, Any]) -> Key:
    """Return the key of the Secret with the token for a host's Ignition, without a name if there is none.

    Raises SpecError: Secrets of other namespaces are not the Agent's to use.
    """
    reference = (agent.get("spec") or {}).get("ignitionEndpointTokenReference") or {}
    own = str(agent["metadata"].get("namespace") or "")
    if (namespace := reference.get("namespace") or own) != own:
        field = "spec.ignitionEndpointTokenReference.namespace"
        raise SpecError(f"{field}: {namespace!r}: must be {own!r}, as the Agent's")
    return Key(own, str(reference.get("name") or ""))


def _object(text: str) -> Any:
    try:
        return jsontext.parsed(text) if text else None
    except ValueError:
        return text


def changes(spec: Mapping[str, Any], host: Mapping[str, Any]) -> HostChanges:
    """Return what the service is to be sent so that the host is as the spec wants it. Raises SpecError.

    A text that the spec leaves empty says nothing, apart from overrides, arguments and labels, which it takes back.
    """
    check(spec)
    params: Json = {}
    fields = {"role": "role", "hostname": "requested_hostname", "machineConfigPool": "machine_config_pool_name"}
    names = {"role": "host_role", "hostname": "host_name", "machineConfigPool": "machine_config_pool_name"}
    for key, shown in fields.items():
        if spec.get(key) and spec[key] != host.get(shown):
            params[names[key]] = spec[key]
    disk = spec.get("installation_disk_id") or spec.get("installation_disk_path")
    if disk and disk not in _disk_names(host):
        params["disks_selected_config"] = [{"id": disk, "role": "install"}]
    labels = {str(key): str(value) for key, value in (spec.get("nodeLabels") or {}).items()}
    if labels != (_object(host.get("node_labels") or "") or {}):
        params["node_labels"] = [{"key": key, "value": value} for key, value in sorted(labels.items())]
    args, ignition = installer_args(spec), spec.get("ignitionConfigOverrides") or ""
    return HostChanges(
        params,
        args if args != (_object(host.get("installer_args") or "") or []) else None,
        ignition if ignition != (host.get("ignition_config_overrides") or "") else None,
    )


def _disk_names(host: Mapping[str, Any]) -> set[str]:
    """Return all names of the disk that the host is to be installed on."""
    chosen = {str(host[key]) for key in ("installation_disk_id", "installation_disk_path") if host.get(key)}
    inventory = _object(host.get("inventory") or "")
    for disk in inventory.get("disks") or () if isinstance(inventory, dict) else ():
        names = {str(disk[key]) for key in ("id", "path", "by_id", "by_path") if disk.get(key)}
        if names & chosen:
            return names | chosen
    return chosen
