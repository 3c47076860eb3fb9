"""Ctrl-C while the command is still being loaded."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Run where the command is: a Ctrl-C comes when a module is about to be loaded.
CODE = """
import importlib, os, signal, sys

wanted, script = sys.argv[1:]
sys.argv[1:] = ["ls"]

class Interrupted:
    def find_spec(self, name, *_):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
module, function = script.split(":")
sys.exit(getattr(importlib.import_module(module), function)())
"""


@pytest.mark.parametrize("module", ["lab.commands.cli", "lab.lab", "msgspec"])
def test_ctrl_c_while_it_is_loaded_is_no_traceback(module, tmp_path):
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["node0-lab"]
    argv = [sys.executable, "-c", CODE, module, script]
    environment = {"PYTHONPATH": str(ROOT), "NODE0_STATE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix or ""
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
