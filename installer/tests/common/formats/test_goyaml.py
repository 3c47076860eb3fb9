"""Manifests as sigs.k8s.io/yaml writes them, letter for letter; the texts are what Go has printed."""

import pytest

from installer.common.formats import jsontext
from installer.common.formats.yamltext import go_dump, load
from installer.config.load import parse_agent_config, parse_install_config, resolve_hosts
from installer.manifests.cluster import Inputs, cluster_manifests
from installer.testing.create.inputs_kit import AGENT, SNO, text

WRITTEN = {
    "plain": "a: plain\n",
    "": 'a: ""\n',
    "yes": 'a: "yes"\n',
    "5": 'a: "5"\n',
    "1e3": 'a: "1e3"\n',
    "0o17": 'a: "0o17"\n',
    "2001-01-01": 'a: "2001-01-01"\n',
    "10:20": 'a: "10:20"\n',
    "52:54:00:aa:00:00": "a: 52:54:00:aa:00:00\n",
    "{x}": "a: '{x}'\n",
    "x: y": "a: 'x: y'\n",
    "two\nlines": "a: |-\n  two\n  lines\n",
    "two\nlines\n": "a: |\n  two\n  lines\n",
    "ssh-ed25519 " + "A" * 68 + " me": "a: ssh-ed25519 " + "A" * 68 + "\n  me\n",
}


@pytest.mark.parametrize("value", WRITTEN)
def test_texts(value):
    assert go_dump({"a": value}) == WRITTEN[value]
    assert load(go_dump({"a": value})) == {"a": value}


def test_keys_are_sorted_and_lists_are_not_indented():
    assert go_dump({"b": [{"d": 1, "c": True}], "a": {}}) == "a: {}\nb:\n- c: true\n  d: 1\n"


def test_json_is_safe_within_html():
    assert jsontext.go_dump({"b": "<&>", "a": "ü"}) == '{"b":"\\u003c\\u0026\\u003e","a":"ü"}'


def test_empty_fields_are_where_the_real_files_have_them():
    install = parse_install_config(text(SNO))
    hosts = resolve_hosts(install, parse_agent_config(text(AGENT)))
    files = {
        name: data.decode()
        for name, data in cluster_manifests(Inputs(install, (), hosts, "r@x", release_version="4.21")).items()
    }
    assert files["cluster-image-set.yaml"].endswith("spec:\n  releaseImage: r@x\nstatus: {}\n")
    assert files["agent-cluster-install.yaml"].endswith(
        'status:\n  debugInfo:\n    eventsURL: ""\n    logsURL: ""\n  progress:\n    totalPercentage: 0\n'
    )
    assert (
        "  controlPlaneConfig:\n    servingCertificates: {}\n  installed: false\n  platform: {}\n"
        in (files["cluster-deployment.yaml"])
    )
    assert (
        'status:\n  agentLabelSelector: {}\n  bootArtifacts:\n    discoveryIgnitionURL: ""\n'
        in (files["infraenv.yaml"])
    )
    assert files["nmstateconfig.yaml"].endswith("---\n")
