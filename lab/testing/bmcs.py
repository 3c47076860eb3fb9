"""BMCs without machines: sushy-tools' emulator and the vendors' fronts, over machines that run nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread
from typing import Any
from uuid import uuid4

import msgspec
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources import vmedia

from drivers.container import DiskView, Machines, Reply, Request, View
from drivers.errors import NotFoundError
from drivers.redfish import Service
from installer.common.certificates import authority
from lab.bmcs.front import Front
from lab.bmcs.profile import Profile, profile
from lab.bmcs.serving import context, serve
from lab.bmcs.shared import Shared
from lab.bmcs.web import Response
from lab.daemons.containers import ContainerDriver
from lab.daemons.images import share_media
from lab.daemons.pki import issue
from lab.daemons.redfish import views

USER, PASSWORD = "admin", "right"


@dataclass
class Memory(Machines):
    """The daemon of container machines, for one that runs nothing; `booted` is what it booted from, in order."""

    name: str = "master-0"
    uuid: str = field(default_factory=lambda: str(uuid4()))
    installed: bool = False
    booted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._view = View(
            name=self.name, uuid=self.uuid, on=False, running=False, first="hd", once=False, media="", memory_mib=4096,
            vcpus=2, firmware="uefi", macs=("52:54:00:00:00:01",), pulled=(),
            disks=(
                DiskView(
                    target="sda", bus="sata", size=10 << 30, serial="DISK-0", vendor="", model="WD10", rotational=True
                ),
            ),
        )  # fmt: skip
        self._usual = "hd"

    def ask(self, request: Request) -> tuple[View, ...]:
        """As the daemon does."""
        if request.op != "list" and request.machine not in (self.name, self.uuid):
            raise NotFoundError("there is no such machine", machine=request.machine)
        if request.op == "on" and not self._view.on:
            self._change(on=True)
            self.boot()
        elif request.op in ("off", "shutdown"):
            self._change(on=False)
        elif request.op == "reset":
            self.boot()
        elif request.op == "media":
            self._change(media=request.value)
        elif request.op == "first":
            self._usual = self._usual if request.once else request.value
            self._change(first=request.value, once=request.once)
        return (self._view,)

    def boot(self) -> None:
        """Start from the first device that has something to start, as after a reset of its own."""
        order = dict.fromkeys([self._view.first, self._usual, "hd", "cdrom"])
        fit = {"hd": self.installed, "cdrom": bool(self._view.media)}
        self.booted.append(next((device for device in order if fit.get(device)), "nothing"))
        self._change(first=self._usual, once=False)

    def _change(self, **fields: object) -> None:
        self._view = msgspec.structs.replace(self._view, **fields)


class Contained(ContainerDriver):
    """The driver of container machines, without a daemon."""

    def __init__(self, machines: Machines) -> None:
        super().__init__(Path("/nowhere"))
        self._machines = machines


def hurried(bmc_profile: Profile, factor: float) -> Profile:
    """Return the profile with all its durations multiplied."""

    def shorter(part: Any) -> Any:
        names = [field_info.name for field_info in msgspec.structs.fields(part) if field_info.name.endswith("_seconds")]
        return msgspec.structs.replace(part, **{name: getattr(part, name) * factor for name in names})

    return msgspec.structs.replace(
        bmc_profile, media=shorter(bmc_profile.media), power=shorter(bmc_profile.power), boot=shorter(bmc_profile.boot)
    )


class Clock:
    """A clock in place of the module `time`, for BMCs and their clients: sleeping takes no time, and advances it."""

    def __init__(self) -> None:
        self._slept = 0.0

    def monotonic(self) -> float:
        """Seconds, those slept among them."""
        return time.monotonic() + self._slept

    def sleep(self, seconds: float) -> None:
        """Be later by that."""
        self._slept += seconds


@contextmanager
def emulated(systems: Any, folder: Path) -> Iterator[emulator.Application]:
    """Provide the emulator with that driver of systems, its files in `folder`; without authentication."""
    originals = {"systems": emulator.Application.systems, "wsgi": emulator.app.wsgi_app, "media": vmedia.StaticDriver}
    directory = tempfile.tempdir
    share_media(emulator.app)
    emulator.Application.systems = systems
    # What it has memoized is of another emulator.
    vars(emulator.app).pop("_cache", None)
    settings = {
        "SUSHY_EMULATOR_STATE_DIR": str(folder), "NODE0_HTTP_URL": "http://lab", "NODE0_HTTP_ROOT": str(folder),
        "NODE0_SHARES": (f"nfs://files.example/export={folder}",),
    }  # fmt: skip
    emulator.app.config.update(settings)
    views.install(emulator.app)
    tempfile.tempdir = str(folder)
    try:
        yield emulator.app
    finally:
        tempfile.tempdir = directory
        emulator.Application.systems = originals["systems"]
        vmedia.StaticDriver = originals["media"]
        vars(emulator.app).pop("_cache", None)


@dataclass(frozen=True)
class Running:
    """A BMC that answers at `url`, with the certificate of `ca`; `machine` is behind it, `statuses` its answers."""

    url: str
    ca: Path
    machine: Memory
    front: Any
    _: KW_ONLY
    profile: Profile
    statuses: list[int]

    def service(self, password: str = PASSWORD, *, patience: float = 20, tls: str = "") -> Service:
        """Return a client."""
        version = "1.1" if "1.1" in (tls or self.profile.tls) else "1.2"
        return Service(
            f"{self.url}/redfish/v1/", USER, password, ca=self.ca, patience=patience, timeout=5,
            tls="1.1" if version == "1.1" else "1.2",
        )  # fmt: skip


@contextmanager
def running(
    name: str,
    folder: Path,
    changed: Profile | None = None,
    *,
    encrypted: bool = True,
    restarts: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Running]:
    """Provide a BMC of that profile, or of a changed one, on this machine's loopback. `folder` is an empty one,
    `restarts` and `clock` as in lab.bmcs.state.

    One that is not `encrypted` speaks HTTP: of a request's processor time over TLS a good part is its handshake.
    """
    (state := folder / "state").mkdir()
    ca = authority("test")
    issue(ca, ["127.0.0.1"], folder)
    (folder / "ca.crt").write_text(ca.certificate)
    bmc_profile, machine = changed or profile(name), Memory()
    with ExitStack() as stack:
        application = stack.enter_context(emulated(Contained(machine), state))
        statuses: list[int] = []

        def account(user: str, word: str) -> bool:
            return (user, word) == (USER, PASSWORD)

        def log(_: object, response: Response, __: float) -> None:
            statuses.append(response.status_code)

        front = (
            Front(bmc_profile, machine.name, application, account, restarts=restarts, clock=clock, log=log)
            if bmc_profile.system
            else Shared(application, account, clock=clock, log=log)
        )
        tls = context(folder / "server.crt", folder / "server.key", bmc_profile.tls) if encrypted else None
        server = serve(front, "127.0.0.1", 0, tls)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        url = f"{'https' if encrypted else 'http'}://127.0.0.1:{server.server_port}"
        yield Running(url, folder / "ca.crt", machine, front, profile=bmc_profile, statuses=statuses)


@contextmanager
def owned(machine: Memory, path: Path) -> Iterator[None]:
    """Provide the machine as the daemon of container machines has it: behind a UNIX socket, for the length of the
    block."""

    class Answer(StreamRequestHandler):
        def handle(self) -> None:
            """One request, one reply."""
            request = msgspec.json.decode(self.rfile.readline(), type=Request)
            try:
                reply = Reply(machines=machine.ask(request))
            except NotFoundError as error:
                reply = Reply(error=str(error), kind="unknown")
            self.wfile.write(msgspec.json.encode(reply) + b"\n")

    with ThreadingUnixStreamServer(str(path), Answer) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
