"""A command that runs in the background: it writes into its file, and its whole group ends with the block."""

import os
import signal

import pytest

from lab.host.identity import alive, start_time
from lab.host.process import clean_environment, in_background
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
