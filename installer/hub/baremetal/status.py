"""A BareMetalHost's spec, annotations and status, from and to what the states (states.py) work with (hub.md §2, §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from installer.common.formats import jsontext
from installer.hub.baremetal.states import OLD_NAMES, Credentials, Fault, Host, Operational, State, Wanted
from installer.hub.conditions import NO_SECOND, Condition, set_conditions, timestamp
from installer.hub.kube.kinds import Json, annotations_of, is_deleted, key_of, labels_of

INFRA_ENV = "infraenvs.agent-install.openshift.io"
PAUSED, DETACHED = "baremetalhost.metal3.io/paused", "baremetalhost.metal3.io/detached"
STATUS = "baremetalhost.metal3.io/status"
REBOOT, INSPECT = "reboot.metal3.io", "inspect.metal3.io"
HARDWARE = "inspect.metal3.io/hardwaredetails"
DISABLED = "disabled"
_TRUE, _FALSE, _UNKNOWN = "True", "False", "Unknown"
_OPERATIONS = {
    State.REGISTERING: "register",
    State.INSPECTING: "inspect",
    State.PROVISIONING: "provision",
    State.DEPROVISIONING: "deprovision",
}
_PROGRESS = {
    State.REGISTERING: "Registering",
    State.INSPECTING: "Inspecting",
    State.PREPARING: "Preparing",
    State.PROVISIONING: "Provisioning",
    State.DEPROVISIONING: "Deprovisioning",
    State.POWERING_OFF: "PoweringOffBeforeDelete",
    State.DELETING: "Deleting",
}
_HEALTH = {"OK": (_TRUE, "Healthy"), "Warning": (_FALSE, "Warning"), "Critical": (_FALSE, "CriticalError")}
_REGISTRATION = (Fault.REGISTRATION, Fault.PROVISIONED_REGISTRATION)


def spec_of(bmh: Json) -> Json:
    """Return a BareMetalHost's spec; the API takes one without any."""
    return bmh.get("spec") or {}


def image_url(bmh: Json) -> str:
    """Return the URL of the image that a host is to have."""
    return str((spec_of(bmh).get("image") or {}).get("url") or "")


def inspects(bmh: Json) -> bool:
    """Return whether a host is to be inspected."""
    return DISABLED not in (spec_of(bmh).get("inspectionMode"), annotations_of(bmh).get(INSPECT))


def method_of(bmh: Json) -> str:
    """Return the way to deploy a host that has no image of its own; empty for one that has."""
    return str((spec_of(bmh).get("customDeploy") or {}).get("method") or "")


def wanted_of(bmh: Json, prepared: str = "") -> Wanted:
    """Return what a BareMetalHost asks for. Values of annotations that cannot be read count as their defaults.

    ``prepared``: the URL of its PreprovisioningImage, which a host with a custom deploy method boots.
    """
    image = prepared if method_of(bmh) else image_url(bmh)
    spec, annotations = spec_of(bmh), annotations_of(bmh)
    reboots = {name: value for name, value in annotations.items() if name.split("/")[0] == REBOOT}
    detached = _arguments(annotations.get(DETACHED, ""))
    return Wanted(
        managed=bool((spec.get("bmc") or {}).get("address")),
        image=image,
        awaits_image=bool(labels_of(bmh).get(INFRA_ENV)) and not image,
        online=bool(spec.get("online")),
        externally_provisioned=bool(spec.get("externallyProvisioned")),
        inspection=inspects(bmh),
        inspect_again=annotations.get(INSPECT, DISABLED) != DISABLED,
        detached=DETACHED in annotations,
        detach_forced=detached.get("force") is True,
        deletion_delayed=detached.get("deleteAction") == "delay",
        deleting=is_deleted(bmh),
        reboot=REBOOT in reboots,
        held_off=any(name != REBOOT for name in reboots),
        hard=any(_arguments(value).get("mode") == "hard" for value in reboots.values()),
        never_off=bool(spec.get("disablePowerOff")),
    )


def _arguments(text: str) -> Mapping[str, Any]:
    return json_object(text) or {}


def json_object(text: str) -> Json | None:
    """Return the JSON object that an annotation's value is, None for anything else."""
    try:
        value = jsontext.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def host_of(bmh: Json) -> Host:
    """Return what a BareMetalHost's status says; a state that is not known begins anew."""
    status = bmh.get("status") or {}
    provisioning = status.get("provisioning") or {}
    name = provisioning.get("state", "")
    return Host(
        OLD_NAMES.get(name) or _member(State, name, State.NONE),
        operational=_member(Operational, status.get("operationalStatus"), Operational.OK),
        fault=_member(Fault, status.get("errorType"), Fault.NONE),
        message=status.get("errorMessage", ""),
        errors=status.get("errorCount", 0),
        provisioning_failures=status.get("provisioningFailCount", 0),
        image=(provisioning.get("image") or {}).get("url", ""),
        powered_on=bool(status.get("poweredOn")),
    )


def _member(kind: Any, value: Any, default: Any) -> Any:
    return kind(value) if value in tuple(kind) else default


def reference(bmh: Json) -> Json:
    """Return the reference of a status to the BMC's Secret."""
    return {"name": (spec_of(bmh).get("bmc") or {}).get("credentialsName", ""), "namespace": key_of(bmh).namespace}


def credentials_of(bmh: Json, version: str) -> Credentials:
    """Compare the BMC's Secret, of which `version` is the resourceVersion (empty: not usable), with what worked."""
    if not version:
        return Credentials.MISSING
    good = (bmh.get("status") or {}).get("goodCredentials") or {}
    same = good == {"credentials": reference(bmh), "credentialsVersion": version}
    return Credentials.GOOD if same else Credentials.CHANGED


def status_of(
    old: Json, host: Host, conditions: Iterable[Condition], now: datetime, *, version: str = "", worked: bool = False
) -> Json:
    """Return the status that says `host`, with what else `old` has. `version` of the Secret was used, and it `worked`.

    `lastUpdated` changes with the rest only.
    """
    before = old.get("status") or {}
    was = before.get("provisioning") or {}
    provisioning = {**was, "ID": was.get("ID") or old["metadata"].get("uid", ""), "state": host.state.value}
    provisioning.pop("image", None)
    provisioning.pop("customDeploy", None)
    if host.image:
        provisioning["image"] = {"url": host.image, "format": "live-iso"}
    if host.image and (method := method_of(old)):
        provisioning["customDeploy"] = {"method": method}
    if hints := spec_of(old).get("rootDeviceHints"):
        provisioning["rootDeviceHints"] = hints
    status = {
        **before,
        "operationalStatus": host.operational.value,
        "errorMessage": host.message,
        "errorCount": host.errors,
        "poweredOn": host.powered_on,
        "provisioning": provisioning,
        "provisioningFailCount": host.provisioning_failures,
        "conditions": set_conditions(before.get("conditions") or (), list(conditions), now, second=NO_SECOND),
    }
    status.pop("errorType", None)
    if host.fault:
        status["errorType"] = host.fault.value
    if version:
        used = {"credentials": reference(old), "credentialsVersion": version}
        status["triedCredentials"] = used
        if worked:
            status["goodCredentials"] = used
    if history := _history(before, was.get("state", ""), host.state, timestamp(now)):
        status["operationHistory"] = history
    if host.state is State.PROVISIONING:
        status["lastAttemptedImage"] = provisioning["image"]
    return status if status == before else {**status, "lastUpdated": timestamp(now)}


def _history(before: Json, old: str, state: State, now: str) -> Json:
    history = {name: dict(times) for name, times in (before.get("operationHistory") or {}).items()}
    if old == state.value:
        return history
    if ended := _OPERATIONS.get(_member(State, old, State.NONE)):
        history.setdefault(ended, {"start": now})["end"] = now
    if begun := _OPERATIONS.get(state):
        history[begun] = {"start": now, "end": None}
    return history


def conditions_of(host: Host, *, why: str = "", problem: str = "", health: str = "") -> list[Condition]:
    """Return a host's conditions. `why` it takes time; `problem` of its pairing with an Agent, in one sentence; its
    `health` as Redfish has it, empty for one that was not read."""
    in_use = host.state in (State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
    available = host.state is State.AVAILABLE
    conditions = [
        _manageable(host),
        Condition("AvailableForProvisioning", str(available), "Available" if available else "NotAvailable"),
        Condition("Provisioned", str(in_use), "Provisioned" if in_use else "NotProvisioned"),
        _ready(host, in_use, problem),
        _progressing(host, why),
    ]
    if health:
        status, reason = _HEALTH.get(health, (_UNKNOWN, "Unknown"))
        conditions.append(Condition("Healthy", status, reason))
    return conditions


def _manageable(host: Host) -> Condition:
    if host.state in (State.NONE, State.UNMANAGED):
        return Condition("Manageable", _FALSE, "NotManaged", "spec.bmc.address names no BMC")
    if host.fault in _REGISTRATION:
        return Condition("Manageable", _FALSE, "RegistrationFailed", host.message)
    if host.state is State.REGISTERING:
        return Condition("Manageable", _FALSE, "Registering")
    if host.fault is Fault.POWER:
        return Condition("Manageable", _FALSE, "PowerFailure", host.message)
    return Condition("Manageable", _TRUE, "Manageable")


def _ready(host: Host, in_use: bool, problem: str) -> Condition:
    if host.operational is Operational.ERROR:
        return Condition("Ready", _FALSE, "Error", host.message)
    if problem:
        return Condition("Ready", _FALSE, "Error", problem)
    if host.operational is Operational.DETACHED:
        return Condition("Ready", _FALSE, "Detached")
    return Condition("Ready", str(in_use), "Provisioned" if in_use else "NotProvisioned")


def _progressing(host: Host, why: str) -> Condition:
    if host.operational is Operational.DETACHED:
        return Condition("Progressing", _FALSE, "Detached")
    if reason := _PROGRESS.get(host.state):
        return Condition("Progressing", _TRUE, reason, why)
    return Condition("Progressing", _FALSE, "NotProgressing")
