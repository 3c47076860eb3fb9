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
- What is asked for once comes first at the next power-on alone. Stock, it comes first ever after.
- A request is done as a whole or refused, in Redfish's form (lab.daemons.redfish), and there are sessions
  (lab.bmcs.shared).
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
from collections.abc import Callable, Iterable, Iterator
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

from drivers.bootorder import Place, in_order, next_order, of_kind, places, settle
from drivers.libvirt import Hypervisor, Machine
from drivers.protocols import BootDevice
from installer.common.redact import redact
from lab.bmcs.front import Front
from lab.bmcs.recorded import profile_of
from lab.bmcs.serving import context, listen, serve
from lab.bmcs.shared import Shared
from lab.bmcs.web import Refusal, Request, Response, read_body, received, refusal, shown_body
from lab.daemons import containers
from lab.daemons.images import share_media
from lab.daemons.redfish import views
from lab.daemons.redfish.storage import Disk, disks_of, simple

#: Redfish's words for what a machine boots.
_DEVICES = {"Cd": BootDevice.CD, "Hdd": BootDevice.DISK, "Pxe": BootDevice.NETWORK}


class LabMachines(libvirtdriver.LibvirtDriver):  # type: ignore[misc]
    """libvirt domains whose media are links into the pool, bootable after the disks or once before them, and removed on
    eject."""

    TARGETS = tuple(_DEVICES)
    RESETS = ("On", "ForceOn", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "Nmi")
    # What was asked for last, by UUID: the target, and whether for one power-on.
    _asked: ClassVar[dict[str, tuple[str, bool]]] = {}

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        """Try this first, and the others next, as they were."""
        self.set_override(identity, boot_source)

    def get_boot_device(self, identity: str) -> str:
        """Return the target that is tried first at the next power-on."""
        target, _ = self.override(identity)
        return "Hdd" if target == "None" else target

    def set_override(self, identity: str, target: str, *, once: bool = False) -> None:
        """Try this first; "None": the disk, as usual. What is asked for once changes nothing before the machine is
        switched on, nor does a CD before it is inserted."""
        known = self.uuid(identity)
        if once or (target == "Cd" and not of_kind(self._places(identity), BootDevice.CD)):
            self._asked[known] = (target, once)
            return
        with self._driven(identity) as machine:
            machine.set_first(_DEVICES.get(target, BootDevice.DISK))
        self._asked[known] = (target, False)

    def override(self, identity: str) -> tuple[str, bool]:
        """Return the first target of the next power-on ("None": the usual), and whether of that one alone. The last
        request here counts as long as the machine's order is still that: IPMI and the lab change it too."""
        found = self._places(identity)
        tried = in_order(found)
        firsts = [name for name, kind in _DEVICES.items() if tried and tried[0] in of_kind(found, kind)]
        target, once = self._asked.get(self.uuid(identity), ("None", False))
        if once or target in firsts or (target == "Cd" and not of_kind(found, BootDevice.CD)):
            return target, once
        return "None" if "Hdd" in firsts or not firsts else firsts[0], False

    def _places(self, identity: str) -> list[Place]:
        return places(self._tree(identity))

    def _tree(self, identity: str) -> ElementTree.Element:
        return ElementTree.fromstring(self.get_xml_desc(self._get_domain(identity)))

    def set_power_state(self, identity: str, state: str) -> None:
        """Switch it as sushy-tools does; a machine that is switched on starts from what was asked for once."""
        state = "ForceRestart" if state == "PowerCycle" else state
        is_on, known = self.get_power_state(identity) == "On", self.uuid(identity)
        target, once = self._asked.get(known, ("", False))
        if not once or state not in (("ForceRestart",) if is_on else ("On", "ForceOn")):
            super().set_power_state(identity, state)
            return
        with self._driven(identity) as machine:
            machine.off()
            machine.on_once(_DEVICES[target])
        del self._asked[known]

    def get_boot_mode(self, identity: str) -> str:
        """UEFI or Legacy; sushy-tools does not see the latter where libvirt's default firmware is meant."""
        return "UEFI" if self._tree(identity).find("os/loader[@type='pflash']") is not None else "Legacy"

    def get_secure_boot(self, identity: str) -> bool:
        """Tell whether its firmware has keys and starts signed code alone."""
        if self.get_boot_mode(identity) == "Legacy":
            raise error.NotSupportedError("a BIOS has no secure boot")
        return self._tree(identity).find("os/loader[@secure='yes']") is not None

    def get_bios(self, identity: str) -> dict[str, str]:
        """Raise NotSupportedError: the attributes of sushy-tools are words in the domain's metadata that nothing
        follows."""
        raise error.NotSupportedError(f"{identity} has no attributes of its firmware")

    def set_bios(self, identity: str, _attributes: object = None) -> None:
        """Raise NotSupportedError, as above."""
        self.get_bios(identity)

    reset_bios = set_bios

    def get_processors(self, identity: str) -> list[dict[str, str]]:
        """List them as sushy-tools does, with the key by which its template makes their paths."""
        return [{**processor, "Id": processor["id"]} for processor in super().get_processors(identity)]

    def disks(self, identity: str) -> list[Disk]:
        """Return its disks."""
        return disks_of(self._tree(identity))

    def get_simple_storage_collection(self, identity: str) -> dict[str, dict[str, Any]]:
        """List its disks by their buses; sushy-tools lists volumes of libvirt's pools alone."""
        return simple(self.disks(identity))

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
        added = next(place for place in found if place.element is devices.findall("disk")[-1])
        if not added.order:
            added.put(next_order(found))
        settle(domain_tree)

    def set_boot_image(self, identity: str, device: str, boot_image: str | None = None, *args: Any, **kw: Any) -> None:
        """Change the medium as sushy-tools does, or not at all; the pool's links to earlier images go. A new image
        takes over the place of one that was set first for good, not of what is to be first once."""
        known = self.uuid(identity)
        asked = self._asked.get(known)
        if asked is not None and asked[1]:
            del self._asked[known]
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
            if asked is not None:
                self._asked[known] = asked
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
    """Read every request that `app` answers, and note it, but not what a BMC in front of it only wants to know."""

    def begin() -> Response | None:
        flask.g.begin = time.monotonic()
        try:
            read_body(flask.request.environ)
        except Refusal as refused:
            return refused.response
        return None

    def end(response: flask.Response) -> flask.Response:
        if flask.request.remote_addr or flask.request.method != "GET":
            log.note(flask.request, response, time.monotonic() - flask.g.begin)
        return response

    app.before_request(begin)
    app.after_request(end)


def accounts(file: str) -> Callable[[str, str], bool]:
    """Make the check of a user's password against that htpasswd file."""

    def account(user: str, password: str) -> bool:
        try:
            auth_basic.authenticate(file, user, password.encode())
        # What bcrypt (more than 72 bytes, a null) and UTF-8 cannot take is nobody's password.
        except (error.FishyError, ValueError):
            return False
        return True

    return account


def serve_vendors(app: flask.Flask, log: RequestLog) -> None:
    """Serve the BMCs of all machines whose BMC is a vendor's: NODE0_FRONTS has their names, profiles and ports."""
    account, application = accounts(app.config["NODE0_ACCOUNTS"]), app.wsgi_app
    restarts = containers.SETTING in app.config
    for name, kind, port in app.config.get("NODE0_FRONTS", ()):
        note = partial(log.note, bmc=name)
        front = Front(profile_of(kind), name, application, account, restarts=restarts, log=note)
        serve(
            Readiness(front, Path(app.config["NODE0_UNREADY"]), note),
            app.config["SUSHY_EMULATOR_LISTEN_IP"],
            port,
            _context(app, kind),
        )


class Readiness:
    """An application that answers 503 while a file is there (lab.faults.BmcUnready), as a BMC that starts does."""

    def __init__(self, application: Any, path: Path, note: Callable[[Request, Response, float], None]) -> None:
        self._application = application
        self._path = path
        self._note = note

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request (WSGI, PEP 3333)."""
        if not self._path.exists():
            answer: Iterable[bytes] = self._application(environ, start_response)
            return answer
        request = received(environ)
        refused = refusal(503, "Base.1.8.ServiceTemporarilyUnavailable", "The service is temporarily unavailable.")
        self._note(request, refused.response, 0.0)
        return refused.response(environ, start_response)


def _context(app: flask.Flask, kind: str) -> ssl.SSLContext:
    pair = (Path(app.config["SUSHY_EMULATOR_SSL_CERT"]), Path(app.config["SUSHY_EMULATOR_SSL_KEY"]))
    return context(*pair, profile_of(kind).tls)


def main(config: str) -> int:
    """Serve until killed."""
    libvirtdriver.LibvirtDriver = LabMachines
    containers.ContainerDriver.instead_of_libvirt(config)
    app = emulator.app
    app.configure(config_file=config)
    log = RequestLog(Path(app.config["NODE0_BMC_REQUESTS"]))
    # Bodies are read, within their limits, before anything looks at them.
    log_requests(app, log)
    views.install(app)
    share_media(app)
    serve_vendors(app, log)
    # sushy-tools' own way in knows no sessions, and is not used: its setting (SUSHY_EMULATOR_AUTH_FILE) is not there.
    shared = Shared(app.wsgi_app, accounts(app.config["NODE0_ACCOUNTS"]), log=log.note)
    app.wsgi_app = Readiness(shared, Path(app.config["NODE0_UNREADY"]), log.note)
    address, port = app.config["SUSHY_EMULATOR_LISTEN_IP"], app.config["SUSHY_EMULATOR_LISTEN_PORT"]
    listen(app, address, port, _context(app, "lab")).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
