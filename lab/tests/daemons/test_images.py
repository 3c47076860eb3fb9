"""Where a BMC gets its images from, without a BMC."""

import tempfile
from http.server import SimpleHTTPRequestHandler
from io import BytesIO

import pytest

from lab.daemons.images import Images, store
from lab.errors import ImageFetchError


@pytest.fixture
def server(serve):
    """The URL of somebody else's server for files of tmp_path."""
    return serve(SimpleHTTPRequestHandler)


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A BMC's images, for which the test is the server's owner."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    www = tmp_path / "www"
    www.mkdir()
    return Images("http://lab", www)


def test_an_image_is_downloaded_once_a_version(images, server, tmp_path):
    (tmp_path / "f.iso").write_bytes(b"1" * 3_000_000)
    first = images.fetch(f"{server}/f.iso", verify=False)
    assert first.read_bytes() == b"1" * 3_000_000
    inode = first.stat().st_ino
    assert images.fetch(f"{server}/f.iso", verify=False).stat().st_ino == inode
    (tmp_path / "f.iso").write_bytes(b"2" * 10)
    assert images.fetch(f"{server}/f.iso", verify=False).read_bytes() == b"2" * 10
    assert [p.name for p in first.parent.iterdir() if p.name.startswith("tmp")] == []
    with pytest.raises(ImageFetchError, match="answered 404") as caught:
        images.fetch(f"{server}/none.iso", verify=False)
    assert caught.value.status == 400


def test_a_download_that_is_cut_short_is_none(images, tmp_path):
    with pytest.raises(OSError, match="3 of 9 bytes"):
        store(BytesIO(b"123"), tmp_path / "image", 9)
    assert [p.name for p in tmp_path.iterdir()] == ["www"]


def test_the_labs_own_image_is_linked_and_a_new_one_taken_up(images, tmp_path):
    image = tmp_path / "www/f.iso"
    for content in (b"1", b"2"):
        fresh = tmp_path / "fresh"
        fresh.write_bytes(content)
        fresh.replace(image)
        linked = images.linked("http://lab/f.iso", tmp_path / "local")
        assert linked.samefile(image)
        assert linked.read_bytes() == content
