"""Where a BMC gets its images from, without a BMC."""

import logging
import tempfile
import warnings
from http.server import SimpleHTTPRequestHandler
from io import BytesIO

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # sushy-tools' webob imports what Python 3.13 no longer has
    from sushy_tools.error import FishyError

    from lab.daemons.bmc import SharedMedia, _store


@pytest.fixture
def server(serve):
    """The URL of somebody else's server for files of tmp_path."""
    return serve(SimpleHTTPRequestHandler)


@pytest.fixture
def media(tmp_path, monkeypatch):
    """A BMC's media driver, for whose images the test is the server's owner."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    www = tmp_path / "www"
    www.mkdir()
    return SharedMedia({"NODE0_HTTP_URL": "http://lab", "NODE0_HTTP_ROOT": str(www)}, logging.getLogger())


def test_an_image_is_downloaded_once_a_version(media, server, tmp_path):
    (tmp_path / "f.iso").write_bytes(b"1" * 3_000_000)
    first = media._fetch_once(f"{server}/f.iso", verify=False)
    assert first.read_bytes() == b"1" * 3_000_000
    inode = first.stat().st_ino
    assert media._fetch_once(f"{server}/f.iso", verify=False).stat().st_ino == inode
    (tmp_path / "f.iso").write_bytes(b"2" * 10)
    assert media._fetch_once(f"{server}/f.iso", verify=False).read_bytes() == b"2" * 10
    assert [p.name for p in first.parent.iterdir() if p.name.startswith("tmp")] == []
    with pytest.raises(FishyError, match="answered 404") as caught:
        media._fetch_once(f"{server}/none.iso", verify=False)
    assert caught.value.code == 400


def test_a_download_that_is_cut_short_is_none(media, tmp_path):
    with pytest.raises(OSError, match="3 of 9 bytes"):
        _store(BytesIO(b"123"), tmp_path / "image", 9)
    assert [p.name for p in tmp_path.iterdir()] == ["www"]


def test_the_labs_own_image_is_linked_and_a_new_one_taken_up(media, tmp_path):
    image = media._config["NODE0_HTTP_ROOT"] + "/f.iso"
    for content in (b"1", b"2"):
        fresh = tmp_path / "fresh"
        fresh.write_bytes(content)
        fresh.replace(image)
        found = media._linked("http://lab/f.iso", tmp_path / "local")
        assert found.samefile(image)
        assert found.read_bytes() == content
