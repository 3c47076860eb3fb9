"""A BMC that is not ours: sushy-tools' emulator with its fake machine, a process on loopback."""

import subprocess
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import bcrypt
import pytest

from installer.common.certificates import SERVER, authority, leaf
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.provisioner import Account, Busy, Done, Failed, Power
from installer.hub.baremetal.redfish import RedfishMachine
from installer.testing.service.rendezvous_kit import free_port, wait_for

PASSWORD = "hidden-Pa55"
SYSTEM = "/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094"
pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
# Its machine takes up to 11 s, by chance, for what it is told.
CONFIG = """
import random
random.randint = lambda low, high: 1
SUSHY_EMULATOR_AUTH_FILE = {users!r}
SUSHY_EMULATOR_STATE_DIR = {folder!r}
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """Provide the emulator's port and the file of its authority."""
    folder, port = tmp_path_factory.mktemp("bmc"), free_port()
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"admin:{hashed}\n")
    (folder / "config").write_text(CONFIG.format(users=str(folder / "users"), folder=str(folder)))
    ca = authority("test")
    pair = leaf(ca, "bmc", names=["127.0.0.1"], usages=SERVER)
    for name, text in (("ca", ca.certificate), ("crt", pair.certificate), ("key", pair.key)):
        (folder / name).write_text(text)
    process = subprocess.Popen(
        [f"{sys.prefix}/bin/sushy-emulator", "--fake", "-i", "127.0.0.1", "-p", str(port), "--config",
         str(folder / "config"), "--ssl-certificate", str(folder / "crt"), "--ssl-key", str(folder / "key")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        probe = machine(port, verify=False)
        wait_for("the emulator", lambda: isinstance(probe.register(), Done))
        yield port, str(folder / "ca")
    finally:
        process.terminate()
        process.wait(10)


def machine(port, *, password=PASSWORD, verify, system=SYSTEM, scheme="redfish-virtualmedia+https"):
    return RedfishMachine(parse(f"{scheme}://127.0.0.1:{port}{system}"), Account("admin", password), verify=verify)


@pytest.fixture
def iso(tmp_path):
    (tmp_path / "some.iso").write_bytes(b"no image at all")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/some.iso"
        server.shutdown()


def finished(act, seconds=30.0):
    """Call until it is no longer busy, and return the outcome with the reasons for which it was."""
    deadline, reasons = time.monotonic() + seconds, []
    while isinstance(outcome := act(), Busy):
        reasons.append(outcome.why)
        assert time.monotonic() < deadline, reasons
        time.sleep(min(outcome.seconds, 0.2))
    return outcome, reasons


def test_a_machine_from_its_registration_to_its_end(emulator, iso):
    port, ca = emulator
    bmc = machine(port, verify=ca)
    assert bmc.register() == Done(powered=False)
    hardware = bmc.inspect().hardware
    assert hardware["nics"] == [{"mac": "00:5c:52:31:3a:9c"}]
    assert hardware["systemVendor"]["manufacturer"] == "Sushy Emulator"
    assert bmc.prepare() == Done()
    assert finished(lambda: bmc.power(Power.ON))[0].powered is True
    outcome, reasons = finished(lambda: bmc.provision(iso))
    assert outcome == Done(powered=True)
    assert reasons[0] == "power off"
    # Another process that knows nothing of it, after a SIGKILL, sees that it is done.
    assert machine(port, verify=ca).provision(iso) == Done(powered=True)
    assert finished(bmc.deprovision)[0] == Done(powered=False)
    assert finished(lambda: bmc.power(Power.SHUT_DOWN))[0].powered is False
    assert bmc.delete() == Done()


def test_refusals_say_why_and_hold_no_secret(emulator, caplog):
    port, _ = emulator
    seen = {
        "password": machine(port, verify=False, password="wrong-Pa55").register(),
        "certificate": machine(port, verify=True).register(),
        "system": machine(port, verify=False, system="/redfish/v1/Systems/other").register(),
        "port": machine(free_port(), verify=False).register(),
        "plain": machine(port, verify=False, scheme="redfish+http").register(),
        "iso": finished(lambda: machine(port, verify=False).provision(f"http://127.0.0.1:{free_port()}/key=hid")),
    }
    seen["iso"] = seen["iso"][0]
    expected = {
        "password": "refuses the account (401)", "certificate": "its certificate is not accepted", "system": "404",
        "port": "connection refused", "plain": "", "iso": "boot the ISO",
    }  # fmt: skip
    for name, outcome in seen.items():
        assert isinstance(outcome, Failed)
        assert outcome.message.startswith("BMC http")
        assert expected[name] in outcome.message
        assert "Pa55" not in outcome.message
        assert "hid" not in outcome.message
        assert "\n" not in outcome.message
    assert "hid" not in caplog.text


def test_503_passes_and_silence_has_an_end(monkeypatch):
    monkeypatch.setattr("installer.hub.baremetal.redfish.ANSWER_SECONDS", 0.3)
    silent = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if silent.is_set():
                time.sleep(1.0)
            self.send_error(503)

        def log_message(self, *_):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        bmc = machine(server.server_port, verify=False, scheme="redfish+http")
        busy = bmc.register()
        silent.set()
        dead = bmc.register()
        server.shutdown()
    assert (busy.passing, dead.passing) == (True, False)
    assert "does not answer" in dead.message


def test_who_holds_an_account_shows_none():
    account = Account("admin", PASSWORD)
    assert PASSWORD not in f"{account!r}{machine(1, verify=True)!r}"
