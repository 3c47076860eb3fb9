"""A BMC that is not ours: sushy-tools' emulator with its fake machine, a process on loopback, and an ISO on HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bcrypt

from installer.common.certificates import SERVER, authority, leaf
from installer.common.ports import free_port
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.provisioner import Account, Done
from installer.hub.baremetal.redfish import RedfishMachine
from installer.testing.service.rendezvous_kit import wait_for

USER, PASSWORD = "admin", "hidden-Pa55"
SYSTEM = "/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094"
MAC = "00:5c:52:31:3a:9c"
# Its machine takes up to 11 s, by chance, for what it is told.
_CONFIG = """
import random
random.randint = lambda low, high: {seconds}
SUSHY_EMULATOR_AUTH_FILE = {users!r}
SUSHY_EMULATOR_STATE_DIR = {folder!r}
"""


@dataclass(frozen=True)
class EmulatedBmc:
    """A running BMC with one machine, SYSTEM; `ca` is the file of its certificate's authority, empty without TLS."""

    port: int
    ca: str

    @property
    def address(self) -> str:
        """It as `spec.bmc.address`."""
        return f"redfish-virtualmedia+{'https' if self.ca else 'http'}://127.0.0.1:{self.port}{SYSTEM}"

    def machine(self, *, password: str = PASSWORD, verify: bool | str = False) -> RedfishMachine:
        """Return its machine."""
        return RedfishMachine(parse(self.address), Account(USER, password), verify=verify)


@contextmanager
def emulated_bmc(folder: Path, *, is_quick: bool = False) -> Iterator[EmulatedBmc]:
    """Run the emulator for the block, its files in `folder`; a quick one speaks HTTP, and does all at once."""
    port, ca = free_port(), authority("test")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    pair = leaf(ca, "bmc", names=["127.0.0.1"], usages=SERVER)
    files = {"ca": ca.certificate, "crt": pair.certificate, "key": pair.key, "users": f"{USER}:{hashed}\n"}
    files["config"] = _CONFIG.format(users=str(folder / "users"), folder=str(folder), seconds=int(not is_quick))
    tls = ["--ssl-certificate", str(folder / "crt"), "--ssl-key", str(folder / "key")]
    for name, text in files.items():
        (folder / name).write_text(text)
    process = subprocess.Popen(
        [f"{sys.prefix}/bin/sushy-emulator", "--fake", "-i", "127.0.0.1", "-p", str(port), "--config",
         str(folder / "config"), *(() if is_quick else tls)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    bmc = EmulatedBmc(port, "" if is_quick else str(folder / "ca"))
    try:
        wait_for("the emulator", lambda: isinstance(bmc.machine().register(), Done))
        yield bmc
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def served_iso(folder: Path) -> Iterator[str]:
    """Serve a file by HTTP for the block; yields its URL."""
    (folder / "some.iso").write_bytes(b"no image at all")
    os.utime(folder / "some.iso", (0, 0))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/some.iso"
        server.shutdown()
        thread.join(5)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return
