"""A client of `skopeo experimental-image-proxy`: manifests and single blobs as streams, digests checked by skopeo.

The protocol (skopeo's cmd/skopeo/proxy.go): JSON requests {method, args} over a SEQPACKET socket; replies
{success, value, pipeid, error}, with a pipe's read end passed along when there is data. FinishPipe makes skopeo close
its end, and reports whether what went through had the right digest.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from installer.errors import (
    ImageNotFound,
    PullSecretRejected,
    RegistryCertificateError,
    RegistryUnreachable,
    ReleaseError,
)
from installer.release.access import RegistryAccess

# skopeo answers a request once its registry has answered; a blob's HEAD may wait for a mirror for long.
REPLY_TIMEOUT_S = 300.0

_UNREACHABLE = re.compile(
    r"no such host|connection refused|no route to host|network is unreachable|i/o timeout|deadline exceeded|"
    r"server misbehaving|connection reset|TLS handshake timeout|server gave HTTP response to HTTPS client|"
    r"name resolution|registry .* is blocked|\bEOF\b"
)
_REJECTED = re.compile(
    r"unauthorized|authentication required|invalid username/password|StatusCode: 40[13]|denied|\b401\b"
)
_CERTIFICATE = re.compile(r"x509:|certificate signed by unknown authority|failed to verify certificate")
_NOT_FOUND = re.compile(
    r"manifest unknown|name unknown|repository name not known|blob unknown|StatusCode: 404|not found"
)


def explain(image: str, text: str) -> ReleaseError:
    """Return the error of this program for skopeo's message, by which the user sees what to do."""
    # With mirrors skopeo nests: one "[mirror: cause]" each, and the source's own cause last, which may be another.
    text = _cause(" ".join(text.split()))
    for pattern, kind, gist in (
        (_REJECTED, PullSecretRejected, "the registry rejected the pull secret"),
        (
            _CERTIFICATE,
            RegistryCertificateError,
            "the registry's certificate is not trusted; see additionalTrustBundle",
        ),
        (_NOT_FOUND, ImageNotFound, "the registry has no such image"),
        (_UNREACHABLE, RegistryUnreachable, "no registry that holds it could be reached"),
    ):
        if pattern.search(text):
            return kind(image, f"cannot read image {image}: {gist} ({_shortened(text)})")
    return ReleaseError(image, f"cannot read image {image}: {_shortened(text)}")


def _cause(text: str) -> str:
    """Return the core of skopeo's text: each mirror's repository and reason, or else the only registry's reason."""
    mirrors = re.findall(r"\[(\S+?)(?:@\S+)?: ((?:[^\[\]]|\[[^\[\]]*\])*)\]", text)
    reasons = [f"{repository}: {_reason(cause)}" for repository, cause in mirrors] or [_reason(text)]
    return "; ".join(reasons)


def _shortened(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _reason(text: str) -> str:
    for wrap in (
        r"reading manifest \S+ in \S+: ",
        r"pinging container registry \S+: ",
        r'Get "[^"]*": ',
        r"^\S+@\S+: ",
    ):
        text = re.sub(wrap, "", text)
    return text


class ImageProxy:
    """One skopeo process; use as a context manager. Not thread-safe: the protocol answers in order."""

    def __init__(self, access: RegistryAccess, timeout: float = REPLY_TIMEOUT_S) -> None:
        """`timeout` is how long an answer may take, in seconds."""
        self._access = access
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ImageProxy:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                self._access.proxy_command(theirs.fileno()),
                pass_fds=[theirs.fileno(), *self._access.inherited()],
                env=self._access.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError as error:
            ours.close()
            raise ReleaseError("", "skopeo is not installed: it is needed to read the release payload") from error
        finally:
            theirs.close()
        ours.settimeout(self._timeout)
        self._socket = ours
        self._call("", "Initialize")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            # skopeo ends by itself once the socket is closed; a download that hangs must not delay us.
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()

    def _call(self, image: str, method: str, *args: Any) -> tuple[Any, int, int | None]:
        """One request; returns its value, pipe id (0: none) and the pipe's read end."""
        self._send(image, method, *args)
        return self._receive(image)

    def _send(self, image: str, method: str, *args: Any) -> None:
        assert self._socket is not None
        try:
            self._socket.send(json.dumps({"method": method, "args": list(args)}).encode())
        except OSError as error:
            raise ReleaseError(image, f"skopeo ended while reading image {image}: {self._stderr()}") from error

    def _receive(self, image: str) -> tuple[Any, int, int | None]:
        assert self._socket is not None
        try:
            data, fds, _flags, _addr = socket.recv_fds(self._socket, 1 << 20, 1)
        except TimeoutError as error:
            raise RegistryUnreachable(
                image, f"cannot read image {image}: no answer from its registry within {self._timeout:.0f} s"
            ) from error
        except OSError as error:
            raise ReleaseError(image, f"skopeo ended while reading image {image}: {self._stderr()}") from error
        fd = fds[0] if fds else None
        if not data:
            raise ReleaseError(image, f"skopeo ended while reading image {image}: {self._stderr()}")
        reply = json.loads(data)
        if not reply.get("success"):
            if fd is not None:
                os.close(fd)
            raise explain(image, str(reply.get("error", "")))
        return reply.get("value"), int(reply.get("pipeid") or 0), fd

    def _stderr(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        self._process.kill()
        return self._process.stderr.read().decode(errors="replace").strip()[-400:]

    def open_image(self, pullspec: str) -> OpenImage:
        """Open docker://`pullspec`; fails here when the registry is not reachable or refuses."""
        value, _pipe, _fd = self._call(pullspec, "OpenImage", f"docker://{pullspec}")
        return OpenImage(self, pullspec, int(value))

    @contextlib.contextmanager
    def stream(self, image: str, method: str, *args: Any) -> Iterator[tuple[int, int]]:
        """Run a method that answers with a pipe: yields (read end, value), then checks digest and completeness."""
        value, pipe, fd = self._call(image, method, *args)
        if fd is None:
            raise ReleaseError(image, f"skopeo sent no data for {method} of image {image}")
        # skopeo closes its end of the pipe only when asked to finish, and answers that only when all has been
        # written: so the request goes out first, the pipe is read to its end, and then comes the answer.
        self._send(image, "FinishPipe", pipe)
        try:
            yield fd, int(value) if isinstance(value, (int, float)) else 0
        finally:
            os.close(fd)
        self._receive(image)

    def read(self, image: str, method: str, *args: Any) -> bytes:
        """Return the whole of what a method sends through its pipe."""
        with self.stream(image, method, *args) as (fd, _value):
            return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))


class OpenImage:
    """One image that skopeo holds open; a manifest list is resolved to this machine's platform by skopeo."""

    def __init__(self, proxy: ImageProxy, pullspec: str, handle: int) -> None:
        self.pullspec = pullspec
        self._proxy = proxy
        self._handle = handle
        self._manifest: dict[str, Any] | None = None

    def manifest(self) -> dict[str, Any]:
        """Return the image's OCI manifest (skopeo converts docker's)."""
        if self._manifest is None:
            self._manifest = json.loads(self._proxy.read(self.pullspec, "GetManifest", self._handle))
        return self._manifest

    def config(self) -> dict[str, Any]:
        """Return the image's OCI configuration: architecture, os, config.Labels ..."""
        return dict(json.loads(self._proxy.read(self.pullspec, "GetFullConfig", self._handle)))

    def layers(self) -> list[tuple[str, int]]:
        """(digest, size in bytes) of each layer, lowest first."""
        return [(str(layer["digest"]), int(layer["size"])) for layer in self.manifest()["layers"]]

    def blob(self, digest: str, size: int) -> contextlib.AbstractContextManager[tuple[int, int]]:
        """Stream one blob: a context that yields (file descriptor, size)."""
        return self._proxy.stream(self.pullspec, "GetBlob", self._handle, digest, size)
