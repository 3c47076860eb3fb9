"""One machine behind a BMC: power and boot target; its media are in installer.common.redfish.media."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import sushy

from drivers.errors import BootError, ConnectionFailedError, DriverError, MediaError, NotFoundError, PowerError
from drivers.protocols import BootDevice, PowerState
from drivers.redfish.service import Endpoint
from installer.common.redfish import media

T = TypeVar("T")

POLL_SECONDS = 0.2
# Real machines take half a minute to switch off.
_POWER_SECONDS = 90.0
_TARGETS = {BootDevice.DISK: sushy.BOOT_SOURCE_TARGET_HDD, BootDevice.CD: sushy.BOOT_SOURCE_TARGET_CD}
_TARGETS[BootDevice.NETWORK] = sushy.BOOT_SOURCE_TARGET_PXE
# What BMCs report for the virtual CD (docs/bmcs.md, Supermicro).
_SEEN = {**{own: device for device, own in _TARGETS.items()}, sushy.BOOT_SOURCE_TARGET_USB_CD: BootDevice.CD}


class Service(Endpoint):
    """One Redfish service and the machines behind it."""

    def system(self, identity: str, name: str = "") -> System:
        """Return the system with that id, or the only one that there is for an empty id; `name` is for messages."""
        return System(self, identity, name or identity)


class System:
    """One machine behind a BMC; implements Power, VirtualMedia and Boot."""

    def __init__(self, service: Endpoint, identity: str, name: str) -> None:
        self._service = service
        self.identity = identity
        self.name = name

    def _call(self, action: Callable[[Any], T], purpose: str) -> T:
        def on_system(root: Any) -> T:
            path = f"/redfish/v1/Systems/{self.identity}" if self.identity else None
            return action(root.get_system(path))

        return self._service.call(on_system, purpose, self.name)

    def _problem(self, text: str) -> str:
        return f"BMC {self._service.address}: {text}"

    # -- power -----------------------------------------------------------------------------------------------------

    def state(self) -> PowerState:
        """Read whether it runs."""
        value = self._call(lambda system: system.power_state, "read the power state")
        return PowerState.ON if value in (sushy.POWER_STATE_ON, sushy.POWER_STATE_POWERING_ON) else PowerState.OFF

    def _reset(self, kind: Any, wanted: PowerState) -> None:
        if self.state() is not wanted:
            self._call(lambda system: system.reset_system(kind), f"power {wanted.value}")
        deadline = time.monotonic() + _POWER_SECONDS
        while (seen := self.state()) is not wanted:
            if time.monotonic() > deadline:
                text = self._problem(f"still {seen.value} {_POWER_SECONDS:g} s after the order")
                raise PowerError(text, machine=self.name)
            time.sleep(POLL_SECONDS)

    def on(self) -> None:
        """ResetType On."""
        self._reset(sushy.RESET_TYPE_ON, PowerState.ON)

    def off(self) -> None:
        """ResetType ForceOff."""
        self._reset(sushy.RESET_TYPE_FORCE_OFF, PowerState.OFF)

    def cycle(self) -> None:
        """ForceOff, then On: a reset alone would not take up inserted media."""
        self.off()
        self.on()

    def _drives(self, system: Any) -> list[media.Drive]:
        return media.drives(self._service.connection, system)

    # -- media -----------------------------------------------------------------------------------------------------

    def inserted(self) -> str | None:
        """Return the URL of the image in the drive."""
        return self._call(lambda system: media.inserted_url(self._drives(system)), "read the virtual CD drive")

    def insert(self, url: str) -> None:
        """Insert it, then check that it is there: in the first drive that takes it, and in no other."""
        try:
            self._call(lambda system: media.insert(self._drives(system), url), f"insert {url}")
        except (ConnectionFailedError, NotFoundError):
            raise
        except DriverError as error:
            raise MediaError(str(error)) from error

    def eject(self) -> None:
        """EjectMedia, then check that it worked."""
        try:
            self._call(lambda system: media.eject(self._drives(system)), "eject the virtual CD")
        except (ConnectionFailedError, NotFoundError):
            raise
        except DriverError as error:
            raise MediaError(str(error)) from error

    # -- boot ------------------------------------------------------------------------------------------------------

    def first(self) -> BootDevice | None:
        """Return the boot target that the BMC reports."""
        return _SEEN.get(self._call(lambda system: system.boot.target, "read the boot target"))

    def set_first(self, device: BootDevice) -> None:
        """Set the boot target permanently; once, where BMCs know no other way (docs/bmcs.md)."""

        def act(system: Any) -> None:
            try:
                system.set_system_boot_options(_TARGETS[device], enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)
            except sushy.exceptions.BadRequestError as error:
                if "BootSourceOverrideEnabled" not in f"{error} {error.body}":
                    raise
                system.set_system_boot_options(_TARGETS[device], enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)

        self._boot(act, device)

    def boot_once(self, device: BootDevice) -> bool:
        """Have the next boot, and no later one, try this device first; False when the BMC does not do it.

        To be followed by `booted` once the machine is on: some BMCs keep what they were to do once.
        """

        def act(system: Any) -> bool:
            system.set_system_boot_options(_TARGETS[device], enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
            system.refresh(force=True)
            return _SEEN.get(system.boot.target) is device

        return self._boot(act, device)

    def booted(self) -> bool:
        """After a power-on: set back a target that the BMC has kept in spite of Once; whether there was one."""

        def is_still_cd(system: Any) -> bool:
            return (
                _SEEN.get(system.boot.target) is BootDevice.CD
                and system.boot.enabled == sushy.BOOT_SOURCE_ENABLED_CONTINUOUS
            )

        target = self._call(is_still_cd, "read the boot target")
        if target:
            self.set_first(BootDevice.DISK)
        return target

    def _boot(self, act: Callable[[Any], T], device: BootDevice) -> T:
        try:
            return self._call(act, f"boot from {device.value}")
        except ConnectionFailedError:
            raise
        except DriverError as error:
            raise BootError(str(error)) from error
