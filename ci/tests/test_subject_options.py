"""`pytest scenarios/ --release …`: what does not fit is one line, before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("--release=x", "'x' is no image"),
        ("--release-dir=/nonexistent", "no such directory"),
        ("--pull-secret=/nonexistent", "cannot be read"),
        ("--installer=/etc/passwd", "is not executable"),
    ],
)
def test_a_usage_error(option, rule):
    command = [sys.executable, "-m", "pytest", "scenarios/", "-k", "console_answers", "-p", "no:cacheprovider", option]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4
    assert f"ERROR: {option.replace('=', ' ')}: " in done.stderr
    assert rule in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
