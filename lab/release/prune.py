"""Frees disk space: removes stages, images and releases that have not been used for a while.

Every change of the machine OS leaves about 1.5 GB behind. Use is known by date: a build touches each stage that it
uses, and a release's age counts from when it was last built.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from lab.release.build import LATEST, RECORDS, STORAGE
from lab.release.registry import RegistryConfig, tags_folder
from lab.release.stage import progress
from lab.release.stage.store import STAGE_RECORD, Store, abandoned

# A build that runs now may hold paths of stages that it found a few minutes ago.
MINIMUM_HOURS = 1.0


def prune(store: Store, hours: float) -> int:
    """Remove what was not used for ``hours`` (at least one); returns the bytes that the cache shrank by.

    The latest release always stays whole. Labs that serve the storage meanwhile keep their releases as long as those
    are younger.
    """
    limit = time.time() - max(hours, MINIMUM_HOURS) * 3600
    before = _size(store.root)
    with store.hold("release"):
        kept = _releases(store, limit)
        _stages(store, limit, kept)
        _layout(store.root / "oci")
        if (store.root / STORAGE).is_dir():
            _registry(store, kept)
        for folder in ("tmp", "logs"):
            for path in (store.root / folder).glob("*"):
                # A long build writes far below its directory, whose own date stays that of its beginning.
                if path.lstat().st_mtime < limit and abandoned(path):
                    _remove(path)
    return before - _size(store.root)


def _releases(store: Store, limit: float) -> list[dict[str, object]]:
    """Forget old releases; the records of those that stay."""
    folder = store.root / RECORDS
    latest = folder / LATEST
    kept = []
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        is_latest = latest.is_file() and path.read_text() == latest.read_text()
        if is_latest or path.stat().st_mtime >= limit:
            kept.append(record)
        else:
            path.unlink()
    return kept


def _stages(store: Store, limit: float, kept: list[dict[str, object]]) -> None:
    needed = {Path(str(record["machine_os_iso"])).parent for record in kept if record.get("machine_os_iso")}
    for record in store.root.glob(f"*/*/{STAGE_RECORD}"):
        stage = record.parent
        if stage.stat().st_mtime >= limit or stage in needed:
            continue
        # Out of the way by one rename first: a stage is whole or not there.
        doomed = store.scratch("pruned")
        stage.rename(doomed / stage.name)
        _remove(doomed)


def _layout(layout: Path) -> None:
    """Remove blobs that no image of the index has."""
    if not (layout / "index.json").is_file():
        return
    blobs = layout / "blobs" / "sha256"
    used = set()
    for entry in json.loads((layout / "index.json").read_text())["manifests"]:
        digest = entry["digest"].removeprefix("sha256:")
        manifest = json.loads((blobs / digest).read_text())
        parts = [manifest["config"], *manifest["layers"]]
        used |= {digest, *(part["digest"].removeprefix("sha256:") for part in parts)}
    for path in blobs.iterdir():
        if path.name not in used:
            path.unlink()


def _registry(store: Store, kept: list[dict[str, object]]) -> None:
    """Drop the tags of forgotten releases, then have docker-registry collect what no tag names."""
    storage = store.root / STORAGE
    tags: set[str] = set()
    for record in kept:
        pushed = record.get("tags")
        if not isinstance(pushed, list):
            return  # a record of before tags were kept: not knowing what it needs, keep everything
        tags |= set(pushed)
    folder = tags_folder(storage)
    doomed = [path for path in folder.iterdir() if path.name not in tags]
    if not doomed:
        return
    for path in doomed:
        _remove(path)
    work = store.scratch("registry")
    try:
        config = work / "registry.yaml"
        RegistryConfig(storage, "127.0.0.1:0", readonly=False, log_level="error").write(config)
        program = progress.need("docker-registry", "docker-registry")
        argv = [program, "garbage-collect", "--delete-untagged=true", str(config)]
        progress.run(argv, label="registry garbage-collect", log=store.log("registry-gc"))
    finally:
        _remove(work)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _size(root: Path) -> int:
    """Bytes on disk below ``root``; a file with several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                status = Path(folder, name).lstat()
            except FileNotFoundError:
                continue
            seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
