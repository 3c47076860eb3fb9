"""Labs whose supervisor was killed: nobody has noted their end, and their first process may be anybody's pid by now."""

import os
import time

import pytest

from lab import topology
from lab.commands import cli
from lab.host import records
from lab.host.paths import labs_dir


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """Provide the name of such a lab."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    monkeypatch.setattr(os, "execvp", lambda *argv: pytest.fail(f"run: {argv}"))
    gone = (1 << 30, 1)
    shape = topology.sno()
    record = records.Record(
        id="sno-1a2b",
        topology=shape,
        owner=gone,
        created=time.time(),
        artifacts="",
        supervisor=gone,
        init=os.getpid(),
        kept=True,
    )
    os.close(records.create(record))
    return record.id


@pytest.mark.parametrize("words", [["ssh", "master-0", "true"], ["exec", "true"], ["console", "master-0"]])
def test_nothing_is_run_in_it(ended, words, capsys):
    assert cli.main([words[0], "--lab", ended, *words[1:]]) == 1
    assert capsys.readouterr().err == f"node0-lab: lab {ended} has ended; `node0-lab gc` removes its remains\n"


def test_ls_tells_of_it_and_gc_removes_it(ended, capsys):
    assert cli.main(["ls"]) == 0
    assert f"{ended}  has ended unexpectedly; `node0-lab gc` removes its remains\n" in capsys.readouterr().out
    assert cli.main(["gc"]) == 0
    assert capsys.readouterr().out.endswith("1 dead lab(s) removed\n")
    assert not (labs_dir() / ended).exists()
