"""The live host's console after a service's end."""

import os
import subprocess
from importlib import resources
from pathlib import Path

import pytest

BIN = Path(str(resources.files("installer.ignition") / "data/bin"))


def the_service_ended(tmp_path: Path, how: str, state: str) -> str:
    """Return the console's lines on the service's end: systemd's words for it, and for the unit's state."""
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\nprintf '{state}'\n")
    (tmp_path / "systemctl").chmod(0o755)
    script = (BIN / "assisted-service.sh").read_text().replace("/usr/local/bin/", f"{BIN}/")
    result, code, status = how.split()
    env = {"SERVICE_RESULT": result, "EXIT_CODE": code, "EXIT_STATUS": status, "PATH_PREFIX": str(tmp_path)}
    env["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script, "bash", "--ended"], env=env, check=True, timeout=30)
    issue = tmp_path / "etc/issue.d/72-agent-service.issue"
    return issue.read_text() if issue.exists() else ""


def test_a_service_that_ends_by_itself_is_on_the_console(tmp_path):
    assert the_service_ended(tmp_path, "exit-code exited 134", "Job=0\\nNRestarts=2\\n") == (
        "assisted-service.service ended by itself (exited 134, restarts before: 2) and is started again."
        " See journalctl -u assisted-service.\n"
    )


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("success exited 0", "NRestarts=0\\n"),
        ("exit-code exited 125", "NRestarts=0\\n"),  # podman's own, of an image that it cannot have
        ("exit-code exited 143", "Job=812\\nNRestarts=0\\n"),  # stopped
    ],
)
def test_a_service_that_is_stopped_or_cannot_begin_has_not_ended_by_itself(tmp_path, how, state):
    assert the_service_ended(tmp_path, how, state) == ""
