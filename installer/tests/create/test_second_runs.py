"""A command again in a directory that has a state: what counts then of files that were added, changed or removed."""

import re
import stat

import pytest

from installer.testing.create import outputs_kit
from installer.testing.create.image_kit import NEEDED, content, inputs
from installer.testing.create.outputs_kit import MANIFESTS, MIRROR, create, names

pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
directory, lab = outputs_kit.directory, outputs_kit.lab


# A release in a registry has a version of its own.
UNVERSIONED = re.compile(r"(?<=name: openshift-)\S+")
DISCARDED = re.compile(r"level=warning msg=Discarding the (.*) that was provided in the target directory because its")


def test_manifests_beside_a_new_install_config_are_discarded(directory, lab, capsys):
    assert create("cluster-manifests", directory) == 0
    inputs(directory, lab[0], {"sshKey": ""})
    capsys.readouterr()
    assert create("image", directory) == 0
    assert DISCARDED.findall(capsys.readouterr().err) == [
        *("Agent PullSecret", "InfraEnv Config", "NMState Config", "AgentClusterInstall Config"),
        *("ClusterDeployment Config", "ClusterImageSet Config"),
        *("Mirror Registries Config", "Mirror Registries Certificate File"),
    ]
    assert not (directory / "cluster-manifests").exists()
    assert not (directory / "mirror").exists()


@pytest.mark.parametrize("target", ["cluster-manifests", "image"])
def test_an_agent_config_that_comes_later_is_used(directory, lab, capsys, target):
    later = directory / "agent-config.yaml"
    written = later.read_text()
    later.unlink()
    assert create("cluster-manifests", directory) == 0
    assert "cluster-manifests/nmstateconfig.yaml" not in names(directory)
    # What it does not mention stays as it was edited.
    secret, domain = (directory / f"cluster-manifests/{name}.yaml" for name in ("pull-secret", "cluster-deployment"))
    domain.write_text(domain.read_text().replace("test.node0.example", "edited.node0.example"))
    edited = secret.read_text() + "# mine\n"
    secret.write_text(edited)
    (directory / "cluster-manifests/agent-cluster-install.yaml").write_text("kind: AgentClusterInstall\n")
    later.write_text(written + "additionalNTPSources: [later.example]\n")
    capsys.readouterr()
    assert create(target, directory) == 0
    assert DISCARDED.findall(capsys.readouterr().err) == ["InfraEnv Config", "AgentClusterInstall Config"]
    assert not later.exists()
    assert create("image", directory) == 0
    files = content(directory / "agent.x86_64.iso")[1]
    assert "192.168.111.80/24" in files["/etc/assisted/network/host0/eth0.nmconnection"]
    assert "later.example" in files["/etc/assisted/manifests/infraenv.yaml"]
    assert "10.128.0.0/14" in files["/etc/assisted/manifests/agent-cluster-install.yaml"]
    assert files["/etc/assisted/manifests/pull-secret.yaml"] == edited
    assert "https://api.ostest.edited.node0.example:6443" in (directory / "auth/kubeconfig").read_text()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("agent-cluster-install", "10.128.0.0/14", "10.132.0.0/14"),
        ("infraenv", "spec:\n", "spec:\n  additionalNTPSources: [mine.example]\n"),
        ("nmstateconfig", "type: ethernet", "type: ethernet\n      description: mine"),
    ],
)
def test_a_users_manifest_replaces_the_generated_one(directory, tmp_path, lab, name, old, new):
    other = tmp_path / "other"
    other.mkdir()
    inputs(other, lab[0])
    assert create("cluster-manifests", other) == 0
    assert create("config-image", directory) == 0
    path = directory / f"cluster-manifests/{name}.yaml"
    path.parent.mkdir()
    expected = {file: (other / file).read_text() for file in MANIFESTS}
    expected[f"cluster-manifests/{name}.yaml"] = expected[f"cluster-manifests/{name}.yaml"].replace(old, new)
    path.write_text(expected[f"cluster-manifests/{name}.yaml"])
    assert new in path.read_text()
    assert create("image", directory) == 0
    assert not path.parent.exists()
    files = content(directory / "agent.x86_64.iso")[1]
    for file in {*MANIFESTS} - {"cluster-manifests/cluster-image-set.yaml"}:
        assert UNVERSIONED.sub("", files[f"/etc/assisted/{file.partition('-')[2]}"]) == UNVERSIONED.sub(
            "", expected[file]
        )
    assert "192.168.111.80/24" in files["/etc/assisted/network/host0/eth0.nmconnection"]
    assert lab[0].repository in files["/etc/containers/registries.conf"]
    assert create("cluster-manifests", directory) == 0  # it stays so
    assert path.read_text() == expected[f"cluster-manifests/{name}.yaml"]
    assert names(directory / "mirror") == names(other / "mirror")


def test_the_same_agent_config_again_changes_nothing(directory, lab, capsys):
    assert create("cluster-manifests", directory) == 0
    path = directory / "cluster-manifests/infraenv.yaml"
    path.write_text(path.read_text() + "# mine\n")
    inputs(directory, lab[0])
    capsys.readouterr()
    assert create("cluster-manifests", directory) == 0
    assert "Discarding" not in capsys.readouterr().err
    assert path.read_text().endswith("# mine\n")
    assert names(directory) == [*MANIFESTS, *MIRROR]


def test_discarded_manifests_must_be_readable(directory, lab, capsys):
    assert create("cluster-manifests", directory) == 0
    (directory / "cluster-manifests/infraenv.yaml").write_text("a: [\n")
    inputs(directory, lab[0], agent={"additionalNTPSources": ["later.example"]})
    capsys.readouterr()
    assert create("cluster-manifests", directory) == 1
    wrong = 'failed to load asset "InfraEnv Config": failed to unmarshal cluster-manifests/infraenv.yaml: line 1: '
    assert wrong in capsys.readouterr().err


def test_files_that_were_removed_come_back_from_the_state(directory):
    assert create("cluster-manifests", directory) == 0
    before = {name: (directory / name).read_bytes() for name in names(directory)}
    for name in ("nmstateconfig", "infraenv", "cluster-image-set"):
        (directory / f"cluster-manifests/{name}.yaml").unlink()
    assert create("cluster-manifests", directory) == 0
    assert {name: (directory / name).read_bytes() for name in names(directory)} == before


@pytest.mark.parametrize(("other", "mode"), [(None, 0o750), ("cluster-manifests/notes", 0o755)])
def test_the_mode_of_a_folder_that_is_written_anew(directory, lab, other, mode):
    """openshift-install removes the manifests that it has read, and the folder where nothing else is in it."""
    assert create("cluster-manifests", directory) == 0
    folders = [directory / name for name in ("cluster-manifests", "mirror")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o750, 0o750]
    if other:
        (directory / other).write_text("mine")
    for change in (None, {"sshKey": ""}):
        for path in folders:
            path.chmod(0o755)
        if change is not None:
            inputs(directory, lab[0], change)
        assert create("cluster-manifests", directory) == 0
        assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [mode, 0o755]
    assert names(directory) == sorted([*MANIFESTS, *MIRROR, *([other] if other else [])])


def test_an_empty_folder_for_manifests_keeps_its_mode(directory):
    folder = directory / "cluster-manifests"
    folder.mkdir(mode=0o755)
    assert create("cluster-manifests", directory) == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("path", "asset"),
    [
        ("cluster-manifests", "Agent PullSecret"),
        ("cluster-manifests/infraenv.yaml", "InfraEnv Config"),
        ("mirror/registries.conf", "Mirror Registries Config"),
        ("agent-config.yaml", "Agent Config"),
    ],
)
def test_a_path_of_the_wrong_kind(directory, capsys, path, asset):
    """The asset is named as openshift-install names it, in the order in which it loads them."""
    wrong = directory / path
    wrong.unlink(missing_ok=True)
    if wrong.suffix:
        wrong.mkdir(parents=True)
        why = f"failed to load {path} file: Is a directory"
    else:
        wrong.write_text("x")
        why = f"failed to load {path}/pull-secret.yaml file: Not a directory"
    before = names(directory)
    assert create("cluster-manifests", directory) == 1
    err = capsys.readouterr().err
    assert f'msg=failed to fetch Agent Manifests: failed to load asset "{asset}": {why}\n' in err
    assert names(directory) == before


def test_extra_manifests_wait_for_the_image(directory, capsys):
    (directory / "openshift").mkdir()
    (directory / "openshift/a.yaml").write_text("a: [\n")
    assert create("cluster-manifests", directory) == 0
    assert create("image", directory) == 1
    assert "failed to unmarshal openshift/a.yaml: line 1: " in capsys.readouterr().err
    (directory / "openshift/a.yaml").write_text("kind: A\n")
    assert create("image", directory) == 0
    assert "/etc/assisted/extra-manifests/a-0.yaml" in content(directory / "agent.x86_64.iso")[1]
    assert not (directory / "openshift").exists()
