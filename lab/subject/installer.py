"""Installers: a file or an image that the user names, or the one that a release brings."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from installer.common.redact import shortened
from lab.errors import SubjectError
from lab.subject.contents import IncompleteImage, extract, layers
from lab.subject.stores import Store

#: Seconds that `version` may take: openshift-install's and node0's take a fifth of one, and this machine may be busy.
ANSWER_SECONDS = 60.0
#: Where a release's image `installer` has it (openshift/oc, pkg/cli/admin/release/extract_tools.go).
PATH = "usr/bin/openshift-install"
# What `version` prints of all builds of openshift-install (cmd/openshift-install/version.go), and bytes that are read.
_RELEASE_IMAGE = re.compile(rb"^release image \S", re.MULTILINE)
_MOST_SAID = 64 << 10
_ELF = b"\x7fELF"
_X86_64 = 62
# The interpreter in a script's first line. With Windows' line ends its name would end in \\r.
_SCRIPT = re.compile(rb"#![ \t]*([^ \t\n]+)")
# gabi/elf.h: e_machine
_MACHINES = {3: "386", 21: "ppc64", 22: "s390x", 40: "arm", 183: "arm64", 243: "riscv64"}


def machine_of(head: bytes) -> str | None:
    """Return the processor that the first bytes of a program are for, in Go's words; None when it is no ELF file."""
    if head[:4] != _ELF or len(head) < 20:
        return None
    order = ">" if head[5] == 2 else "<"
    [number] = struct.unpack(f"{order}H", head[18:20])
    return "amd64" if number == _X86_64 else _MACHINES.get(number, f"machine {number}")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(256)


def checked(path: Path, source: str) -> Path:
    """Return the program, which this machine can run, and which is an installer. Raises SubjectError, which begins with
    `source`."""
    if path.is_dir():
        raise SubjectError(source, f"{path} is a directory: want the program itself")
    if not path.is_file():
        raise SubjectError(source, f"{path}: no such installer")
    if not os.access(path, os.X_OK):
        raise SubjectError(source, f"{path} is not executable: chmod +x")
    head = _head(path)
    machine = machine_of(head)
    if machine not in (None, "amd64"):
        raise SubjectError(source, f"{path} is an installer for {machine}, this machine is amd64")
    if machine is None:
        script = _SCRIPT.match(head)
        if script is None:
            raise SubjectError(source, f"{path} is no program: it is no ELF file, and has no #! in its first line")
        interpreter = os.fsdecode(script[1])
        if not os.access(interpreter, os.X_OK):
            raise SubjectError(source, f"{path} wants {interpreter!r} in its first line, which this machine has not")
    status = path.stat()
    if why := _why_no_installer(path.absolute(), status.st_size, status.st_mtime_ns):
        raise SubjectError(source, f"{path} {why}")
    return path


@lru_cache
def _why_no_installer(path: Path, _size: int, _changed: int) -> str:
    """Say why a program is no installer; empty where it is one. Asked once as long as the file stays as it is.

    An installer answers `version`, and says which release image it installs. Any other program would fail, or do
    anything, in a lab that has been brought up for it.
    """
    with tempfile.TemporaryDirectory(prefix="installer-") as folder:  # and not where the user is: it may be any program
        try:
            process = subprocess.Popen(
                [path, "version"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot be run: {error.strerror}"
        with process:
            try:
                said = _version_output(process, time.monotonic() + ANSWER_SECONDS)
            finally:
                # With all that it has started; it may go on for ever.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if said is None:
        return f"is no installer: it does not answer `version` within {ANSWER_SECONDS:.0f} s"
    if _RELEASE_IMAGE.search(said):
        return ""
    lines = shortened(said.decode(errors="replace"), 200).split("\n")
    shown = next((f", but {line.strip()!r}" for line in lines if line.strip()), "")
    return f"is no installer: its `version` says no release image{shown}"


def _version_output(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Read what a program says until it names a release image, ends or has said enough; None where it does none of
    these by then."""
    assert process.stdout is not None
    said = b""
    while len(said) < _MOST_SAID and not _RELEASE_IMAGE.search(said):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(process.stdout.fileno(), _MOST_SAID)
        if not chunk:
            break
        said += chunk
    return said


def from_image(store: Store, digest: str, folder: Path, source: str) -> Path | None:
    """Extract an image's openshift-install into `folder`, which is for this image; None where it does not run alone.

    The image's program may be a script that needs the rest of the image. Raises SubjectError when the image has no
    installer, one for another architecture, or one that does not answer.
    """
    target = folder / "openshift-install"
    if target.exists():
        return target
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="installer-", dir=folder.parent) as scratch:
        try:
            extracted = extract(layers(store, digest), PATH, Path(scratch))
        except IncompleteImage as error:
            raise SubjectError(source, f"the image is not whole: {error}") from error
        if not extracted:
            raise SubjectError(source, f"the image has no /{PATH}")
        machine = machine_of(_head(extracted[0]))
        if machine is None:
            return None
        if machine != "amd64":
            raise SubjectError(source, f"/{PATH} is an installer for {machine}, this machine is amd64")
        extracted[0].chmod(0o755)
        if why := _why_no_installer(extracted[0], 0, 0):
            raise SubjectError(source, f"/{PATH} {why}")
        folder.mkdir(exist_ok=True)
        extracted[0].replace(target)
    return target


def default_installer() -> list[str]:
    """Return node0 of the same environment, else the one in PATH."""
    beside = Path(sys.executable).with_name("node0")
    return [str(beside) if beside.exists() else shutil.which("node0") or "node0"]


def is_ours(installer: Sequence[str]) -> bool:
    """Return whether a command line is node0's, by its name: it needs none of lab.seam, and takes the release's
    limits."""
    return Path(installer[-1]).name.startswith("node0")
