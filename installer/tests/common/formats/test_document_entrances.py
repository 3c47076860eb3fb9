"""YAML that wants to harm, at every entrance that documents have."""

import base64
from itertools import product

import pytest
import yaml

from installer.assisted.errors import BadRequest, ManifestError
from installer.cli import main
from installer.common.formats.yamltext import load
from installer.errors import StateError
from installer.network.document import load as load_network
from installer.network.errors import UnreadableDocument
from installer.observe.kube import Kube
from installer.observe.service import Reach
from installer.orchestrator.errors import StageError
from installer.orchestrator.kube import KubeApi
from installer.rendezvous.client import manifests as client_manifests
from installer.rendezvous.resources import manifests
from installer.testing.create.inputs_kit import AGENT, SNO, text
from installer.testing.yaml_kit import HARM
from installer.waitfor.kubeconfig import with_router_ca


def inputs(directory, **files):
    (directory / "install-config.yaml").write_text(text(SNO))
    (directory / "agent-config.yaml").write_text(text(AGENT))
    for name, content in files.items():
        path = directory / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


TARGETS = ("image", "cluster-manifests", "pxe-files", "config-image")
FILES = ("openshift/x.yaml", "install-config.yaml", "agent-config.yaml")
# Extra manifests wait for what has use for them.
READ = [pair for pair in product(FILES, TARGETS) if pair != ("openshift/x.yaml", "cluster-manifests")]


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep", "NUL"])
@pytest.mark.parametrize(("file", "target"), READ)
def test_inputs_of_create(tmp_path, capsys, target, name, file):
    inputs(tmp_path)
    document, expected = HARM[name]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(document)
    before = set(tmp_path.rglob("*"))
    assert main(["agent", "create", target, "--dir", str(tmp_path)]) == (3 if file == "install-config.yaml" else 1)
    err = capsys.readouterr().err
    assert f"failed to unmarshal {file}: {expected}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert set(tmp_path.rglob("*")) - before == {tmp_path / ".openshift_install.log"}


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep"])
@pytest.mark.parametrize("file", ["agent-cluster-install", "cluster-deployment", "cluster-image-set", "infraenv",
                                  "nmstateconfig", "pull-secret"])  # fmt: skip
def test_manifests(tmp_path, capsys, name, file):
    (tmp_path / "cluster-manifests").mkdir()
    (tmp_path / f"cluster-manifests/{file}.yaml").write_text(HARM[name][0])
    for target in ("image", "unconfigured-ignition"):
        assert main(["agent", "create", target, "--dir", str(tmp_path)]) == 1
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep", "NUL", "no int"])
def test_network_documents(tmp_path, capsys, name):
    document, expected = HARM[name]
    with pytest.raises(UnreadableDocument, match="not YAML: line"):
        load_network(document)
    (tmp_path / "n.yaml").write_text(document)
    assert main(["nmstate", "gc", str(tmp_path / "n.yaml")]) == 1
    assert capsys.readouterr().err == f"level=fatal msg={tmp_path}/n.yaml: not YAML: {expected}\n"


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep", "NUL", "no int", "a key twice"])
def test_an_uploaded_manifest(name):
    document, expected = HARM[name]
    with pytest.raises(BadRequest, match=r"manifest x\.yaml is not valid YAML or JSON: line") as caught:
        manifests.check_content("x.yaml", document.encode())
    assert expected in str(caught.value)
    with pytest.raises(BadRequest, match="not UTF-8 text"):
        manifests.check_content("x.yaml", b"a: \xff")


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep", "NUL", "no int"])
def test_what_the_service_finds_on_the_host(tmp_path, name):
    path = tmp_path / "x.yaml"
    path.write_text(HARM[name][0])
    with pytest.raises(ManifestError, match="is not YAML: line"):
        client_manifests.documents(path)


@pytest.mark.parametrize("name", ["bomb", "cycle", "deep", "NUL", "no int"])
def test_kubeconfigs(tmp_path, name):
    path = tmp_path / "kubeconfig"
    path.write_text(HARM[name][0])
    with pytest.raises(StateError, match="the kubeconfig cannot be read: YamlError: line"):
        with_router_ca(HARM[name][0], "")
    with pytest.raises(StateError, match=f"cannot use {path}: line"):
        Kube(path, Reach(connect_timeout=1, read_timeout=1)).check_alive()
    with pytest.raises(StageError, match="cannot be used: YamlError"):
        KubeApi(path)


def test_a_kubeconfig_keeps_its_form():
    """The file is written again as it was, the CA apart."""
    document = {
        "clusters": [{"cluster": {"certificate-authority-data": "", "server": "https://x"}, "name": "c"}],
        "users": [{"name": "u", "user": {"token": "2024-01-01", "client-key-data": base64.b64encode(b"k").decode()}}],
    }
    assert load(with_router_ca(yaml.safe_dump(document), "")) == document


@pytest.mark.parametrize("value", ["!!int foo", "!x 1", "!!set {a}", "!!python/name:os.system ''"])
@pytest.mark.parametrize("path", ["controlPlane:\n  replicas: ", "baseDomain: ", "platform:\n  none: "])
def test_tags_in_typed_fields(tmp_path, capsys, value, path):
    (tmp_path / "install-config.yaml").write_text(f"apiVersion: v1\n{path}{value}\n")
    assert main(["agent", "create", "image", "--dir", str(tmp_path)]) in (1, 3)
    assert "Traceback" not in capsys.readouterr().err
