"""The stage cache: finished stages appear whole, failed ones leave nothing, and commands that fail say why."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lab.release import progress
from lab.release.errors import CommandFailed, ToolMissing
from lab.release.store import STAGE_RECORD, Store, default_cache, digest_of, tree_digest


def test_a_stage_is_built_once_and_again_for_other_inputs(tmp_path: Path) -> None:
    store, built = Store(tmp_path), []

    def build(out: Path) -> None:
        built.append(out)
        (out / "x").write_text("1")

    first = store.stage("s", {"a": "1"}, build)
    assert store.stage("s", {"a": "1"}, build) == first
    assert store.stage("s", {"a": "2"}, build) != first
    assert len(built) == 2
    assert (first / STAGE_RECORD).is_file()
    assert list((store.root / "tmp").iterdir()) == []


def test_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail(out: Path) -> None:
        (out / "half").write_text("1")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        store.stage("s", {}, fail)
    assert not store.path("s", digest_of({})).exists()
    assert list((store.root / "tmp").iterdir()) == []


def test_two_builders_of_one_stage_build_it_once(tmp_path: Path) -> None:
    store, count = Store(tmp_path), []
    started, proceed = threading.Event(), threading.Event()

    def build(out: Path) -> None:
        count.append(1)
        started.set()
        assert proceed.wait(10)

    threads = [threading.Thread(target=store.stage, args=("s", {}, build)) for _ in range(2)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    proceed.set()
    for thread in threads:
        thread.join(10)
    assert count == [1]


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
