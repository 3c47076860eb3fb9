"""`python -B -m ci.bytecode`: all checkouts share their bytecode, and its content decides whether it is valid.

Python looks for bytecode by the path of a module and, unless told otherwise, holds it valid by the module's time, so a
new checkout compiled everything again in each worker of its suites. Here the folder of a checkout below
PYTHONPYCACHEPREFIX becomes a link to one that all share, and each module there gets a file that is valid by the hash of
its source (PEP 552): Python keeps to that kind when it compiles the module again. What pytest rewrites is of that kind
anyway.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

_SHARED = ".checkout"
# Bytecode that Python checks against its source's hash at each import. This hash is no source's, so the first import
# compiles the module.
_KIND = importlib.util.MAGIC_NUMBER + (0b11).to_bytes(4, "little")
_NOTHING_YET = _KIND + bytes(8)


def _modules(root: Path) -> Iterator[Path]:
    """All modules of a checkout and of its environment."""
    for top in (*(init.parent for init in root.glob("*/__init__.py")), root / ".venv/lib"):
        for folder, _, names in os.walk(top, followlinks=True):
            yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _link(folder: Path, shared: Path) -> None:
    """Make `folder` a link to `shared`; what was there is bytecode too."""
    if folder.is_symlink():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(FileExistsError):  # another run in the same checkout was quicker
        folder.symlink_to(shared)


def share(root: Path) -> None:
    """Let a checkout share what is below sys.pycache_prefix, and no bytecode there be valid by its source's time."""
    if sys.pycache_prefix is None:
        sys.exit("error: PYTHONPYCACHEPREFIX is not set: bytecode would lie in the checkout")
    prefix = Path(sys.pycache_prefix)
    (prefix / _SHARED).mkdir(parents=True, exist_ok=True)
    _link(prefix / root.relative_to("/"), prefix / _SHARED)
    for module in _modules(root):
        kept = Path(importlib.util.cache_from_source(str(module)))
        try:
            with kept.open("rb") as file:
                by_hash = file.read(len(_KIND)) == _KIND
        except FileNotFoundError:
            kept.parent.mkdir(parents=True, exist_ok=True)
            by_hash = False
        if not by_hash:
            partial = kept.with_name(f"{kept.name}.{os.getpid()}")
            partial.write_bytes(_NOTHING_YET)
            partial.replace(kept)


if __name__ == "__main__":
    share(Path(__file__).resolve().parents[1])
