"""`node0 wait-for` against a cluster's API (waitfor_kit): what it says, and its exit codes."""

import base64
import json

import pytest

from installer.common.certificates import EARLY, authority
from installer.testing.waitfor_kit import DONE, Moment, config_map
from installer.tests.waitfor.test_install import READY_CLUSTER
from installer.upi.wait import wait
from installer.waitfor.settings import Settings

PROGRESSING = {path: answer for path, answer in DONE.items() if "bootstrap" not in path}


def test_bootstrap_complete(run):
    assert run([Moment(), Moment(kube=DONE)], by=wait) == 0
    lines = run.lines("INFO")
    assert lines[0].startswith("Waiting up to 20m0s (until ")
    assert "for the Kubernetes API at https://" in lines[0]
    assert lines[1] == "API 1 up"
    assert lines[2].startswith("Waiting up to 45m0s (until ")
    assert lines[2].endswith("for bootstrapping to complete...")
    assert lines[3] == "It is now safe to remove the bootstrap resources"
    assert lines[4].startswith("Time elapsed: ")


def test_no_api(run):
    assert run([Moment()], timeout=1, by=wait) == 5
    assert "did not answer within 1s" in run.lines("ERROR")[-1]
    assert "load balancer" in run.lines("ERROR")[-1]


def test_no_end_of_the_bootstrap(run):
    half = {**PROGRESSING, "/api/v1/namespaces/kube-system/configmaps/bootstrap": config_map(status="working")}
    assert run([Moment(kube=half)], timeout=1, by=wait) == 5
    assert "has status 'working'" in run.lines("ERROR")[-1]


def test_certificates_that_have_expired_are_told_first(run):
    old = base64.b64encode(authority("x", lifetime=-EARLY / 2).certificate.encode()).decode()
    files = [{"path": "/opt/ca.crt", "contents": {"source": f"data:;base64,{old}"}}]
    run.dir.mkdir()
    (run.dir / "bootstrap.ign").write_text(json.dumps({"storage": {"files": files}}))
    assert run([Moment()], timeout=1, by=wait) == 5
    assert "1 certificates of bootstrap.ign have expired" in run.lines("WARNING")[0]


def test_install_complete(run):
    assert run([Moment(kube=READY_CLUSTER)], target="install-complete", by=wait) == 0
    assert "Install complete!" in run.lines("INFO")


@pytest.mark.parametrize("target", ["bootstrap-complete", "install-complete"])
def test_no_state(tmp_path, caplog, target):
    assert wait(target, tmp_path, None, Settings()) == 1
    assert "run `create ignition-configs` first" in caplog.text
