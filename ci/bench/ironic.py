"""Unmodified Ironic through every kind of BMC: enroll, manage, inspect, power, virtual media.

Ironic is installed from PyPI once, into an environment of its own in the cache, and runs as one process without
authentication on loopback, with SQLite. The BMCs run here, over machines that run nothing; what a machine's drive holds
and whether it is on is read from the machine, not from Ironic.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import requests

from ci.bench.measure import table
from drivers.container import Request
from installer.common.certificates import SERVER, authority, leaf
from installer.common.ports import free_port
from lab.bmcs.profile import profiles
from lab.host.paths import cache_dir
from lab.testing.bmcs import PASSWORD, USER, Running, running

VERSION = "39.0.0"
# Of a node's state, and of Ironic's start (s).
_STATE, _START = 300.0, 300.0
#: Left out: it says that it inserts, and does not.
_LEFT_OUT = ("liar",)
_NO_MEDIA = ("fujitsu", "bare")
_CONFIG = """[DEFAULT]
auth_strategy = noauth
graceful_shutdown_timeout = 5
rpc_transport = none
host = localhost
state_path = {place}
log_file = {place}/ironic.log
enabled_hardware_types = redfish,idrac
enabled_boot_interfaces = redfish-virtual-media,idrac-redfish-virtual-media
enabled_power_interfaces = redfish,idrac-redfish
enabled_management_interfaces = redfish,idrac-redfish
enabled_inspect_interfaces = redfish,idrac-redfish
enabled_deploy_interfaces = direct
enabled_network_interfaces = noop
enabled_storage_interfaces = noop
enabled_bios_interfaces = no-bios
enabled_raid_interfaces = no-raid
enabled_firmware_interfaces = no-firmware
enabled_console_interfaces = no-console
enabled_rescue_interfaces = no-rescue
enabled_vendor_interfaces = no-vendor
[api]
host_ip = 127.0.0.1
port = {port}
[database]
connection = sqlite:///{place}/ironic.sqlite
[conductor]
automated_clean = false
graceful_shutdown_timeout = 5
[inspector]
require_managed_boot = false
[deploy]
http_root = {images}
http_url = {url}
"""


class NotDoneError(Exception):
    """A failure of Ironic, in its words."""


def _programs() -> Path:
    place = cache_dir() / f"ironic-{VERSION}"
    if not (place / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"ironic=={VERSION}"], check=True)
        (place / "done").touch()
    return place / "bin"


def _until(what: str, look: Callable[[], Any], wanted: Any, seconds: float = _STATE) -> None:
    """Poll until `look` gives what is wanted. Raises NotDoneError."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            last = look()
        except requests.RequestException as error:
            last = str(error)
        if last == wanted:
            return
        time.sleep(0.5)
    raise NotDoneError(f"{what}: {last} after {seconds:.0f} s, not {wanted}")


class Ironic:
    """Its API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1"
        self._session = requests.Session()
        self._session.headers["X-OpenStack-Ironic-API-Version"] = "latest"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return an answer's JSON, None without one. Raises NotDoneError."""
        answer = self._session.request(method, self._url + path, json=body, timeout=60)
        if answer.status_code >= 400:
            raise NotDoneError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def state(self, name: str, field: str) -> Any:
        """Return a field of a node that is not busy. Raises NotDoneError with its last error."""
        node = self.ask("GET", f"/nodes/{name}")
        if node["last_error"]:
            raise NotDoneError(node["last_error"][:300])
        return None if node["target_power_state"] else node[field]

    def drive(self, name: str, bmc: Running, image: str, secured: str) -> None:
        """Take a machine through all that is done with it; `secured` is where images are by HTTPS. Raises
        NotDoneError."""
        info = {
            "redfish_address": bmc.url,
            "redfish_system_id": f"/redfish/v1/Systems/{bmc.profile.system or bmc.machine.uuid}",
            "redfish_username": USER,
            "redfish_password": PASSWORD,
            "redfish_verify_ca": str(bmc.ca),
        }
        if bmc.profile.tls == "1.1":
            # Ironic's own options for old BMCs; OpenSSL has this version at level 0 only.
            info |= {"redfish_tls_minimum_version": "1.1", "redfish_tls_ciphers": "DEFAULT:@SECLEVEL=0"}
        if "http" not in bmc.profile.media.schemes:
            info["external_http_url"] = secured
        driver = "idrac" if name.startswith("idrac") else "redfish"
        self.ask("POST", "/nodes", {"name": name, "driver": driver, "driver_info": info})
        for target in ("manage", "inspect"):
            self.ask("PUT", f"/nodes/{name}/states/provision", {"target": target})
            _until(target, partial(self.state, name, "provision_state"), "manageable")
        memory = self.state(name, "properties").get("memory_mb")
        if memory != 4096:
            raise NotDoneError(f"inspected: {memory} MiB of memory")
        for target, is_on in (("power on", True), ("rebooting", True), ("power off", False)):
            self.ask("PUT", f"/nodes/{name}/states/power", {"target": target})
            _until(target, partial(self.state, name, "power_state"), "power on" if is_on else "power off")
            _until(target, lambda: self._machine(bmc).on, is_on)
        if name in _NO_MEDIA:
            return
        body = {"device_type": "cdrom", "image_url": image, "image_download_source": "http"}
        self.ask("POST", f"/nodes/{name}/vmedia", body)
        _until("attach", lambda: self.state(name, "name") and bool(self._machine(bmc).media), True)
        self.ask("DELETE", f"/nodes/{name}/vmedia")
        _until("detach", lambda: self.state(name, "name") and bool(self._machine(bmc).media), False)

    @staticmethod
    def _machine(bmc: Running) -> Any:
        [view] = bmc.machine.ask(Request(op="list"))
        return view


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def _web(images: Path, context: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    """Serve the images on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(images)))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def _context(place: Path) -> ssl.SSLContext:
    pair = leaf(authority("images"), "images", names=("127.0.0.1",), usages=SERVER)
    (place / "images.crt").write_text(pair.certificate)
    (place / "images.key").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "images.crt", place / "images.key")
    return context


@contextmanager
def _served(place: Path) -> Iterator[tuple[Ironic, str, str]]:
    """Provide Ironic, the URL of an image, and where the images are by HTTPS."""
    programs, port, images = _programs(), free_port(), place / "images"
    images.mkdir()
    (images / "agent.iso").write_bytes(bytes(4096))
    web, secured = _web(images), _web(images, _context(place))
    url, config = f"http://127.0.0.1:{web.server_port}", place / "ironic.conf"
    config.write_text(_CONFIG.format(place=place, port=port, images=images, url=url))
    words = ["--config-file", str(config)]
    subprocess.run([programs / "ironic-dbsync", *words, "create_schema"], check=True, capture_output=True)
    with (place / "out").open("wb") as out:
        process = subprocess.Popen([programs / "ironic", *words], stdout=out, stderr=subprocess.STDOUT)
    try:
        ironic = Ironic(port)
        _until("Ironic's start", lambda: bool(ironic.ask("GET", "/drivers")["drivers"]), True, _START)
        yield ironic, f"{url}/agent.iso", f"https://127.0.0.1:{secured.server_port}"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            # Its end is not what is measured; its workers end with it.
            process.kill()
        web.shutdown()
        secured.shutdown()


def run() -> None:
    """Print what Ironic does through each profile; SystemExit when that is less than the profile has."""
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as (ironic, image, secured):
        for name in (name for name in profiles() if name not in _LEFT_OUT):
            (place := Path(folder) / name).mkdir()
            try:
                with running(name, place) as bmc:
                    ironic.drive(name, bmc, image, secured)
            except (NotDoneError, requests.RequestException) as error:
                wrong.append(f"{name}: {error}")
                rows.append((name, str(error)))
            else:
                rows.append((name, "enroll, manage, inspect, power" + ("" if name in _NO_MEDIA else ", media")))
    table(f"Ironic {VERSION}", rows)
    if wrong:
        raise SystemExit("\n".join(wrong))
