"""Layers of this repository's own Python: the packages themselves, the commands that start them, the zipapp."""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from lab.release.image.layer import Compression, Layer, LayerWriter
from lab.release.image.wheels import DIST_PACKAGES, compile_tree, require_python
from lab.release.stage.keys import File
from lab.release.stage.store import Store

CHECKOUT = Path(__file__).resolve().parents[3]

# The checkout's share of an image. lab and lab.release pull in the whole lab (libvirt and all), so in an image they are
# empty packages, which hold just the cluster's programs; these use the bottom room as well.
INSTALLER = ("installer",)
CLUSTER = ("installer/common", "lab/release/cluster")


def source_files(parts: tuple[str, ...], checkout: Path = CHECKOUT) -> dict[str, Path | None]:
    """Files of the given folders by their path in the checkout, tests and caches left out; None: an empty module."""
    files: dict[str, Path | None] = {}
    for part in parts:
        parents = part.split("/")[:-1]
        for depth in range(len(parents)):
            files["/".join([*parents[: depth + 1], "__init__.py"])] = None
        for path in sorted((checkout / part).rglob("*")):
            relative = path.relative_to(checkout)
            if path.is_file() and not {"tests", "testing", "__pycache__"} & set(relative.parts):
                files[relative.as_posix()] = path
    return files


@dataclass(frozen=True)
class CodeInputs:
    """Inputs of a layer or zipapp of ours: files by their path (None: an empty one), and the byte code's version.
    ``module`` is what a zipapp starts, ``python`` the interpreter that packs it."""

    files: Mapping[str, File | None]
    byte_code: str = MAGIC_NUMBER.hex()
    module: str = ""
    python: str = ""

    @classmethod
    def of(cls, parts: tuple[str, ...], module: str = "") -> CodeInputs:
        """Return the given folders of this checkout as they are now."""
        files = {name: None if path is None else File.of(path) for name, path in source_files(parts).items()}
        return cls(files, module=module, python=sys.version.split()[0] if module else "")


def _copy(files: Mapping[str, File | None], root: Path) -> None:
    for name, file in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if file is None:
            target.touch()
        else:
            shutil.copy(file.path, target)


def code_layer(store: Store, name: str, parts: tuple[str, ...]) -> Layer:
    """Return a layer with packages of this checkout, byte-compiled, where /usr/bin/python3 finds them."""
    require_python()
    return Layer.load(store.stage(name, CodeInputs.of(parts), _code_layer))


def _code_layer(store: Store, inputs: CodeInputs, out: Path) -> None:
    work = store.scratch("code")
    try:
        _copy(inputs.files, work)
        compile_tree(work, store, "compile-code")
        writer = LayerWriter()
        writer.add_tree(DIST_PACKAGES, work)
        writer.finish(out, Compression.GZIP)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def module_exists(module: str, checkout: Path = CHECKOUT) -> bool:
    """Return whether ``python -m module`` can be run from this checkout."""
    path = checkout / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def launcher(module: str) -> str:
    """Return a command that runs a Python module; ``-P`` keeps the caller's directory out of the import path."""
    return f'#!/bin/sh\nexec /usr/bin/python3 -P -m {module} "$@"\n'


def zipapp(store: Store, module: str, parts: tuple[str, ...]) -> Path:
    """One executable file that runs ``module`` with any Python 3.11 that has the wheels: the same bytes every time.

    Sources and byte code both go in: zipimport takes the byte code, tracebacks show the sources.
    """
    require_python()
    return store.stage("zipapp", CodeInputs.of(parts, module), _zipapp) / "app"


def _zipapp(store: Store, inputs: CodeInputs, out: Path) -> None:
    work = store.scratch("zipapp")
    try:
        _copy(inputs.files, work)
        main = f"import runpy\n\nrunpy.run_module({inputs.module!r}, run_name='__main__', alter_sys=True)\n"
        (work / "__main__.py").write_text(main)
        compile_tree(work, store, "compile-zipapp", "/usr/bin/openshift-install")
        for cached in sorted(work.rglob("__pycache__/*.pyc")):
            # zipimport looks for byte code beside the source, not in __pycache__.
            cached.rename(cached.parent.parent / (cached.name.split(".", 1)[0] + ".pyc"))
        target = out / "app"
        # By env: on an administrator's machine, the Python that has the libraries is seldom the system's.
        target.write_bytes(b"#!/usr/bin/env python3\n" + _archive(work))
        target.chmod(0o755)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _archive(root: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(path.relative_to(root).as_posix(), (2026, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()
