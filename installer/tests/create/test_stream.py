"""Base ISO and root file system by stream metadata: real registry, an HTTP server on loopback that breaks off."""

import hashlib
import http.server
import json
import shutil
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from installer.cli import main
from installer.common.iso9660 import Iso
from installer.errors import DownloadError
from installer.release.download import TRIES, download
from installer.release.stream import Artifact
from installer.testing.create.image_kit import NEEDED, base_iso_files, content, inputs, named_components
from installer.testing.create.iso_kit import build
from installer.testing.create.outputs_kit import kernel_line
from installer.testing.create.registry_kit import registry

needs_registry = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
DATA = bytes(range(256)) * 20_000
DIGEST = hashlib.sha256(DATA).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files` with ranges; of the next answers `cuts` are the bytes after which the connection is closed."""

    def log_message(self, *_args):
        pass

    def do_GET(self):
        server = self.server
        server.seen.append((self.path, self.headers.get("Range")))
        if server.codes:
            self.send_error(server.codes.pop(0))
            return
        data = server.files.get(urlsplit(self.path).path)
        if data is None:
            self.send_error(404)
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if server.ranges else 0
        if start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(data)
        self.wfile.write(data[start : start + cut])
        self.close_connection = True


@pytest.fixture
def web(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.seen, server.cuts, server.codes, server.ranges = {"/f": DATA}, [], [], [], True
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def get(web, dest: Path, digest: str = DIGEST, path: str = "/f") -> list[float]:
    pauses: list[float] = []
    download(Artifact(web.url + path, digest), dest, "x", pauses.append)
    return pauses


def test_a_broken_download_is_continued(web, tmp_path):
    web.cuts = [1_000_000, 2_000_000]
    assert get(web, tmp_path / "d") == [2.0, 4.0]
    assert [byte_range for _path, byte_range in web.seen] == [None, "bytes=1000000-", "bytes=3000000-"]
    assert (tmp_path / "d").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_server_without_ranges_sends_all_again(web, tmp_path):
    web.cuts, web.ranges = [1_000_000], False
    assert get(web, tmp_path / "d") == [2.0]
    assert (tmp_path / "d").read_bytes() == DATA


def test_the_next_run_continues_a_download(web, tmp_path):
    web.cuts = [1000] * TRIES
    with pytest.raises(DownloadError, match=r"closed the connection after 3000 of 5120000 bytes \(3 tries\)"):
        get(web, tmp_path / "d")
    assert not (tmp_path / "d").exists()
    web.seen.clear()
    get(web, tmp_path / "d")
    assert web.seen == [("/f", "bytes=3000-")]
    # All of it was there, but its name.
    (tmp_path / "d").rename(tmp_path / ".d.download")
    get(web, tmp_path / "d")
    assert web.seen[1:] == [("/f", f"bytes={len(DATA)}-")]


def test_a_file_with_another_digest_is_fetched_again_then_refused(web, tmp_path):
    (tmp_path / ".d.download").write_bytes(b"of another file")
    get(web, tmp_path / "d")
    assert [byte_range for _path, byte_range in web.seen] == ["bytes=15-", None]
    assert (tmp_path / "d").read_bytes() == DATA
    with pytest.raises(DownloadError, match=f"sha256 {DIGEST}, the stream metadata says 0000"):
        get(web, tmp_path / "e", "0" * 64)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_errors_of_servers(web, tmp_path):
    with pytest.raises(DownloadError, match=r"^HTTP 404 Not Found$"):
        get(web, tmp_path / "d", path="/none")
    assert len(web.seen) == 1  # it will not come by asking again
    web.codes = [503, 502]
    assert get(web, tmp_path / "d") == [2.0, 4.0]
    with pytest.raises(DownloadError, match=r"^Connection refused \(3 tries\)$"):
        download(Artifact("http://127.0.0.1:1/x", DIGEST), tmp_path / "e", "x", lambda _pause: None)


def test_the_proxy_of_the_environment(web, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", web.url)
    artifact = Artifact("http://published.example.invalid/f", DIGEST)
    download(artifact, tmp_path / "d", "x")
    assert web.seen == [("http://published.example.invalid/f", None)]
    monkeypatch.setenv("no_proxy", "example.invalid")
    with pytest.raises(DownloadError):
        download(artifact, tmp_path / "e", "x", lambda _pause: None)
    assert len(web.seen) == 1


def stream_of(iso: dict | None, rootfs: dict | None) -> bytes:
    formats = {"iso": {"disk": iso}, "pxe": {"rootfs": rootfs}}
    metal = {"release": "9.6", "formats": formats}
    return json.dumps({"stream": "s", "architectures": {"x86_64": {"artifacts": {"metal": metal}}}}).encode()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("payload")
    iso = build(folder, "2023-07.x86_64")
    with registry(folder / "registry") as server:
        yield server, iso, {}


@pytest.fixture
def create(lab, tmp_path, monkeypatch):
    """Run `create image` from a release whose machine-os-images has `files`; (exit code, asset directory)."""
    server, _iso, releases = lab
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", raising=False)

    def run(files, agent=None):
        key = tuple(sorted(files.items()))
        if key not in releases:
            system = server.push([files], f"m{len(releases)}")
            releases[key] = server.push_release(
                {**named_components(), "machine-os-images": system}, tag=f"r{len(releases)}"
            )
        monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", releases[key])
        folder = tmp_path / "dir"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        inputs(folder, server, agent=agent)
        return main(["agent", "create", "image", "--dir", str(folder)]), folder

    return run


def published(web, lab) -> dict:
    data = lab[1].read_bytes()
    web.files["/live.iso"] = data
    return {"location": f"{web.url}/live.iso", "sha256": hashlib.sha256(data).hexdigest()}


@needs_registry
def test_a_base_iso_that_only_the_stream_names(web, lab, create, tmp_path, capsys):
    stream = stream_of(published(web, lab), None)
    files = {"coreos/coreos-aarch64.iso": b"another's", "coreos/coreos-stream.json": stream}
    code, folder = create(files)
    err = capsys.readouterr().err
    assert code == 0, err
    assert "level=warning msg=Failed to extract base ISO from release payload: " in err
    assert "has no file coreos/coreos-x86_64.iso" in err
    assert "level=info msg=Downloading base ISO" in err
    assert content(folder / "agent.x86_64.iso")[1]["/etc/assisted/rendezvous-host.env"]
    assert main(["iso", "reset", str(folder / "agent.x86_64.iso")]) == 0
    assert (folder / "agent.x86_64.iso").read_bytes() == lab[1].read_bytes()
    # The next run downloads nothing, nor does one after the payload's image has been removed from the cache.
    for image in (None, *(tmp_path / "cache/agent/image_cache").glob("*/coreos-stream.json")):
        if image is not None:
            shutil.rmtree(image.parent)
        code, folder = create(files)
        assert code == 0
        assert ("Using cached Base ISO" in capsys.readouterr().err) == (image is None)
    assert len(web.seen) == 1


@pytest.mark.slow
@needs_registry
@pytest.mark.parametrize(
    ("iso", "says"),
    [
        (None, "check release image architecture: the stream metadata in "),
        ({"location": "coreos-x86_64.iso", "sha256": "0" * 64}, "disk.location: 'coreos-x86_64.iso'"),
        ({"location": "http://127.0.0.1:1/x", "sha256": "short"}, "has no SHA-256 at architectures.x86_64"),
        ({"location": "URL/none.iso", "sha256": "0" * 64}, "/none.iso: HTTP 404 Not Found"),
        ({"location": "URL/f", "sha256": "0" * 64}, f"it has sha256 {DIGEST}, the stream metadata says 0000"),
        ("no stream", "check release image architecture: image "),
        ("no json", "is not stream metadata: "),
    ],
)
def test_failures_are_one_fatal_line_and_change_nothing(web, create, capsys, iso, says):
    if isinstance(iso, dict):
        iso = {**iso, "location": iso["location"].replace("URL", web.url)}
    files = {"coreos/coreos-stream.json": b"[" if iso == "no json" else stream_of(iso, None)}
    code, folder = create({"x": b"x"} if iso == "no stream" else files)
    err = capsys.readouterr().err
    assert code == 1
    (fatal,) = [line for line in err.splitlines() if not line.startswith(("level=info", "level=warn"))]
    assert fatal.startswith("level=fatal")
    assert says in fatal
    assert "Traceback" not in err
    assert {path.name for path in folder.iterdir()} == {
        ".openshift_install.log",
        "agent-config.yaml",
        "install-config.yaml",
    }


@pytest.mark.slow
@needs_registry
def test_a_minimal_iso_of_a_published_root_file_system(web, lab, create, capsys):
    rootfs = {"location": "https://published.example.invalid/rootfs.img", "sha256": "1" * 64}
    files = {**base_iso_files(lab[1]), "coreos/coreos-stream.json": stream_of(None, rootfs)}
    code, folder = create(files, {"minimalISO": True})
    err = capsys.readouterr().err
    assert code == 0, err
    assert "RootFS file created" not in err
    assert "Generated minimal ISO at" in err
    assert not (folder / "boot-artifacts").exists()
    path = folder / "agent.x86_64.iso"
    assert f'coreos.live.rootfs_url="{rootfs["location"]}"' in kernel_line(path)
    with path.open("rb") as file:
        assert Iso(file, path).find("images/pxeboot/rootfs.img") is None
    # What the user says counts more; where neither says it, the user must.
    code, folder = create(files, {"minimalISO": True, "bootArtifactsBaseURL": "http://h.example/x"})
    assert code == 0
    assert 'coreos.live.rootfs_url="http://h.example/x/agent.x86_64-rootfs.img"' in kernel_line(path)
    capsys.readouterr()
    code, _folder = create({**files, "coreos/coreos-stream.json": stream_of(None, None)}, {"minimalISO": True})
    assert code == 1
    err = capsys.readouterr().err
    assert "invalid Agent Config configuration: bootArtifactsBaseURL: Required value: a minimal ISO gets its" in err
