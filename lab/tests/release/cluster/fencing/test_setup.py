"""The fencing set-up of two nodes: when it comes, and what the cluster says of it."""

import datetime as dt
import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from lab.release.cluster.errors import ConfigError
from lab.release.cluster.fencing import command
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import FencingCredential, parse
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes.fencing import COMPLETED, COROSYNC_KEY, Fencing, bootstrap_objects
from lab.release.cluster.nodes.probes import etcd
from lab.release.cluster.nodes.probes.view import SETUP, View
from lab.release.cluster.pods import nodeinstall, pacemaker
from lab.release.cluster.pods.pacemaker import Peer
from lab.testing.clusterapi import Api, node

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
IMAGES = Images("4.18.0", {tag: f"r.example/n@sha256:{tag}" for tag in ("etcd", "pacemaker", "pod")})
PASSWORD = "Fenc3-Word"
PEERS = (Peer("m0", "192.0.2.10"), Peer("m1", "192.0.2.11"))


def document(masters=2):
    credentials = [
        {
            "hostName": f"m{n}",
            "address": f"redfish+https://192.0.2.1:8000/redfish/v1/Systems/{n}",
            "username": "admin",
            "password": PASSWORD,
            "certificateVerification": "Disabled",
        }
        for n in range(masters)
    ]
    return {
        "apiVersion": "v1",
        "metadata": {"name": "c"},
        "baseDomain": "d.example",
        "controlPlane": {"name": "master", "replicas": masters, "fencing": {"credentials": credentials}},
        "compute": [{"name": "worker", "replicas": 0}],
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
        "platform": {"baremetal": {"apiVIPs": ["192.0.2.5"], "ingressVIPs": ["192.0.2.4"]}},
        "pullSecret": '{"auths":{}}',
    }


CONFIG = parse(yaml.safe_dump(document()))


def credential(address, *, verify=True):
    return FencingCredential("m0", address, "admin", PASSWORD, verify)


@pytest.mark.parametrize(
    ("address", "host", "port", "path"),
    [
        ("redfish+https://192.0.2.1:8000/redfish/v1/Systems/1", "192.0.2.1", "8000", "/redfish/v1/Systems/1"),
        (
            "redfish-virtualmedia+https://bmc.example/redfish/v1/Systems/1",
            "bmc.example",
            "443",
            "/redfish/v1/Systems/1",
        ),
        ("redfish+http://[2001:db8::1]/x", "[2001:db8::1]", "80", "/x"),
    ],
)
def test_a_bmcs_address_becomes_the_fence_agents_parameters(address, host, port, path):
    options = pacemaker.fence_options("m0", credential(address))
    assert [options[key] for key in ("ip", "ipport", "systems_uri", "ssl_insecure")] == [host, port, path, "0"]
    assert pacemaker.fence_options("m0", credential(address, verify=False))["ssl_insecure"] == "1"


@pytest.mark.parametrize("address", ["redfish://192.0.2.1/x", "redfish+https://192.0.2.1:port/x"])
def test_a_bmc_without_a_port_is_an_error_that_shows_no_password(address):
    with pytest.raises(ConfigError, match=r"fencing-credentials-m0: address: no port number found") as caught:
        pacemaker.fence_options("m0", credential(address))
    assert PASSWORD not in str(caught.value) + repr(credential(address))


def test_each_node_is_fenced_by_its_own_bmc_and_not_both_at_once():
    root = ElementTree.fromstring(pacemaker.cib(PEERS, CONFIG.fencing))
    devices = {}
    for device in root.findall("configuration/resources/primitive"):
        devices[device.attrib["id"]] = {pair.attrib["name"]: pair.attrib["value"] for pair in device.iter("nvpair")}
    assert {name: (d["pcmk_host_list"], d["systems_uri"][-1]) for name, d in devices.items()} == {
        "m0_redfish": ("m0", "0"),
        "m1_redfish": ("m1", "1"),
    }
    assert len({d["pcmk_delay_base"] for d in devices.values()}) == 2
    options = {p.attrib["name"]: p.attrib["value"] for p in root.findall("configuration/crm_config//nvpair")}
    assert options["stonith-enabled"] == "true"


def test_what_runs_on_a_node_is_the_member_that_it_was():
    plan = json.loads(pacemaker.plan(CONFIG, IMAGES, *PEERS))
    assert "--name=m0" in plan["command"]
    assert "--initial-cluster=m0=https://192.0.2.10:2380,m1=https://192.0.2.11:2380" in plan["command"]
    assert (plan["other"], plan["otherClient"]) == ("m1", "https://192.0.2.11:2379")
    assert PASSWORD not in json.dumps(plan)


def test_only_masters_that_fence_each_other_have_pacemaker():
    names = [c["metadata"]["name"] for c in machineconfig.standard(CONFIG, IMAGES_ALL, "master")]
    assert "02-master-pacemaker" in names
    assert "02-worker-pacemaker" not in [
        c["metadata"]["name"] for c in machineconfig.standard(CONFIG, IMAGES_ALL, "worker")
    ]
    three = parse(yaml.safe_dump({**document(), "controlPlane": {"replicas": 3}}))
    assert not [c for c in machineconfig.standard(three, IMAGES_ALL, "master") if "pacemaker" in c["metadata"]["name"]]
    assert bootstrap_objects(three) == []


IMAGES_ALL = Images("4.18.0", {**IMAGES.tags, "keepalived-ipfailover": "r.example/n@sha256:k"})


NODES = [node(peer.name, peer.address) for peer in PEERS]


def view(api, nodes):
    return View(api, Path("files"), NOW, nodes, api.pods(), "c.d.example", "apps.c.d.example", CONFIG)


@pytest.fixture
def api():
    api = Api()
    for obj in bootstrap_objects(CONFIG):
        api.create(obj)
    api.create({"apiVersion": "operator.openshift.io/v1", "kind": "Etcd", "metadata": {"name": "cluster"}})
    return api


def conditions(api):
    status = api.get("operator.openshift.io/v1", "Etcd", "cluster").get("status") or {}
    return {c["type"]: c["status"] for c in status.get("conditions") or []}


def test_nodes_are_taught_when_both_are_there_and_it_is_over_when_pacemaker_runs_etcd(api, monkeypatch):
    monkeypatch.setattr(etcd, "_ask", lambda *_: etcd.Answer("c", "1", [{"ID": "1", "name": etcd.BOOTSTRAP_MEMBER}]))
    work = Fencing(api, CONFIG, IMAGES, "r")
    assert work.step(view(api, NODES[:1])) is True
    assert api.pods() == []
    assert work.step(view(api, NODES)) is True
    assert sorted(pod["metadata"]["name"] for pod in api.pods()) == [f"{SETUP}m0", f"{SETUP}m1"]
    assert COMPLETED not in conditions(api)
    seen = view(api, NODES)
    assert seen.without_pacemaker == ["m0", "m1"]
    finding = etcd.etcd(seen)
    assert not finding.good
    assert "m0: pacemaker does not run etcd yet" in finding.message
    for pod in api.pods():
        pod["status"] = {"phase": "Succeeded"}
    assert work.step(view(api, NODES)) is False
    assert etcd.etcd(view(api, NODES)).good
    assert conditions(api)[COMPLETED] == "True"
    assert len(api.pods()) == 2


def test_both_nodes_get_the_same_key_and_configuration_and_no_static_pod(api):
    Fencing(api, CONFIG, IMAGES, "r").step(view(api, NODES))
    resources = [
        api.get("v1", "Secret", f"pacemaker-resources-{peer.name}", "openshift-etcd")["data"] for peer in PEERS
    ]
    for name in ("authkey", "cib.xml", "corosync.conf"):
        assert resources[0][f"pacemaker_{name}"] == resources[1][f"pacemaker_{name}"], name
    assert resources[0]["pacemaker_etcd.json"] != resources[1]["pacemaker_etcd.json"]
    assert (
        resources[0]["pacemaker_authkey"] == api.get("v1", "Secret", COROSYNC_KEY, "openshift-etcd")["data"]["authkey"]
    )
    for pod in api.pods():
        [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "pods"]
        assert volume == {"name": "pods", "emptyDir": {}}, "etcd's static pod would come back"


def test_the_pod_ends_when_pacemaker_runs_etcd(tmp_path):
    resources = tmp_path / "static-pod-resources"
    (resources / pacemaker.FOLDER).mkdir(parents=True)
    assert nodeinstall.pacemaker_runs_etcd(resources)
    (resources / pacemaker.FOLDER / pacemaker.RUNNING).touch()
    assert not nodeinstall.pacemaker_runs_etcd(resources)


def test_what_pacemaker_knows_outlives_its_container(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "chown", lambda *_: None)
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    for name in ("corosync.conf", "authkey", "cib.xml"):
        (source / name).write_text(name)
    command.prepare(source, root)
    seed = root / "var/lib/pacemaker/cib/cib.xml"
    assert (seed.read_text(), seed.stat().st_mode & 0o777) == ("cib.xml", 0o600)
    assert (root / "etc/corosync/authkey").stat().st_mode & 0o777 == 0o600
    seed.write_text("what became of it")
    command.prepare(source, root)
    assert seed.read_text() == "what became of it"


def test_nobody_but_the_node_and_the_secret_knows_the_password():
    assert PASSWORD not in CONFIG.redacted() + repr(CONFIG)
    [secret] = [obj for obj in bootstrap_objects(CONFIG) if obj["metadata"]["name"] == "fencing-credentials-m0"]
    assert secret["kind"] == "Secret"
