"""Phases of a run and what is written of them."""

import json

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
