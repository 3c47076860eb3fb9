"""The seam between the states of a BareMetalHost and the program that drives its machine."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class Power(StrEnum):
    """An order to a machine's power."""

    ON = "on"
    OFF = "off"
    SHUT_DOWN = "shut down"
    RESET = "reset"


@dataclass(frozen=True)
class Done:
    """An action's success; `powered` and `health` (Redfish's word) as last read, `hardware` as `status.hardware`,
    `image` the URL in the virtual CD drive."""

    _: KW_ONLY
    powered: bool | None = None
    health: str = ""
    hardware: dict[str, Any] | None = None
    image: str = field(default="", repr=False)


@dataclass(frozen=True)
class Busy:
    """An action under way, to be called again in `seconds`."""

    seconds: float
    why: str = ""


@dataclass(frozen=True)
class Failed:
    """An action's failure in one line; `passing`: the BMC says that it is not ready, and the same may work later."""

    message: str
    passing: bool = False


Outcome = Done | Busy | Failed


@dataclass(frozen=True)
class Account:
    """A login at a BMC."""

    user: str = field(repr=False)
    password: str = field(repr=False)


class Provisioner(Protocol):
    """One machine. Each call does the next step and returns soon, is safe to repeat after any end, and raises nothing
    for what a BMC does."""

    def register(self) -> Outcome:
        """Reach the BMC and log in; `Done.hardware` has the NICs that it shows."""

    def inspect(self) -> Outcome:
        """Read the machine's hardware."""

    def prepare(self) -> Outcome:
        """Take away what an earlier use has left in the machine's virtual drives."""

    def provision(self, url: str) -> Outcome:
        """Boot the machine from a live ISO."""

    def deprovision(self) -> Outcome:
        """Switch it off and take the ISO out."""

    def hold(self, url: str, before: str) -> Outcome:
        """Have the virtual drive of a machine that is off hold an image of data, in place of `before`; empty: none."""

    def power(self, order: Power) -> Outcome:
        """Bring its power to that state; `Done.powered` is the state."""

    def detach(self) -> Outcome:
        """Forget it and leave it as it is."""

    def delete(self) -> Outcome:
        """Forget it for good."""
