"""YAML that users give to a lab and to its cluster: what is not YAML is an error of its reader's own."""

import pytest

from lab import deploy, topology
from lab.errors import TopologyError
from lab.release.cluster import installconfig
from lab.release.cluster.errors import ConfigError, ManifestError
from lab.release.cluster.kube import payload
from lab.release.cluster.kube.client import read_kubeconfig


@pytest.mark.parametrize("text", ["a: &a [*a]", "[" * 100_000, "!!bool s3cr3t", "a: *b"])
def test_refused(text, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("cluster")
    config = tmp_path / "install-config.yaml"
    config.write_text(text)
    (tmp_path / "agent-config.yaml").write_text("{}")
    for read, error in (
        (lambda: deploy.read(tmp_path), TopologyError),
        (lambda: topology.load(str(config)), TopologyError),
        (lambda: installconfig.parse(text), ConfigError),
        (lambda: read_kubeconfig(config), ConfigError),
        (lambda: payload.read_objects(text, "x"), ManifestError),
    ):
        with pytest.raises(error, match=r"line 1: ") as caught:
            read()
        assert "s3cr3t" not in str(caught.value)


def test_a_mac_address_and_a_date_are_texts(tmp_path):
    """YAML 1.1 would make a number and a date of them, and the lab writes its inputs anew."""
    for name in ("install-config.yaml", "agent-config.yaml"):
        (tmp_path / name).write_text("mac: 52:54:00:11:22:33\nday: 2024-01-01\noctal: 010\nbig: 1" + "0" * 30)
    document, _ = deploy.read(tmp_path)
    assert document == {"mac": "52:54:00:11:22:33", "day": "2024-01-01", "octal": 8, "big": 1e30}


def test_a_topology_is_alone_in_its_file(tmp_path):
    with pytest.raises(TopologyError, match="line 3: only one document is expected"):
        topology.load_text("name: a\n---\nname: b\n")
