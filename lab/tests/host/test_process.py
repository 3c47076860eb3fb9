"""Processes: known by pid and start, run with their output in a file, and ended with their whole group."""

import logging
import os
import signal
import sys

import pytest

from lab.errors import CommandTimeoutError
from lab.host.identity import alive, start_time, this_process
from lab.host.process import clean_environment, in_background, run_streaming
from lab.waiting import wait_until

SCRIPT = "trap '' TERM; sleep 600 & echo child $!; echo to-stderr >&2; wait; sleep 600"


def test_it_and_its_children_end_with_the_block(tmp_path):
    log = tmp_path / "log"
    with in_background(["bash", "-c", SCRIPT], log_file=log, env=clean_environment(), shown=["shown"]) as process:
        wait_until(lambda: "to-stderr" in log.read_text(), 10, "the command to write", log.read_text, poll=0.02)
        child = int(log.read_text().split("child ")[1].split()[0])
        began = start_time(child)
        assert began is not None
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL, "TERM is ignored, so it is killed"
    wait_until(lambda: not alive(child, began), 10, "the child to end")
    assert log.read_text().startswith("$ shown\n")


def test_one_that_has_ended_is_no_trouble(tmp_path):
    with in_background(["false"], log_file=tmp_path / "log", env=dict(os.environ)) as process:
        assert process.wait(10) == 1


def test_an_error_in_the_block_ends_it_too(tmp_path):
    with (
        pytest.raises(ValueError, match="of the block"),
        in_background(["sleep", "600"], log_file=tmp_path / "log", env=dict(os.environ)) as process,
    ):
        raise ValueError("of the block")
    assert process.returncode == -signal.SIGTERM


def test_a_process_is_known_by_pid_and_start():
    pid, started = this_process()
    assert alive(pid, started)
    assert not alive(pid, started + 1)
    assert start_time(2**22 + 1) is None


def run(tmp_path, code, timeout=30.0):
    env = dict(os.environ)
    return run_streaming([sys.executable, "-c", code], log_file=tmp_path / "log", timeout=timeout, env=env)


def test_streams_are_apart_in_the_result_and_together_in_the_file(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    completed = run(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (completed.returncode, completed.stdout, completed.stderr) == (3, "out\n", "err\n")
    text = (tmp_path / "log").read_text()
    assert "out\n" in text
    assert "err\n" in text
    assert "= exit 3 after" in text
    assert "out" in caplog.text


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\ntime.sleep(600)\n"
    )
    with pytest.raises(CommandTimeoutError, match=r"did not end within 5 s; its last lines:\n\d+") as caught:
        run(tmp_path, code, timeout=5)
    child = int(caught.value.tail)
    wait_until(lambda: not alive(child, start_time(child) or 0), 5, f"the end of {child}", poll=0.05)
