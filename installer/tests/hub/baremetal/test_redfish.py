import base64
import json
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from installer.common import certificates
from installer.common.ports import free_port
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.provisioner import Account, Busy, Done, Failed, Power
from installer.hub.baremetal.redfish import RedfishMachine
from installer.hub.controllers.bmh import redfish_machine
from installer.testing.hub.bmc_kit import MAC, PASSWORD, USER, emulated_bmc, served_iso

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


@pytest.fixture(scope="module")
def bmc(tmp_path_factory):
    with emulated_bmc(tmp_path_factory.mktemp("bmc")) as running:
        yield running


@pytest.fixture
def iso(tmp_path):
    with served_iso(tmp_path) as url:
        yield url


def machine(address, password=PASSWORD):
    return RedfishMachine(parse(address), Account(USER, password), verify=False)


def finished(act, seconds=30.0):
    """Call until it is no longer busy, and return the outcome with the reasons for which it was."""
    deadline, reasons = time.monotonic() + seconds, []
    while isinstance(outcome := act(), Busy):
        reasons.append(outcome.why)
        assert time.monotonic() < deadline, reasons
        time.sleep(min(outcome.seconds, 0.2))
    return outcome, reasons


def test_a_machine_from_its_registration_to_its_end(bmc, iso):
    machine = bmc.machine(verify=bmc.ca)
    assert machine.register() == Done(powered=False, health="OK", hardware={"nics": [{"mac": MAC}]})
    hardware = machine.inspect().hardware
    assert hardware["nics"] == [{"mac": MAC}]
    assert hardware["systemVendor"]["manufacturer"] == "Sushy Emulator"
    assert machine.prepare() == Done()
    # An order that is carried out later, when the ISO may be in: the machine would run, and not have booted it.
    assert isinstance(machine.power(Power.ON), Busy)
    outcome, reasons = finished(lambda: machine.provision(iso))
    assert outcome == Done(powered=True)
    orders = [reason.split(",")[0] for reason in reasons]
    assert list(dict.fromkeys(orders))[:3] == ["power on", "power off", "the ISO is in the drive"]
    # Another process that knows nothing of it, after a SIGKILL, sees that it is done.
    assert bmc.machine().provision(iso) == Done(powered=True)
    assert finished(machine.deprovision)[0] == Done(powered=False)
    assert finished(lambda: machine.power(Power.SHUT_DOWN))[0].powered is False
    assert machine.delete() == Done()


def test_an_authority_of_ones_own_is_known_unless_nothing_is_verified(bmc, tmp_path):
    other = tmp_path / "other.crt"
    other.write_text(certificates.authority("other").certificate)

    def registered(authorities, **members):
        bmh = {"spec": {"bmc": {"address": bmc.address, **members}}}
        return isinstance(redfish_machine(bmh, Account(USER, PASSWORD), authorities).register(), Done)

    assert [registered(file) for file in (bmc.ca, str(other), "")] == [True, False, False]
    assert registered(str(other), disableCertificateVerification=True)


def test_refusals_say_why_and_hold_no_secret(bmc, caplog):
    there, nobody = f"https://127.0.0.1:{bmc.port}", f"redfish+http://127.0.0.1:{free_port()}"
    seen = {
        "refuses the account (401)": bmc.machine(password="wrong-Pa55").register(),
        "its certificate is not accepted": bmc.machine(verify=True).register(),
        "404": machine(f"redfish+{there}/redfish/v1/Systems/other").register(),
        "connection refused": machine(nobody).register(),
        "Connection": machine(f"redfish+http://127.0.0.1:{bmc.port}").register(),
        "boot the ISO": finished(lambda: bmc.machine().provision(f"http://127.0.0.1:{free_port()}/key=hid"))[0],
    }
    for expected, outcome in seen.items():
        assert isinstance(outcome, Failed)
        assert outcome.message.startswith("BMC http")
        assert expected in outcome.message
        assert "\n" not in outcome.message
    for secret in ("Pa55", "hid"):
        assert secret not in f"{seen}{caplog.text}"


def test_503_passes_and_silence_has_an_end(monkeypatch):
    monkeypatch.setattr("installer.hub.baremetal.redfish.ANSWER_SECONDS", 0.3)
    silent = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if silent.is_set():
                time.sleep(1.0)
            with suppress(OSError):
                self.send_error(503)

        def log_message(self, *_):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        bmc = machine(f"redfish+http://127.0.0.1:{server.server_port}")
        busy = bmc.register()
        silent.set()
        dead = bmc.register()
        server.shutdown()
    assert (busy.passing, dead.passing) == (True, False)
    assert "does not answer" in dead.message


@contextmanager
def web_server(answer):
    """Run a server whose requests are handled by `answer(handler)`; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(OSError):
                answer(self)

        do_POST = do_GET

        def log_message(self, *_):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def send(handler, document, status=200, location=""):
    handler.send_response(status)
    if location:
        handler.send_header("Location", location)
    handler.end_headers()
    handler.wfile.write(json.dumps(document).encode())


def root(systems="/redfish/v1/Systems", sessions="/sessions"):
    return {
        "Id": "root", "Name": "root", "RedfishVersion": "1.6.0", "UUID": "1",
        "Systems": {"@odata.id": systems}, "Links": {"Sessions": {"@odata.id": sessions}},
    }  # fmt: skip


def test_a_connection_that_is_asked_to_close_is_not_used_again():
    """A BMC that closes it without a word would break off the next request."""
    connections = []

    def answer(handler):
        connections.append(handler.client_address)
        handler.protocol_version, handler.close_connection = "HTTP/1.1", False
        data = json.dumps(root() if handler.path == "/redfish/v1/" else {"Name": "none", "Members": []}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with web_server(answer) as url:
        machine(f"redfish+{url}").register()
    assert len(connections) == len(set(connections)) > 1


def test_a_login_goes_to_no_other_host():
    """A BMC's links and redirections may lead anywhere."""
    seen = []
    with ExitStack() as stack:
        other = stack.enter_context(web_server(lambda handler: (seen.append(handler.path), send(handler, {}))))
        bmcs = {
            "link": lambda handler: send(handler, root(f"{other}/link")),
            "redirection": lambda handler: send(handler, {}, 307, f"{other}/redirection"),
            "session": lambda handler: send(
                handler, root(sessions=f"{other}/session"), 401 if "Systems" in handler.path else 200
            ),
            "session's redirection": lambda handler: (
                send(handler, {}, 307, f"{other}/again")
                if handler.command == "POST"
                else send(handler, root(), 401 if "Systems" in handler.path else 200)
            ),
        }
        for name, answer in bmcs.items():
            url = stack.enter_context(web_server(answer))
            outcome = machine(f"redfish+{url}").register()
            expected = "(401)" if "session" in name else "refers to another host"
            assert isinstance(outcome, Failed), name
            assert expected in outcome.message, name
    assert not seen


def test_a_login_that_a_bmc_repeats_is_not_shown():
    def answer(handler):
        login = handler.headers["Authorization"]
        send(handler, {"error": {"code": f"no: {login}", "message": ""}} if login else root(), 400 if login else 200)

    with web_server(answer) as url:
        outcome = machine(f"redfish+{url}").register()
    assert base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() not in outcome.message
    assert "[redacted]" in outcome.message


def test_a_refusal_moves_no_cursor():
    document = {"error": {"code": "Base.1.0.GeneralError", "message": "no\x1b[2J \x9b1A\x00way"}}
    with web_server(lambda handler: send(handler, document, 400)) as url:
        outcome = machine(f"redfish+{url}").look()
    assert isinstance(outcome, Failed)
    assert outcome.message.isprintable()
    assert outcome.message.endswith("400: no [2J 1A way")


@pytest.mark.parametrize(
    "answer",
    [
        lambda handler: trickle(handler, b"HTTP/1.1 200 OK\r\nX-Long: "),
        lambda handler: trickle(handler, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"),
        lambda handler: send(handler, root(handler.path + "x")),
    ],
    ids=["head", "chunk", "documents"],
)
def test_a_call_has_an_end_whatever_comes(answer, monkeypatch):
    monkeypatch.setattr("installer.hub.baremetal.redfish.CONNECT_SECONDS", 0.2)
    monkeypatch.setattr("installer.hub.baremetal.redfish.ANSWER_SECONDS", 0.4)
    monkeypatch.setattr("installer.hub.baremetal.redfish._CALL_SECONDS", 0.0)
    begin = time.monotonic()
    with web_server(answer) as url:
        outcome = machine(f"redfish+{url}").register()
    assert isinstance(outcome, Failed)
    assert time.monotonic() - begin < 3.0


def trickle(handler, head):
    handler.wfile.write(head)
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        handler.wfile.write(b"a")
        time.sleep(0.1)


def test_who_holds_an_account_shows_none():
    account = Account(USER, PASSWORD)
    assert PASSWORD not in f"{account!r}{RedfishMachine(parse('redfish://bmc'), account)!r}"
