"""Pruning: what was used lately or belongs to the latest release stays, the rest goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from lab.release.image.layer import Compression, LayerWriter
from lab.release.image.oci import Image, Layout
from lab.release.prune import prune
from lab.release.stage.store import Store


def age(path: Path, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def filled(_store: Store, _inputs: object, out: Path) -> None:
    (out / "big").write_bytes(b"x" * 100_000)


def test_unused_stages_go_and_used_ones_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new, iso = (store.stage("s", {"n": name}, filled) for name in ("old", "fresh", "iso"))
    touched = store.stage("s", {"n": "touched"}, filled)
    for stage in (old, iso, touched):
        age(stage, 5)
    store.stage("s", {"n": "touched"}, filled)
    records = store.root / "releases"
    records.mkdir()
    latest = json.dumps({"machine_os_iso": str(iso / "x.iso"), "tags": []})
    for name, text in (("latest", latest), ("v2", latest), ("v1", json.dumps({"machine_os_iso": None, "tags": []}))):
        (records / f"{name}.json").write_text(text)
        age(records / f"{name}.json", 5)
    assert prune(store, 2) >= 100_000
    assert not old.exists()
    assert new.exists()
    assert iso.exists()
    assert touched.exists()
    assert sorted(path.name for path in records.iterdir()) == ["latest.json", "v2.json"]


def test_nothing_younger_than_an_hour_goes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stage = store.stage("s", {}, filled)
    age(stage, 0.5)
    prune(store, 0)
    assert stage.exists()


BUILDER = """
import sys
from pathlib import Path
from lab.release.stage.store import Store
work = Store(Path(sys.argv[1])).scratch("long")
(work / "root").mkdir()
print(work, flush=True)
sys.stdin.read()
"""


def test_the_directory_of_a_build_that_runs_stays_however_old_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as builder:
        assert builder.stdout is not None
        work = Path(builder.stdout.readline().strip())
        age(work, 5)
        prune(store, 2)
        assert (work / "root").is_dir()
        builder.kill()
    prune(store, 2)
    assert not work.exists()


def test_layout_loses_blobs_that_no_image_has(tmp_path: Path) -> None:
    store = Store(tmp_path)
    layers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        writer = LayerWriter()
        writer.add_bytes(name, name)
        layers.append(writer.finish(tmp_path / name, Compression.GZIP))
    layout = Layout(store.root / "oci")
    layout.write([Image("a", (layers[0],)), Image("b", (layers[1],))])
    layout.write([Image("a", (layers[0],))])
    prune(store, 1)
    assert len(list((layout.root / "blobs" / "sha256").iterdir())) == 3
