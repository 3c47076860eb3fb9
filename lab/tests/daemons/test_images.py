"""Virtual media of the lab's BMC: what is fetched from where, what becomes a path, and what stays after a failure."""

import errno
import os
import select
import shutil
import socket
import tempfile
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler
from typing import ClassVar
from urllib.parse import quote

import pytest
from werkzeug.test import Client

from drivers.container import Request
from drivers.errors import DriverError
from lab.bmcs.serving import serve as serve_bmc
from lab.daemons import httpd
from lab.daemons.containers import ContainerDriver
from lab.daemons.images import Images
from lab.daemons.pki import Authority
from lab.errors import ImageFetchError
from lab.layout import Layout
from lab.testing.bmcs import Memory, emulated
from lab.topology import sno

SECRET = b"root:$y$secret"


class Handler(SimpleHTTPRequestHandler):
    """Serves `content` with these `answers` of headers, always at the same time; `asked` are the requests' headers."""

    content = b"1" * 5000
    answers: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[dict[str, str]]] = []

    def do_GET(self):
        self.asked.append(dict(self.headers))
        self.send_response(200)
        for name, value in {"Content-Length": str(len(self.content)), **self.answers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.content)

    def date_time_string(self, timestamp=None):
        return "Sat, 28 Nov 2026 08:00:00 GMT"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The directory for temporary files, within which all that these tests make lies."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/shadow").write_bytes(SECRET)
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def images(folder, tmp_path):
    """A BMC's images, for which the test is the server's owner."""
    (www := tmp_path / "www").mkdir()
    return Images("http://lab", www, {"nfs://lab/boot-media": www})


@pytest.fixture
def put(images, folder):
    """Puts the image at a URL into one drive after another; the file that the drive has."""

    def put(url, **kwargs):
        target = folder / f"drive-{len(list(folder.iterdir()))}"
        images.put(url, target, **kwargs)
        return target

    return put


@pytest.fixture
def server(serve):
    """A subclass of Handler, and the URL of an image of its server."""
    handler = type("Own", (Handler,), {"asked": []})
    return handler, f"{serve(handler)}/f.iso"


def partial(folder):
    return [one for one in folder.rglob("tmp*") if one.is_file()]


@pytest.mark.parametrize(
    "headers",
    [{"ETag": '"1"'}, {"Last-Modified": "Sat, 28 Nov 2026 07:59:59 GMT"}],
    ids=["entity tag", "time of the last change"],
)
def test_an_image_is_downloaded_once_a_version(put, server, folder, headers):
    handler, url = server
    handler.answers = headers
    first = put(url)
    assert put(url).samefile(first)
    handler.content = b"2" * 10
    second = put(url)
    assert (first.read_bytes(), second.read_bytes()) == (b"1" * 5000, b"2" * 10)
    assert partial(folder) == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": 'W/"1"'},
        {"Last-Modified": "Sat, 28 Nov 2026 08:00:00 GMT"},
        {"Last-Modified": "Sat, 28 Nov 2026 08:30:00 GMT"},
        {"Last-Modified": "Sat, 28 Nov 2026 07:00:00 -0000"},
        {"Last-Modified": "yesterday"},
    ],
)
def test_an_image_whose_versions_cannot_be_told_apart_is_downloaded_each_time(put, server, headers):
    handler, url = server
    handler.answers = headers
    assert put(url).read_bytes() == b"1" * 5000
    handler.content = b"2" * 5000
    assert put(url).read_bytes() == b"2" * 5000


def test_a_version_stays_while_a_drive_has_it(put, server, folder):
    handler, url = server
    handler.answers = {"ETag": '"0"'}
    kept = put(url)
    for version in range(1, 4):
        handler.answers = {"ETag": f'"{version}"'}
        put(url).unlink()
    assert len(list((folder / "images").iterdir())) == 2
    handler.answers = {"ETag": '"0"'}
    assert put(url).samefile(kept)


def test_a_login_is_told_to_the_images_server_and_to_nobody_else(put, serve, server):
    handler, url = server

    class Elsewhere(SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", url)
            self.end_headers()

    put(url, login=("user", "wörd"))
    put(f"{serve(Elsewhere)}/f.iso", login=("user", "word"))
    wanted = f"Basic {b64encode('user:wörd'.encode()).decode()}"
    assert [one.get("Authorization") for one in handler.asked] == [wanted, None]


@pytest.mark.parametrize(
    ("url", "login", "status"),
    [
        ("file:///etc/hostname", None, 400),
        ("nonsense", None, 400),
        ("http://", None, 400),
        ("http://[::1", None, 400),
        ("http://user:hidden@127.0.0.1:1/f.iso", None, 502),
        ("http://user:hidden@127.0.0.1:1/f.iso", ("us:er", "word"), 400),
        ("http://127.0.0.1:1/f.iso", None, 502),
    ],
)
def test_what_cannot_be_fetched_is_told_without_its_login(put, folder, url, login, status):
    with pytest.raises(ImageFetchError) as caught:
        put(url, login=login)
    assert caught.value.status == status
    assert "hidden" not in str(caught.value)
    assert [one.name for one in folder.iterdir()] == ["images"]


def test_a_download_that_is_cut_short_is_none(put, server, folder):
    handler, url = server
    handler.answers = {"Content-Length": "6000", "ETag": '"1"'}
    with pytest.raises(ImageFetchError, match="cannot be fetched"):
        put(url)
    assert [one.name for one in folder.iterdir()] == ["images"]
    assert list((folder / "images").iterdir()) == []


def test_a_download_has_an_end(put, folder, monkeypatch):
    monkeypatch.setattr("lab.daemons.images.DOWNLOAD_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ImageFetchError, match=r"not within 0\.1 s"):
        put(f"http://127.0.0.1:{silent.getsockname()[1]}/f.iso")
    assert [one.name for one in folder.iterdir()] == ["images"]


def test_what_two_want_at_once_is_downloaded_once(images, folder):
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/f.iso"
        head = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 4\r\n\r\n'
        targets = [folder / "first", folder / "second"]
        both = [pool.submit(images.put, url, target) for target in targets]
        connections = [server.accept()[0] for _ in both]
        for connection in connections:
            assert connection.recv(4096)
            connection.sendall(head)
        # Whoever waits for the other hangs up, and asks once more when the other has it.
        [waits] = select.select(connections, [], [], 10)[0]
        connections.remove(waits)
        connections[0].sendall(b"1234")
        with server.accept()[0] as once_more:
            assert once_more.recv(4096)
            once_more.sendall(head)
            for one in both:
                one.result(10)
        for connection in (waits, *connections):
            connection.close()
    assert targets[0].samefile(targets[1])
    assert targets[0].read_bytes() == b"1234"


@pytest.mark.parametrize("announced", ["10000000", None])
def test_an_image_that_leaves_no_room_is_refused(put, server, folder, announced, monkeypatch):
    handler, url = server
    free = shutil.disk_usage(folder)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    handler.content = b"1" * (5000 if announced else 3_000_000)
    handler.answers = {"Content-Length": announced} if announced else {"Content-Length": ""}
    with pytest.raises(ImageFetchError, match=r"\d+ bytes are more than there is room for"):
        put(url)
    assert [one.name for one in folder.iterdir()] == ["images"]


def test_the_labs_own_image_is_linked_and_a_new_one_taken_up(folder, serve, tmp_path):
    own = serve(SimpleHTTPRequestHandler)
    images = Images(own, tmp_path)
    for name in ("f.iso", "a;b #%?.iso"):
        for content in (b"1", b"2"):
            (tmp_path / "new").write_bytes(content)
            (tmp_path / "new").replace(tmp_path / name)
            linked = folder / f"{content.decode()}-{name}"
            images.put(f"{own}/{quote(name)}?query#fragment", linked)
            assert linked.samefile(tmp_path / name)
            assert linked.read_bytes() == content


@pytest.mark.parametrize(
    "path",
    [
        "../outside/shadow", "%2e%2e/outside/shadow", "x/../../outside/shadow", "%2e%2e%2foutside%2fshadow",
        "..%2Foutside/shadow", "/{0}/outside/shadow", "%2F{0}/outside/shadow", "link", "folder/shadow", "..", "", ".",
        "../outside/boot/link", "f.iso/..", "missing.iso", "%00", "x" * 5000, "folder",
    ],
)  # fmt: skip
def test_only_what_lies_in_a_share_is_read_from_it(put, folder, tmp_path, path):
    (tmp_path / "www/f.iso").write_bytes(b"image")
    (tmp_path / "www/link").symlink_to(tmp_path / "outside/shadow")
    (tmp_path / "www/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "outside/boot").mkdir()
    (tmp_path / "outside/boot/link").symlink_to(tmp_path / "outside/shadow")
    with pytest.raises(ImageFetchError, match="no such file") as caught:
        put(f"nfs://lab/boot-media/{path.format(tmp_path)}")
    assert caught.value.status == 400
    assert [one.name for one in folder.iterdir()] == ["images"]
    assert put("nfs://lab/boot-media/f.iso").samefile(tmp_path / "www/f.iso")


def test_what_a_lab_has_published_is_read_from_its_share(tmp_path, folder, put, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    layout = Layout(tmp_path, sno())
    image = tmp_path / "outside/agent.iso"
    image.symlink_to("shadow")
    url = layout.publish(image, "nfs")
    assert put(url.replace(layout.nfs_url, "nfs://lab/boot-media")).read_bytes() == SECRET


# -- drives ------------------------------------------------------------------------------------------------------------

CD, FLOPPY = "Cd", "Floppy"


@pytest.fixture
def machine():
    return Memory()


@pytest.fixture
def bmc(machine, folder):
    """The lab's BMC of that machine, without its login: bmc(method, path below VirtualMedia, body)."""
    with emulated(machine, folder) as application:
        client = Client(application)

        def ask(method, path, body=None, name=machine.uuid):
            return client.open(f"/redfish/v1/Systems/{name}/VirtualMedia/{path}", method=method, json=body)

        yield ask


def insert(bmc, url, drive=CD, **fields):
    return bmc("POST", f"{drive}/Actions/VirtualMedia.InsertMedia", {"Image": url, **fields}).status_code


def held_by(machine):
    """The path of what is in the machine's drive."""
    return machine.machine("master-0").look().media


def eject(bmc, drive=CD):
    return bmc("POST", f"{drive}/Actions/VirtualMedia.EjectMedia", {}).status_code


@pytest.mark.parametrize("login", [{}, {"UserName": "u", "Password": "p"}])
@pytest.mark.parametrize("name", ["{0}/outside/new.iso", "../outside/new.iso", "..", "shadow", "a/b"])
def test_a_name_that_a_server_chooses_is_no_path(bmc, machine, server, folder, tmp_path, login, name):
    handler, url = server
    handler.answers = {"Content-Disposition": f'attachment; filename="{name.format(tmp_path)}"'}
    before = sorted(tmp_path.rglob("*"))
    assert insert(bmc, url, **login) == 204
    made = set(tmp_path.rglob("*")) - set(before)
    places = (str(folder / "media"), str(folder / "images"), str(folder / "vmedia.sqlite"))
    assert [one for one in made if not str(one).startswith(places)] == []
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
    assert [one.name for one in (folder / "media").iterdir()] == ["other.iso"]
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
    assert [str(one) for one in (folder / "media").iterdir()] == [media]


def test_what_the_machine_refuses_is_in_neither_its_drive_nor_the_books(bmc, machine, folder, monkeypatch):
    (folder / "f.iso").write_bytes(b"image")
    url = "nfs://files.example/export/f.iso"
    assert insert(bmc, url, FLOPPY) == 501
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
    assert [str(one) for one in (folder / "media").iterdir()] == [held_by(machine)]


def test_a_drive_that_the_machine_has_lost_its_image_from_is_empty(bmc, machine, folder):
    (folder / "f.iso").write_bytes(b"image")
    assert insert(bmc, "nfs://files.example/export/f.iso") == 204
    machine.ask(Request(op="media", machine="master-0", value=""))
    shown = bmc("GET", CD).json
    assert (shown["Image"], shown["Inserted"]) == ("", False)


def test_a_machine_that_there_is_not_has_no_drive(bmc, machine):
    assert bmc("GET", CD, name="nobody").status_code == 404


@pytest.mark.parametrize("silent", [b"", b"1"], ids=["without an answer", "in the middle"])
def test_a_download_blocks_no_other_and_ends_with_its_client(machine, folder, serve, silent):
    """The server of the slow image is a socket: it says whether anybody still reads."""
    (folder / "f.iso").write_bytes(b"image")
    with (
        emulated(machine, folder) as application,
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
        while partial(folder / "media") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [one.read_bytes() for one in (folder / "media").iterdir()] == [b"image"]
        bmc.shutdown()


def test_a_server_is_verified_where_a_client_asks_for_it(bmc, folder):
    authority, other = Authority.make("test"), Authority.make("other")
    authority.issue(["127.0.0.1"], folder / "crt", folder / "key")
    (folder / "f.iso").write_bytes(b"image")
    with httpd.serving(folder, "127.0.0.1", 0, (folder / "crt", folder / "key")) as port:
        url = f"https://127.0.0.1:{port}/f.iso"
        assert insert(bmc, url) == 204
        assert bmc("PATCH", CD, {"VerifyCertificate": True}).status_code == 204
        assert insert(bmc, url) == 502
        for pem, status in ((other.pem.decode(), 502), ("none", 400), (authority.pem.decode(), 204)):
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


def test_a_share_on_another_file_system_is_copied_whole_or_not_at_all(put, folder, tmp_path, monkeypatch):
    (tmp_path / "www/f.iso").write_bytes(b"image")

    def link(*_args):
        raise OSError(errno.EXDEV, "another file system")

    def copy(_source, target):
        target.write_bytes(b"im")
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "link", link)
    assert put("nfs://lab/boot-media/f.iso").read_bytes() == b"image"
    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises(ImageFetchError, match="no space"):
        put("nfs://lab/boot-media/f.iso")
    assert len(list(folder.iterdir())) == 2
