"""Metal3's states of a BareMetalHost, as functions of its wanted and its actual state (hub.md §8).

`plan` returns the next step, `settle` its result. Both are pure: no clock, no network.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum

from installer.hub.baremetal.provisioner import Busy, Done, Failed, Outcome, Power


class State(StrEnum):
    """`status.provisioning.state`."""

    NONE = ""
    UNMANAGED = "unmanaged"
    REGISTERING = "registering"
    INSPECTING = "inspecting"
    PREPARING = "preparing"
    AVAILABLE = "available"
    PROVISIONING = "provisioning"
    PROVISIONED = "provisioned"
    EXTERNALLY_PROVISIONED = "externally provisioned"
    DEPROVISIONING = "deprovisioning"
    POWERING_OFF = "powering off before delete"
    DELETING = "deleting"


class Operational(StrEnum):
    """`status.operationalStatus`."""

    NONE = ""
    OK = "OK"
    DISCOVERED = "discovered"
    ERROR = "error"
    DETACHED = "detached"


class Fault(StrEnum):
    """`status.errorType`."""

    NONE = ""
    PROVISIONED_REGISTRATION = "provisioned registration error"
    REGISTRATION = "registration error"
    INSPECTION = "inspection error"
    PREPARATION = "preparation error"
    PROVISIONING = "provisioning error"
    POWER = "power management error"
    DETACH = "detach error"

    @property
    def event(self) -> str:
        """The reason of its events."""
        return self.value.title().replace(" ", "")


class Action(StrEnum):
    """A call of the Provisioner, or none."""

    NOTHING = "nothing"
    REGISTER = "register"
    INSPECT = "inspect"
    PREPARE = "prepare"
    PROVISION = "provision"
    DEPROVISION = "deprovision"
    POWER = "power"
    DETACH = "detach"
    ATTACH = "attach"
    DELETE = "delete"


class Credentials(StrEnum):
    """The BMC's Secret, compared with `status.goodCredentials`."""

    GOOD = "good"
    CHANGED = "changed"
    MISSING = "missing"


OLD_NAMES = {"ready": State.AVAILABLE, "match profile": State.PREPARING}
RETRIES = 3
POWER_SECONDS = 60.0
IDLE_SECONDS = 600.0
_FIRST_WAIT, _LONGEST_WAIT, _PASSING_WAIT = 10.0, 600.0, 30.0

_DETACHABLE = frozenset({State.PROVISIONED, State.EXTERNALLY_PROVISIONED, State.AVAILABLE})
_UNREGISTERED = frozenset({State.NONE, State.UNMANAGED, State.DELETING})
_DETACHABLE_BY_FORCE = frozenset(State) - _UNREGISTERED
# The way out of each state for a host that is deleted; the rest leads to POWERING_OFF.
_DELETION = {
    State.NONE: State.DELETING,
    State.UNMANAGED: State.DELETING,
    State.REGISTERING: State.DELETING,
    State.PROVISIONING: State.DEPROVISIONING,
    State.PROVISIONED: State.DEPROVISIONING,
}
_STARTED = {
    State.UNMANAGED: ("Discovered", "Discovered host with no BMC details"),
    State.INSPECTING: ("InspectionStarted", "Hardware inspection started"),
    State.PROVISIONING: ("ProvisioningStarted", "Image provisioning started for {image}"),
    State.DEPROVISIONING: ("DeprovisioningStarted", "Image deprovisioning started"),
}
_COMPLETED = {
    Action.REGISTER: ("BMCAccessValidated", "Verified access to BMC"),
    Action.INSPECT: ("InspectionComplete", "Hardware inspection completed"),
    Action.PROVISION: ("ProvisioningComplete", "Image provisioning completed for {image}"),
    Action.DEPROVISION: ("DeprovisioningComplete", "Image deprovisioning completed"),
}


@dataclass(frozen=True)
class Wanted:
    """The spec, the annotations and the deletion of a BareMetalHost, as far as they decide its state.

    `awaits_image`: one will come, so that starting the machine before would only cost the time to stop it again.
    """

    _: KW_ONLY
    managed: bool = True
    image: str = ""
    awaits_image: bool = False
    online: bool = True
    externally_provisioned: bool = False
    inspection: bool = True
    inspect_again: bool = False
    detached: bool = False
    detach_forced: bool = False
    deletion_delayed: bool = False
    deleting: bool = False
    reboot: bool = False
    held_off: bool = False
    hard: bool = False
    never_off: bool = False


@dataclass(frozen=True)
class Host:
    """The part of a BareMetalHost's status that decides; `image` is the URL of its last provisioning."""

    state: State = State.NONE
    _: KW_ONLY
    operational: Operational = Operational.NONE
    fault: Fault = Fault.NONE
    message: str = ""
    errors: int = 0
    provisioning_failures: int = 0
    image: str = ""
    powered_on: bool = False


@dataclass(frozen=True)
class Step:
    """One action: `then` the state after its success, `fault` the type of its failure, `wait` seconds to the next."""

    action: Action = Action.NOTHING
    then: State | None = None
    fault: Fault = Fault.NONE
    _: KW_ONLY
    wait: float = 0.0
    order: Power = Power.ON


@dataclass(frozen=True)
class Settled:
    """A step's result: the new status, events as (reason, message), and the seconds to the next look (None: when
    something changes). `rebooted`, `inspected`: the annotation that asked for it is done with; `why` it takes time."""

    host: Host
    events: tuple[tuple[str, str], ...] = ()
    wait: float | None = 0.0
    rebooted: bool = False
    inspected: bool = False
    why: str = ""


def backoff(errors: int, passing: bool = False) -> float:
    """Return the seconds to wait after that many failures in a row; less if the BMC is merely not ready."""
    return min(_FIRST_WAIT * 2.0 ** min(max(errors - 1, 0), 10), _PASSING_WAIT if passing else _LONGEST_WAIT)


def plan(wanted: Wanted, host: Host, credentials: Credentials) -> Step:
    """Return the next step of a host."""
    deleting = wanted.deleting and not (wanted.detached and wanted.deletion_delayed)
    if deleting and (way := _way_out(wanted, host, credentials)):
        return way
    if host.state is State.DELETING:
        return Step(Action.DELETE)
    if wanted.detached and host.state in (_DETACHABLE_BY_FORCE if wanted.detach_forced else _DETACHABLE):
        if host.operational is Operational.DETACHED:
            return Step(wait=IDLE_SECONDS)
        return Step(Action.DETACH, None, Fault.DETACH, wait=IDLE_SECONDS)
    if host.operational is Operational.DETACHED or host.fault is Fault.DETACH:
        return Step(Action.ATTACH)
    if registration := _registration(wanted, host, credentials):
        return registration
    return _BY_STATE[host.state](wanted, host, deleting)


def _way_out(wanted: Wanted, host: Host, credentials: Credentials) -> Step | None:
    """Return the next step of a host's deletion, None where its state's own step comes first."""
    if host.state is State.DELETING:
        return None
    if wanted.detached:
        return Step(then=State.DELETING)
    if host.state in (State.DEPROVISIONING, State.POWERING_OFF):
        if credentials is Credentials.MISSING or (
            host.errors >= RETRIES and (host.state is State.POWERING_OFF or host.fault is Fault.REGISTRATION)
        ):
            return Step(then=State.DELETING)
        return Step(then=State.POWERING_OFF) if host.errors >= RETRIES else None
    return Step(then=_DELETION.get(host.state, State.POWERING_OFF))


def _registration(wanted: Wanted, host: Host, credentials: Credentials) -> Step | None:
    """Return the step that registers a host, or checks its credentials again without a change of state."""
    if host.state in _UNREGISTERED:
        return None
    in_use = host.state in (State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
    fault = Fault.PROVISIONED_REGISTRATION if in_use else Fault.REGISTRATION
    if host.state is State.REGISTERING:
        then = State.INSPECTING if wanted.inspection else State.PREPARING
        return Step(Action.REGISTER, State.EXTERNALLY_PROVISIONED if wanted.externally_provisioned else then, fault)
    if credentials is not Credentials.GOOD or host.fault in (Fault.REGISTRATION, Fault.PROVISIONED_REGISTRATION):
        return Step(Action.REGISTER, None, fault)
    return None


def _in_none(wanted: Wanted, _host: Host, _deleting: bool) -> Step:
    if wanted.managed:
        return Step(then=State.REGISTERING)
    return Step(then=State.UNMANAGED)


def _in_unmanaged(wanted: Wanted, _host: Host, _deleting: bool) -> Step:
    return Step(then=State.REGISTERING) if wanted.managed else Step(wait=IDLE_SECONDS)


def _in_inspecting(wanted: Wanted, _host: Host, _deleting: bool) -> Step:
    if not wanted.inspection:
        return Step(then=State.PREPARING)
    return Step(Action.INSPECT, State.PREPARING, Fault.INSPECTION)


def _in_preparing(_wanted: Wanted, _host: Host, _deleting: bool) -> Step:
    return Step(Action.PREPARE, State.AVAILABLE, Fault.PREPARATION)


def _in_available(wanted: Wanted, host: Host, _deleting: bool) -> Step:
    if wanted.externally_provisioned:
        return Step(then=State.EXTERNALLY_PROVISIONED)
    if wanted.inspect_again and wanted.inspection:
        return Step(then=State.INSPECTING)
    if wanted.image and wanted.online:
        return Step(then=State.PROVISIONING)
    return Step(wait=POWER_SECONDS) if wanted.awaits_image and wanted.online else _power(wanted, host)


def _in_provisioning(wanted: Wanted, host: Host, _deleting: bool) -> Step:
    if host.fault is not Fault.NONE or _is_cancelled(wanted, host):
        return Step(then=State.DEPROVISIONING)
    return Step(Action.PROVISION, State.PROVISIONED, Fault.PROVISIONING)


def _in_provisioned(wanted: Wanted, host: Host, _deleting: bool) -> Step:
    return Step(then=State.DEPROVISIONING) if _is_cancelled(wanted, host) else _power(wanted, host)


def _is_cancelled(wanted: Wanted, host: Host) -> bool:
    return not wanted.image or wanted.image != host.image


def _in_externally_provisioned(wanted: Wanted, host: Host, _deleting: bool) -> Step:
    return _power(wanted, host) if wanted.externally_provisioned else Step(then=State.PROVISIONED)


def _in_deprovisioning(_wanted: Wanted, _host: Host, deleting: bool) -> Step:
    return Step(Action.DEPROVISION, State.POWERING_OFF if deleting else State.AVAILABLE, Fault.PROVISIONING)


def _in_powering_off(wanted: Wanted, _host: Host, _deleting: bool) -> Step:
    if wanted.never_off:
        return Step(then=State.DELETING)
    return Step(Action.POWER, State.DELETING, Fault.POWER, order=Power.OFF)


def _power(wanted: Wanted, host: Host) -> Step:
    rebooting = host.state is not State.AVAILABLE and (wanted.reboot or wanted.held_off)
    if wanted.never_off and rebooting:
        order = Power.RESET
    elif wanted.online and not rebooting:
        order = Power.ON
    else:
        # An operating system that has not gone once is not asked again.
        order = Power.OFF if wanted.hard or host.errors else Power.SHUT_DOWN
    return Step(Action.POWER, None, Fault.POWER, wait=POWER_SECONDS, order=order)


_BY_STATE = {
    State.NONE: _in_none,
    State.UNMANAGED: _in_unmanaged,
    State.INSPECTING: _in_inspecting,
    State.PREPARING: _in_preparing,
    State.AVAILABLE: _in_available,
    State.PROVISIONING: _in_provisioning,
    State.PROVISIONED: _in_provisioned,
    State.EXTERNALLY_PROVISIONED: _in_externally_provisioned,
    State.DEPROVISIONING: _in_deprovisioning,
    State.POWERING_OFF: _in_powering_off,
}


def settle(wanted: Wanted, host: Host, step: Step, outcome: Outcome) -> Settled:
    """Return a step's result."""
    if isinstance(outcome, Busy):
        return Settled(_without_fault(host, step), wait=outcome.seconds, why=outcome.why)
    if isinstance(outcome, Failed):
        return _failed(host, step, outcome)
    return _done(wanted, host, step, outcome)


def _without_fault(host: Host, step: Step) -> Host:
    """Clear an error once a step of its type gets further; the count stays until the step is done."""
    if host.fault is step.fault and host.fault not in (Fault.NONE, Fault.PROVISIONING):
        return replace(host, operational=Operational.OK, fault=Fault.NONE, message="")
    return host


def _failed(host: Host, step: Step, outcome: Failed) -> Settled:
    if outcome.passing and step.action is Action.PROVISION:
        # Nothing is lost yet: a BMC that is not ready for a while costs no new start.
        return Settled(host, wait=_FIRST_WAIT, why=outcome.message)
    host = replace(
        host,
        operational=Operational.ERROR,
        fault=step.fault,
        message=outcome.message,
        errors=host.errors + 1,
        provisioning_failures=host.provisioning_failures + (step.action is Action.PROVISION),
    )
    return Settled(host, ((step.fault.event, outcome.message),), backoff(host.errors, outcome.passing))


def _done(wanted: Wanted, host: Host, step: Step, outcome: Done) -> Settled:
    events: list[tuple[str, str]] = []
    if step.action in _COMPLETED:
        events.append(_COMPLETED[step.action])
    after = host if outcome.powered is None else replace(host, powered_on=outcome.powered)
    rebooted = step.action is Action.POWER and (not after.powered_on or step.order is Power.RESET)
    if step.action is Action.DETACH:
        after = replace(_clear(after), operational=Operational.DETACHED)
    elif step.action is not Action.NOTHING:
        after = _clear(after)
    wait = None if step.action is Action.DELETE else step.wait
    if step.action is Action.REGISTER and step.then:
        events.insert(0, ("Registered", "Registered new host"))
        if step.then is State.PREPARING:
            events.append(("InspectionSkipped", "disabled by spec.inspectionMode or the annotation inspect.metal3.io"))
    if step.then is not None:
        after = _enter(wanted, host, after, step.then)
        if step.then in _STARTED:
            events.append(_STARTED[step.then])
        if step.then is State.AVAILABLE and after.provisioning_failures:
            wait = backoff(after.provisioning_failures)
    named = tuple((reason, text.format(image=after.image or host.image)) for reason, text in events)
    return Settled(after, named, wait, rebooted and wanted.reboot, step.action is Action.INSPECT)


def _clear(host: Host) -> Host:
    return replace(host, operational=Operational.OK, fault=Fault.NONE, message="", errors=0)


def _enter(wanted: Wanted, before: Host, host: Host, state: State) -> Host:
    """Return the host in its new state. The error of a provisioning stays to be read until the next begins."""
    kept = before.fault if before.provisioning_failures and before.fault is Fault.PROVISIONING else Fault.NONE
    host = replace(_clear(host), state=state)
    if state is State.UNMANAGED:
        return replace(host, operational=Operational.DISCOVERED)
    if state in (State.DEPROVISIONING, State.AVAILABLE) and kept:
        host = replace(host, operational=Operational.ERROR, fault=kept, message=before.message)
    if state is State.AVAILABLE:
        same = wanted.image == before.image
        return replace(host, image="", provisioning_failures=host.provisioning_failures if same else 0)
    if state is State.PROVISIONED:
        return replace(host, image=wanted.image, provisioning_failures=0)
    if state is State.PROVISIONING:
        return replace(host, image=wanted.image)
    return host
