"""A fetched root file system is verified by its hash, whatever the server's certificate."""

from __future__ import annotations

import functools
import hashlib
import http.server
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from installer.common import cpio
from installer.common.certificates import authority
from lab.daemons.pki import issue
from lab.release.os import build
from lab.release.stage.keys import file_sha256

COMMON = Path(build.__file__).parent / "data/dracut/90node0/common.sh"
ROOT = b"a root file system" * 1000


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path):
    """Serve tmp_path/www with a certificate of a CA that nobody knows."""
    www = tmp_path / "www"
    www.mkdir()
    (www / "rootfs.img").write_bytes(ROOT)
    issue(authority("unknown"), ["127.0.0.1"], tmp_path)
    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(www)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
    thread = threading.Thread(target=http_server.serve_forever, args=(0.05,))
    thread.start()
    yield f"https://127.0.0.1:{http_server.server_port}"
    http_server.shutdown()
    thread.join()
    http_server.server_close()


def script(tmp_path: Path, text: str, cmdline: str = "") -> subprocess.CompletedProcess[str]:
    (tmp_path / "cmdline").write_text(cmdline + "\n")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "FETCH_TRIES": "0"}
    env |= {"CMDLINE": str(tmp_path / "cmdline"), "KMSG": str(tmp_path / "kmsg")}
    argv = ["bash", "-c", f"set -euo pipefail; . {COMMON}; {text}"]
    return subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


def fetch(tmp_path: Path, url: str, wanted: bytes) -> subprocess.CompletedProcess[str]:
    (tmp_path / "want").write_text(hashlib.sha256(wanted).hexdigest() + "\n")
    return script(tmp_path, f"fetch_root '{url}' got want; echo went on")


def test_the_hash_decides_and_not_the_certificate(tmp_path, server):
    completed = fetch(tmp_path, f"{server}/rootfs.img?image_token=a&b=c", ROOT)
    assert (completed.returncode, completed.stdout) == (0, "went on\n"), completed.stderr
    assert (tmp_path / "got").read_bytes() == ROOT


def test_another_root_stops_the_boot_and_both_hashes_are_told(tmp_path, server):
    completed = fetch(tmp_path, f"{server}/rootfs.img", b"another release's")
    assert (completed.returncode, completed.stdout) == (1, "")
    for content in (ROOT, b"another release's"):
        assert hashlib.sha256(content).hexdigest() in (tmp_path / "kmsg").read_text()


@pytest.mark.parametrize(
    ("url", "says"), [("{}/none.img", "cannot get the root"), ("ftp://x/y", "only http and https")]
)
def test_what_cannot_be_had_stops_the_boot(tmp_path, server, url, says):
    completed = fetch(tmp_path, url.format(server), ROOT)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert says in completed.stderr


@pytest.mark.parametrize("value", ["https://x/y?a=1&b=2", '"https://x/y?a=1&b=2"'])
def test_an_argument_is_read_with_and_without_quotes(tmp_path, value):
    completed = script(tmp_path, "cmdline_value coreos.live.rootfs_url", f"a=1 coreos.live.rootfs_url={value} quiet")
    assert completed.stdout == "https://x/y?a=1&b=2"


def test_an_argument_that_is_not_there_is_empty(tmp_path):
    assert script(tmp_path, "cmdline_value root; echo .", "rooted=1 quiet").stdout == ".\n"


@pytest.mark.parametrize("length", [510, 511, 512])
def test_the_initramfs_is_told_which_root_is_its_own(tmp_path, length):
    initramfs = tmp_path / "initrd.img"
    initramfs.write_bytes(bytes(length))  # what the kernel reads over between two archives
    build.add_want(initramfs, "ab" * 32)
    raw = initramfs.read_bytes()
    start = raw.index(b"070701")
    assert start % 4 == 0
    assert len(raw) % 4 == 0
    subprocess.run(["cpio", "-id", "--quiet"], input=raw[start:], cwd=tmp_path, check=True)
    assert (tmp_path / "etc/coreos-live-want-rootfs").read_text() == "ab" * 32 + "\n"


def test_the_sum_is_that_of_the_whole_file(tmp_path, server):
    """As it is served, the archive around the root included."""
    path = tmp_path / "www/whole.img"
    with path.open("wb") as out:
        out.writelines(cpio.pieces([("root.squashfs", 0o100644, ROOT)], build.SQUASHFS_ALIGN))
    build.add_want(tmp_path / "initrd.img", file_sha256(path))
    subprocess.run(["cpio", "-id", "--quiet"], input=(tmp_path / "initrd.img").read_bytes(), cwd=tmp_path, check=True)
    completed = script(tmp_path, f"fetch_root '{server}/whole.img' got etc/coreos-live-want-rootfs")
    assert completed.returncode == 0, completed.stderr


def test_a_path_is_waited_for_though_the_clock_was_set(tmp_path):
    """bash counts SECONDS by the clock, here one that is set a day ahead while the path is made."""
    jump = 'sleep() { SECONDS=86400; n=$((${n:-0} + 1)); [[ $n -lt 3 ]] || touch late; command sleep "$1"; }'
    completed = script(tmp_path, f"{jump}; wait_for_path {tmp_path}/late 60; echo came")
    assert (completed.returncode, completed.stdout) == (0, "came\n"), completed.stderr
    completed = script(tmp_path, f"wait_for_path {tmp_path}/never 1; echo came")
    assert (completed.returncode, completed.stdout) == (1, "")
    assert "waited 1 s for" in (tmp_path / "kmsg").read_text()
