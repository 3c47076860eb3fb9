"""The emulator's answers that are ours and not sushy-tools': what a machine boots, its power, its disks, and errors.

sushy-tools (2.2.0) writes a machine's firmware anew when a client names the one that it has, applies the parts of a
request one by one until one fails, ignores BootSourceOverrideEnabled and resets that it does not know, lists disks of
its own configuration alone, and answers errors as text or HTML, or in Python's words. Here a request is checked as a
whole before anything is done, and offers are what the machine can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import flask
from sushy_tools import error
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.controllers import virtual_media
from werkzeug.exceptions import HTTPException

from lab.bmcs.state import ROOT, payload
from lab.bmcs.web import Refusal, Response, document, no_content, refusal
from lab.daemons.redfish import storage

_ENABLED = ("Disabled", "Once", "Continuous")
_LIGHTS = ("Lit", "Blinking", "Off")
# What requests have besides the properties of the machine itself.
_TYPES = {
    "Image": str, "Inserted": bool, "WriteProtected": bool, "UserName": str, "Password": str, "CertificateString": str,
    "DateTime": str, "DateTimeLocalOffset": str, "ImageURI": str, "Targets": list,
}  # fmt: skip
# They presuppose a machine that is on.
_NEED_POWER = ("ForceRestart", "GracefulRestart", "PowerCycle", "Nmi")
_CODES = {
    401: "NoValidSession", 404: "ResourceMissingAtURI", 405: "OperationNotAllowed", 409: "ResourceInUse",
    415: "UnsupportedMediaType", 500: "InternalError", 503: "ServiceTemporarilyUnavailable",
}  # fmt: skip


class Systems(Protocol):
    """The part of a systems driver of sushy-tools' kind that the answers below need. `TARGETS` and `RESETS` are
    Redfish's names of its machines' boot sources and resets."""

    TARGETS: tuple[str, ...]
    RESETS: tuple[str, ...]

    def uuid(self, identity: str) -> str:
        """Return the id of a machine; raises AliasAccessError for another name of it."""

    def override(self, identity: str) -> tuple[str, bool]:
        """Return its first boot target ("None": as usual), and whether of the next power-on alone."""

    def set_override(self, identity: str, target: str, *, once: bool) -> None:
        """Have it boot this first, or as usual ("None")."""

    def get_boot_mode(self, identity: str) -> str:
        """UEFI or Legacy."""

    def get_secure_boot(self, identity: str) -> bool:
        """Tell whether it starts signed code alone."""

    def get_power_state(self, identity: str) -> str:
        """Return On or Off."""

    def set_power_state(self, identity: str, state: str) -> None:
        """Do one of `RESETS`."""

    def disks(self, identity: str) -> list[storage.Disk]:
        """Return its disks."""


def install(app: flask.Flask) -> None:
    """Have the emulator answer so, from its first request on."""
    if app.view_functions["system_resource"] is _system:
        return
    app.view_functions |= {
        "system_resource": _system, "system_reset_action": _reset, "secure_boot": _secure_boot,
        "storage_collection": _storage, "storage": _storage, "drive_resource": _storage,
        "volumes_collection": _volumes, "volume": _absent, "VirtualMedia.virtual_media_resource": _drive,
        "manager_resource": _manager,
        # It changed a number of a version, of firmware that stayed what it was.
        "UpdateService.update_service_resource": _absent, "UpdateService.update_service_simple_update": _absent,
    }  # fmt: skip
    app.register_error_handler(Exception, _failed)
    app.before_request(_named)
    app.before_request(_typed)
    app.after_request(_worded)


def _systems() -> Systems:
    systems: Systems = emulator.app.systems
    return systems


def _named() -> None:
    """Have a machine that is named otherwise than by its id answered with a redirection, whatever is asked of it:
    sushy-tools' books of media know none but the name of the request."""
    identity = (flask.request.view_args or {}).get("identity", "")
    if identity and flask.request.path.startswith(f"{ROOT}/Systems/"):
        uuid = _systems().uuid(identity)
        if uuid != identity:
            raise error.AliasAccessError(uuid)


def _typed() -> None:
    """Refuse a body that is no object, and words that sushy-tools takes as they come."""
    request = flask.request
    body = payload(request) if request.method in ("POST", "PATCH") and request.content_length else {}
    for name, kind in _TYPES.items():
        if not isinstance(body.get(name), (kind, type(None))):
            raise refusal(400, "Base.1.8.PropertyValueTypeError", f"{name} is of another type.", name)
    if request.path.endswith("/VirtualMedia.InsertMedia") and not body.get("Image"):
        raise refusal(400, "Base.1.8.ActionParameterMissing", "The action InsertMedia requires Image.", "Image")
    _listed(body, "IndicatorLED", _LIGHTS)


# -- the machine -------------------------------------------------------------------------------------------------------


def _system(identity: str) -> Response:
    systems = _systems()
    if flask.request.method == "PATCH":
        _change(systems, identity, payload(flask.request))
        return no_content()
    body = emulator.system_resource(identity).get_json()
    target, once = systems.override(identity)
    mode = systems.get_boot_mode(identity)
    body["Boot"] = {
        "BootSourceOverrideEnabled": "Once" if once else "Disabled" if target == "None" else "Continuous",
        "BootSourceOverrideEnabled@Redfish.AllowableValues": _ENABLED,
        "BootSourceOverrideTarget": target,
        "BootSourceOverrideTarget@Redfish.AllowableValues": ("None", *systems.TARGETS),
        "BootSourceOverrideMode": mode,
        "BootSourceOverrideMode@Redfish.AllowableValues": (mode,),
    }
    # A machine that had power stays off when it has it again.
    body["PowerRestorePolicy"] = "AlwaysOff"
    body["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = systems.RESETS
    return document(body)


def _change(systems: Systems, uuid: str, body: dict[str, Any]) -> None:
    _known(body, ("Boot", "IndicatorLED"))
    boot = body.get("Boot", {})
    if not isinstance(boot, dict):
        raise refusal(400, "Base.1.8.PropertyValueTypeError", "Boot has to be an object.", "Boot")
    names = {
        "BootSourceOverrideTarget": ("None", *systems.TARGETS), "BootSourceOverrideEnabled": _ENABLED,
        "BootSourceOverrideMode": (systems.get_boot_mode(uuid),),
    }  # fmt: skip
    _known(boot, tuple(names), "Boot/")
    for name, values in names.items():
        _listed(boot, name, values, "Boot/")
    if not boot and "IndicatorLED" not in body:
        raise refusal(400, "Base.1.8.NoOperation", "The request has nothing to change.")
    if boot.keys() - {"BootSourceOverrideMode"}:
        target, once = systems.override(uuid)
        target = boot.get("BootSourceOverrideTarget", target)
        enabled = boot.get("BootSourceOverrideEnabled", "Once" if once else "Continuous")
        usual = target == "None" or enabled == "Disabled"
        systems.set_override(uuid, "None" if usual else target, once=not usual and enabled == "Once")
    if "IndicatorLED" in body:
        emulator.app.indicators.set_indicator_state(uuid, body["IndicatorLED"])


def _known(body: Mapping[str, Any], names: tuple[str, ...], where: str = "") -> None:
    for name in body:
        # Annotations are for clients.
        if name not in names and "@" not in name:
            raise refusal(400, "Base.1.8.PropertyNotWritable", f"{where}{name} cannot be set here.", where + name)


def _listed(body: Mapping[str, Any], name: str, values: tuple[str, ...], where: str = "") -> None:
    if name in body and body[name] not in values:
        text = f"The value {str(body[name])[:80]} of {where}{name} is not one of {', '.join(values)}."
        raise refusal(400, "Base.1.8.PropertyValueNotInList", text, where + name)


def _reset(identity: str) -> Response:
    systems, body = _systems(), payload(flask.request)
    if "ResetType" not in body:
        raise refusal(400, "Base.1.8.ActionParameterMissing", "The action Reset requires ResetType.", "ResetType")
    _listed(body, "ResetType", systems.RESETS)
    if body["ResetType"] in _NEED_POWER and systems.get_power_state(identity) == "Off":
        raise refusal(409, "Base.1.8.ResourceInStandby", f"{body['ResetType']} is for a machine that is on.")
    systems.set_power_state(identity, body["ResetType"])
    return no_content()


def _secure_boot(identity: str) -> Response:
    if flask.request.method != "PATCH":
        answer: Response = emulator.secure_boot(identity)
        return answer
    body, systems = payload(flask.request), _systems()
    _known(body, ("SecureBootEnable",))
    wanted = body.get("SecureBootEnable")
    if not isinstance(wanted, bool):
        text = "SecureBootEnable has to be true or false."
        raise refusal(400, "Base.1.8.PropertyValueTypeError", text, "SecureBootEnable")
    if wanted is not systems.get_secure_boot(identity):
        text = "A machine of a lab keeps the firmware and the keys that its topology gives it."
        raise refusal(400, "Base.1.8.PropertyNotWritable", text, "SecureBootEnable")
    return no_content()


def _manager(identity: str) -> Response:
    if flask.request.method == "PATCH":
        # It set, and stopped, the clocks of all.
        raise refusal(400, "Base.1.8.PropertyNotWritable", "A BMC has its host's time, and nothing else to set.")
    answer: Response = emulator.manager_resource(identity)
    return answer


def _drive(identity: str, device: str) -> Response:
    body = virtual_media.virtual_media_resource(identity, device).get_json()
    if not body["Inserted"]:
        # Clients take a drive with an image, be it "", as one that is in use.
        body |= {"Image": None, "ImageName": None, "ConnectedVia": "NotConnected"}
    return document(body)


# -- disks -------------------------------------------------------------------------------------------------------------


def _storage(identity: str, storage_id: str = "", stg_id: str = "", drv_id: str = "") -> Response:
    path = tuple(part for part in (storage_id or stg_id, drv_id) if part)
    found = storage.document(identity, _systems().disks(identity), path)
    return document(found) if found is not None else _absent()


def _volumes(identity: str, storage_id: str) -> Response:
    if flask.request.method == "POST":
        return _absent()
    return _storage(identity, storage_id, drv_id=storage.VOLUMES)


def _absent(**_: str) -> Response:
    raise error.NotFound


# -- errors ------------------------------------------------------------------------------------------------------------


def _failed(failure: Exception) -> Any:
    request = flask.request
    if isinstance(failure, Refusal):
        return failure.response
    if isinstance(failure, error.AliasAccessError):
        place = flask.url_for(str(request.endpoint), **{**(request.view_args or {}), "identity": failure.args[0]})
        return Response("", 307, {"Location": place})
    if isinstance(failure, error.NotSupportedError):
        return _refused(404 if request.method in ("GET", "HEAD") else 400, f"This machine has no {request.path}.")
    if isinstance(failure, HTTPException):
        status = failure.code or 500
        texts = {
            400: "The request body submitted was malformed JSON.", 404: f"There is no resource at {request.path}.",
            405: f"{request.method} is not allowed on {request.path}.",
        }  # fmt: skip
        answer = _refused(status, texts.get(status, failure.name))
        answer.headers.update({name: value for name, value in failure.get_headers() if name == "Allow"})
        return answer
    if isinstance(failure, error.FishyError):
        text = str(failure)
        if text == "Not found" or text.startswith("Error finding chassis"):
            return _refused(404, f"There is no resource at {request.path}.")
        return _refused(failure.code, text)
    emulator.app.logger.exception("%s %s", request.method, request.path)
    return _refused(500, "The request failed due to an internal service error.")


def _refused(status: int, text: str) -> Response:
    return refusal(status, f"Base.1.8.{_CODES.get(status, 'GeneralError')}", text).response


def _worded(answer: flask.Response) -> flask.Response:
    """Put an error of sushy-tools' own views into Redfish's form."""
    if answer.status_code < 400:
        return answer
    body = answer.get_json(silent=True)
    failure = body.get("error") if isinstance(body, dict) else None
    information = (failure or {}).get("@Message.ExtendedInfo") or [{}]
    if "Message" not in information[0]:
        text = str((failure or {}).get("message") or answer.get_data(as_text=True))
        answer.set_data(_refused(answer.status_code, text).get_data())
    return answer
