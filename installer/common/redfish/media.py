"""Virtual CD drives: where their resources are, which of them take a URL, and whether an image was really inserted.

Its functions raise sushy's errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import sushy

from installer.common.redfish import causes
from installer.common.redfish.connection import Connection

POLL_SECONDS = 0.5
# An eject that is still under way makes inserts fail with 5xx, and is reported late (docs/bmcs.md, iDRAC).
BUSY_SECONDS = 30.0
_MEDIA_TYPES = (sushy.VIRTUAL_MEDIA_CD, sushy.VIRTUAL_MEDIA_DVD)
# Fujitsu's iRMC has its own resource and action, for NFS and SMB shares (docs/bmcs.md).
_IRMC_ACTION = "#FTSComputerSystem.VirtualMedia"
_SHARES = {"nfs": "NFS", "smb": "SMB", "cifs": "SMB"}


class Drive(Protocol):
    """One drive."""

    name: str

    def holds(self) -> str | None:
        """Return the URL of the image in it, read anew."""

    def insert(self, url: str) -> None:
        """Put it in."""

    def eject(self) -> None:
        """Take it out."""


class Standard:
    """A drive that is a VirtualMedia resource."""

    def __init__(self, connection: Connection, resource: Any) -> None:
        self._connection = connection
        self._resource = resource
        self.name = str(resource.identity)

    def holds(self) -> str | None:
        """Read it as Drive says."""
        self._resource.refresh(force=True)
        return str(self._resource.image) if self._resource.inserted else None

    def insert(self, url: str) -> None:
        """Insert as Drive says; waits for a task."""
        self._connection.run_task(lambda: self._resource.insert_media(url))

    def eject(self) -> None:
        """Eject as Drive says; waits for a task."""
        self._connection.run_task(self._resource.eject_media)


class RemoteImage:
    """An iRMC's drive: an OEM resource of the system."""

    name = "CDImage"

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path

    @classmethod
    def of(cls, system: Any) -> RemoteImage | None:
        """Return a system's drive; None on other BMCs."""
        own = ((system.json.get("Oem") or {}).get("ts_fujitsu") or {}).get("VirtualMedia") or {}
        path = own.get("@odata.id")
        return cls(system, str(path)) if path else None

    def _action(self) -> dict[str, Any]:
        action = self._system.json.get("Actions", {}).get("Oem", {}).get(_IRMC_ACTION)
        if not action:
            raise sushy.exceptions.MissingActionError(action=_IRMC_ACTION, resource=self._path)
        return dict(action)

    def holds(self) -> str | None:
        """Return the URL of the image in it, read anew: a share is connected when disconnecting is the only action it
        offers."""
        self._system.refresh(force=True)
        if "DisconnectCD" not in self._action().get("FTSVirtualMediaAction@Redfish.AllowableValues", []):
            return None
        image = self._system._conn.get(self._path).json().get("CDImage", {})
        share = f"{image.get('ShareName', '').strip('/')}/{image.get('ImageName', '')}"
        return f"{image.get('ShareType', 'NFS').lower()}://{image.get('Server', '')}/{quote(share)}"

    def insert(self, url: str) -> None:
        """Name the share, then connect it."""
        parts = urlsplit(url)
        if parts.scheme not in _SHARES:
            raise sushy.exceptions.SushyError(f"{url}: an iRMC takes images from NFS and SMB shares only")
        # It names files as they are, a URL quotes them.
        share, _, image = unquote(parts.path).rpartition("/")
        named = {"Server": parts.netloc, "ShareName": share, "ImageName": image, "ShareType": _SHARES[parts.scheme]}
        connection = self._system._conn
        tag = connection.get(self._path).headers.get("ETag")
        connection.patch(self._path, data={"CDImage": named}, etag=tag)
        self._do("ConnectCD")

    def eject(self) -> None:
        """Disconnect it."""
        self._do("DisconnectCD")

    def _do(self, action: str) -> None:
        self._system._conn.post(self._action()["target"], data={"FTSVirtualMediaAction": action})


def drives(connection: Connection, system: Any) -> list[Drive]:
    """Return the virtual CD drives of a machine, under the System or its Manager, else the vendor's own."""
    for owner in _owners(system):
        try:
            collection = owner.virtual_media
            members = [collection.get_member(identity) for identity in collection.members_identities]
        except (sushy.exceptions.MissingAttributeError, sushy.exceptions.ResourceNotFoundError):
            continue
        fit = [member for member in members if any(kind in (member.media_types or []) for kind in _MEDIA_TYPES)]
        if fit:
            # iDRAC 10 lists "2" before "1", and boots only from "1" (docs/bmcs.md).
            return [Standard(connection, member) for member in sorted(fit, key=lambda member: str(member.identity))]
    own = RemoteImage.of(system)
    if own is None:
        raise sushy.exceptions.SushyError("it has no virtual CD drive: no virtual media for CDs at System or Manager")
    return [own]


def _owners(system: Any) -> Iterator[Any]:
    yield system
    try:
        yield from system.managers
    except sushy.exceptions.SushyError as error:
        # One that is only not ready may have a drive.
        if causes.is_transient(error) or isinstance(error, sushy.exceptions.ConnectionError):
            raise


def inserted_url(cd_drives: list[Drive]) -> str | None:
    """Return the URL of the first image that one of them holds."""
    return next((url for drive in cd_drives if (url := drive.holds())), None)


def insert(cd_drives: list[Drive], url: str) -> None:
    """Empty the drives, and insert an image into the first that takes it. Raises SushyError, with all refusals."""
    refusals = []
    eject(cd_drives)
    for drive in cd_drives:
        try:
            _insert(drive, url)
        except sushy.exceptions.AccessError:
            raise
        except (sushy.exceptions.MissingActionError, sushy.exceptions.HTTPError) as error:
            if causes.is_transient(error):
                raise
            why = "it takes no URL" if isinstance(error, sushy.exceptions.MissingActionError) else causes.cause(error)
            refusals.append(f"{drive.name}: {why}")
            continue
        seen = _until(drive, url)
        if seen == url:
            return
        refusals.append(f"{drive.name}: the BMC took it, but the drive holds {seen or 'nothing'}")
    raise sushy.exceptions.SushyError("; ".join(refusals))


def _insert(drive: Drive, url: str) -> None:
    """Insert the image; try again while an eject may be under way."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return drive.insert(url)
        except sushy.exceptions.ServerSideError as error:
            if error.status_code != 500 or "fetch" in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(POLL_SECONDS)


def _until(drive: Drive, url: str | None) -> str | None:
    """Return the URL in the drive, once it is `url` or the time is up."""
    deadline = time.monotonic() + BUSY_SECONDS
    while (seen := drive.holds()) != url and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return seen


def eject(cd_drives: list[Drive]) -> None:
    """Empty all drives, and check that they are empty. Raises SushyError."""
    for drive in cd_drives:
        if drive.holds() is None:
            continue
        drive.eject()
        if (seen := _until(drive, None)) is not None:
            raise sushy.exceptions.SushyError(f"{drive.name}: the BMC ejected, but the drive holds {seen}")
