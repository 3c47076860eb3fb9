"""A Provisioner over Redfish: a machine that boots a live ISO from the virtual CD drive of its BMC.

Each call reads what the BMC says and takes one step from there, so that it may be repeated after any end. What is held
in memory (orders that the BMC has not carried out yet) only saves repetitions.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import sushy

from installer.common.redact import redact
from installer.common.redfish import causes, media
from installer.common.redfish.connection import Connection
from installer.hub.baremetal.address import Address
from installer.hub.baremetal.hardware import from_redfish, nics_of
from installer.hub.baremetal.provisioner import Account, Busy, Done, Failed, Outcome, Power

# Its warnings hold what BMCs answer, ISOs' URLs with their tokens among it. Failures are in outcomes.
logging.getLogger("sushy").setLevel(logging.CRITICAL)

# A BMC that is dead holds a thread for the first, one that accepts and is silent for the second.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 60.0
# No request is made later in a call than this: of a slow BMC an inspection takes dozens.
_CALL_SECONDS = 300.0
_POLL_SECONDS = 1.0
# Machines take half a minute to switch off, and operating systems minutes to shut down.
_ORDER_SECONDS = {Power.ON: 90.0, Power.OFF: 90.0, Power.SHUT_DOWN: 300.0, Power.RESET: 90.0}
# InsertMedia of some BMCs answers only when they have fetched the image.
_FETCH_SECONDS = 600.0
_RESETS = {
    Power.ON: sushy.RESET_TYPE_ON,
    Power.OFF: sushy.RESET_TYPE_FORCE_OFF,
    Power.SHUT_DOWN: sushy.RESET_TYPE_GRACEFUL_SHUTDOWN,
    Power.RESET: sushy.RESET_TYPE_FORCE_RESTART,
}
_MODES = {
    "UEFI": sushy.BOOT_SOURCE_MODE_UEFI,
    "UEFISecureBoot": sushy.BOOT_SOURCE_MODE_UEFI,
    "legacy": sushy.BOOT_SOURCE_MODE_BIOS,
}
# What sushy, which takes documents as they come, raises for those of another shape.
_MALFORMED = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
_CD, _ONCE = sushy.BOOT_SOURCE_TARGET_CD, sushy.BOOT_SOURCE_ENABLED_ONCE
_KEPT = sushy.BOOT_SOURCE_ENABLED_CONTINUOUS
# What BMCs report for the virtual CD (docs/bmcs.md, Supermicro).
_CDS = (_CD, sushy.BOOT_SOURCE_TARGET_USB_CD)


class RedfishMachine:
    """One machine behind a BMC; implements Provisioner."""

    def __init__(
        self,
        address: Address,
        account: Account,
        *,
        verify: bool | str = True,
        boot_mode: str = "",
        tls: Literal["1.1", "1.2"] = "1.2",
        answer_seconds: float = 0.0,
    ) -> None:
        """`verify` as in requests: the BMC's certificate is (not) verified, or verified by that file of authorities;
        `boot_mode` as in `spec.bootMode`, empty for the one that the machine has; `tls` is the oldest version that may
        be spoken, `answer_seconds` the deadline of an answer, a minute unless it is given."""
        self._address = address
        self._account = account
        self._boot_mode = boot_mode
        self._connection = Connection(
            f"{address.url}/redfish/v1/", account.user, account.password,
            verify=verify, connect_seconds=CONNECT_SECONDS, answer_seconds=answer_seconds or ANSWER_SECONDS,
            attempts=1, tls=tls,
        )  # fmt: skip
        self._order: tuple[Power, float] | None = None
        self._insert: tuple[str, float] | None = None
        self._started = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    def register(self) -> Outcome:
        """As Provisioner says."""

        def act(system: Any) -> Outcome:
            return Done(powered=_is_on(system), health=_health(system), hardware={"nics": nics_of(system)})

        return self._do("log in", act)

    def look(self) -> Outcome:
        """Read power, NICs, and the URL of the image in the virtual CD drive; fails where there is no drive."""

        def act(system: Any) -> Outcome:
            holds = media.inserted_url(self._drives(system)) or ""
            return Done(powered=_is_on(system), hardware={"nics": nics_of(system)}, image=holds)

        return self._do("read power and virtual CD drive", act)

    def inspect(self) -> Outcome:
        """As Provisioner says: what Redfish shows of it."""
        return self._do("inspect", lambda system: Done(powered=_is_on(system), hardware=from_redfish(system)))

    def prepare(self) -> Outcome:
        """As Provisioner says."""

        def act(system: Any) -> Outcome:
            media.eject(self._drives(system))
            return Done()

        return self._do("empty the virtual CD drive", act)

    def provision(self, url: str) -> Outcome:
        """As Provisioner says: off, ISO in, on with one boot from the CD."""

        def act(system: Any) -> Outcome:
            drives, running = self._drives(system), _is_on(system)
            holds = media.inserted_url(drives)
            if running and url in (holds, self._started):
                _end_boot_from_cd(system)
                return Done(powered=True)
            if holds != url:
                return self._insert_into(system, drives, url)
            if not self._order:
                # Not again while it starts: it would boot the CD after the installation, too.
                _set_boot_mode(system, self._boot_mode)
                _boot_from_cd(system)
            outcome = self._bring(system, Power.ON)
            self._started = url
            return outcome or Busy(_POLL_SECONDS, "it starts")

        return self._do("boot the ISO", act, secret=url)

    def deprovision(self) -> Outcome:
        """As Provisioner says."""

        def act(system: Any) -> Outcome:
            self._started, self._insert = "", None
            if outcome := self._bring(system, Power.OFF):
                return outcome
            media.eject(self._drives(system))
            _end_boot_from_cd(system)
            return Done(powered=False)

        return self._do("deprovision", act)

    def hold(self, url: str, before: str) -> Outcome:
        """As Provisioner says; an image that somebody else has inserted is left alone."""

        def act(system: Any) -> Outcome:
            drives = self._drives(system)
            holds = media.inserted_url(drives) or ""
            if holds == url:
                return Done()
            if holds not in ("", before):
                raise sushy.exceptions.SushyError("the virtual CD drive holds another image")
            if url:
                media.insert(drives, url)
            else:
                media.eject(drives)
            return Done()

        return self._do("insert the data image" if url else "eject the data image", act)

    def power(self, order: Power) -> Outcome:
        """As Provisioner says; RESET restarts a machine that runs, and switches on another."""

        def act(system: Any) -> Outcome:
            if order is Power.RESET and _is_on(system):
                system.reset_system(_RESETS[order])
                return Done(powered=True)
            return self._bring(system, order) or Done(powered=order in (Power.ON, Power.RESET), health=_health(system))

        return self._do(f"power {order.value}", act)

    def detach(self) -> Outcome:
        """As Provisioner says."""
        # A session that cannot be ended ends by itself.
        with suppress(sushy.exceptions.SushyError, *_MALFORMED):
            self._connection.limit(ANSWER_SECONDS)
            self._connection.close()
        return Done()

    def delete(self) -> Outcome:
        """As Provisioner says."""
        return self.detach()

    def _do(self, purpose: str, act: Callable[[Any], Outcome], secret: str = "") -> Outcome:
        """Act on the system, and return what goes wrong as one line without the password and the ISO's URL."""
        self._connection.limit(_CALL_SECONDS)
        try:
            return act(self._connection.open().get_system(self._address.system or None))
        except sushy.exceptions.SushyError as error:
            text, passing = causes.cause(error), causes.is_transient(error)
        except _MALFORMED as error:
            text, passing = f"its answer is no Redfish document: {type(error).__name__}: {str(error)[:300]}", False
        # BMCs name the ISO with or without its server, and its path holds a token.
        for name in (secret, secret.split("/", 3)[-1]) if secret else ():
            text = text.replace(name, "ISO")
        login = f"{self._account.user}:{self._account.password}".encode("latin-1", "replace")
        secrets = [self._account.password, base64.b64encode(login).decode()]
        return Failed(redact(f"BMC {self._address.url}: {purpose}: {text}", secrets), passing)

    def _drives(self, system: Any) -> list[media.Drive]:
        return media.drives(self._connection, system)

    def _insert_into(self, system: Any, drives: list[media.Drive], url: str) -> Outcome:
        """Switch off first: of a machine that runs with the ISO it is then known that it was started with it.

        An earlier order to start is waited for, lest it is carried out once the ISO is in and the boot target not set.
        """
        orders = [Power.ON, Power.OFF] if self._order and self._order[0] is Power.ON else [Power.OFF]
        for order in orders:
            if outcome := self._bring(system, order):
                return outcome
        now = time.monotonic()
        if self._insert and self._insert[0] == url and now - self._insert[1] < _FETCH_SECONDS:
            return Busy(_POLL_SECONDS, "the BMC fetches the ISO")
        try:
            media.insert(drives, url)
        except sushy.exceptions.ConnectionError as error:
            if "Read timed out" not in str(error):
                raise
            self._insert = (url, now)
            return Busy(_POLL_SECONDS, "the BMC fetches the ISO")
        return Busy(0.0, "the ISO is in the drive")

    def _bring(self, system: Any, order: Power) -> Outcome | None:
        """Order a power state unless it is there (None) or ordered already."""
        if _is_on(system) == (order in (Power.ON, Power.RESET)):
            self._order = None
            return None
        now = time.monotonic()
        if self._order and self._order[0] is order:
            waited = now - self._order[1]
            if waited < _ORDER_SECONDS[order]:
                return Busy(_POLL_SECONDS, f"power {order.value}, for {waited:.0f} s")
            self._order = None
            return Failed(f"BMC {self._address.url}: power {order.value}: not done {waited:.0f} s after the order")
        system.reset_system(_RESETS[order])
        self._order = (order, now)
        return Busy(_POLL_SECONDS, f"power {order.value}")


def _is_on(system: Any) -> bool:
    return system.power_state in (sushy.POWER_STATE_ON, sushy.POWER_STATE_POWERING_ON)


def _health(system: Any) -> str:
    status = getattr(system, "status", None)
    health = getattr(status, "health", None)
    return str(getattr(health, "value", health) or "")


def _set_boot_mode(system: Any, wanted: str) -> None:
    """Have it boot in that mode, where it does not; a BMC that does not say how it boots is left alone."""
    mode = _MODES.get(wanted)
    if mode and system.boot.mode not in (None, mode):
        system.set_system_boot_options(mode=mode)
    if wanted == "UEFISecureBoot" and not system.secure_boot.enabled:
        system.secure_boot.set_enabled(True)


def _boot_from_cd(system: Any) -> None:
    """Have the next boot try the CD; a BMC that does nothing once is set for good, until `_end_boot_from_cd`."""
    system.set_system_boot_options(_CD, enabled=_ONCE)
    system.refresh(force=True)
    if system.boot.target not in _CDS:
        system.set_system_boot_options(_CD, enabled=_KEPT)


def _end_boot_from_cd(system: Any) -> None:
    """Take back a boot target that the BMC has kept, for then the machine would boot the ISO after its installation."""
    system.refresh(force=True)
    if system.boot.target in _CDS and system.boot.enabled == _KEPT:
        system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_HDD, enabled=_KEPT)
