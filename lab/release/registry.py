"""Debian's docker-registry: its configuration, for labs, and one of our own while a release is being pushed."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from installer.common.ports import free_port
from installer.common.secretfiles import write_private
from lab.release.stage import progress
from lab.release.stage.errors import RegistryFailed

# The one repository that holds every image of the release, and the name for it that no machine answers to.
REPOSITORY = "node0/lab-release"
SOURCE = f"release.node0.example/{REPOSITORY}"

START_SECONDS = 20.0


@dataclass(frozen=True)
class RegistryConfig:
    """Settings of a docker-registry: what it serves, where and to whom.

    ``address`` is host:port to listen on. Without certificate and key it speaks plain HTTP. With an htpasswd file
    (bcrypt only, checked at each request) every request needs a user. ``readonly`` refuses pushes and never writes to
    storage.
    """

    storage: Path
    address: str
    certificate: Path | None = None
    key: Path | None = None
    htpasswd: Path | None = None
    realm: str = "node0 lab"
    readonly: bool = True
    log_level: str = "info"

    def render(self) -> str:
        """Return the YAML that ``docker-registry serve FILE`` reads."""
        http_section: dict[str, Any] = {"addr": self.address, "secret": secrets.token_hex(16)}
        if self.certificate and self.key:
            http_section["tls"] = {"certificate": str(self.certificate), "key": str(self.key)}
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": self.log_level, "accesslog": {"disabled": False}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.storage)},
                "cache": {"blobdescriptor": "inmemory"},
                "maintenance": {
                    "uploadpurging": {"enabled": False},
                    "readonly": {"enabled": self.readonly},
                },
            },
            "http": http_section,
        }
        if self.htpasswd:
            config["auth"] = {"htpasswd": {"realm": self.realm, "path": str(self.htpasswd)}}
        return yaml.safe_dump(config, sort_keys=False)

    def write(self, path: Path) -> list[str]:
        """Write the file (0600: it holds the registry's secret); the command that serves it, in the foreground."""
        write_private(path, self.render())
        return [progress.need("docker-registry", "docker-registry"), "serve", str(path)]


def tags_folder(storage: Path, repository: str = REPOSITORY) -> Path:
    """Return the folder of a repository's tags in docker-registry's storage directory, a folder each."""
    return storage / "docker" / "registry" / "v2" / "repositories" / repository / "_manifests" / "tags"


def has_manifest(storage: Path, digest: str, tag: str, repository: str = REPOSITORY) -> bool:
    """Return whether a storage directory holds a manifest under a tag, by docker-registry's own file layout."""
    tags = tags_folder(storage, repository)
    current = tags / tag / "current" / "link"
    kind, _, value = digest.partition(":")
    revision = tags.parent / "revisions" / kind / value / "link"
    return revision.is_file() and current.is_file() and current.read_text().strip() == digest


@contextmanager
def loopback_registry(storage: Path, work: Path) -> Iterator[str]:
    """Provide a writable registry on a free loopback port, for the time of the block; yields its host:port.

    Plain HTTP: nothing but this machine's loopback carries it. Raises RegistryFailed when it does not answer in time.
    """
    storage.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    config = RegistryConfig(storage, address, readonly=False, log_level="warn")
    log = work / "registry.log"
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    with log.open("w") as sink:
        argv = config.write(work / "registry.yaml")
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment)
        try:
            _wait_ready(address, child, log)
            yield address
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait_ready(address: str, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    last = "no connection yet"
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RegistryFailed(f"docker-registry ended with {child.returncode}: {log.read_text()[-800:]}")
        try:
            connection = http.client.HTTPConnection(address, timeout=2)
            connection.request("GET", "/v2/")
            status = connection.getresponse().status
            connection.close()
        except (OSError, http.client.HTTPException) as error:
            last = str(error)
        else:
            if status == 200:
                return
            last = f"HTTP {status}"
        time.sleep(0.05)
    raise RegistryFailed(f"docker-registry on {address} did not answer /v2/ in {START_SECONDS:.0f}s, last: {last}")


def push(layout: Path, tag: str, address: str, *, remote_tag: str, log: Path, repository: str = REPOSITORY) -> None:
    """Copy one image of an OCI layout into the registry at ``address``; the digest stays what it is."""
    argv = [
        progress.need("skopeo", "skopeo"),
        "--insecure-policy",
        "copy",
        "--quiet",
        "--preserve-digests",
        "--dest-tls-verify=false",
        f"oci:{layout}:{tag}",
        f"docker://{address}/{repository}:{remote_tag}",
    ]
    progress.run(argv, label=f"push {tag}", log=log)
