"""Power and the boot override as the vendors have them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from lab.bmcs.state import State, payload
from lab.bmcs.web import Refusal, Request, Response, document, no_content, refusal

_RESET = "/Actions/ComputerSystem.Reset"
_ON = ("On", "ForceOn")
_RESTARTS = ("ForceRestart", "GracefulRestart", "PowerCycle")
_OFF = ("ForceOff", "GracefulShutdown")
_OVERRIDE = ("BootSourceOverrideTarget", "BootSourceOverrideEnabled")
_ENABLED = ("Once", "Continuous", "Disabled")


@dataclass
class Power:
    """One machine's power through its BMC."""

    state: State
    _changed: float = float("-inf")
    _off: float = float("-inf")
    _ending: threading.Timer | None = None

    def unready(self) -> None:
        """Raise Refusal (503) while the BMC is busy with the last reset."""
        power = self.state.profile.power
        left = self._changed + power.unready_seconds - self.state.clock()
        if left > 0:
            raise refusal(503, power.unready_code, power.unready_message, headers={"Retry-After": f"{left:.0f}"})

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the Reset action; None for other paths. Raises Refusal."""
        if path != self.state.system + _RESET or request.method != "POST":
            return None
        power, now = self.state.profile.power, self.state.clock()
        kind = str(payload(request).get("ResetType", "On"))
        if now - self._changed < power.restless_seconds:
            raise refusal(
                400, "iLO.2.14.InvalidOperationForSystemState",
                "The operation was not successful due to the current power state.",
            )  # fmt: skip
        if kind == "On" and now - self._off < power.conflict_seconds:
            raise refusal(
                409, "Base.1.8.ActionParameterValueConflict",
                "The parameter ResetType with the requested value of On does not meet the constraints.", "ResetType",
            )  # fmt: skip
        is_on = (self.state.ask("GET", "").body or {}).get("PowerState") == "On"
        if kind in (_ON if is_on else _OFF):
            # There is nothing to do, and so nothing that anybody waits for or counts.
            return no_content()
        if kind == "ForceOff" and power.off_seconds:
            self._end_later(power.off_seconds)
            return no_content()
        with ExitStack() as begun:
            if kind in (_RESTARTS if is_on else _ON) and (self.state.restarts or kind != "GracefulRestart"):
                for reset in self.state.resets:
                    begun.enter_context(reset())
            self.state.ask("POST", _RESET, {"ResetType": kind})
        self._note(kind)
        return no_content()

    def _note(self, kind: str) -> None:
        self._changed = self.state.clock()
        if kind == "ForceOff":
            self._off = self._changed

    def _end_later(self, seconds: float) -> None:
        if self._ending is not None and self._ending.is_alive():
            return

        def end() -> None:
            # Who asked has had the answer; that the machine stays on is seen.
            with suppress(Refusal):
                self.state.ask("POST", _RESET, {"ResetType": "ForceOff"})
                self._note("ForceOff")

        self._ending = threading.Timer(seconds, end)
        self._ending.daemon = True
        self._ending.start()


@dataclass
class Boot:
    """One machine's boot override through its BMC. What the emulator reports is what a client has set there; here the
    override is the BMC's own, and handed over at each power-on."""

    state: State
    target: str = "None"
    enabled: str = "Disabled"
    _: KW_ONLY
    _started: float = float("-inf")
    _remembered: bool = False

    def __post_init__(self) -> None:
        self.state.resets.append(self._reset)

    def show(self, body: dict[str, Any]) -> None:
        """Put the override into the system's document."""
        self._remember()
        boot = body.setdefault("Boot", {})
        for name in ("UefiTargetBootSourceOverride", "HttpBootUri"):
            boot.pop(name, None)
        boot |= self._override()
        if self.state.profile.boot.settings:
            for name in [name for name in boot if name.endswith("@Redfish.AllowableValues")]:
                del boot[name]
            body["@Redfish.Settings"] = {
                "@odata.type": "#Settings.v1_3_5.Settings",
                "SettingsObject": {"@odata.id": f"{self.state.system}/Settings"},
            }

    def _override(self) -> dict[str, Any]:
        return {
            "BootSourceOverrideEnabled": self.enabled,
            "BootSourceOverrideEnabled@Redfish.AllowableValues": ["Once", "Continuous", "Disabled"],
            "BootSourceOverrideTarget": self.target,
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", *self.state.profile.boot.targets],
        }

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the Settings resource, and for PATCH of the override; None for all else. Raises Refusal."""
        settings = f"{self.state.system}/Settings"
        if path in (self.state.system, settings):
            self._remember()
        if self.state.profile.boot.settings and path == settings and request.method == "GET":
            return document(
                {
                    "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "@odata.id": settings, "Id": "Settings",
                    "Name": "Settings", "Boot": self._override(),
                }
            )  # fmt: skip
        if request.method != "PATCH" or path not in (self.state.system, settings):
            return None
        others = {name: value for name, value in payload(request).items() if "@" not in name}
        body = others.pop("Boot", None)
        if not isinstance(body, dict):
            return None
        if self.state.profile.boot.settings and path != settings:
            raise refusal(400, "Base.1.8.PropertyNotWritable", "Boot is set in the Settings resource.", "Boot")
        self._set(body, others)
        return no_content()

    def _remember(self) -> None:
        """Take over what was set for good before this BMC was started."""
        if self._remembered:
            return
        boot = self.state.ask("GET", "").body["Boot"]
        self._remembered = True
        if boot["BootSourceOverrideEnabled"] == "Continuous":
            names = {theirs: own for own, theirs in self.state.profile.boot.targets.items()}
            self.target, self.enabled = names[boot["BootSourceOverrideTarget"]], "Continuous"

    def _set(self, body: dict[str, Any], others: dict[str, Any]) -> None:
        """Change the override, and what else a request asks for, which the emulator does or refuses."""
        boot = self.state.profile.boot
        if self.state.clock() - self._started < boot.post_seconds:
            raise refusal(
                400, "iLO.2.14.UnableToModifyDuringSystemPOST",
                "The operation cannot be performed while the system is in POST.",
            )  # fmt: skip
        target = body.get("BootSourceOverrideTarget", self.target)
        if target not in ("None", *boot.targets):
            raise refusal(
                400, "Base.1.8.PropertyValueNotInList", f"The value {target} is not in the list of acceptable values.",
                "BootSourceOverrideTarget",
            )  # fmt: skip
        if boot.needs_enabled and "BootSourceOverrideTarget" in body and "BootSourceOverrideEnabled" not in body:
            raise refusal(
                400, "Base.1.8.PropertyMissing", "The property BootSourceOverrideEnabled is required.",
                "BootSourceOverrideEnabled",
            )  # fmt: skip
        enabled = body.get("BootSourceOverrideEnabled", self.enabled)
        if enabled not in _ENABLED:
            raise refusal(
                400, "Base.1.8.PropertyValueNotInList", f"The value {enabled} is not one of {', '.join(_ENABLED)}.",
                "BootSourceOverrideEnabled",
            )  # fmt: skip
        rest = {name: body[name] for name in body if name not in _OVERRIDE}
        if rest or others or not body:
            self.state.ask("PATCH", "", {**others, "Boot": rest})
        if enabled == "Once" and boot.once == "ignored":
            return
        if enabled == "Once" and boot.once == "kept":
            enabled = "Continuous"
        before = self.target, self.enabled
        self.target, self.enabled = target, "Disabled" if target == "None" else enabled
        try:
            if self.enabled != "Once":
                self._hand_over()
        except Refusal:
            self.target, self.enabled = before
            raise

    def _hand_over(self, *, once: bool = False) -> None:
        name = self.state.profile.boot.targets.get(self.target, "")
        # A running VM keeps an order that is for good until it is off: it would start from the CD again after its
        # installation. An empty disk falls through to the CD by itself.
        for_ever = name == "Cd" and not once and not self.state.restarts
        if self.enabled == "Disabled" or not name or for_ever:
            name = "None"
        wanted = {"BootSourceOverrideTarget": name, "BootSourceOverrideEnabled": "Once" if once else "Continuous"}
        self.state.ask("PATCH", "", {"Boot": wanted})

    @contextmanager
    def _reset(self) -> Iterator[None]:
        """Follow a start of the machine."""
        if self.enabled == "Once":
            self._hand_over(once=True)
        yield
        self._started = self.state.clock()
        if self.enabled == "Once":
            self.target, self.enabled = "None", "Disabled"
