"""A stage of the gate that runs beside another: both are shown, and neither outlives the gate."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from ci import gate
from ci.gate import Stage, passed
from lab.waiting import wait_until


def _python(code, name):
    return Stage(name, [sys.executable, "-c", code], 60.0)


def test_a_stage_beside_another_runs_with_it_and_is_shown_after_it(tmp_path, capfd):
    """Each waits for a file of the other's."""
    wait = "import time, pathlib\npathlib.Path({!r}).touch()\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)\n"
    left, right = str(tmp_path / "one"), str(tmp_path / "two")
    first = _python(wait.format(left, right) + "print('says one')", "one")
    second = replace(_python(wait.format(right, left) + "print('says two')\nraise SystemExit(3)", "two"), beside=True)
    assert not passed([first, second, _python("pass", "three")])
    captured = capfd.readouterr()
    assert "says one" in captured.out
    said = captured.err
    assert said.index("beside it: two") < said.index("says two") < said.index("stage 3: three")
    ends = re.findall(r"\[gate\]   (passed|failed) .*  (\w+)$", said, re.MULTILINE)
    assert ends == [("passed", "one"), ("failed", "two"), ("passed", "three"), ("failed", "all")]


def test_what_fails_beside_another_stage_is_tried_again(tmp_path, monkeypatch, capfd):
    body = "import pathlib\ndef test_flaky():\n    seen = pathlib.Path('seen')\n    before = seen.exists()\n"
    (tmp_path / "test_it.py").write_text(body + "    seen.touch()\n    assert before\n")
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--rootdir", str(tmp_path), "test_it.py"]
    stage = Stage("suite", argv, 60.0, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, retried=2)
    assert passed([_python("pass", "one"), replace(stage, beside=True)])
    assert "flake: test_it.py::test_flaky" in capfd.readouterr().err


def test_a_stage_beside_another_ends_in_its_own_time_and_with_the_gate(tmp_path, capfd):
    sleeper = replace(_python("import time\ntime.sleep(300)", "two"), beside=True, limit=0.5)
    assert not passed([_python("pass", "one"), sleeper])
    assert re.search(r"late .* two$", capfd.readouterr().err, re.MULTILINE)
    mark = tmp_path / "pid"
    tells = f"import os, pathlib, time\npathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(300)"

    def broken(stage):
        wait_until(lambda: mark.exists() and mark.read_text(), 30, "the other stage")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        passed([_python("pass", "one"), replace(_python(tells, "two"), beside=True)], broken)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_signal_while_the_stage_beside_starts_leaves_nothing_of_it(monkeypatch):
    started = []

    def signalled(*words, start=subprocess.Popen, **more):
        started.append(start(*words, **more))
        gate.ending(15, None)
        return started[0]

    monkeypatch.setattr(gate, "ending", gate.Ending())
    monkeypatch.setattr(subprocess, "Popen", signalled)
    with pytest.raises(SystemExit):
        passed([_python("pass", "one"), replace(_python("import time\ntime.sleep(300)", "two"), beside=True)])
    assert started[0].poll() is not None
