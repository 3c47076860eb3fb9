"""docs/topology.md: every example is a topology, and every field is in the tables."""

import re
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.commands import cli
from lab.host.unsupported import unsupported
from lab.inputs import hostnetwork
from lab.layout import Layout
from lab.machines import domain
from lab.topology import Bond, Disk, Network, Nic, NodeSpec, Topology

TEXT = (Path(__file__).parents[2] / "docs/topology.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: re.search("name: (.*)", text)[1])
def test_an_example_can_be_made(text, tmp_path):
    shape = topology.load_text(text)
    assert unsupported(shape, has=lambda kind: True) == []
    for node in shape.nodes:
        assert hostnetwork.nmstate(shape, node)["interfaces"]
        assert domain.domain_xml(node, Layout(tmp_path, shape), kvm=False)


def test_there_are_examples():
    assert len(EXAMPLES) == 6


def test_a_lab_is_derived_from_the_example_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    example = Path(__file__).parents[2] / "docs/examples/one-node"
    assert cli.main(["deploy", str(example), "--plan", "--machines", "container"]) == 0
    (node,) = topology.load_text(capsys.readouterr().out).nodes
    assert (node.role, node.ip) == ("master", "192.168.111.80")


@pytest.mark.parametrize("kind", [Topology, Network, NodeSpec, Nic, Bond, Disk])
def test_every_field_is_told(kind):
    documented = set(re.findall(r"`(\w+)(?:\[\])?`", TEXT))
    assert {field.name for field in msgspec.structs.fields(kind)} <= documented
