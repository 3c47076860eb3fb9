"""A machine's description for libvirt."""

from xml.etree import ElementTree

import pytest

from lab import topology
from lab.layout import Layout
from lab.machines import domain


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))


def machine(shape, tmp_path, **kw):
    return ElementTree.fromstring(domain.domain_xml(shape.nodes[0], Layout(tmp_path, shape), **kw))


def test_a_domain_boots_its_disk_first_and_says_who_it_is(tmp_path):
    tree = machine(topology.sno(), tmp_path, kvm=False)
    assert tree.find("devices/disk/boot").get("order") == "1"
    assert len(tree.findall(".//boot")) == 1
    assert tree.find("sysinfo/system/entry[@name='uuid']").text == tree.findtext("uuid")
    assert tree.get("type") == "qemu"
    assert tree.find("cpu").get("mode") == "maximum"
    assert tree.find("os/loader") is not None
    assert tree.findtext("uuid") != machine(topology.sno(), tmp_path, kvm=False).findtext("uuid")


def test_bios_and_kvm_are_honoured(tmp_path):
    tree = machine(topology.sno(firmware="bios"), tmp_path, kvm=True)
    assert tree.find("os/loader") is None
    assert tree.get("type") == "kvm"
