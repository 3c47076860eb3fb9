"""Additions of the lab to a user's two files."""

import json

import pytest
import yaml

from lab import topology
from lab.deploy import adapt_agent_config, adapt_install_config, fenced_by_lab, read
from lab.errors import TopologyError
from lab.inputs.configs import Access, BmcAccess, agent_config, install_config, through_proxy, write_configs

ACCESS = Access(
    '{"auths": {"lab:5000": {"auth": "bGFi"}}}', "LAB CA", "ssh-ed25519 LAB", (("release.x/y", "lab:5000/y"),)
)
PROXIED = topology.read({**topology.written(topology.sno()), "proxy": True})


def files(shape):
    return install_config(shape, ACCESS), agent_config(shape)


def test_the_labs_needs_stand_beside_the_users_own():
    own = {
        "pullSecret": '{"auths": {"quay.io": {"auth": "cXVheQ=="}}}',
        "additionalTrustBundle": "OWN CA\n",
        "sshKey": "ssh-rsa OWN",
        "imageContentSources": [{"source": "a", "mirrors": ["b"]}],
        "fips": False,
    }
    adapted = adapt_install_config(own, ACCESS)
    assert set(json.loads(adapted["pullSecret"])["auths"]) == {"quay.io", "lab:5000"}
    assert adapted["additionalTrustBundle"].split("\n") == ["OWN CA", "LAB CA"]
    assert adapted["sshKey"].split("\n") == ["ssh-rsa OWN", "ssh-ed25519 LAB"]
    assert [entry["source"] for entry in adapted["imageContentSources"]] == ["a", "release.x/y"]
    assert "imageDigestSources" not in adapted
    assert adapt_install_config({}, ACCESS)["imageDigestSources"] == [
        {"source": "release.x/y", "mirrors": ["lab:5000/y"]}
    ]
    lab = topology.sno()
    b = lab.gateway
    assert adapt_agent_config({"additionalNTPSources": ["a"]}, lab)["additionalNTPSources"] == ["a", b]
    assert adapt_agent_config({"additionalNTPSources": [b]}, lab) == {"additionalNTPSources": [b]}
    minimal = topology.read({**topology.written(lab), "boot": "minimal-iso"})
    assert adapt_agent_config({"bootArtifactsBaseURL": "http://theirs"}, minimal) == {
        "additionalNTPSources": [b],
        "minimalISO": True,
        "bootArtifactsBaseURL": "http://192.168.111.1:8080/boot",
    }
    external = topology.read({**topology.written(lab), "platform": "external"})
    fetched = {key: value for key, value in adapt_agent_config({}, external).items() if key != "additionalNTPSources"}
    assert fetched == {"bootArtifactsBaseURL": "http://192.168.111.1:8080/boot"}, "no ISO is a full one there"
    for none in ({"source": "a"}, 1, "quay.io"):
        assert adapt_install_config({"imageDigestSources": none}, ACCESS)["imageDigestSources"] == none
    with pytest.raises(TopologyError, match="pullSecret: not a dockerconfigjson"):
        adapt_install_config({"pullSecret": "["}, ACCESS)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(TopologyError, match=r"install-config.yaml: No such file or directory"):
        read(tmp_path)
    write_configs(tmp_path, topology.sno(), ACCESS)
    assert read(tmp_path)[1] == yaml.safe_load((tmp_path / "agent-config.yaml").read_text())
    (tmp_path / "agent-config.yaml").write_text("a: [\n")
    with pytest.raises(TopologyError, match=r"agent-config.yaml: line 1: ") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("proxy", "wanted"),
    [
        (None, None),
        ({"noProxy": "a"}, None),
        (
            {"httpProxy": "http://u:p@corp:80", "httpsProxy": "http://corp:80", "noProxy": "a,b"},
            {"httpProxy": "http://192.168.111.1:3128", "httpsProxy": "http://192.168.111.1:3128", "noProxy": "a,b"},
        ),
        ({"httpsProxy": "https://corp:443"}, {"httpsProxy": "http://192.168.111.1:3128"}),
    ],
)
def test_a_proxy_is_the_labs_own(proxy, wanted):
    install, _ = files(topology.sno())
    install |= {"proxy": proxy} if proxy else {}
    assert through_proxy(install, PROXIED).get("proxy") == (wanted or proxy)


def test_nodes_are_fenced_by_the_labs_bmcs():
    shape = topology.fencing()
    bmcs = tuple(BmcAccess(node.name, f"redfish+https://lab/{node.name}", "ours", "hidden") for node in shape.nodes)
    access = Access(pull_secret="{}", trust_bundle="", ssh_key="", mirrors=(), bmcs=bmcs)
    install, _ = files(shape)
    own_credentials = [
        {"hostName": name, "address": f"redfish+https://10.9.0.{n}/x", "username": "u", "password": "p"}
        for n, name in enumerate(("master-1", "Master-0.corp.example", "elsewhere"))
    ]
    install["controlPlane"] |= {"fencing": {"credentials": own_credentials}}
    credentials = fenced_by_lab(install, access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [(entry["hostName"], entry["address"]) for entry in credentials] == [
        ("master-1", "redfish+https://lab/master-1"),
        ("Master-0.corp.example", "redfish+https://lab/master-0"),
        ("elsewhere", "redfish+https://10.9.0.2/x"),
    ]
    assert credentials[0]["certificateVerification"] == "Disabled"
    assert install["controlPlane"]["fencing"]["credentials"] == own_credentials, "the user's own is left alone"
    plain = files(topology.compact())[0]
    assert fenced_by_lab(plain, access, shape) == plain
    # OpenShift's documentation writes `hostname`, which Go reads as well.
    text = json.dumps(install).replace("hostName", "hostname").replace('"address"', '"Address"')
    documented = fenced_by_lab(json.loads(text), access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [entry["Address"] for entry in documented] == [entry["address"] for entry in credentials]
    assert not any("address" in entry for entry in documented)
    entries = install["controlPlane"]["fencing"]["credentials"] = [
        {"macAddress": node.mac.upper().replace(":", "-"), "address": "redfish+https://10.9.0.9/x"}
        for node in reversed(shape.nodes)
    ]
    by_mac = fenced_by_lab(install, access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [entry["macAddress"] for entry in by_mac] == [entry["macAddress"] for entry in entries]
    assert [entry["address"] for entry in by_mac] == [f"redfish+https://lab/master-{n}" for n in (1, 0)]


def test_names_in_other_letters_case_are_what_go_reads_them_as():
    lab = PROXIED
    assert through_proxy({"Proxy": {"httpproxy": "http://corp:80"}}, lab) == {
        "Proxy": {"httpproxy": "http://192.168.111.1:3128"}
    }
    own = {"pullsecret": '{"auths": {"quay.io": {}}}', "SSHKey": "ssh-rsa OWN", "imagedigestsources": [{"source": "a"}]}
    adapted = adapt_install_config(own, ACCESS)
    assert {str(key).lower() for key in adapted} == {*own, "sshkey", "additionaltrustbundle"} - {"SSHKey"}
    assert len(adapted) == 4
    assert set(json.loads(adapted["pullsecret"])["auths"]) == {"quay.io", "lab:5000"}
    assert adapted["SSHKey"].split("\n") == ["ssh-rsa OWN", "ssh-ed25519 LAB"]
    agent = adapt_agent_config({"additionalntpsources": ["a"], "minimaliso": False}, lab)
    assert agent == {"additionalntpsources": ["a", lab.gateway], "minimaliso": False}
