"""Virtual media as the vendors have them, over the emulator's one drive `Cd`; inserts may be tasks (DSP0266,
"Asynchronous operations")."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any
from urllib.parse import urlparse

import requests

from lab.bmcs.profile import Drive
from lab.bmcs.serving import unattended
from lab.bmcs.state import ROOT, State, payload
from lab.bmcs.web import Refusal, Request, Response, document, no_content, refusal

_DRIVE = "/VirtualMedia/Cd"
_INSERT, _EJECT = "/Actions/VirtualMedia.InsertMedia", "/Actions/VirtualMedia.EjectMedia"
_SIZE_SECONDS = 20.0
_MONITORS = f"{ROOT}/TaskService/TaskMonitors"


@dataclass
class _Task:
    begin: float
    end: Callable[[], Response]
    answer: Response | None = None


@dataclass
class Tasks:
    """The tasks of one BMC. Each is finished when somebody asks for it, or another timer is due, `seconds` after its
    begin."""

    state: State
    seconds: float
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, end: Callable[[], Response]) -> Response:
        """Return 202, with the task that `end` finishes."""
        identity = str(len(self._tasks) + 1)
        self._tasks[identity] = _Task(self.state.clock(), end)
        return self._shown(identity)

    def finish_due(self) -> None:
        """Finish the tasks that are due, whether or not who asks now stays. Others need not wait for that."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for task in list(self._tasks.values()):
                if task.answer is None and self.state.clock() - task.begin >= self.seconds:
                    try:
                        with unattended():
                            task.answer = task.end()
                    except Refusal as error:
                        task.answer = error.response
        finally:
            self._lock.release()

    def _shown(self, identity: str) -> Response:
        """Return a task's monitor: 202 while it runs, then what its operation answers."""
        answer = self._tasks[identity].answer
        if answer is not None:
            return Response(answer.get_data(), answer.status_code, dict(answer.headers))
        body = {
            "@odata.type": "#Task.v1_4_3.Task",
            "@odata.id": f"{_MONITORS}/{identity}",
            "Id": identity,
            "Name": f"Task {identity}",
            "TaskState": "Running",
            "TaskStatus": "OK",
        }
        return document(body, 202, Location=f"{_MONITORS}/{identity}", Retry_After="1")

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the tasks' monitors; None for other paths. Raises Refusal."""
        if not self.seconds or not path.startswith(f"{_MONITORS}/"):
            return None
        identity = path.removeprefix(f"{_MONITORS}/")
        if identity not in self._tasks:
            raise refusal(404, "Base.1.8.ResourceNotFound", f"The task {identity} was not found.")
        return self._shown(identity)


@dataclass
class Media:
    """The drives of one BMC."""

    state: State
    tasks: Tasks = field(init=False)
    _held: dict[str, str] = field(default_factory=dict)  # drive: URL
    _: KW_ONLY
    _names: dict[str, str] = field(default_factory=dict)  # drive: the URL that it once had
    _ejected: dict[str, tuple[float, str]] = field(default_factory=dict)  # drive: when, and what it was
    _running: set[object] = field(default_factory=set)  # changes of the machine's drive
    _latest: object = None  # of these
    _boot_next: dict[str, int] = field(default_factory=dict)  # drive: power-ons since BootOnNextServerReset was set

    def __post_init__(self) -> None:
        self.tasks = Tasks(self.state, self.state.profile.media.task_seconds)
        self.state.resets.append(self._reset)

    @property
    def base(self) -> str:
        """The path of the drives' collection; empty when this BMC has none there."""
        at = self.state.profile.media.at
        owner = {"system": self.state.system, "manager": self.state.manager}.get(at)
        return f"{owner}/VirtualMedia" if owner else ""

    def link(self, body: dict[str, Any], owner: str) -> None:
        """Link the drives from the document of their owner, and remove the link from the other's."""
        body.pop("VirtualMedia", None)
        if self.base and self.base.startswith(f"{owner}/"):
            body["VirtualMedia"] = {"@odata.id": self.base}

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the drives' resources and actions; None for other paths. Raises Refusal."""
        if path.startswith(f"{ROOT}/"):
            self.follow()
        self.tasks.finish_due()
        if (answer := self.tasks.handle(request, path)) is not None:
            return answer
        if self.base and path == self.base:
            return document(self._collection())
        if not self.base or not path.startswith(f"{self.base}/"):
            self._elsewhere(path)
            return None
        name, _, rest = path[len(self.base) + 1 :].partition("/")
        drive = next((drive for drive in self.state.profile.media.drives if drive.id == name), None)
        if drive is None:
            raise refusal(404, "Base.1.8.ResourceNotFound", f"There is no virtual media {name}.")
        action = f"/{rest}" if rest else ""
        if not action and request.method == "GET":
            return document(self._shown(drive), Allow="GET, HEAD, PATCH" if drive.how == "patch" else "GET, HEAD")
        if not action and request.method == "PATCH":
            return self._patch(drive, payload(request))
        if drive.how == "action" and request.method == "POST" and action == _INSERT:
            return self._insert(drive, payload(request))
        if drive.how == "action" and request.method == "POST" and action == _EJECT:
            return self._eject(drive, request)
        raise refusal(405, "Base.1.8.OperationNotAllowed", f"{request.method} is not allowed on {path}.")

    def follow(self) -> None:
        """Take over what the machine's drive holds, which the lab's own BMC changes too. Raises Refusal."""
        running, latest = bool(self._running), self._latest
        inner = self.state.ask("GET", _DRIVE).body or {}
        if running or self._running or self._latest is not latest:
            return
        image = str(inner.get("Image") or "") if inner.get("Inserted") else ""
        drives = [drive.id for drive in self._bootable() if self._held.get(drive.id)]
        for name in drives:
            if self._held[name] != image:
                self._held.pop(name, None)
        fit = [drive.id for drive in self._bootable() if "CD" in drive.types]
        if image and fit and not any(self._held.get(drive.id) for drive in self._bootable()):
            self._held[min(fit)] = self._names[min(fit)] = image

    def _bootable(self) -> list[Drive]:
        """Those whose images are in the machine's drive: one at a time."""
        return [drive for drive in self.state.profile.media.drives if drive.boots and drive.how != "local"]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Note that the machine's drive and these books differ within the block."""
        self._latest = change = object()
        self._running.add(change)
        try:
            yield
        finally:
            self._running.discard(change)

    def _elsewhere(self, path: str) -> None:
        """Raise Refusal for the paths where the emulator has drives and this BMC has none."""
        if "/VirtualMedia" in path and path.startswith((self.state.system, self.state.manager)):
            raise refusal(404, "Base.1.8.ResourceMissingAtURI", f"The resource at the URI {path} was not found.")

    # -- documents -------------------------------------------------------------------------------------------------

    def _collection(self) -> dict[str, Any]:
        members = [{"@odata.id": f"{self.base}/{drive.id}"} for drive in self.state.profile.media.drives]
        return {
            "@odata.type": "#VirtualMediaCollection.VirtualMediaCollection", "@odata.id": self.base,
            "Name": "Virtual Media", "Members": members, "Members@odata.count": len(members),
        }  # fmt: skip

    def holds(self, drive: Drive) -> str:
        """Return the URL that a drive says that it holds; empty when it says that it is empty."""
        when, was = self._ejected.get(drive.id, (0.0, ""))
        if was and self.state.clock() - when < self.state.profile.media.stale_seconds:
            return was
        return self._held.get(drive.id, "")

    def _shown(self, drive: Drive) -> dict[str, Any]:
        url = self.holds(drive)
        name = url or (self._names.get(drive.id, "") if self.state.profile.media.keeps_name else "")
        path = f"{self.base}/{drive.id}"
        body: dict[str, Any] = {
            "@odata.type": "#VirtualMedia.v1_3_2.VirtualMedia", "@odata.id": path, "Id": drive.id,
            "Name": f"Virtual Media {drive.id}", "MediaTypes": list(drive.types), "Image": url or None,
            "ImageName": urlparse(name).path.rpartition("/")[2] or None, "Inserted": bool(url),
            "ConnectedVia": "URI" if url else "NotConnected", "WriteProtected": True,
        }  # fmt: skip
        if drive.how == "action":
            body["Actions"] = {
                "#VirtualMedia.InsertMedia": {"target": path + _INSERT},
                "#VirtualMedia.EjectMedia": {"target": path + _EJECT},
            }
        if self.state.profile.media.ejects_itself:
            body["Oem"] = {"Hpe": {"BootOnNextServerReset": drive.id in self._boot_next}}
        return body

    # -- what is done ----------------------------------------------------------------------------------------------

    def _patch(self, drive: Drive, body: dict[str, Any]) -> Response:
        if self.state.profile.media.ejects_itself and "Oem" in body:
            wanted = body == {"Oem": {"Hpe": {"BootOnNextServerReset": True}}}
            if not wanted and body != {"Oem": {"Hpe": {"BootOnNextServerReset": False}}}:
                text = "Of a drive BootOnNextServerReset alone can be set, to true or false."
                raise refusal(400, "Base.1.8.PropertyNotWritable", text, "Oem")
            self._boot_next.pop(drive.id, None)
            if wanted:
                self._boot_next[drive.id] = 0
            return no_content()
        if drive.how != "patch":
            raise refusal(405, "Base.1.8.OperationNotAllowed", f"{drive.id} takes no image by PATCH.")
        if not body.keys() & {"Image", "Inserted"}:
            raise refusal(400, "Base.1.8.NoOperation", "The request neither inserts nor ejects an image.")
        if body.get("Image") in (None, "") and body.get("Inserted", False) is False:
            _checked(drive, {name: value for name, value in body.items() if name not in ("Image", "Inserted")})
            self.eject(drive)
        else:
            self._take(drive, body)
        return document(self._shown(drive))

    def _insert(self, drive: Drive, body: dict[str, Any]) -> Response:
        media = self.state.profile.media
        for name in media.refused:
            if name in body:
                raise refusal(
                    400, "Base.1.8.PropertyUnknown",
                    f"The property {name} is not in the list of valid properties for the resource.", name,
                )  # fmt: skip
        for name in media.needs:
            if name not in body:
                raise refusal(
                    400, "Base.1.8.ActionParameterMissing",
                    f"The action InsertMedia requires the parameter {name} to be present in the request body.", name,
                )  # fmt: skip
        self._may(drive, body)
        if media.task_seconds:
            return self.tasks.begin(lambda: self._taken(drive, body))
        return self._taken(drive, body)

    def may(self, url: str) -> None:
        """Raise Refusal unless this BMC takes an image from that URL."""
        media, scheme = self.state.profile.media, _scheme(url)
        if scheme not in media.schemes:
            raise refusal(
                400, "Base.1.8.SourceDoesNotSupportProtocol",
                f"The other end of the connection at {url} does not support the specified protocol {scheme or 'none'}: "
                f"this BMC reads {', '.join(media.schemes)}.", "Image",
            )  # fmt: skip
        if media.url_length and len(url) > media.url_length:
            raise refusal(
                400, "Base.1.8.StringValueTooLong",
                f"The string {url[:40]}... exceeds the length limit {media.url_length}.", "Image",
            )  # fmt: skip

    def _may(self, drive: Drive, body: dict[str, Any]) -> None:
        url = str(body.get("Image") or "")
        _checked(drive, body)
        self.may(url)
        when, _ = self._ejected.get(drive.id, (float("-inf"), ""))
        if self.state.clock() - when < self.state.profile.media.busy_seconds:
            raise refusal(500, "Base.1.8.InternalError", "The request failed due to an internal service error.")
        if self._held.get(drive.id):
            raise refusal(500, "Base.1.8.ResourceInUse", "The virtual media device is already in use.")
        holder = next((drive.id for drive in self._bootable() if self._held.get(drive.id)), "")
        if holder and drive.boots:
            text = f"The machine has one drive to boot images from, and {holder} holds one."
            raise refusal(500, "Base.1.8.ResourceInUse", text)
        if drive.limit_mib and _mib(url, _login(body)) > drive.limit_mib:
            raise refusal(
                400, "Base.1.8.PropertyValueNotInList",
                f"The image is larger than the {drive.limit_mib} MiB that {drive.id} holds.", "Image",
            )  # fmt: skip

    def _taken(self, drive: Drive, body: dict[str, Any]) -> Response:
        self._take(drive, body)
        return no_content()

    def _take(self, drive: Drive, body: dict[str, Any]) -> None:
        self._may(drive, body)
        url = str(body["Image"])
        if self.state.profile.media.lies:
            return
        login = _login(body)
        with self._changing():
            if drive.boots:
                account = dict(zip(("UserName", "Password"), login or (), strict=False))
                self.state.ask("POST", _DRIVE + _INSERT, {"Image": url, **account})
            else:
                _mib(url, login)
            self._held[drive.id] = self._names[drive.id] = url

    def _eject(self, drive: Drive, request: Request) -> Response:
        if self.state.profile.media.eject_body and not request.is_json:
            raise refusal(415, "Base.1.8.UnsupportedMediaType", "The request's content type is not supported.")
        self.eject(drive)
        return no_content()

    def eject(self, drive: Drive) -> None:
        """Take what it holds out. Raises Refusal; then it is in there still."""
        with self._changing():
            url = self._held.get(drive.id, "")
            if url and drive.boots:
                self.state.ask("POST", _DRIVE + _EJECT, {})
            self._held.pop(drive.id, None)
            self._boot_next.pop(drive.id, None)
            if url:
                self._ejected[drive.id] = (self.state.clock(), url)

    def connect(self, drive: Drive, url: str) -> None:
        """Put an image into a drive for a vendor's own action, without the checks of InsertMedia's form. Raises
        Refusal."""
        self._take(drive, {"Image": url})

    @contextmanager
    def _reset(self) -> Iterator[None]:
        """Follow a start of the machine: what was to be booted once leaves at its second start, and stays if that
        fails."""
        starts = {name: count + 1 for name, count in self._boot_next.items()}
        leaving = [drive for drive in self.state.profile.media.drives if starts.get(drive.id, 0) > 1]
        kept = {drive.id: self._held.get(drive.id, "") for drive in leaving}, dict(self._boot_next), dict(self._ejected)
        for drive in leaving:
            self.eject(drive)
        try:
            yield
        except Refusal:
            held, self._boot_next, self._ejected = kept
            for drive in leaving:
                if held[drive.id]:
                    self._take(drive, {"Image": held[drive.id]})
            raise
        self._boot_next = {name: count for name, count in starts.items() if count < 2}


def _checked(drive: Drive, body: dict[str, Any]) -> None:
    """Raise Refusal for what an insert asks for and this drive does not do: its images cannot be written."""
    scheme = _scheme(str(body.get("Image"))).upper()
    values: dict[str, tuple[Any, ...]] = {
        "Inserted": (True,), "WriteProtected": (True,), "MediaType": drive.types,
        "TransferMethod": ("Stream", "Upload"),
        "TransferProtocolType": (scheme, "CIFS") if scheme == "SMB" else (scheme,),
    }  # fmt: skip
    for name, value in body.items():
        if name not in ("Image", "UserName", "Password", *values):
            raise refusal(400, "Base.1.8.PropertyUnknown", f"The property {name} is not known here.", name)
        if value not in values.get(name, (value,)):
            raise refusal(
                400, "Base.1.8.PropertyValueNotInList", f"{drive.id} takes no image with {name}: {value}.", name
            )
    login = [body.get(name) or "" for name in ("UserName", "Password")]
    if not all(isinstance(word, str) for word in login) or bool(login[0]) != bool(login[1]):
        text = "UserName and Password belong together, and are strings."
        raise refusal(400, "Base.1.8.PropertyValueTypeError", text, "UserName")


def _scheme(url: str) -> str:
    """Raise Refusal for what is no URL."""
    try:
        return urlparse(url).scheme
    except ValueError as error:
        raise refusal(400, "Base.1.8.PropertyValueFormatError", f"{url} is no URL: {error}.", "Image") from error


def _login(body: dict[str, Any]) -> tuple[str, str] | None:
    """Return the account at the image's server."""
    return (body["UserName"], body["Password"]) if body.get("UserName") else None


def _mib(url: str, login: tuple[str, str] | None) -> float:
    """Return an image's size in MiB; 0 when its server does not tell."""
    try:
        with requests.head(url, timeout=_SIZE_SECONDS, verify=False, auth=login) as answer:
            answer.raise_for_status()
            return int(answer.headers.get("Content-Length", 0)) / (1 << 20)
    except (requests.RequestException, ValueError) as error:
        raise refusal(400, "Base.1.8.ResourceAtUriUnauthorized", f"{url} cannot be read: {error}") from error
