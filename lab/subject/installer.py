"""Installers: a file or an image that the user names, or the one that a release brings."""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.errors import SubjectError
from lab.subject.contents import extract, layers
from lab.subject.stores import Store

#: Where a release's image `installer` has it (openshift/oc, pkg/cli/admin/release/extract_tools.go).
PATH = "usr/bin/openshift-install"
_ELF = b"\x7fELF"
_X86_64 = 62
# The interpreter in a script's first line. With Windows' line ends its name would end in \\r.
_SCRIPT = re.compile(rb"#![ \t]*([^ \t\n]+)")
# gabi/elf.h: e_machine
_MACHINES = {3: "386", 21: "ppc64", 22: "s390x", 40: "arm", 183: "arm64", 243: "riscv64"}


def machine_of(head: bytes) -> str | None:
    """What processor the first bytes of a program are for, in Go's words; None when it is no ELF file."""
    if head[:4] != _ELF or len(head) < 20:
        return None
    order = ">" if head[5] == 2 else "<"
    [number] = struct.unpack(f"{order}H", head[18:20])
    return "amd64" if number == _X86_64 else _MACHINES.get(number, f"machine {number}")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(256)


def checked(path: Path, source: str) -> Path:
    """The program, which this machine can run. Raises SubjectError, which begins with `source`."""
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
    return path


def from_image(store: Store, digest: str, folder: Path, source: str) -> Path | None:
    """Extract an image's openshift-install into `folder`, which is for this image; None where it does not run alone.

    The image's program may be a script that needs the rest of the image. Raises SubjectError when the image has no
    installer, or one for another architecture.
    """
    target = folder / "openshift-install"
    if target.exists():
        return target
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="installer-", dir=folder.parent) as scratch:
        extracted = extract(layers(store, digest), PATH, Path(scratch))
        if not extracted:
            raise SubjectError(source, f"the image has no /{PATH}")
        machine = machine_of(_head(extracted[0]))
        if machine is None:
            return None
        if machine != "amd64":
            raise SubjectError(source, f"/{PATH} is an installer for {machine}, this machine is amd64")
        extracted[0].chmod(0o755)
        folder.mkdir(exist_ok=True)
        extracted[0].replace(target)
    return target


def default_installer() -> list[str]:
    """node0 of the same environment, else the one in PATH."""
    beside = Path(sys.executable).with_name("node0")
    return [str(beside) if beside.exists() else shutil.which("node0") or "node0"]


def is_ours(installer: Sequence[str]) -> bool:
    """Whether a command line is node0's, by its name: it needs none of lab.seam, and takes the release's limits."""
    return Path(installer[-1]).name.startswith("node0")
