"""`pytest -p ci.cputime`: processor time by module, from workers too."""

import re
import subprocess
import sys

from ci.citations import ROOT

BUSY = """
import os, subprocess, sys, time
def test_it():
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
def test_a_process_of_its_own():
    subprocess.run([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.2: pass"], check=True)
"""


def test_the_busy_module_comes_first(tmp_path):
    (tmp_path / "test_quick.py").write_text("def test_it(): pass\n")
    (tmp_path / "test_busy.py").write_text(BUSY)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "ci.cputime", "-n", "1", "--rootdir", "."]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    completed = subprocess.run(
        [*command, "."], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    rows = re.findall(r"^ +([\d.]+) s  (\S+)$", completed.stdout, re.MULTILINE)
    assert [name for _, name in rows] == ["test_busy.py", "test_quick.py"]
    assert float(rows[0][0]) >= 0.3
