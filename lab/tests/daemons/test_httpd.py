"""The lab's HTTP server: whole files and parts of them."""

import urllib.error
import urllib.request

import pytest

from lab.daemons.httpd import Handler


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
