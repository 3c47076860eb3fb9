"""The drives of the lab's BMC: what becomes a path, and what stays after a failure."""

import socket
import tempfile
import time
from http.server import SimpleHTTPRequestHandler

import pytest
from werkzeug.test import Client

from drivers.container import Request
from drivers.errors import DriverError
from installer.common.certificates import authority
from lab.bmcs.serving import serve as serve_bmc
from lab.daemons import httpd
from lab.daemons.containers import ContainerDriver
from lab.daemons.pki import issue
from lab.testing.bmcs import Contained, Memory, emulated

CD, FLOPPY = "Cd", "Floppy"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Provide the directory for temporary files, beside a file that nobody may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/shadow").write_bytes(b"root:$y$secret")
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def machine():
    return Memory()


@pytest.fixture
def bmc(machine, folder):
    """Provide the lab's BMC of that machine, without its login: bmc(method, path below VirtualMedia, body)."""
    with emulated(Contained(machine), folder) as application:
        client = Client(application)

        def ask(method, path, body=None, name=machine.uuid):
            return client.open(f"/redfish/v1/Systems/{name}/VirtualMedia/{path}", method=method, json=body)

        yield ask


def insert(bmc, url, drive=CD, **fields):
    return bmc("POST", f"{drive}/Actions/VirtualMedia.InsertMedia", {"Image": url, **fields}).status_code


def held_by(machine):
    """Return the path of what is in the machine's drive."""
    return machine.machine("master-0").look().media


def eject(bmc, drive=CD):
    return bmc("POST", f"{drive}/Actions/VirtualMedia.EjectMedia", {}).status_code


@pytest.mark.parametrize("login", [{}, {"UserName": "u", "Password": "p"}])
@pytest.mark.parametrize("name", ["{0}/outside/new.iso", "../outside/new.iso", "..", "shadow", "a/b"])
def test_a_name_that_a_server_chooses_is_no_path(bmc, machine, serve, folder, tmp_path, login, name):
    class Named(SimpleHTTPRequestHandler):
        def end_headers(self):
            self.send_header("Content-Disposition", f'attachment; filename="{name.format(tmp_path)}"')
            super().end_headers()

    (tmp_path / "f.iso").write_bytes(b"image")
    before = sorted(tmp_path.rglob("*"))
    assert insert(bmc, f"{serve(Named)}/f.iso", **login) == 204
    made = set(tmp_path.rglob("*")) - set(before)
    places = (str(folder / "media"), str(folder / "images"), str(folder / "vmedia.sqlite"))
    assert [path for path in made if not str(path).startswith(places)] == []
    assert held_by(machine).startswith(f"{folder}/media/")
    assert eject(bmc) == 204
    assert set(before) <= set(tmp_path.rglob("*"))
    assert list((folder / "media").iterdir()) == []


def test_an_eject_removes_nothing_but_what_its_insert_made(bmc, folder, tmp_path):
    (folder / "media").mkdir()
    (folder / "media/other.iso").write_bytes(b"another's")
    (folder / "f.iso").write_bytes(b"image")
    for _ in range(2):
        assert insert(bmc, "nfs://files.example/export/f.iso") == 204
    assert len(list((folder / "media").iterdir())) == 2
    assert eject(bmc) == 204
    assert eject(bmc) == 204
    assert [path.name for path in (folder / "media").iterdir()] == ["other.iso"]
    assert (folder / "f.iso").read_bytes() == b"image"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"Image": "nfs://files.example/export/missing.iso"}, 400),
        ({"Image": "http://127.0.0.1:1/f.iso"}, 502),
        ({"Image": None}, 400), ({"Image": ""}, 400), ({"Image": ["x"]}, 400), ({"Image": 7}, 400),
        ({"Inserted": False}, 400), ({"Inserted": "yes"}, 400), ({"WriteProtected": "no"}, 400),
        ({"UserName": "u"}, 400), ({"Password": "p"}, 400), ({"UserName": {}, "Password": "p"}, 400),
        ({"UserName": ["u"], "Password": "p"}, 400),
    ],
)  # fmt: skip
def test_an_insert_that_fails_changes_nothing(bmc, machine, folder, fields, status):
    for name in ("f.iso", "g.iso"):
        (folder / name).write_bytes(name.encode())
    assert insert(bmc, url := "nfs://files.example/export/f.iso") == 204
    books, media = bmc("GET", CD).json, held_by(machine)
    fields = {"Image": "nfs://files.example/export/g.iso", **fields}
    assert insert(bmc, fields.pop("Image"), **fields) == status
    assert (bmc("GET", CD).json, held_by(machine)) == (books, media)
    assert (books["Image"], books["Inserted"]) == (url, True)
    assert [str(path) for path in (folder / "media").iterdir()] == [media]


def test_what_the_machine_refuses_is_in_neither_its_drive_nor_the_books(bmc, machine, folder, monkeypatch):
    (folder / "f.iso").write_bytes(b"image")
    url = "nfs://files.example/export/f.iso"
    assert insert(bmc, url, FLOPPY) == 400
    assert bmc("GET", FLOPPY).json["Inserted"] is False
    assert insert(bmc, url) == 204

    ask = machine.ask

    def refuse(request):
        if request.op == "media":
            raise DriverError("it does not take it", machine="master-0")
        return ask(request)

    books = bmc("GET", CD).json
    with monkeypatch.context() as patched:
        patched.setattr(machine, "ask", refuse)
        assert (insert(bmc, url), eject(bmc)) == (500, 500)
    assert bmc("GET", CD).json == books
    assert [str(path) for path in (folder / "media").iterdir()] == [held_by(machine)]


def test_a_drive_that_the_machine_has_lost_its_image_from_is_empty(bmc, machine, folder):
    (folder / "f.iso").write_bytes(b"image")
    assert insert(bmc, "nfs://files.example/export/f.iso") == 204
    machine.ask(Request(op="media", machine="master-0", value=""))
    shown = bmc("GET", CD).json
    assert (shown["Image"], shown["Inserted"]) == (None, False)


def test_a_machine_that_there_is_not_has_no_drive(bmc, machine):
    assert bmc("GET", CD, name="nobody").status_code == 404


@pytest.mark.parametrize("silent", [b"", b"1"], ids=["without an answer", "in the middle"])
def test_a_download_blocks_no_other_and_ends_with_its_client(machine, folder, serve, silent):
    """The server of the slow image is a socket: it says whether anybody still reads."""
    (folder / "f.iso").write_bytes(b"image")
    with (
        emulated(Contained(machine), folder) as application,
        socket.create_server(("127.0.0.1", 0)) as slow,
    ):
        bmc = serve_bmc(application, "127.0.0.1", 0, None)
        target = f"/redfish/v1/Systems/{machine.uuid}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        body = f'{{"Image": "http://127.0.0.1:{slow.getsockname()[1]}/f.iso"}}'
        asking = (
            f"POST {target} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        with socket.create_connection(("127.0.0.1", bmc.server_port)) as client:
            client.sendall(asking.encode())
            downloading, _ = slow.accept()
            downloading.settimeout(10)
            assert downloading.recv(4096)
            if silent:
                downloading.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + silent)
            other = Client(application).post(target, json={"Image": "nfs://files.example/export/f.iso"})
            assert other.status_code == 204
        with downloading:
            assert downloading.recv(4096) == b""
        deadline = time.monotonic() + 10
        while list((folder / "media").glob("tmp*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [path.read_bytes() for path in (folder / "media").iterdir()] == [b"image"]
        bmc.shutdown()


def test_a_server_is_verified_where_a_client_asks_for_it(bmc, folder):
    ca, other = authority("test"), authority("other")
    issue(ca, ["127.0.0.1"], folder)
    (folder / "f.iso").write_bytes(b"image")
    with httpd.serving(folder, "127.0.0.1", 0, (folder / "server.crt", folder / "server.key")) as port:
        url = f"https://127.0.0.1:{port}/f.iso"
        assert insert(bmc, url) == 204
        assert bmc("PATCH", CD, {"VerifyCertificate": True}).status_code == 204
        assert insert(bmc, url) == 502
        for pem, status in ((other.certificate, 502), ("none", 400), (ca.certificate, 204)):
            certificate = {"CertificateString": pem, "CertificateType": "PEM"}
            assert bmc("POST", f"{CD}/Certificates", certificate).status_code == 204
            assert insert(bmc, url) == status
            assert bmc("DELETE", f"{CD}/Certificates/Default").status_code == 204


def test_what_a_machine_may_write_to_is_its_own(bmc, folder, monkeypatch):
    monkeypatch.setattr(ContainerDriver, "set_boot_image", lambda *_args: None)
    (folder / "f.iso").write_bytes(b"image")
    url = "nfs://files.example/export/f.iso"
    shared = []
    for drive, protected in ((CD, True), (CD, False), (FLOPPY, True), (FLOPPY, False)):
        assert insert(bmc, url, drive, WriteProtected=protected) == 204
        [medium] = (folder / "media").iterdir()
        assert medium.read_bytes() == b"image"
        shared.append(medium.samefile(folder / "f.iso"))
        assert eject(bmc, drive) == 204
    assert shared == [True, True, True, False]
