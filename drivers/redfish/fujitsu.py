"""Fujitsu's iRMC: virtual media that are an OEM resource of the system, for NFS and SMB shares (docs/bmcs.md)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlsplit

import sushy

_ACTION = "#FTSComputerSystem.VirtualMedia"
_KINDS = {"nfs": "NFS", "smb": "SMB", "cifs": "SMB"}


class RemoteImage:
    """The iRMC's virtual CD drive."""

    name = "CDImage"

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path

    @classmethod
    def of(cls, system: Any) -> RemoteImage | None:
        """A system's drive; None on other BMCs."""
        own = ((system.json.get("Oem") or {}).get("ts_fujitsu") or {}).get("VirtualMedia") or {}
        path = own.get("@odata.id")
        return cls(system, str(path)) if path else None

    def _action(self) -> dict[str, Any]:
        action = self._system.json.get("Actions", {}).get("Oem", {}).get(_ACTION)
        if not action:
            raise sushy.exceptions.MissingActionError(action=_ACTION, resource=self._path)
        return dict(action)

    def holds(self) -> str | None:
        """The URL of the image in it, read anew: a share is connected when disconnecting is the only action it
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
        if parts.scheme not in _KINDS:
            raise sushy.exceptions.SushyError(f"{url}: an iRMC takes images from NFS and SMB shares only")
        # It names files as they are, a URL quotes them.
        share, _, image = unquote(parts.path).rpartition("/")
        named = {"Server": parts.netloc, "ShareName": share, "ImageName": image, "ShareType": _KINDS[parts.scheme]}
        connection = self._system._conn
        tag = connection.get(self._path).headers.get("ETag")
        connection.patch(self._path, data={"CDImage": named}, etag=tag)
        self._do("ConnectCD")

    def eject(self) -> None:
        """Disconnect it."""
        self._do("DisconnectCD")

    def _do(self, action: str) -> None:
        self._system._conn.post(self._action()["target"], data={"FTSVirtualMediaAction": action})
