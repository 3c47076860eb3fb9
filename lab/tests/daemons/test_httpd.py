"""The lab's HTTP server: whole files and parts of them."""

import tempfile
import urllib.error
import urllib.request

import pytest

from lab import topology
from lab.daemons.httpd import Handler, serving
from lab.daemons.images import Images
from lab.layout import Layout


@pytest.fixture
def server(serve):
    return serve(Handler)


@pytest.mark.parametrize(
    ("wanted", "status", "body"),
    [(None, 200, b"0123456789"), ("bytes=2-4", 206, b"234"), ("bytes=8-", 206, b"89"), ("bytes=5-99", 206, b"56789")],
)
def test_files_are_served_whole_and_in_part(server, tmp_path, wanted, status, body):
    (tmp_path / "f").write_bytes(b"0123456789")
    request = urllib.request.Request(f"{server}/f", headers={"Range": wanted} if wanted else {})
    with urllib.request.urlopen(request) as answer:
        assert (answer.status, answer.read()) == (status, body)


@pytest.mark.parametrize(
    ("path", "wanted", "status"), [("f", "bytes=99-", 416), ("none", "bytes=0-1", 404), ("", "", 404)]
)
def test_what_is_not_there_is_not_served(server, tmp_path, path, wanted, status):
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{server}/{path}", headers={"Range": wanted}))
    with caught.value as answer:
        assert answer.code == status


@pytest.mark.parametrize("name", ["a#b.iso", "100%.iso", "%41.iso", "what?.iso", "a;b.iso", "a b+c&d=e.iso", "é.iso"])
def test_an_image_of_any_name_is_served_and_taken_by_bmcs(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    layout = Layout(tmp_path, topology.sno())
    (image := tmp_path / name).write_bytes(b"no image at all")
    layout.www.mkdir()
    with serving(layout.www, "127.0.0.1", 0) as port:
        base = f"http://127.0.0.1:{port}"
        url = layout.publish(image).replace(layout.http_url, base)
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"no image at all"
        nfs = layout.publish(image, "nfs")
        images = Images(base, layout.www, {layout.nfs_url: layout.www})
        # A semicolon is itself in a path too (RFC 3986 §3.3).
        for number, form in enumerate((url, url.replace("%3B", ";"), nfs)):
            images.put(form, tmp_path / f"cd{number}")
            assert (tmp_path / f"cd{number}").samefile(image)
