"""Phases of a run and what is written of them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.evidence.phases import Phases


def test_phases_are_written_as_they_go(tmp_path):
    phases = Phases(tmp_path / "a" / "phases.json")

    def entries():
        return [(e["name"], e["depth"], e["outcome"]) for e in json.loads((tmp_path / "a/phases.json").read_text())]

    def fail():
        with phases.phase("outer"):
            with phases.phase("inner"):
                assert entries() == [("outer", 0, "running"), ("inner", 1, "running")]
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert entries() == [("outer", 0, "failed"), ("inner", 1, "passed")]
    assert set(phases.seconds()) == {"outer", "inner"}


def test_threads_have_phases_at_the_same_time(tmp_path):
    phases = Phases(tmp_path / "phases.json")

    def work(name):
        for _ in range(10):
            with phases.phase(name), phases.phase(f"{name} within"):
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    entries = json.loads((tmp_path / "phases.json").read_text())
    assert len(entries) == 80
    assert {(entry["depth"], entry["name"].endswith("within")) for entry in entries} == {(0, False), (1, True)}
    assert {entry["outcome"] for entry in entries} == {"passed"}
