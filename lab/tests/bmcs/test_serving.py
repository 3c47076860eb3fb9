"""The BMCs' daemon as it runs in a lab, and what people without a password can do to it: nothing."""

import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import bcrypt
import pytest

from installer.common.certificates import authority
from installer.common.ports import free_port
from lab.bmcs import serving
from lab.bmcs.resources.media import Tasks
from lab.bmcs.web import Response
from lab.daemons.pki import issue
from lab.testing.bmcs import PASSWORD, USER, Memory, owned
from lab.waiting import wait_until

SYSTEMS, SESSIONS = "/redfish/v1/Systems", "/redfish/v1/SessionService/Sessions"
LOGIN = b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Daemon:
    """The process, in `folder`; its ports are that of the lab's own BMC and that of an iLO."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.ports = [free_port(), free_port()]
        ca = authority("test")
        issue(ca, ["127.0.0.1"], folder)
        (folder / "ca.crt").write_text(ca.certificate)
        word = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{USER}:{word}\n")
        settings = {
            "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1", "SUSHY_EMULATOR_LISTEN_PORT": self.ports[0],
            "SUSHY_EMULATOR_SSL_CERT": str(folder / "server.crt"),
            "SUSHY_EMULATOR_SSL_KEY": str(folder / "server.key"),
            "NODE0_ACCOUNTS": str(folder / "htpasswd"), "SUSHY_EMULATOR_STATE_DIR": str(folder),
            "NODE0_MACHINED": str(folder / "machined"), "NODE0_HTTP_URL": "http://lab", "NODE0_HTTP_ROOT": str(folder),
            "NODE0_FRONTS": (("master-0", "ilo", self.ports[1]),), "NODE0_BMC_REQUESTS": str(folder / "requests"),
            "NODE0_UNREADY": str(folder / "unready"),
        }  # fmt: skip
        (folder / "requests").touch()
        (folder / "conf").write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()))
        with (folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lab.daemons.bmc", str(folder / "conf")],
                stderr=stderr, env={"TMPDIR": str(folder), "PATH": ""}, cwd=Path(__file__).parents[3],
            )  # fmt: skip

    def connect(self, number: int) -> socket.socket:
        """Return a TCP connection to one of the two."""
        return socket.create_connection(("127.0.0.1", self.ports[number]), timeout=20)

    def say(self, number: int, text: bytes) -> tuple[int, dict]:
        """Return the answer of one of the two: status and JSON. Sends no more once it hangs up."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        with context.wrap_socket(self.connect(number), server_hostname="127.0.0.1") as connection:
            connection.sendall(text)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body) if body else {}

    def ask(self, number: int, method: str, path: str, *, body: bytes = b"", headers: str = "", login: bool = True):
        """Status and JSON."""
        lines = [f"{method} {path} HTTP/1.1", f"Authorization: Basic {LOGIN}" if login else "", headers]
        if "chunked" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*filter(None, lines), "Content-Type: application/json", "", ""])
        return self.say(number, head.encode("latin-1") + body)

    def log(self) -> list[dict]:
        """Return the requests that it has noted."""
        return [json.loads(line) for line in (self.folder / "requests").read_text().splitlines()]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")
    with owned(Memory(), folder / "machined"):
        daemon = Daemon(folder)

        try:
            wait_until(lambda: daemon.connect(0).close() or True, 60, "the BMCs answer", poll=0.05)
            yield daemon
            assert "Traceback" not in (folder / "stderr").read_text()
        finally:
            daemon.process.kill()
            daemon.process.wait()


@pytest.fixture(params=[0, 1], ids=["lab", "ilo"])
def number(request):
    return request.param


def test_silent_clients_stop_nobody(daemon, number):
    with ExitStack() as stack:
        silent = [stack.enter_context(daemon.connect(number)) for _ in range(200)]
        silent[0].sendall(b"\x16\x03")
        assert daemon.ask(number, "GET", SYSTEMS)[0] == 200
        # Of so many, those that have been there longest have made room.
        assert silent[1].recv(1) == b""


def test_while_it_is_not_ready_everything_is_refused_with_503_and_noted(daemon, number):
    (daemon.folder / "unready").touch()
    try:
        status, answer = daemon.ask(number, "GET", SYSTEMS)
    finally:
        (daemon.folder / "unready").unlink()
    assert (status, answer["error"]["code"]) == (503, "Base.1.8.ServiceTemporarilyUnavailable")
    assert daemon.log()[-1]["status"] == 503
    assert daemon.ask(number, "GET", SYSTEMS)[0] == 200


@pytest.mark.parametrize("size", [8 << 20, 100])
def test_without_a_login_no_body_is_read_or_noted(daemon, number, size):
    body = b'{"mark": "' + b"x" * size + b'"}'
    begun = len(daemon.log())
    for login in ("", "Basic", "Basic !", "Bearer x", f"Basic {b64encode(b'admin:wrong').decode()}"):
        headers = f"Authorization: {login}" if login else ""
        status, answer = daemon.ask(number, "POST", SYSTEMS, body=body, headers=headers, login=False)
        assert (status, answer["error"]["@Message.ExtendedInfo"][0]["Message"] != "") == (401, True)
    assert [entry.get("body") for entry in daemon.log()[begun:] if "body" in entry] == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b" " * (1 << 20) + b"{}", "", 413),
        (b"100001\r\n" + b" " * 0x100001 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", 413),
        (b"no chunk\r\n", "Transfer-Encoding: chunked", 400),
        (b'{"Boot": ' + b"[" * 2000 + b"]" * 2000 + b"}", "", 400),
    ],
    ids=["too long", "too long in chunks", "no chunks", "too deep"],
)
def test_a_body_that_cannot_be_taken_is_refused(daemon, number, body, headers, status):
    path = f"{SYSTEMS}/1" if number else f"{SYSTEMS}/x"
    seen, answer = daemon.ask(number, "PATCH", path, body=body, headers=headers)
    assert (seen, list(answer)) == (status, ["error"])


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (SYSTEMS, b"", "X-Auth-Token: \xe9"),
        (SYSTEMS, b"", f"Authorization: Basic {b64encode(b'admin:' + b'x' * 100).decode()}"),
        (SYSTEMS, b"", f"Authorization: Basic {b64encode(bytes([255, 58, 255])).decode()}"),
        (SESSIONS, json.dumps({"UserName": "admin", "Password": "x" * 100}).encode(), ""),
        (SESSIONS, b'{"UserName": "\\ud800", "Password": "\\ud800"}', ""),
        (SESSIONS, b'{"UserName": "admin", "Password": "\\u0000"}', ""),
    ],
    ids=["token", "long password", "no UTF-8", "long password of a session", "half a character", "NUL"],
)
def test_what_is_no_login_is_told_so(daemon, number, path, body, headers):
    if number:
        account = json.dumps({"UserName": USER, "Password": PASSWORD}).encode()
        assert daemon.ask(number, "POST", SESSIONS, body=account, login=False)[0] == 201
    method = "POST" if body else "GET"
    status, answer = daemon.ask(number, method, path, body=body, headers=headers, login=False)
    assert (status, list(answer)) == (401, ["error"])


@pytest.mark.parametrize(
    "text",
    [b"GET http://[ HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200],
    ids=["no path", "no words", "too many headers"],
)
def test_what_is_no_request_is_refused_in_redfishs_form(daemon, number, text):
    status, answer = daemon.say(number, text)
    assert 400 <= status < 500
    assert re.search(r"\d{3}", answer["error"]["@Message.ExtendedInfo"][0]["Message"])


def test_a_clients_request_is_noted_once(daemon, number):
    """Without what a vendor's BMC only asks the emulator."""
    begun = len(daemon.log())
    assert daemon.ask(number, "GET", SYSTEMS)[0] == 200
    noted = [(entry["method"], entry["path"], entry["status"]) for entry in daemon.log()[begun:]]
    assert noted == [("GET", SYSTEMS, 200)]


def test_a_large_body_is_not_noted_whole(daemon):
    begun = len(daemon.log())
    assert daemon.ask(0, "POST", "/redfish/v1/", body=b'{"a": "' + b"x" * 20_000 + b'"}', login=False)[0] == 405
    assert [entry["body"] for entry in daemon.log()[begun:]] == ["20009 bytes"]


@pytest.fixture
def hurried(monkeypatch):
    """Provide a server that waits for hardly anybody."""
    for name in ("REQUEST_SECONDS", "_REST_SECONDS"):
        monkeypatch.setattr(serving, name, 0.3)

    def application(environ, start_response):
        start_response("200 OK", [("Content-Length", "0")])
        return [environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))[:0]]

    server = serving.serve(application, "127.0.0.1", 0, None)
    yield server.server_port
    server.shutdown()


@pytest.mark.parametrize("text", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 100000000000\r\n\r\n"])
def test_who_takes_too_long_is_hung_up_on_however_much_is_said_meanwhile(hurried, text):
    with socket.create_connection(("127.0.0.1", hurried), timeout=10) as client:
        client.sendall(text)
        deadline = time.monotonic() + 10
        client.settimeout(0.001)
        while time.monotonic() < deadline:
            try:
                client.sendall(b"x")
                if client.recv(100) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() < deadline


def test_a_client_may_think_before_it_asks(hurried):
    with socket.create_connection(("127.0.0.1", hurried), timeout=0.15) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(10)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_who_is_answered_before_all_is_said_gets_the_answer():
    def application(_environ, start):
        start("413 Too large", [("Content-Length", "2")])
        return [b"no"]

    server = serving.serve(application, "127.0.0.1", 0, None)
    try:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as client:
            # More than the sockets hold.
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n" + bytes(8_000_000))
            with client.makefile("rb") as answer:
                assert answer.read().endswith(b"\r\n\r\nno")
    finally:
        server.shutdown()
        server.server_close()


def test_a_task_goes_on_when_who_asked_for_it_has_gone():
    tasks = Tasks(SimpleNamespace(clock=time.monotonic), 0)
    gone, done, asked = [], threading.Event(), threading.Event()

    def end() -> Response:
        gone.append(serving.client_gone())
        # Another one asks meanwhile, and need not wait.
        thread = threading.Thread(target=tasks.finish_due)
        thread.start()
        thread.join(10)
        gone.append(thread.is_alive())
        return Response()

    def application(_environ, start_response):
        asked.set()
        wait_until(serving.client_gone, 10, "the client hangs up", poll=0.01)
        tasks.begin(end)
        tasks.finish_due()
        done.set()
        start_response("204 No Content", [])
        return []

    server = serving.serve(application, "127.0.0.1", 0, None)
    with socket.create_connection(("127.0.0.1", server.server_port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert asked.wait(10)
    assert done.wait(10)
    server.shutdown()
    assert gone == [False, False]
