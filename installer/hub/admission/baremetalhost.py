"""BareMetalHost: what is refused at admission (hub.md §8).

Where the API server has no webhook, the rules of a new object keep the host from registering, with the same words.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from uuid import UUID

from installer.hub.baremetal.address import AddressError, parse
from installer.hub.baremetal.states import Operational, State
from installer.hub.baremetal.status import (
    DETACHED,
    DISABLED,
    HARDWARE,
    INFRA_ENV,
    INSPECT,
    REBOOT,
    STATUS,
    host_of,
    inspects,
    json_object,
    method_of,
    spec_of,
)
from installer.hub.kube.kinds import Json, annotations_of, key_of, labels_of
from installer.hub.tables.preprovisioning import METHOD

_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_DEVICE = re.compile(r"/dev/(disk/by-path/)?[^/]+")
# Left out by name: nothing here configures them.
_NOT_SUPPORTED = {
    "raid": "RAID is not configured by node0",
    "firmware": "firmware is not configured by node0",
}


def problems(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with a BareMetalHost, a line each; `old`: as it was before an update."""
    found = [*_names(new), *_bmc(spec_of(new), inspects(new)), *_spec(new), *_annotations(new)]
    return found + (_changes(old, new) if old is not None else [])


def _names(bmh: Json) -> list[str]:
    name = key_of(bmh).name
    if not _NAME.fullmatch(name):
        return [f"metadata.name: {name!r} has other characters than A-Z a-z 0-9 . _ -"]
    try:
        UUID(name)
    except ValueError:
        return []
    return [f"metadata.name: {name} is a UUID, which names hosts and not BareMetalHosts"]


def _bmc(spec: Json, inspected: bool) -> list[str]:
    bmc, found = spec.get("bmc") or {}, []
    mac = str(spec.get("bootMACAddress") or "")
    if mac and not _MAC.fullmatch(mac):
        found.append(f"spec.bootMACAddress: {mac!r} is no MAC address")
    if not (address := bmc.get("address")):
        return found
    try:
        kind = parse(str(address)).kind
    except AddressError as error:
        return [*found, f"spec.bmc.address: {error}"]
    if not bmc.get("credentialsName"):
        found.append("spec.bmc.credentialsName: the Secret with the BMC's login is missing")
    if not mac and not inspected:
        found.append(f"spec.bootMACAddress: {kind} needs it where inspection is disabled")
    return found


def _spec(bmh: Json) -> list[str]:
    spec, found = spec_of(bmh), []
    found += [f"spec.{name}: {why}" for name, why in _NOT_SUPPORTED.items() if spec.get(name)]
    method = method_of(bmh)
    if method and method != METHOD:
        found.append(f"spec.customDeploy.method: {method!r} is not {METHOD}, the only one that node0 has")
    elif method and INFRA_ENV not in labels_of(bmh):
        found.append(f"spec.customDeploy.method: {METHOD} needs the label {INFRA_ENV}")
    device = str((spec.get("rootDeviceHints") or {}).get("deviceName") or "")
    if device and not _DEVICE.fullmatch(device):
        found.append(f"spec.rootDeviceHints.deviceName: {device!r} is not in /dev or /dev/disk/by-path")
    if image := spec.get("image"):
        found += _image(image)
    if spec.get("disablePowerOff") and not spec.get("online"):
        found.append("spec.online: false and disablePowerOff: true exclude each other")
    for name in ("userData", "networkData", "metaData"):
        namespace = (spec.get(name) or {}).get("namespace") or ""
        if namespace not in ("", key_of(bmh).namespace):
            found.append(f"spec.{name}.namespace: {namespace} is another namespace, whose Secrets are not used")
    return found


def _image(image: Json) -> list[str]:
    if image.get("format") != "live-iso":
        return [f"spec.image.format: {image.get('format') or 'none'} is not live-iso, the only one that node0 boots"]
    return [] if is_web_url(str(image.get("url") or "")) else ["spec.image.url: it is no URL of http or https"]


def is_web_url(url: str) -> bool:
    """Return whether it is a URL of http or https with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _annotations(bmh: Json) -> list[str]:
    annotations, found = annotations_of(bmh), []
    for name, value in annotations.items():
        if name.split("/")[0] == REBOOT and value:
            arguments = json_object(value)
            if arguments is None or arguments.get("mode", "") not in ("", "hard", "soft"):
                found.append(f'annotation {name}: it is not {{"mode": "hard"}} or {{"mode": "soft"}}')
    if annotations.get(INSPECT, "") not in ("", DISABLED):
        found.append(f'annotation {INSPECT}: it is neither "{DISABLED}" nor ""')
    texts = [(name, annotations[name]) for name in (STATUS, HARDWARE) if annotations.get(name)]
    found += [f"annotation {name}: it is no JSON object" for name, text in texts if json_object(text) is None]
    if annotations.get(HARDWARE) and inspects(bmh):
        found.append(f"annotation {HARDWARE}: it is taken only where inspection is disabled")
    return found


def _changes(old: Json, new: Json) -> list[str]:
    before, after, host, found = spec_of(old), spec_of(new), host_of(old), []
    address, other = ((spec.get("bmc") or {}).get("address") or "" for spec in (before, after))
    free = host.state in (State.NONE, State.UNMANAGED, State.REGISTERING) or host.operational is Operational.DETACHED
    if address and address != other and not free and DETACHED not in annotations_of(old):
        found.append("spec.bmc.address: it changes only while the host is registering or detached")
    mac, its = (str(spec.get("bootMACAddress") or "").lower() for spec in (before, after))
    if mac and mac != its:
        found.append("spec.bootMACAddress: it does not change once it is set")
    external = after.get("externallyProvisioned") and not before.get("externallyProvisioned")
    if external and host.state not in (State.AVAILABLE, State.NONE, State.UNMANAGED, State.REGISTERING):
        found.append(f"spec.externallyProvisioned: it is set in the state available only, not in {host.state}")
    return found
