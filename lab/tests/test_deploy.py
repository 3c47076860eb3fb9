"""The copy of DIR by `node0-lab deploy DIR`: the user's files, and nothing that lies there for other reasons."""

import os
from types import SimpleNamespace

import pytest

from lab import topology
from lab.commands import cli
from lab.deploy import Deployment, inputs, stood_in, topology_for, without_stand_ins
from lab.errors import InstallFailedError, TopologyError
from lab.evidence import record
from lab.evidence.phases import Phases
from lab.inputs.configs import Access, write_configs
from lab.testing import directories


def prepared(source, root, skip=()):
    root.mkdir(parents=True)
    work = Deployment(SimpleNamespace(layout=SimpleNamespace(root=root)), [], None)
    work.prepare(source, adapt=False, skip=skip)
    return {str(path.relative_to(root / "cluster")) for path in (root / "cluster").rglob("*")}


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "dir"
    (folder / "openshift/extra").mkdir(parents=True)
    for name in ("install-config.yaml", "openshift/extra/a.yaml", "agent.x86_64.iso"):
        (folder / name).write_text(name)
    (tmp_path / "shared.yaml").write_text("shared")
    (folder / "agent-config.yaml").symlink_to("../shared.yaml")
    return folder


COPIED = {"install-config.yaml", "agent-config.yaml", "openshift", "openshift/extra", "openshift/extra/a.yaml"}


@pytest.mark.parametrize("state", ["state", "."])
def test_the_labs_own_folders_below_it_are_no_part_of_it(source, state):
    labs = source / state / "labs"
    assert prepared(source, labs / "sno-1", [source / "state", labs]) == COPIED
    copy = labs / "sno-1/cluster/agent-config.yaml"
    assert (copy.is_symlink(), copy.read_text()) == (False, "shared")
    assert (labs / "sno-1/cluster").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["up", "elsewhere", "pipe", "nowhere"])
def test_what_is_no_file_or_leads_elsewhere_is_refused(tmp_path, source, kind):
    path = source / "openshift/odd"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"up": "..", "elsewhere": tmp_path, "nowhere": "nowhere"}[kind])
    rule = "is neither a file nor a folder" if kind in ("pipe", "nowhere") else "is a link to a folder"
    with pytest.raises(TopologyError, match=rf"dir: openshift/odd: {rule}"):
        inputs(source)


def test_the_command_refuses_it_before_there_is_a_lab(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    folder = tmp_path / "dir"
    folder.mkdir()
    assert directories.planned(directories.hint("{deviceName: /dev/vda}"), folder, capsys)[0] == 0
    (folder / "manifests").symlink_to("/")
    monkeypatch.setattr("lab.commands.deploy.choose", lambda _: None)
    monkeypatch.setattr("lab.commands.deploy.Lab", lambda *_, **__: 1 / 0)
    assert cli.main(["deploy", str(folder), "--machines", "container"]) == 1
    assert capsys.readouterr().err == (
        f"node0-lab: {folder}: manifests: is a link to a folder: have the folder itself there\n"
    )


OWN = Access('{"auths": {"quay.io": {"auth": "eDp5"}}}', "", "ssh-rsa OWN", (("own/x", "mirror/x"),))
LAB = Access('{"auths": {"lab:5000": {"auth": "bGFi"}}}', "LAB", "ssh-ed25519 LAB", (("r.x/y", "lab:5000/y"),))


@pytest.mark.parametrize("as_is", [False, True])
def test_what_is_changed_is_listed_and_as_is_only_the_registrys_needs_are(tmp_path, as_is):
    shape = topology.sno()
    write_configs(tmp_path / "dir", shape, OWN, edit=lambda _, agent: agent.pop("additionalNTPSources"))
    (tmp_path / "lab").mkdir()
    lab = SimpleNamespace(layout=SimpleNamespace(root=tmp_path / "lab"), topology=shape, access=LAB)
    lines = Deployment(lab, [], None).prepare(tmp_path / "dir", adapt=True, as_is=as_is)
    fields = [line.split(": ")[1] for line in lines]
    registry = ["pullSecret", "sshKey", "additionalTrustBundle", "imageDigestSources"]
    assert fields == (registry if as_is else [*registry, "additionalNTPSources"])
    assert lines[0] == "install-config.yaml: pullSecret: credentials for quay.io → credentials for quay.io, lab:5000"
    theirs, copy = (tmp_path / part / "agent-config.yaml" for part in ("dir", "lab/cluster"))
    assert (theirs.read_bytes() == copy.read_bytes()) is as_is


def test_as_is_no_address_of_another_server_is_the_labs(tmp_path, capsys):
    network = directories.STATIC.replace("server: [192.168.122.1]", "server: [192.168.122.77]")
    texts = directories.install(), directories.agent(directories.host(["eno1"], network))
    for name, text in zip(("install-config.yaml", "agent-config.yaml"), texts, strict=True):
        (tmp_path / name).write_text(text)
    shape = topology_for(tmp_path)
    assert stood_in(shape) == ["192.168.122.77"]
    assert stood_in(without_stand_ins(shape)) == []
    assert cli.main(["deploy", str(tmp_path), "--as-is", "--plan", "--set", "name=x"]) == 0
    assert topology.load_text(capsys.readouterr().out).aliases == ()


def test_an_installer_that_gives_up_is_a_phase_that_failed(tmp_path, monkeypatch):
    """The run counted as passed: the exit code was looked at once the phase had ended."""
    (tmp_path / "sno").mkdir()
    phases = Phases(tmp_path / "sno/phases.json")
    ended = SimpleNamespace(returncode=5, stdout="", stderr="level=error msg=Bootstrap failed")
    monkeypatch.setattr(Deployment, "agent", lambda *_, **__: ended)
    with pytest.raises(InstallFailedError):
        Deployment(SimpleNamespace(phase=phases.phase), [], None).wait()
    [run] = record.runs(tmp_path)
    assert (run.outcome, [entry["name"] for entry in run.phases]) == ("failed", ["wait-for bootstrap-complete"])
    assert "Bootstrap failed" in run.phases[0]["error"]
