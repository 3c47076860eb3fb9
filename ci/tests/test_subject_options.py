"""`pytest scenarios/ --release …`: what does not fit is one line, before anything starts."""

import pytest

from ci.tests.pytest_kit import pytest_scenarios


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("--release=x", "'x' is no image"),
        ("--release-dir=/nonexistent", "no such directory"),
        ("--pull-secret=/nonexistent", "cannot be read"),
        ("--ca=/dev/null", "it is not a regular file"),
        ("--installer=/etc/passwd", "is not executable"),
        ("--installer=/bin/ls", "is no installer: its `version` says no release image"),
    ],
)
def test_a_usage_error(option, rule):
    code, output = pytest_scenarios("-k", "console_answers", option)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {option.replace('=', ' ')}: " in output
    assert rule in output
    assert "Traceback" not in output
