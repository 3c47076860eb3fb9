"""The live host's scripts and units as files: what bash, shellcheck and systemd say of them."""

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

BIN = Path(str(resources.files("installer.ignition") / "data/bin"))
UNITS = Path(str(resources.files("installer.ignition") / "data/systemd"))


@pytest.mark.parametrize("script", sorted(BIN.iterdir()), ids=lambda path: path.name)
def test_syntax(script):
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck():
    done = subprocess.run(["shellcheck", "-x", "-S", "warning", *BIN.iterdir()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_understood(tmp_path):
    """Every ExecStart of ours exists, and systemd knows every key."""
    for unit in UNITS.iterdir():
        text = unit.read_text()
        for line in text.splitlines():
            if "/usr/local/bin/" in line:
                name = line.partition("/usr/local/bin/")[2].split()[0]
                # agent-tui comes with the initrd, and its units ask whether it is there.
                assert (BIN / name).exists() or "ConditionPathExists=/usr/local/bin/agent-tui" in text, unit.name
        (tmp_path / unit.name).write_text(
            text.replace("/usr/local/bin/", "/bin/true #").replace("/usr/bin/podman", "/bin/true")
        )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())], capture_output=True, text=True
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line and "Unknown" in line]
    assert ours == []
