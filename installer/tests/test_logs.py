"""The log file must never be what fails a command."""

import io
import logging
from pathlib import Path

import pytest

from installer import logs


def test_a_log_on_a_full_disk_prints_no_traceback(tmp_path, capsys):
    if not Path("/dev/full").exists():
        pytest.fail("this system has no /dev/full")
    (tmp_path / ".openshift_install.log").symlink_to("/dev/full")
    screen = io.StringIO()
    logs.set_up("info", tmp_path, screen)
    try:
        logging.getLogger("installer.x").error("what happened")
    finally:
        logs.set_up("info", None, io.StringIO())
    assert "what happened" in screen.getvalue()
    assert "Logging error" not in capsys.readouterr().err
