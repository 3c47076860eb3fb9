"""Commands whose standard streams are closed or full, and those of somebody who may not."""

import os
import subprocess
import sys
import tempfile

import pytest

from lab import topology
from lab.commands import cli, deploy
from lab.host import records
from lab.layout import Layout

pytestmark = pytest.mark.slow


def run(redirection, *words, **environment):
    """Return a command by a shell with a redirection."""
    argv = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", *words]
    environment = {**os.environ, **environment}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("redirection", "words", "code"),
    [
        (">&-", ["lab.commands", "ls"], 0), (">&- <&- 2>&-", ["lab.commands", "ls"], 0),
        (">&- <&- 2>&-", ["installer", "version"], 0), (">&- <&- 2>&-", ["ci.informer.cli", "history"], 2),
        (">&- <&- 2>&-", ["lab.release", "--help"], 0),
    ],
)  # fmt: skip
def test_closed_streams_change_nothing(tmp_path, redirection, words, code):
    """A traceback's exit code would be 1."""
    done = run(redirection, *words, NODE0_STATE=str(tmp_path), NODE0_BUDGET=str(tmp_path / "budget"))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("program", "code", "unbuffered"),
    [
        ("lab.commands", 1, ""),
        ("lab.commands", 1, "1"),
        ("installer", 1, ""),
        ("ci.informer.cli", 2, ""),
        ("lab.release", 1, ""),
    ],
)
def test_output_that_cannot_be_written_is_one_line(program, code, unbuffered):
    done = run(">/dev/full", program, "--help", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == code
    assert done.stderr.endswith(": standard output: No space left on device\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["verdict", "p"]])
def test_a_full_stderr_does_not_make_a_verdict(tmp_path, words):
    """1 would be `rejected`."""
    done = run(">/dev/full 2>/dev/full", "ci.informer.cli", "--history", str(tmp_path / "none"), *words)
    assert done.returncode == 2


def test_a_lab_that_is_up_is_a_success_on_a_full_disk(tmp_path, monkeypatch, capsys):
    """Its name is told on stderr, since it stays."""

    class Up:
        """A lab that is up."""

        id, topology, nodes = "sno-1a2b", topology.sno(), {}
        layout = Layout(tmp_path, topology)

        def __init__(self, *_words, **_more):
            return

        def __enter__(self):
            return self

        def __exit__(self, *_error):
            return

        def check(self):
            return

    record = records.Record(id=Up.id, topology=Up.topology, owner=(1, 1), created=0, artifacts="")
    monkeypatch.setattr(cli, "Lab", Up)
    monkeypatch.setattr(records, "read", lambda _: record)
    with tempfile.TemporaryFile("w") as scratch, open("/dev/full", "w") as full:
        # What cannot be written is discarded by another file at the stream's number.
        os.dup2(full.fileno(), scratch.fileno())
        monkeypatch.setattr(sys, "stdout", scratch)
        assert cli.main(["up", "sno"]) == 0
    assert capsys.readouterr().err == "node0-lab: lab sno-1a2b is up; standard output: No space left on device\n"


@pytest.mark.parametrize("path", ["here", "."])
@pytest.mark.parametrize("name", ["NODE0_STATE", "NODE0_CACHE", "NODE0_BUDGET", "XDG_CACHE_HOME"])
def test_a_relative_path_in_the_environment_is_refused(tmp_path, monkeypatch, capsys, name, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, path)
    for words in (["ls"], ["up", "nosuch.yaml"]):
        assert cli.main(words) == 1
        assert capsys.readouterr().err == f"node0-lab: {name} is {path!r}: want an absolute path\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_who_may_not_is_told_who_may(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir(mode=0o700)
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "mine/state"))
    os.seteuid(65534)
    try:
        assert cli.main(["ls"]) == 1
    finally:
        os.seteuid(0)
    assert capsys.readouterr().err.endswith("\nnode0-lab: also, labs belong to root: run it as root\n")


def test_a_deployments_lines_come_through_a_pipe_at_once_and_its_reader_may_go(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        print("page")
        deploy._pass_on()
        assert os.read(reading, 99) == b"page\n"
        os.close(reading)
        print("console")
        deploy._pass_on()
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), writing)
