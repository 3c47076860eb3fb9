"""The stage cache: finished stages appear whole, failed ones leave nothing, and commands that fail say why."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lab.release.stage import progress
from lab.release.stage.errors import CommandFailed, ToolMissing
from lab.release.stage.keys import Unkeyed, tree_digest
from lab.release.stage.store import STAGE_RECORD, Store, default_cache

# What these builders do besides building: no part of what they build.
BUILT: Unkeyed[list[Path]] = Unkeyed([])
STARTED, PROCEED = Unkeyed(threading.Event()), Unkeyed(threading.Event())


def build(_store: Store, _inputs: object, out: Path) -> None:
    BUILT.value.append(out)
    (out / "x").write_text("1")


def build_when_told(_store: Store, _inputs: object, out: Path) -> None:
    BUILT.value.append(out)
    STARTED.value.set()
    assert PROCEED.value.wait(10)


def fail(_store: Store, _inputs: object, out: Path) -> None:
    (out / "half").write_text("1")
    raise ValueError("broken")


def test_a_stage_is_built_once_and_again_for_other_inputs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    BUILT.value.clear()
    first = store.stage("s", {"a": "1"}, build)
    assert store.stage("s", {"a": "1"}, build) == first
    assert store.stage("s", {"a": "2"}, build) != first
    assert len(BUILT.value) == 2
    assert (first / STAGE_RECORD).is_file()
    assert list((store.root / "tmp").iterdir()) == []


def test_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="broken"):
        store.stage("s", {}, fail)
    assert list((store.root / "s").glob("*")) == []
    assert list((store.root / "tmp").iterdir()) == []


def test_two_builders_of_one_stage_build_it_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    BUILT.value.clear()
    threads = [threading.Thread(target=store.stage, args=("s", {}, build_when_told)) for _ in range(2)]
    threads[0].start()
    assert STARTED.value.wait(10)
    threads[1].start()
    PROCEED.value.set()
    for thread in threads:
        thread.join(10)
    assert len(BUILT.value) == 1


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NODE0_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "node0"
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own"


def test_tree_digest_sees_bytes_names_and_execute_bits(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    seen = {tree_digest([("f", path)]), tree_digest([("g", path)])}
    path.chmod(0o755)
    seen.add(tree_digest([("f", path)]))
    path.write_text("y")
    seen.add(tree_digest([("f", path)]))
    assert len(seen) == 4


def test_a_failing_command_shows_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(CommandFailed, match="exit code 3") as caught:
        progress.run(["sh", "-c", "echo one; echo two >&2; exit 3"], label="demo", log=log)
    assert caught.value.code == 3
    assert sorted(caught.value.tail.split()) == ["one", "two"]
    assert sorted(log.read_text().split()) == ["one", "two"]


def test_output_goes_to_a_file_when_asked(tmp_path: Path) -> None:
    progress.run(["echo", "x"], label="demo", log=tmp_path / "log", stdout=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "x\n"


def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(ToolMissing, match="apt-get install nothing-has-it"):
        progress.need("no-such-program-anywhere", "nothing-has-it")
