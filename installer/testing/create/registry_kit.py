"""A registry on loopback with TLS and a password, and images pushed into it: the real programs, small content."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import shutil
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from ssl import create_default_context

import bcrypt

from installer.common.certificates import SERVER, authority, leaf
from installer.common.ports import free_port
from installer.release import DigestSource

SOURCE = "release.example.invalid/node0/payload"
PROGRAMS = ("docker-registry", "skopeo", "zstd")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
REPOSITORY = "node0/payload"
API = f"/v2/{REPOSITORY}"
TOKEN = base64.b64encode(b"user:secret").decode()


@dataclass(frozen=True)
class Link:
    """A symbolic link in a layer."""

    target: str


Layer = Mapping[str, bytes | Link]


@dataclass
class Registry:
    """Its address, and how to log in."""

    port: int
    ca_pem: str
    pull_secret: str = field(repr=False)
    folder: Path

    @property
    def repository(self) -> str:
        """The repository of the payload, as this registry has it."""
        return f"127.0.0.1:{self.port}/{REPOSITORY}"

    @property
    def sources(self) -> tuple[DigestSource, ...]:
        """Mirrors by which the payload is pulled from this registry alone."""
        return (DigestSource(SOURCE, (self.repository,), never_contact_source=True),)

    def push(self, layers: Sequence[Layer], tag: str, compression: str = "gzip", architecture: str = "amd64") -> str:
        """Push an image, lowest layer first; returns its pullspec under the source's name."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=create_default_context(cadata=self.ca_pem)
        )

        def send(method: str, path: str, data: bytes = b"", media: str = "application/octet-stream") -> Message:
            connection.request(method, path, data, {"Authorization": f"Basic {TOKEN}", "Content-Type": media})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"docker-registry: {method} {path}: {answer.status} {text!r}")
            return answer.headers

        def blob(data: bytes) -> str:
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            upload = send("POST", f"{API}/blobs/uploads/")["Location"]
            send("PUT", f"{upload}&digest={digest}", data)
            return digest

        with contextlib.closing(connection):
            entries, diffs = [], []
            for layer in layers:
                raw = _tar(layer)
                packed, suffix = _packed(raw, compression)
                media = f"application/vnd.oci.image.layer.v1.tar{suffix}"
                entries.append({"mediaType": media, "digest": blob(packed), "size": len(packed)})
                diffs.append("sha256:" + hashlib.sha256(raw).hexdigest())
            rootfs = {"type": "layers", "diff_ids": diffs}
            plain = json.dumps({"architecture": architecture, "os": "linux", "rootfs": rootfs, "config": {}}).encode()
            config_entry = {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": blob(plain),
                "size": len(plain),
            }
            manifest = json.dumps(
                {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config_entry, "layers": entries}
            ).encode()
            send("PUT", f"{API}/manifests/{tag}", manifest, MANIFEST_TYPE)
        return f"{SOURCE}@sha256:{hashlib.sha256(manifest).hexdigest()}"

    def push_release(self, components: Mapping[str, str], version: str = "4.18.0-test", tag: str = "release") -> str:
        """Push a release image that names `components` (tag -> pullspec)."""
        tags = [{"name": name, "from": {"kind": "DockerImage", "name": spec}} for name, spec in components.items()]
        stream = {"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}}
        metadata = {"kind": "cincinnati-metadata-v0", "version": version}
        files: Layer = {
            "release-manifests/image-references": json.dumps({**stream, "spec": {"tags": tags}}).encode(),
            "release-manifests/release-metadata": json.dumps(metadata).encode(),
        }
        return self.push([{"usr/bin/cluster-version-operator": b"x"}, files], tag, "zstd")


def _tar(layer: Layer) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in layer.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, Link):
                info.type, info.linkname = tarfile.SYMTYPE, content.target
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _packed(raw: bytes, compression: str) -> tuple[bytes, str]:
    if compression == "zstd":
        return subprocess.run(["zstd", "-q", "-c"], input=raw, capture_output=True, check=True).stdout, "+zstd"
    if compression == "gzip":
        return gzip.compress(raw, 1), "+gzip"
    return raw, ""


@contextmanager
def registry(folder: Path, *, password: bool = True) -> Iterator[Registry]:
    """Run docker-registry until the block ends."""
    ca = authority("test-registry-ca")
    server = leaf(ca, "registry", names=("127.0.0.1",), usages=SERVER)
    (folder / "certs").mkdir(parents=True)
    (folder / "certs/ca.crt").write_text(ca.certificate)
    (folder / "server.crt").write_text(server.certificate)
    (folder / "server.key").write_text(server.key)
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")
    (folder / "htpasswd").write_text(f"user:{hashed}\n")
    port = free_port()
    config = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {
            "addr": f"127.0.0.1:{port}",
            "secret": "x",
            "relativeurls": True,
            "tls": {"certificate": str(folder / "server.crt"), "key": str(folder / "server.key")},
        },
        **({"auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}} if password else {}),
    }
    (folder / "config.yml").write_text(json.dumps(config))
    secret = json.dumps({"auths": {f"127.0.0.1:{port}": {"auth": TOKEN}}})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        _wait(port, ca.certificate, process, folder / "log")
        yield Registry(port, ca.certificate, secret, folder)
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int, ca: str, process: subprocess.Popen[bytes], log: Path) -> None:
    request = urllib.request.Request(f"https://127.0.0.1:{port}/v2/", headers={"Authorization": f"Basic {TOKEN}"})
    context = create_default_context(cadata=ca)
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(request, timeout=2, context=context).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"docker-registry does not answer: {error}; {log.read_text()[-500:]}") from error
            time.sleep(0.05)
