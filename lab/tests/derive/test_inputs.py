"""The description of inputs: asked of an installer, and read."""

import msgspec
import pytest

from lab.deploy import topology_for
from lab.derive import derive
from lab.derive.inputs import Inputs, ask, decoded
from lab.errors import TopologyError

#: Manifests that list no host and no network.
BARE = Inputs(
    source="manifests",
    cluster_name="z",
    base_domain="example.com",
    platform="none",
    architecture="amd64",
    replicas={"master": 1, "arbiter": 0, "worker": 0},
    machine_networks=(),
    cluster_networks=(),
    service_networks=(),
    api_vips=(),
    ingress_vips=(),
    user_managed_load_balancer=False,
    rendezvous_ip="10.0.0.9",
    ntp_sources=(),
    minimal_iso=False,
    proxy=None,
    disk_encryption=None,
    fencing=(),
    hosts=(),
    contradictions=(),
)


def program(tmp_path, script, name="node0-other"):
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize(
    ("script", "exit_code", "lines", "warnings"),
    [
        ("echo level=warning msg=odd >&2; echo level=fatal msg=a: b >&2; exit 3", 3, ["a: b"], ["odd"]),
        ("exit 2", 2, ["node0-other ended with 2"], []),
        ("kill $$", 1, ["node0-other ended with -15"], []),
    ],
)
def test_an_error_is_what_the_installer_says(tmp_path, caplog, script, exit_code, lines, warnings):
    with pytest.raises(TopologyError) as refused:
        ask(program(tmp_path, script), tmp_path, {})
    assert (refused.value.source, refused.value.exit_code) == (str(tmp_path), exit_code)
    assert caplog.messages == [f"{tmp_path}: {text}" for text in warnings]
    assert [line.removeprefix(f"{tmp_path}/") for line in refused.value.lines] == lines


@pytest.mark.parametrize(
    ("text", "rule"),
    [('{"version": 2}', "version 2, want 1"), ('{"version": 1}', "missing required field"), ("oops", "malformed")],
)
def test_a_description_that_is_none_is_refused(text, rule):
    with pytest.raises(TopologyError, match=rf"agent show inputs: .*{rule}"):
        decoded(text)


def test_another_installer_is_not_asked(tmp_path):
    """Only node0 has the command; its own errors show that it was asked."""
    script = 'echo "level=fatal msg=asked $*" >&2; exit 1'
    other = program(tmp_path, script, "openshift-install")
    with pytest.raises(TopologyError, match=r"install-config.yaml does not exist"):
        topology_for(tmp_path, installer=other)
    with pytest.raises(TopologyError, match=r"node0-gone: No such file"):
        topology_for(tmp_path, installer=[str(tmp_path / "node0-gone")])
    with pytest.raises(TopologyError, match=f"asked agent show inputs --dir {tmp_path} -o json"):
        topology_for(tmp_path, installer=program(tmp_path, script))


def test_a_cluster_of_which_no_address_is_known_has_openshifts_default_network():
    shape = derive(BARE)
    assert (shape.machine_network, shape.nodes[0].ip) == ("10.0.0.0/16", "10.0.0.9")
    elsewhere = msgspec.structs.replace(BARE, rendezvous_ip="192.168.7.9")
    with pytest.raises(TopologyError) as refused:
        derive(elsewhere)
    assert str(refused.value) == "agent-config.yaml: rendezvousIP: 192.168.7.9 is outside machineNetwork 10.0.0.0/16"
