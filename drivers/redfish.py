"""Redfish, with OpenStack's `sushy` client: the way that real machines are driven.

Quirks that it handles (reference/lab.md §3): InsertMedia that blocks for minutes, answers that claim more than was done
(so media are read back), boot targets that persist in spite of `Once`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlparse

import sushy
from sushy import auth
from sushy.connector import Connector

from drivers.errors import BootError, ConnectionFailedError, DriverError, MediaError, NotFoundError, PowerError
from drivers.protocols import BootDevice, PowerState

T = TypeVar("T")

_POLL_SECONDS = 0.2
_POWER_SECONDS = 90.0
# InsertMedia answers only when the image is there: 12 s for 1.2 GiB on an idle machine (reference/lab.md §3.3).
_REQUEST_SECONDS = 600
_TARGETS = {BootDevice.DISK: sushy.BOOT_SOURCE_TARGET_HDD, BootDevice.CD: sushy.BOOT_SOURCE_TARGET_CD}
_TARGETS[BootDevice.NETWORK] = sushy.BOOT_SOURCE_TARGET_PXE


class Runner(Protocol):
    """Runs a callable where the BMC can be reached: another network namespace, or just here."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


def here(function: Callable[[], T], /) -> T:
    """The plainest Runner."""
    return function()


class Service:
    """One Redfish service and an account on it."""

    def __init__(
        self, url: str, user: str, password: str, *, ca: Path | None = None, run: Runner = here, timeout: float = 30
    ) -> None:
        """`ca` verifies its certificate (None: do not verify); `timeout` in seconds for the first answer."""
        self.url = url
        self.run = run
        self._user = user
        self._password = password
        self._verify: str | bool = str(ca) if ca else False
        self._timeout = timeout
        self._root: Any = None

    def _open(self) -> Any:
        if self._root is None:
            parts = urlparse(self.url)
            connector = Connector(
                f"{parts.scheme}://{parts.netloc}",
                verify=self._verify,
                default_request_timeout=_REQUEST_SECONDS,
                connect_timeout=self._timeout,
            )
            # Proxies and CA bundles of the environment are the administrator's, not the BMC's; and requests would
            # prefer REQUESTS_CA_BUNDLE to `verify`.
            connector._session.trust_env = False
            account = auth.BasicAuth(username=self._user, password=self._password)
            self._root = sushy.Sushy(self.url, auth=account, connector=connector, verify=self._verify)
        return self._root

    def call(self, action: Callable[[Any], T], what: str, machine: str = "") -> T:
        """What `action(service root)` returns, with sushy's errors turned into ours."""

        def attempt() -> T:
            try:
                return action(self._open())
            except sushy.exceptions.AccessError as error:
                raise ConnectionFailedError(f"{what}: {self.url} refuses the account", machine=machine) from error
            except sushy.exceptions.ConnectionError as error:
                raise ConnectionFailedError(f"{what}: {error}", machine=machine) from error
            except sushy.exceptions.ResourceNotFoundError as error:
                raise NotFoundError(f"{what}: {error}", machine=machine) from error
            except sushy.exceptions.SushyError as error:
                raise DriverError(f"{what}: {error}", machine=machine) from error

        return self.run(attempt)

    def systems(self) -> list[str]:
        """The ids of all systems that the service manages."""

        def read(root: Any) -> list[str]:
            collection = root.get_system_collection()
            collection.refresh(force=True)
            return [identity.rsplit("/", 1)[-1] for identity in collection.members_identities]

        return self.call(read, "list systems")

    def system(self, identity: str, name: str = "") -> System:
        """The system with that id; `name` is for messages."""
        return System(self, identity, name or identity)


class System:
    """One machine behind a BMC; implements Power, VirtualMedia and Boot."""

    def __init__(self, service: Service, identity: str, name: str) -> None:
        self._service = service
        self.identity = identity
        self.name = name

    def _call(self, action: Callable[[Any], T], what: str) -> T:
        def on_system(root: Any) -> T:
            return action(root.get_system(f"/redfish/v1/Systems/{self.identity}"))

        return self._service.call(on_system, what, self.name)

    def state(self) -> PowerState:
        """Whether it runs."""
        value = self._call(lambda system: system.power_state, "read the power state")
        return PowerState.ON if value in (sushy.POWER_STATE_ON, sushy.POWER_STATE_POWERING_ON) else PowerState.OFF

    def _reset(self, kind: Any, wanted: PowerState) -> None:
        if self.state() is not wanted:
            self._call(lambda system: system.reset_system(kind), f"power {wanted.value}")
        deadline = time.monotonic() + _POWER_SECONDS
        while (seen := self.state()) is not wanted:
            if time.monotonic() > deadline:
                raise PowerError(f"still {seen.value} {_POWER_SECONDS:g} s after the order", machine=self.name)
            time.sleep(_POLL_SECONDS)

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

    def _drive(self, system: Any) -> Any:
        """The virtual CD drive, under the System or, on older BMCs, under its Manager."""
        for owner in self._owners(system):
            try:
                media = owner.virtual_media
                members = media.members_identities
            except (sushy.exceptions.MissingAttributeError, sushy.exceptions.ResourceNotFoundError):
                continue
            # One by one, since every look is a request and the CD mostly comes first.
            for identity in members:
                device = media.get_member(identity)
                kinds = device.media_types or []
                if sushy.VIRTUAL_MEDIA_CD in kinds or sushy.VIRTUAL_MEDIA_DVD in kinds:
                    return device
        raise NotFoundError("it has no virtual CD drive", machine=self.name)

    def _owners(self, system: Any) -> Iterator[Any]:
        yield system
        try:
            yield from system.managers
        except sushy.exceptions.SushyError:
            return

    def inserted(self) -> str | None:
        """The URL of the image in the drive."""

        def read(system: Any) -> str | None:
            drive = self._drive(system)
            return str(drive.image) if drive.inserted else None

        return self._call(read, "read the virtual CD drive")

    def insert(self, url: str) -> None:
        """InsertMedia, then check that it worked."""

        def act(system: Any) -> str | None:
            drive = self._drive(system)
            if drive.inserted:
                drive.eject_media()
            drive.insert_media(url)
            drive.refresh(force=True)
            return str(drive.image) if drive.inserted else None

        try:
            seen = self._call(act, f"insert {url}")
        except (ConnectionFailedError, NotFoundError):
            raise
        except DriverError as error:
            raise MediaError(str(error)) from error
        if seen != url:
            raise MediaError(f"the BMC took {url}, but its drive holds {seen or 'nothing'}", machine=self.name)

    def eject(self) -> None:
        """EjectMedia, then check that it worked."""

        def act(system: Any) -> None:
            drive = self._drive(system)
            if drive.inserted:
                drive.eject_media()

        self._call(act, "eject the virtual CD")
        seen = self.inserted()
        if seen is not None:
            raise MediaError(f"the BMC ejected, but its drive holds {seen}", machine=self.name)

    def first(self) -> BootDevice | None:
        """The boot target that the BMC reports."""
        target = self._call(lambda system: system.boot.target, "read the boot target")
        return next((device for device, own in _TARGETS.items() if own == target), None)

    def set_first(self, device: BootDevice) -> None:
        """Set the boot target permanently."""

        def act(system: Any) -> None:
            system.set_system_boot_options(_TARGETS[device], enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)

        try:
            self._call(act, f"boot from {device.value}")
        except ConnectionFailedError:
            raise
        except DriverError as error:
            raise BootError(str(error)) from error
