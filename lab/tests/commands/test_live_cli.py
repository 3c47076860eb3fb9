"""`node0-lab` by hand, on real labs whose machines run a CD of one sector at most; needs root and the daemons."""

import contextlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab import topology
from lab.commands import cli
from lab.errors import UnknownLabError
from lab.host.records import all_labs
from lab.host.records import read as read_record
from lab.inputs.configs import Access, write_configs
from lab.subject import Mirror, Subject
from lab.testing.live import skip_without_labs, small

pytestmark = [pytest.mark.lab, skip_without_labs()]
ENV = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[3])}
PULLSPEC = "release.node0.example/node0/lab-release@sha256:0"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
OWN = Access('{"auths": {"quay.io": {"auth": "eDp5"}}}', "", KEY, (("own.source/x", "own.mirror/x"),))
# An installer that writes down what it was given, and makes the image that lies beside it.
INSTALLER = """#!/bin/sh
[ "$1" != version ] || { echo "release image registry.example/release:1"; exit; }
here=$(dirname "$0")
echo "$@ RELEASE=$OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE" >> "$here/calls"
while [ "$1" != --dir ]; do words="$words $1"; shift; done
case "$words" in
  " agent create image")
    cat "$2/install-config.yaml" "$2/agent-config.yaml" > "$here/given"
    cp "$here/tiny.iso" "$2/agent.x86_64.iso"; mkdir "$2/auth"; touch "$2/auth/kubeconfig"
    getent hosts registry.test.node0.example >> "$here/calls" ;;
  *bootstrap-complete)
    if [ -e "$here/kill" ]; then kill -KILL "$(pidof docker-registry)"; sleep 600; fi
    [ ! -e "$here/fail" ] || { echo "level=error msg=no bootstrap" >&2; exit 5; } ;;
esac
"""


@dataclass(frozen=True)
class Completed:
    """A command's exit code and output."""

    returncode: int
    stdout: str
    stderr: str


def node0_lab(*words, check=True):
    """`node0-lab WORDS`; in this process, unless it is to become another program."""
    if words[0] in ("exec", "ssh"):
        argv = [sys.executable, "-m", "lab.commands.cli", *words]
        completed = subprocess.run(argv, capture_output=True, text=True, check=check, env=ENV, timeout=300)
        return Completed(completed.returncode, completed.stdout, completed.stderr)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*words])
    assert code == 0 or not check, err.getvalue()
    return Completed(code, out.getvalue(), err.getvalue())


@pytest.fixture
def cluster(tmp_path, tiny_iso, monkeypatch):
    """Provide a user's directory and installer; the lab release is an empty one."""
    shutil.copy(tiny_iso, tmp_path / "tiny.iso")
    installer = tmp_path / "installer"
    installer.write_text(INSTALLER)
    installer.chmod(0o755)
    write_configs(tmp_path / "mine", topology.sno(firmware="bios"), OWN)
    subject = Subject("1", PULLSPEC, tmp_path / "storage", (Mirror(PULLSPEC.partition("@")[0], "node0/lab-release"),))
    monkeypatch.setattr("lab.subject.options.built_lab_release", lambda: subject)
    # Nothing in that machine will ever answer.
    monkeypatch.setattr("lab.evidence.bundle.SSH_SECONDS", 0.0)
    (tmp_path / "storage").mkdir()
    return tmp_path


def deploy(cluster, *options):
    words = ["deploy", str(cluster / "mine"), "--installer", str(cluster / "installer"), "--firmware", "bios"]
    return cli.main([*words, "--memory", "256", "--artifacts", str(cluster / "artifacts"), *options])


def lab_of(text):
    return re.search(r"node0-lab down --lab (\S+)", text)[1]


def test_deploy_installs_a_users_cluster_and_says_how_to_go_on(cluster, capfd):
    before = {p: p.read_bytes() for p in (cluster / "mine").iterdir()}
    assert deploy(cluster) == 0
    output = capfd.readouterr().out
    lab = lab_of(output)
    try:
        calls = (cluster / "calls").read_text().splitlines()
        assert [re.sub(" --dir.*", "", c) for c in calls if c.startswith("agent")] == [
            "agent create image",
            "agent wait-for bootstrap-complete",
            "agent wait-for install-complete --skip-password-print",
        ]
        assert all("RELEASE=release.node0.example/node0/lab-release@sha256:0" in c for c in calls if "agent" in c)
        assert any(c.startswith("192.168.111.1 ") for c in calls), "the installer did not see the lab's names"
        recorded = (cluster / "given").read_text()
        for own, labs in (("own.source", "release.node0.example"), ("quay.io", "CERTIFICATE"), (KEY, "ecdsa-sha2")):
            assert own in recorded
            assert labs in recorded
        assert {p: p.read_bytes() for p in (cluster / "mine").iterdir()} == before, "the user's directory was changed"
        copied = read_record(lab).root / "cluster/install-config.yaml"
        assert stat.S_IMODE(copied.stat().st_mode) == 0o600
        assert "https://console-openshift-console.apps.ostest.test.node0.example" in output
        assert "hello from the CD" in node0_lab("console", "--log", "--lab", lab, "master-0").stdout
        phases = json.loads((cluster / "artifacts/phases.json").read_text())
        assert {p["name"]: p["outcome"] for p in phases}["wait-for install-complete"] == "passed"
    finally:
        node0_lab("down", "--lab", lab)
    with pytest.raises(UnknownLabError):
        read_record(lab)


def test_deploy_as_json_is_one_document(cluster, capfd):
    assert deploy(cluster, "--lab-keep", "never", "-o", "json") == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["installed"], told["kept"], told["cluster"]["state"]) == (True, False, "installed")
    assert set(told["cluster"]) == {"state"}, "places of a lab that is gone"
    assert [machine["name"] for machine in told["machines"]] == ["master-0"]
    assert "install-config.yaml: additionalTrustBundle: none → 1 certificate" in told["adapted"]
    assert "machines: 256 → 16384 MiB of memory (master-0): less is refused by the release's service" in told["notes"]
    (cluster / "fail").touch()
    assert deploy(cluster, "--lab-keep", "never", "-o", "json") == 1
    assert json.loads(capfd.readouterr().out)["installed"] is False


def test_deploy_of_a_failed_installation_tells_and_ends_the_lab_when_asked_to(cluster, capfd):
    (cluster / "fail").touch()
    assert deploy(cluster, "--lab-keep", "never") == 1
    output = capfd.readouterr().err
    assert "agent wait-for bootstrap-complete ended with 5" in output
    assert "level=error msg=no bootstrap" in output
    assert "Traceback" not in output
    assert [record.id for record in all_labs() if record.owner[0] == os.getpid()] == []


def test_deploy_in_a_lab_whose_registry_ends_waits_for_nothing_and_blames_the_lab(cluster, capfd, caplog):
    (cluster / "kill").touch()
    assert deploy(cluster, "--lab-keep", "never") == 1
    stderr = capfd.readouterr().err
    # In a terminal the log is what is shown; under pytest it is pytest's.
    assert re.search(r"^\[\d\d:\d\d\] lab ostest-\w+: registry was killed by SIGKILL at ", caplog.text, re.M)
    assert re.search(r"^node0-lab: lab ostest-\w+ itself failed: registry was killed by SIGKILL at ", stderr, re.M), (
        stderr
    )
    assert "registry was killed" in (cluster / "artifacts/lab-failed.txt").read_text()
    assert "The lab itself failed" in (cluster / "artifacts/index.html").read_text()
    assert [record.id for record in all_labs() if record.owner[0] == os.getpid()] == []


def test_deploy_of_what_a_lab_cannot_be_is_one_line(cluster, capfd):
    path = cluster / "mine/install-config.yaml"
    config = yaml.safe_load(path.read_text())
    control_plane = {**config["controlPlane"], "architecture": "arm64"}
    compute = [{**config["compute"][0], "architecture": "arm64"}]
    path.write_text(yaml.safe_dump({**config, "controlPlane": control_plane, "compute": compute}))
    assert deploy(cluster) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line == "node0-lab: install-config.yaml: architecture: the lab's machines are amd64, not arm64"


def test_a_plan_is_a_topology_file_and_starts_nothing(cluster, capfd):
    words = ["deploy", str(cluster / "mine"), "--plan", "--firmware", "bios", "--memory", "256", "--vcpu", "5"]
    assert cli.main([*words, "--machines", "container", "--set", "nodes[0].vcpu=3"]) == 0
    shape = topology.load_text(capfd.readouterr().out)
    assert (shape.machine, shape.cluster_domain) == ("container", "ostest.test.node0.example")
    assert [(node.vcpu, node.memory_mib, node.firmware) for node in shape.nodes] == [(3, 256, "bios")]
    assert not (cluster / "calls").exists()


def test_up_ls_console_shot_exec_down(tmp_path):
    shape = tmp_path / "mine.yaml"
    shape.write_text(small(topology.sno(firmware="bios")).dump())
    output = node0_lab("up", str(shape), "--artifacts", str(tmp_path / "artifacts")).stdout
    lab = lab_of(output)
    try:
        listed = node0_lab("ls").stdout
        assert re.search(rf"^{lab} .*kept$", listed, re.M), listed
        assert node0_lab("exec", "--lab", lab, "--", "getent", "hosts", "ntp.test.node0.example").stdout.split()[0]
        assert node0_lab("console", "--log", "--lab", lab, "master-0").stdout == ""
        for words, message in (
            (("shot", "--lab", lab, "master-0", str(tmp_path / "x.png")), "master-0 is off"),
            (("console", "--lab", lab, "master-0"), "master-0 is off"),
            (("ssh", "--lab", lab, "master-0", "true"), "master-0 is off"),
            (("ssh", "--lab", lab, "master-9", "true"), "no node 'master-9' in this lab; it has master-0"),
            (("ssh", "master-9", "--lab", lab, "--", "true"), "no node 'master-9' in this lab; it has master-0"),
            (("console", "--lab", lab, "master-9"), "no node 'master-9'"),
            (("down", "--lab", "nobody-0"), "no lab 'nobody-0' here"),
        ):
            failed = node0_lab(*words, check=False)
            assert (failed.returncode, failed.stdout) == (1, ""), words
            assert message in failed.stderr
            assert len(failed.stderr.splitlines()) == 1, failed.stderr
        node0_lab("collect", "--lab", lab, str(tmp_path / "evidence"))
        assert (tmp_path / "evidence/libvirt/master-0.inactive.xml").exists()
    finally:
        node0_lab("down", "--lab", lab)
    assert lab not in node0_lab("ls").stdout
    assert "dead lab(s) removed" in node0_lab("gc").stdout


def test_a_reader_that_has_gone_is_no_error():
    read, write = os.pipe()
    os.close(read)
    completed = subprocess.run(
        [sys.executable, "-m", "lab.commands", "ls"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (completed.returncode, completed.stderr) == (1, b"")


def test_more_memory_than_the_machine_has_is_told_at_once(tmp_path):
    shape = tmp_path / "mine.yaml"
    shape.write_text(topology.sno().dump().replace("memory_mib: 4096", "memory_mib: 99999999"))
    failed = node0_lab("up", str(shape), check=False)
    assert failed.returncode == 1
    assert re.search(
        r"needs \d+ MiB .*; this machine has \d+ MiB .* for all labs: too little memory$", failed.stderr, re.M
    )
