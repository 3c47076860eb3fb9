"""Fujitsu's virtual media: an OEM resource of the system that holds a share's name, and an action that connects it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from lab.bmcs.resources.media import Media
from lab.bmcs.state import State, payload
from lab.bmcs.web import Request, Response, document, no_content, refusal

_ACTION = "#FTSComputerSystem.VirtualMedia"


@dataclass
class Fujitsu:
    """An iRMC's remote images; nothing on the other profiles."""

    state: State
    media: Media
    _: KW_ONLY
    _server: str = ""
    _share: str = ""
    _image: str = ""
    _kind: str = "NFS"

    @property
    def path(self) -> str:
        """The resource; empty on other BMCs."""
        return f"{self.state.system}/Oem/ts_fujitsu/VirtualMedia" if self.state.profile.media.at == "fujitsu" else ""

    @property
    def action(self) -> str:
        """The path of the action that connects and disconnects."""
        return f"{self.state.system}/Actions/Oem/FTSComputerSystem.VirtualMedia"

    def show(self, body: dict[str, Any]) -> None:
        """Add the remote images to the system's document."""
        if self.path:
            connected = bool(self.media.holds(self.state.profile.media.drives[0]))
            oem = body.setdefault("Actions", {}).setdefault("Oem", {})
            oem[_ACTION] = {
                "target": self.action,
                "FTSVirtualMediaAction@Redfish.AllowableValues": ["DisconnectCD" if connected else "ConnectCD"],
            }
            body["Oem"] = {"ts_fujitsu": {"VirtualMedia": {"@odata.id": self.path}}}

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the resource and its action; None for other paths. Raises Refusal."""
        if not self.path or path not in (self.path, self.action):
            return None
        self.media.follow()
        drive = self.state.profile.media.drives[0]
        if path == self.action:
            wanted = payload(request).get("FTSVirtualMediaAction")
            if wanted == "ConnectCD":
                self.media.connect(drive, self._url())
            elif wanted == "DisconnectCD":
                self.media.eject(drive)
            else:
                raise refusal(400, "Base.1.8.ActionParameterNotSupported", f"{wanted} is not supported.")
            return no_content()
        if request.method == "PATCH":
            self._set(payload(request).get("CDImage"))
        return document(self._shown())

    def _set(self, image: Any) -> None:
        if not isinstance(image, dict) or not all(isinstance(value, str) for value in image.values()):
            raise refusal(400, "Base.1.8.PropertyValueTypeError", "CDImage is an object of strings.", "CDImage")
        for name, value in image.items():
            if name not in ("Server", "ShareName", "ImageName", "ShareType") and value:
                raise refusal(400, "Base.1.8.PropertyNotWritable", f"CDImage/{name} cannot be set here.", name)
        kind = image.get("ShareType", self._kind)
        if kind not in ("NFS", "SMB"):
            raise refusal(400, "Base.1.8.PropertyValueNotInList", f"ShareType {kind} is not supported.", "ShareType")
        self._server, self._kind = image.get("Server", self._server), kind
        self._share, self._image = image.get("ShareName", self._share), image.get("ImageName", self._image)

    def _url(self) -> str:
        return f"{self._kind.lower()}://{self._server}/{quote(self._share.strip('/'))}/{quote(self._image)}"

    def _remember(self) -> None:
        """Take over what was connected before this BMC was started."""
        url = self.media.holds(self.state.profile.media.drives[0])
        if url and not self._server:
            parts = urlsplit(url)
            self._share, _, self._image = unquote(parts.path).rpartition("/")
            self._server, self._kind = parts.netloc, parts.scheme.upper()

    def _shown(self) -> dict[str, Any]:
        self._remember()
        return {
            "@odata.type": "#FTSVirtualMedia.v1_0_0.FTSVirtualMedia",
            "@odata.id": self.path,
            "Id": "VirtualMedia",
            "Name": "Virtual Media",
            "RemoteMountEnabled": True,
            "CDImage": {
                "MaximumNumberOfDevices": 1,
                "Server": self._server,
                "ShareName": self._share,
                "ImageName": self._image,
                "ShareType": self._kind,
            },
        }
