"""A run that is ended early, over a script in the place of ginkgo, in the namespaces of this test."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.conformance import running
from lab.conformance.errors import ConformanceError
from lab.conformance.suite import Plan, Programs

GINKGO = """#!/bin/sh
# Its processes clean up upon TERM, after the process that leads the group is gone.
trap 'sleep 0.3; touch cleaned; exit 1' TERM
echo '[1] Starting e2e run "f5a42917-865f-4dfd-ab75-75e255bd23de" on Ginkgo node 1'
echo '[1] {"msg":"PASSED a"}'
while :; do sleep 0.05; done
"""
#: Its cluster settles at the second look.
KUBECTL = """#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
get)
    progressing=$(test -e looked && echo False || echo True)
    touch looked
    conditions='[{"type":"Available","status":"True"},{"type":"Progressing","status":"'$progressing'"}]'
    echo '{"items":[{"metadata":{"name":"etcd"},"status":{"conditions":'$conditions'}}]}' ;;
delete) echo "$@" > deleted ;;
esac
"""


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(tmp_path: Path, minutes: float, tell: running.Tell) -> running.Ran:
    lab: Any = SimpleNamespace(
        id="first", init=os.getpid(),
        layout=SimpleNamespace(registry="r:5000"), topology=SimpleNamespace(nodes=["master-0"]),
    )  # fmt: skip
    programs = Programs(Path("e2e.test"), program(tmp_path, "ginkgo", GINKGO), program(tmp_path, "kubectl", KUBECTL))
    cluster = running.Cluster(lab, tmp_path / "kubeconfig")
    return running.run(programs, cluster, Plan(("a", "b"), {}), folder=tmp_path / "run", minutes=minutes, tell=tell)


def test_a_run_that_is_ended_early_cleans_up_and_keeps_its_results(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 1, lambda line: "passed a" in line and signal.raise_signal(signal.SIGINT))
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "run/junit.xml").iter("testcase")}
    assert cases["a"].find("error") is None
    assert "interrupted after 1 of 2 specs" in str(cases["b"].find("error").get("message"))
    assert (tmp_path / "run/cleaned").exists()
    assert "e2e-run in (f5a42917-865f-4dfd-ab75-75e255bd23de)" in (tmp_path / "deleted").read_text()


def test_a_run_begins_when_the_cluster_has_settled_and_cleans_up_when_its_time_is_over(tmp_path: Path) -> None:
    lines: list[str] = []
    ran = run(tmp_path, 0.02, lines.append)
    assert [line.rpartition(" ")[2] for line in lines[:2]] == ["etcd", "time"]
    assert [result.outcome for result in ran.results] == ["passed", "not run"]
    assert (tmp_path / "run/cleaned").exists()


def test_a_lab_takes_one_run_at_a_time_and_says_whose(tmp_path: Path) -> None:
    first = "import sys, pathlib; from lab.conformance.running import alone\n"
    first += "with alone(pathlib.Path(sys.argv[1]), pathlib.Path('/first')): print('has it', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", first, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "has it\n"
        refused = pytest.raises(ConformanceError, match=f"process {other.pid}, since .*, results go to /first")
        with refused, running.alone(tmp_path, Path("/second")):
            pass
        other.kill()
    with running.alone(tmp_path, Path("/second")):
        pass
