"""The machine OS is known by what it is made from, wherever the checkout lies."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("lab", "drivers")
# Asks for the machine OS as the release's build does, and says by which keys it would be built.
ASK = """
import json, os, sys
from pathlib import Path
from lab.release.os import build
from lab.release.stage.keys import stage_key
from lab.release.stage.store import Store

keys = {}

def stage(self, name, inputs, make):
    keys[name] = stage_key(inputs, make)
    if name == "os":
        print(json.dumps(keys))
        sys.exit()
    return Path("/nowhere") / name / "0"

Store.stage = stage
os.geteuid = lambda: 0
build.build_machine_os(Path(sys.argv[1]), {"/usr/bin/kubelet": Path("/bin/true")})
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all: the processor's rate is measured once."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "release").mkdir()
    return cache


def keys_of(checkout, cache):
    env = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-c", ASK, str(cache)]
    completed = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


def copy(folder):
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    return folder


def test_two_checkouts_make_the_same_machine_os(tmp_path, cache):
    first, two = copy(tmp_path / "one"), copy(tmp_path / "another/place")
    keys = keys_of(first, cache)
    assert set(keys) == {"os-rootfs", "os"}
    (tmp_path / "link").symlink_to(two)
    assert keys_of(tmp_path / "link", cache) == keys
    program = two / "lab/release/os/coreos_installer.py"
    program.write_text(program.read_text() + "# another one\n")
    assert keys_of(two, cache)["os"] != keys["os"]
