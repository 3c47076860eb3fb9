"""Thawing a frozen process: if it is gone it is not frozen, and a host that cannot say is reported."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from lab.errors import LabError
from lab.faults import Freeze
from lab.faults.machines import Process


@pytest.fixture
def frozen() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        process.send_signal(signal.SIGSTOP)
        yield process
        process.kill()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Provide a host whose programs answer as they are written here."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')

    def make(**programs: str) -> Any:
        for name, script in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        for path in tmp_path.iterdir():
            path.chmod(0o755)

        def run(command: str) -> SimpleNamespace:
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20, check=False)
            return SimpleNamespace(rc=done.returncode, stdout=done.stdout, stderr=done.stderr)

        node = SimpleNamespace(name="master-0", ssh=lambda seconds: SimpleNamespace(run=run))
        return SimpleNamespace(nodes={"master-0": node})

    return make


@pytest.mark.parametrize("process", get_args(Process))
def test_a_frozen_process_goes_on(host, frozen, process):
    podman = f"case $1 in container) exit 0;; inspect) echo {frozen.pid};; esac"
    lab = host(podman=podman, systemctl=f"echo {frozen.pid}", pgrep=f"echo {frozen.pid}")
    Freeze("master-0", process).end(lab)
    # The kernel says so once the signal has come.
    assert os.waitid(os.P_PID, frozen.pid, os.WCONTINUED) is not None


@pytest.mark.parametrize("process", get_args(Process))
def test_one_that_is_gone_is_frozen_no_more(host, process):
    none = "exit 127"
    for podman in ("case $1 in container) exit 1;; *) exit 125;; esac", "[ $1 = container ] || echo 0", none):
        Freeze("master-0", process).end(host(podman=podman, systemctl="echo 0", pgrep="exit 1"))


@pytest.mark.parametrize("process", get_args(Process))
def test_a_host_that_cannot_say_is_told(host, process):
    broken = "echo cannot >&2; exit 125"
    with pytest.raises(LabError, match=r"^master-0: cannot"):
        Freeze("master-0", process).end(host(podman=broken, systemctl=broken, pgrep="echo cannot >&2; exit 2"))
