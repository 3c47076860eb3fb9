"""The lab's BMCs: `python -m lab.daemons.bmc CONFIG` runs sushy-tools' emulator with these changes.

- One image for all machines. Stock, every InsertMedia downloads the ISO in small pieces and copies it again into the
  pool, twice its size for each machine, and leaves the pool's copy behind (reference/lab.md §3.3, B1 and B2). Here an
  image is downloaded once per version (lab.daemons.images), and each machine gets hard links to it. An
  image that the lab's own HTTP server serves is not even copied: a new image has to be a new file, as node0's are.
- An insert or eject that fails changes nothing. Stock, the books change before the machine, and a name that the image's
  server gives becomes a path.
- An inserted CD is bootable, after the disks. Stock, it has no place in the boot order unless the client sets one, and
  then it comes before the disk even after an installation. Here it comes last: an empty disk falls through to it, an
  installed disk wins. A boot target that a client sets is still honoured.
- A CD that is asked for once comes first at the next power-on alone. Stock, it comes before the disk ever after.
- Every request is logged with its duration, without passwords.
- Who has not logged in, says nothing, or says too much holds up nobody (lab.bmcs.serving, lab.bmcs.web). Stock, the TLS
  handshake runs in the loop that accepts, and bodies have no limit.

Machines whose BMC is a vendor's have one each besides it, with a port of its own (lab.bmcs).
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import flask
from sushy_tools import error
from sushy_tools.emulator import auth_basic
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources.systems import libvirtdriver

from drivers.bootorder import behind, in_order, places, settle
from drivers.libvirt import Hypervisor, Machine
from drivers.protocols import BootDevice
from lab.bmcs.errors import Refusal
from lab.bmcs.front import Front
from lab.bmcs.profile import profile
from lab.bmcs.serving import context, listen, serve
from lab.bmcs.web import Request, Response, read_body, refusal, shown_body
from lab.daemons import containers
from lab.daemons.images import share_media
from lab.redact import redact

#: Redfish's words for what a machine boots.
_DEVICES = {"Cd": BootDevice.CD, "Hdd": BootDevice.DISK, "Pxe": BootDevice.NETWORK}


class LabMachines(libvirtdriver.LibvirtDriver):  # type: ignore[misc]
    """libvirt domains whose media are links into the pool, bootable after the disks or once before them, and removed on
    eject."""

    # The UUIDs of those that are to start from their CD once.
    _from_cd: ClassVar[set[str]] = set()

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        """Try this first, and the others next, as they were. A CD that is asked for once changes nothing before the
        machine is switched on."""
        if boot_source == "Cd" and containers.asked_boot().get("BootSourceOverrideEnabled") == "Once":
            self._from_cd.add(self.uuid(identity))
            return
        self._from_cd.discard(self.uuid(identity))
        if boot_source not in _DEVICES:
            super().set_boot_device(identity, boot_source)
            return
        with self._driven(identity) as machine:
            machine.set_first(_DEVICES[boot_source])

    def get_boot_device(self, identity: str) -> str | None:
        """What is tried first at the next power-on."""
        if self.uuid(identity) in self._from_cd:
            return "Cd"
        tree = ElementTree.fromstring(self.get_xml_desc(self._get_domain(identity)))
        tried = in_order(places(tree))
        return next((name for name, device in _DEVICES.items() if tried and device is tried[0].kind), "Hdd")

    def set_power_state(self, identity: str, state: str) -> None:
        """As sushy-tools does; a machine that is switched on starts from its CD where that was asked for."""
        is_on, known = self.get_power_state(identity) == "On", self.uuid(identity)
        if known not in self._from_cd or state not in (("ForceRestart",) if is_on else ("On", "ForceOn")):
            super().set_power_state(identity, state)
            return
        with self._driven(identity) as machine:
            machine.boot_from_cd_once()
            machine.cycle()
        self._from_cd.discard(known)

    @contextmanager
    def _driven(self, identity: str) -> Iterator[Machine]:
        with containers.as_fishy(), closing(Hypervisor(self._uri)) as hypervisor:
            yield hypervisor.machine(self.name(identity))

    def _pool(self) -> Path:
        with libvirtdriver.libvirt_open(self._uri) as conn:
            pool = conn.storagePoolLookupByName(self.STORAGE_POOL)
            pool.refresh()
            return Path(ElementTree.fromstring(pool.XMLDesc()).findtext("target/path", ""))

    def _upload_image(self, domain: Any, _conn: Any, boot_image: str) -> str:
        link = self._pool() / f"{Path(boot_image).name.replace('.', '-')}-{domain.UUIDString()}.img"
        if not (link.exists() and link.samefile(boot_image)):
            os.link(boot_image, link)
        return str(link)

    def _add_boot_image(self, domain: Any, domain_tree: Any, device: str, *args: Any) -> None:
        super()._add_boot_image(domain, domain_tree, device, *args)
        devices = domain_tree.find("devices")
        # EDK II boots from nothing that has no place where something has one.
        found = places(domain_tree)
        added = next(one for one in found if one.element is devices.findall("disk")[-1])
        if not added.order:
            added.put(behind(found))
        settle(domain_tree)

    def set_boot_image(self, identity: str, device: str, boot_image: str | None = None, *args: Any, **kw: Any) -> None:
        """As sushy-tools does, or not at all; the pool's links to earlier images go. A new image takes over the place
        of one that was set first for good, not of what is to be first once."""
        known = self.uuid(identity)
        once = known in self._from_cd
        self._from_cd.discard(known)
        defined, links = self.get_xml_desc(self._get_domain(known)), self._links(known)
        try:
            super().set_boot_image(identity, device, boot_image, *args, **kw)
        except BaseException:
            with libvirtdriver.libvirt_open(self._uri) as conn:
                conn.defineXML(defined)
            for link in self._links(known) - links:
                link.unlink()
            raise
        finally:
            self._from_cd.update([known] * once)
        tree = ElementTree.fromstring(self.get_xml_desc(self._get_domain(known)))
        for link in self._links(known) - {Path(source.get("file", "")) for source in tree.iter("source")}:
            link.unlink()

    def _links(self, uuid: str) -> set[Path]:
        return set(self._pool().glob(f"*-{uuid}.img"))


class RequestLog:
    """A file with a JSON line for every request, without passwords."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def note(self, request: Request, response: Response, seconds: float, bmc: str = "") -> None:
        """Append a line. `bmc` names the machine whose vendor's BMC answered: the emulator's part has its own lines."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "from": request.remote_addr,
            **({"bmc": bmc} if bmc else {}),
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "seconds": round(seconds, 3),
        }
        body = shown_body(request)
        if body is not None:
            entry["body"] = redact(body)
        if response.status_code >= 400:
            entry["answer"] = redact(response.get_data(as_text=True)[:2000])
        with self._lock, self._path.open("a") as log:
            log.write(json.dumps(entry) + "\n")


def log_requests(app: flask.Flask, log: RequestLog) -> None:
    """Read every request that `app` answers, and note it."""

    def begin() -> Response | None:
        flask.g.begin = time.monotonic()
        try:
            read_body(flask.request.environ)
        except Refusal as refused:
            return refused.response
        return None

    def end(response: flask.Response) -> flask.Response:
        log.note(flask.request, response, time.monotonic() - flask.g.begin)
        return response

    app.before_request(begin)
    app.after_request(end)


class Login(emulator.RedfishAuthMiddleware):  # type: ignore[misc]
    """The emulator's basic authentication, for whatever is sent in its place."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Let the request in, or answer 401 (WSGI, PEP 3333)."""
        request = Request(environ)
        login = request.authorization
        if request.path.strip("/") not in self._EXCLUDE_PATHS and not (
            login is not None and login.type == "basic" and self.account(login.username or "", login.password or "")
        ):
            realm = {"WWW-Authenticate": 'Basic realm="Baremetal API"'}
            text = "There is no valid login with this request."
            return refusal(401, "Base.1.8.NoValidSession", text, headers=realm).response(environ, start_response)
        answer: Iterable[bytes] = self.app(environ, start_response)
        return answer

    def account(self, user: str, password: str) -> bool:
        """Whether a user's password is right."""
        try:
            auth_basic.authenticate(self.auth_file, user, password.encode())
        except (error.Unauthorized, ValueError):  # what bcrypt and UTF-8 cannot take is nobody's password
            return False
        return True


def serve_vendors(app: flask.Flask, login: Login, log: RequestLog) -> None:
    """Serve the BMCs of all machines whose BMC is a vendor's: NODE0_FRONTS has their names, profiles and ports. Each
    has its own way in; behind them the emulator asks nobody."""
    for name, kind, port in app.config.get("NODE0_FRONTS", ()):
        bmc_profile = profile(kind)
        restarts = containers.SETTING in app.config
        front = Front(bmc_profile, name, login.app, login.account, restarts=restarts, log=partial(log.note, bmc=name))
        serve(front, app.config["SUSHY_EMULATOR_LISTEN_IP"], port, _context(app, kind))


def _context(app: flask.Flask, kind: str) -> ssl.SSLContext:
    pair = (Path(app.config["SUSHY_EMULATOR_SSL_CERT"]), Path(app.config["SUSHY_EMULATOR_SSL_KEY"]))
    return context(*pair, profile(kind).tls)


def main(config: str) -> int:
    """Serve until killed."""
    libvirtdriver.LibvirtDriver = LabMachines
    emulator.RedfishAuthMiddleware = Login
    containers.ContainerDriver.instead_of_libvirt(config)
    app = emulator.app
    app.configure(config_file=config)
    share_media(app)
    log = RequestLog(Path(app.config["NODE0_BMC_REQUESTS"]))
    log_requests(app, log)
    serve_vendors(app, app.wsgi_app, log)
    address, port = app.config["SUSHY_EMULATOR_LISTEN_IP"], app.config["SUSHY_EMULATOR_LISTEN_PORT"]
    listen(app, address, port, _context(app, "lab")).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
