"""Virtual media of the lab's BMC: what is fetched from where, what becomes a path, and what stays after a failure."""

import errno
import os
import select
import shutil
import socket
import tempfile
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler
from typing import ClassVar
from urllib.parse import quote

import pytest

from lab.daemons.images import Images
from lab.errors import ImageFetchError
from lab.layout import Layout
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
    """Provide the directory for temporary files, within which all that these tests make lies."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/shadow").write_bytes(SECRET)
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def images(folder, tmp_path):
    """Provide a BMC's images, for which the test is the server's owner."""
    (www := tmp_path / "www").mkdir()
    return Images("http://lab", www, {"nfs://lab/boot-media": www})


@pytest.fixture
def put(images, folder):
    """Put the image at a URL into one drive after another; the file that the drive has."""

    def put(url, **kwargs):
        target = folder / f"drive-{len(list(folder.iterdir()))}"
        images.put(url, target, **kwargs)
        return target

    return put


@pytest.fixture
def server(serve):
    """Provide a subclass of Handler, and the URL of an image of its server."""
    handler = type("Own", (Handler,), {"asked": []})
    return handler, f"{serve(handler)}/f.iso"


def partial(folder):
    return [path for path in folder.rglob("tmp*") if path.is_file()]


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
    assert [headers.get("Authorization") for headers in handler.asked] == [wanted, None]


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
    assert [path.name for path in folder.iterdir()] == ["images"]


@pytest.mark.parametrize(("answered", "status"), [(404, 400), (499, 400), (500, 502)])
def test_an_error_of_the_server_is_no_image(folder, serve, tmp_path, answered, status):
    class Failing(SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_error(answered)

        do_HEAD = do_GET

    url = serve(Failing)
    (tmp_path / "f.iso").write_bytes(b"withdrawn")
    for own in ("http://lab", url):
        images = Images(own, tmp_path)
        with pytest.raises(ImageFetchError, match=f"answered {answered}") as caught:
            images.put(f"{url}/f.iso", folder / "drive")
        assert caught.value.status == status
        assert not (folder / "drive").exists()


def test_a_download_that_is_cut_short_is_none(put, server, folder):
    handler, url = server
    handler.answers = {"Content-Length": "6000", "ETag": '"1"'}
    with pytest.raises(ImageFetchError, match="cannot be fetched"):
        put(url)
    assert [path.name for path in folder.iterdir()] == ["images"]
    assert list((folder / "images").iterdir()) == []


def test_a_download_has_an_end(put, folder, monkeypatch):
    monkeypatch.setattr("lab.daemons.images.DOWNLOAD_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ImageFetchError, match=r"not within 0\.1 s"):
        put(f"http://127.0.0.1:{silent.getsockname()[1]}/f.iso")
    assert [path.name for path in folder.iterdir()] == ["images"]


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
            for insert in both:
                insert.result(10)
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
    assert [path.name for path in folder.iterdir()] == ["images"]


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
    assert [path.name for path in folder.iterdir()] == ["images"]
    assert put("nfs://lab/boot-media/f.iso").samefile(tmp_path / "www/f.iso")


def test_what_a_lab_has_published_is_read_from_its_share(tmp_path, folder, put, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    layout = Layout(tmp_path, sno())
    image = tmp_path / "outside/agent.iso"
    image.symlink_to("shadow")
    url = layout.publish(image, "nfs")
    assert put(url.replace(layout.nfs_url, "nfs://lab/boot-media")).read_bytes() == SECRET


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
