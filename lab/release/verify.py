"""Checks that the images can run: each is unpacked as podman would, and its programs are started in a chroot.

This finds what the build cannot see: shared libraries that a package layer left out, wheels that the code imports and
the image lacks, a zipapp that reads files beside its source. Needs root; takes a few seconds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.release.components import COMPONENTS, INSTALLER_TAG, VERSION_OPERATOR, Component
from lab.release.image.layer import Compression
from lab.release.image.oci import REF_ANNOTATION
from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store

CHROOT_SECONDS = 60.0
# Imports a module; of a package, every module in it but the one that would start it.
_IMPORT = """
import importlib, pkgutil, sys
name = sys.argv[1]
module = importlib.import_module(name)
for found in pkgutil.walk_packages(getattr(module, "__path__", []), name + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""


def image_layers(layout: Path, tag: str) -> list[tuple[str, Path]]:
    """(media type, blob) of an image of an OCI layout, from the bottom up; raises ReleaseError without that tag."""

    def blob(digest: str) -> Path:
        return layout / "blobs" / digest.replace(":", "/")

    index = json.loads((layout / "index.json").read_text())
    for entry in index["manifests"]:
        if entry["annotations"].get(REF_ANNOTATION) == tag:
            manifest = json.loads(blob(entry["digest"]).read_text())
            return [(layer["mediaType"], blob(layer["digest"])) for layer in manifest["layers"]]
    raise ReleaseError(f"no image {tag!r} in {layout}")


@contextmanager
def unpacked(store: Store, tag: str) -> Iterator[Path]:
    """Provide an image's root file system, in a scratch directory for the time of the block."""
    root = store.scratch(f"root-{tag}")
    try:
        for media_type, blob in image_layers(store.root / "oci", tag):
            program = "zstd" if media_type == Compression.ZSTD.media_type else "gzip"
            log = store.log(f"unpack-{tag}")
            argv = ["tar", f"--use-compress-program={program} -d", "-x", "-f", str(blob), "-C", str(root)]
            progress.run(argv, label=f"unpack {tag}", log=log)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def in_chroot(root: Path, *argv: str) -> tuple[int, str]:
    """Exit code and output of a command in a root file system."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    try:
        completed = subprocess.run(
            [progress.need("chroot", "coreutils"), str(root), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            timeout=CHROOT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]} did not end within {CHROOT_SECONDS:g} s"  # timeout(1)'s code
    return completed.returncode, completed.stdout.strip()


def verify_images(store: Store) -> list[str]:
    """Problems found in the images of the layout, one line each; empty when all of them can run."""
    problems = []
    for component in (*COMPONENTS, VERSION_OPERATOR):
        with unpacked(store, component.tag) as root:
            problems += [f"{component.tag}: {problem}" for problem in _problems(component, root)]
    with unpacked(store, INSTALLER_TAG) as root:
        code, output = in_chroot(root, "/usr/bin/openshift-install", "--help")
        if code:
            problems.append(f"{INSTALLER_TAG}: openshift-install --help ended with {code}: {output[-300:]}")
    return problems


def _problems(component: Component, root: Path) -> Iterator[str]:
    for module in component.commands.values():
        code, output = in_chroot(root, "/usr/bin/python3", "-P", "-c", _IMPORT, module)
        if code:
            yield f"module {module} cannot be imported: {output[-300:]}"
    for path in [*component.commands, *component.programs, *(f"usr/bin/{name}" for name in component.binaries)]:
        if not (root / path).stat().st_mode & 0o111:
            yield f"/{path} cannot be executed"
    for program in _programs(component, root):
        _, output = in_chroot(root, "/usr/bin/ldd", program)
        lost = [line.strip() for line in output.splitlines() if "not found" in line]
        if lost:
            yield f"{program} lacks libraries: {'; '.join(lost)}"


def _programs(component: Component, root: Path) -> list[str]:
    """Programs of the image's packages that the entry point or our code starts."""
    named = {words[0] for words in (component.entrypoint, component.cmd) if words}
    named |= {f"/usr/bin/{package}" for package in ("skopeo", "zstd", "etcdctl") if component.packages}
    return sorted(path for path in named if (root / path.lstrip("/")).is_file())
