"""A release, an installer, a pull secret, a CA that will not do: one line, and no lab is begun."""

import pytest

from lab import topology
from lab.commands import cli, deploy
from lab.inputs.configs import Access, write_configs
from lab.subject import options
from lab.subject.model import Subject
from lab.subject.options import Chosen

pytestmark = pytest.mark.slow

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
ACCESS = Access('{"auths": {"quay.io": {"auth": "eDp5"}}}', "", KEY, ())


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["deploy", "cluster", "--installer", "/bin/ls"], "--installer /bin/ls: /bin/ls is no installer: "),
        (["deploy", "cluster", "--installer", "/"], "--installer /: / is a directory: "),
        (["deploy", "cluster", "--ca", "key"], "--ca key: is a private key: "),
        (["deploy", "cluster", "--pull-secret", "key"], "--pull-secret key: is no pull secret: "),
        (["deploy", "cluster", "--plan", "--release", "x"], "--release x: 'x' is no image: "),
        (["up", "sno", "--release", "x.example/y:1", "--ca", "key"], "--ca key: is a private key: "),
        (["up", "sno", "--release", "--pull-secret", "key"], "--pull-secret key: is no pull secret: "),
        (["up", "sno", "--release-dir", "cluster"], "--release-dir cluster: is no OCI layout "),
        (["up", "sno", "--ca", "key"], "--ca: has no use without --release or --release-dir"),
        (["up", "sno", "--pull-secret", "key"], "--pull-secret: has no use without --release or --release-dir"),
    ],
)
def test_what_does_not_fit_is_one_line_and_no_lab(tmp_path, monkeypatch, capsys, words, rule):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(options, "built_lab_release", lambda: pytest.fail("a release was built"))
    write_configs(tmp_path / "cluster", topology.sno(), ACCESS)
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----\nXq7canaryZ\n-----END PRIVATE KEY-----\n")
    assert cli.main(words) == 1
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith(f"node0-lab: {rule}")
    assert err.count("\n") == 1
    assert "canary" not in err
    assert not (tmp_path / "state").exists()


def test_a_plan_has_machines_as_large_as_the_release_demands(tmp_path, monkeypatch, capsys):
    """As the lab that is installed in has them; the presets' are too small for OpenShift's own."""
    release = Subject("4.20.1", "quay.example/ocp@sha256:0", tmp_path, ())
    asked = []

    def choose(get):
        asked.append(get("release"))
        return Chosen(release, ("openshift-install",))

    monkeypatch.setattr(deploy, "choose", choose)
    monkeypatch.setattr(deploy, "unsupported", lambda _: [])
    write_configs(tmp_path / "cluster", topology.sno(), ACCESS)
    assert cli.main(["deploy", str(tmp_path / "cluster"), "--plan", "--release", "quay.example/ocp:4.20.1"]) == 0
    (tmp_path / "lab.yaml").write_text(capsys.readouterr().out)
    [node] = topology.load(tmp_path / "lab.yaml").nodes
    assert (node.vcpu, node.memory_mib, node.disk_gib) == (8, 16384, 100)
    assert asked == ["quay.example/ocp:4.20.1"]
