"""The Python packages that the containers' programs import, from wheels of the versions in ci/constraints.txt.

They lie in /usr/lib/python3/dist-packages, where plain /usr/bin/python3 finds them: the program that the service
extracts from the installer image is run by it without any environment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from lab.release.image.layer import Compression, LayerWriter
from lab.release.stage import progress
from lab.release.stage.errors import RecipeMismatch
from lab.release.stage.keys import Unkeyed
from lab.release.stage.store import Store

CONSTRAINTS = Path(__file__).resolve().parents[3] / "ci" / "constraints.txt"
DIST_PACKAGES = "usr/lib/python3/dist-packages"

# What installer/{rendezvous,agent,orchestrator,release} and lab/release/cluster import, by distribution name;
# verify.py proves it against the built images.
WHEELS = (
    "PyJWT",
    "PyYAML",
    "aiohttp",
    "bcrypt",
    "cryptography",
    "dnspython",
    "msgspec",
    "requests",
)

PYTHON = (3, 11)

_UNWANTED = re.compile(
    r"(^|/)(__pycache__|tests?|testing)(/|$)|\.(pyi|pxd|pyx|h|c)$|(^|/)bin/|\.dist-info/(RECORD|direct_url)"
)


def read_constraints(text: str) -> dict[str, str]:
    """Pinned versions by normalised name, from ``name==version`` lines; raises RecipeMismatch on anything else."""
    pins = {}
    for raw in text.splitlines():
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)", line)
        if match is None:
            raise RecipeMismatch(f"not a pin of the form name==version: {line!r}")
        pins[normalised(match[1])] = match[2]
    return pins


def normalised(name: str) -> str:
    """Return a distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Inputs:
    """Inputs of the layer of wheels: names, all pins (dependencies come from the same file) and the byte code's
    version; of the file with the pins, only the pins count."""

    wheels: tuple[str, ...]
    pins: Mapping[str, str]
    byte_code: str
    constraints: Unkeyed[Path]


def wheels(store: Store, constraints: Path = CONSTRAINTS, *, name: str = "wheels", more: tuple[str, ...] = ()) -> Path:
    """Stage with the layer of wheels; with `more` wheels it has a `name` of its own."""
    pins, names = read_constraints(constraints.read_text()), (*WHEELS, *more)
    absent = [wheel for wheel in names if normalised(wheel) not in pins]
    if absent:
        raise RecipeMismatch(f"{constraints.name} has no pin for {', '.join(absent)}")
    require_python()
    inputs = Inputs(names, pins, MAGIC_NUMBER.hex(), Unkeyed(constraints))
    return store.stage(name, inputs, _build)


def require_python() -> None:
    """Byte code and wheels are made by this interpreter for Debian's: raise RecipeMismatch unless both are 3.11."""
    if sys.version_info[:2] != PYTHON:
        raise RecipeMismatch(f"the images hold Python {PYTHON[0]}.{PYTHON[1]}, this is {sys.version.split()[0]}")


def compile_tree(root: Path, store: Store, label: str, prefix: str = f"/{DIST_PACKAGES}") -> None:
    """Byte-compile ``root`` in place, for any file dates, with paths as they are at run time, under ``prefix``.

    Without byte code every container would compile its imports at each start: seconds under software emulation.
    """
    argv = [sys.executable, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    argv += ["-s", str(root), "-p", prefix, str(root)]
    progress.run(argv, label=label, log=store.log(label))


def _build(store: Store, inputs: Inputs, out: Path) -> None:
    work = store.scratch("wheels")
    try:
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary", ":all:"]
        argv += ["--no-warn-script-location", "--root-user-action", "ignore", "--disable-pip-version-check"]
        argv += ["--constraint", str(inputs.constraints.value), "--target", str(work), *inputs.wheels]
        progress.run(argv, label="pip", log=store.log("pip"), env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"})
        for path in sorted(work.rglob("*")):
            if path.is_file() and _UNWANTED.search(path.relative_to(work).as_posix()):
                path.unlink()
        compile_tree(work, store, "compile-wheels")
        writer = LayerWriter()
        writer.add_tree(DIST_PACKAGES, work)
        writer.finish(out, Compression.ZSTD)
    finally:
        shutil.rmtree(work, ignore_errors=True)
