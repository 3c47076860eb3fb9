"""The way into a lab from this machine's browser: the proxy, and a kubeconfig that leads through it."""

import asyncio
import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from installer.common.formats import yamltext
from lab.commands import access
from lab.errors import LabError


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 300_000)

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def proxied(dial):
    """Provide the URL's port of a proxy with this way to connect."""
    proxy = access.Proxy(dial)
    loop = asyncio.new_event_loop()
    task = loop.create_task(proxy.serve())

    def run():
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield int(proxy.url.rpartition(":")[2])
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)


def answer(port, head):
    """Return the first line of the proxy's answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head)
        return client.makefile("rb").readline()


def test_names_lead_where_the_lab_says():
    page = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=page.serve_forever, args=(0.05,))
    thread.start()
    asked = []

    def dial(host, port):
        asked.append((host, port))
        return socket.create_connection(("127.0.0.1", page.server_port))

    try:
        with proxied(dial) as port:
            for host in ("console.example", "fd00::1"):
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                client.set_tunnel(f"[{host}]" if ":" in host else host, 443)
                client.request("GET", "/")
                assert client.getresponse().read() == b"x" * 300_000
                client.close()
    finally:
        page.shutdown()
        thread.join()
        page.server_close()
    assert asked == [("console.example", 443), ("fd00::1", 443)]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET http://x/ HTTP/1.1\r\n\r\n", b"405"),
        (b"CONNECT x HTTP/1.1\r\n\r\n", b"405"),
        (b"CONNECT x:99999 HTTP/1.1\r\n\r\n", b"502"),
        (b"CONNECT away:1 HTTP/1.1\r\n\r\n", b"502"),
        (b"CONNECT gone:1 HTTP/1.1\r\n\r\n", b"502"),
        (b"CONNECT a..b:1 HTTP/1.1\r\n\r\n", b"502"),
        (b"X" * 20_000 + b"\r\n\r\n", b""),
    ],
)
def test_a_request_that_leads_nowhere_ends_itself_alone(head, status):
    def dial(host, port):
        if host == "gone":
            raise LabError("lab has ended")
        host.encode("idna")
        raise OverflowError if port > 65535 else ConnectionRefusedError

    with proxied(dial) as port:
        try:
            line = answer(port, head)
        except ConnectionResetError:
            line = b""
        assert status in line
        assert b"405" in answer(port, b"GET / HTTP/1.1\r\n\r\n")


def test_only_this_machine_reaches_it():
    with proxied(socket.create_connection) as port:
        assert b" 405 " in answer(port, b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=20)


def test_a_kubeconfig_leads_through_the_proxy():
    config = {"clusters": [{"name": "a", "cluster": {"server": "https://api.x:6443"}}], "users": []}
    changed = yamltext.load(access.proxied(yamltext.dump(config), "http://127.0.0.1:1"))
    assert changed["clusters"][0]["cluster"] == {"server": "https://api.x:6443", "proxy-url": "http://127.0.0.1:1"}


def test_each_proxy_has_files_of_its_own_and_removes_them(tmp_path):
    """Its files go with it, by any signal or the end of its lab; those of another proxy of the same lab stay."""
    auth = tmp_path / "cluster/auth"
    auth.mkdir(parents=True)
    (auth / "kubeconfig").write_text("clusters: []\n")
    (tmp_path / "cluster/rendezvousIP").write_text("192.0.2.1")
    (tmp_path / "cluster" / access.STATE).write_text('{"node0": {"watcherToken": "t"}}')
    code = (
        "import pathlib, sys, types; from lab.commands import access; "
        "layout = types.SimpleNamespace(root=pathlib.Path(sys.argv[1])); "
        "lab = types.SimpleNamespace(id='sno-1a2b', layout=layout, supervisor=(int(sys.argv[2]), 1)); "
        "sys.exit(access.serve(lab, 'page', 0))"
    )
    with contextlib.ExitStack() as stack:
        supervisor = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(supervisor.kill)
        processes = []
        for _ in range(3):
            command = [sys.executable, "-c", code, str(tmp_path), str(supervisor.pid)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert "page" in process.stdout.readline()
            assert "kubectl" in "".join(process.stdout.readline() for _ in range(3))
            processes.append(process)
        assert len(list(auth.iterdir())) == 7
        assert {path.stat().st_mode & 0o777 for path in auth.glob("*-[0-9]*")} == {0o600}
        for process, number, left in zip(processes[:2], (signal.SIGTERM, signal.SIGHUP), (5, 3), strict=True):
            process.send_signal(number)
            assert process.wait(20) == 0
            assert len(list(auth.iterdir())) == left
        supervisor.kill()
        assert processes[2].wait(20) == 1
        assert len(list(auth.iterdir())) == 1


def test_a_lab_without_a_cluster_is_told(tmp_path):
    with pytest.raises(LabError, match="no cluster was deployed"):
        access.kubeconfig_of(tmp_path)
    with pytest.raises(LabError, match="has no hub"):
        access.kubeconfig_for(tmp_path, hub=True)


def test_kubectl_is_for_the_cluster_and_without_one_for_the_hub(tmp_path):
    hub, cluster = tmp_path / "hub/kubeconfig", tmp_path / "cluster/auth/kubeconfig"
    hub.parent.mkdir()
    hub.touch()
    assert access.kubeconfig_for(tmp_path, hub=False) == hub
    cluster.parent.mkdir(parents=True)
    cluster.touch()
    assert access.kubeconfig_for(tmp_path, hub=False) == cluster
    assert access.kubeconfig_for(tmp_path, hub=True) == hub
