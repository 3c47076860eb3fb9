"""`node0 hub render`: files in; what a hub takes, or a line for each problem, out."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from installer import cli
from installer.common.formats import yamltext
from installer.hub.render import schema
from installer.hub.render.inputs import Read, read_document
from installer.hub.render.resources import problems, resources

MACS = [f"52:54:00:00:00:{number:02x}" for number in range(9)]
SECRET = "hunter2secret"


def node(number, **more):
    return {
        "hostName": f"n{number}.lab.test",
        "bmcAddress": f"redfish-virtualmedia+https://192.0.2.{number + 1}/redfish/v1/Systems/1",
        "bmcCredentialsName": {"name": f"bmc-{number}"},
        "bootMACAddress": MACS[number],
        **more,
    }


def instance(*nodes, **more):
    nodes = nodes or (node(0),)
    template = {"namespace": "open-cluster-management"}
    for item in nodes:
        item.setdefault("templateRefs", [template | {"name": "ai-node-templates-v1"}])
    spec = {
        "clusterName": "edge",
        "baseDomain": "lab.test",
        "clusterImageSetNameRef": "release",
        "pullSecretRef": {"name": "pull"},
        "templateRefs": [template | {"name": "ai-cluster-templates-v1"}],
        "nodes": list(nodes),
    }
    api = "siteconfig.open-cluster-management.io/v1alpha1"
    return {"apiVersion": api, "kind": "ClusterInstance", "metadata": {"name": "edge"}, "spec": spec | more}


def site(*nodes, version="v2", **more):
    cluster = {"clusterName": "north", "nodes": list(nodes or (node(0),))} | more
    spec: dict[str, Any] = {"baseDomain": "lab.test", "pullSecretRef": {"name": "pull"}, "clusters": [cluster]}
    spec["clusterImageSetNameRef"] = "release"
    return {"apiVersion": f"ran.openshift.io/{version}", "kind": "SiteConfig", "metadata": {"name": "s"}, "spec": spec}


@pytest.fixture
def render(tmp_path, capsys):
    def call(*documents, options=()):
        path = tmp_path / "in.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        code = cli.main(["hub", "render", str(path), *options])
        out, err = capsys.readouterr()
        objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.safe_load_all(out)}
        return code, objects, [line.replace(f"{path}: ", "") for line in err.splitlines()]

    return call


def annotations(obj):
    return obj["metadata"]["annotations"]


def test_a_cluster_instance_has_an_infra_env_a_node_in_the_namespace_of_its_host(render):
    pooled = node(1, role="arbiter", hostRef={"name": "spare", "namespace": "pool"})
    pooled["nodeNetwork"] = {"interfaces": [{"name": "eth0", "macAddress": MACS[1]}], "config": {"interfaces": []}}
    labels = {"BareMetalHost": {"site": "north", "infraenvs.agent-install.openshift.io": "mine"}}
    code, found, err = render(
        instance(
            *(node(0, cpuArchitecture="aarch64", nodeLabels={"a/b": "1"}), pooled, node(2)),
            clusterType="HighlyAvailableArbiter",
            cpuPartitioningMode="AllNodes",
            installConfigOverrides='{"networking": {"mtu": 9}}',
            serviceNetwork=[{"cidr": "172.30.0.0/16"}],
            extraLabels=labels,
            caBundleRef={"name": "x"},
        )
    )
    assert code == 0
    install = found["AgentClusterInstall", "edge"]
    overrides = annotations(install)["agent-install.openshift.io/install-config-overrides"]
    expected = {"networking": {"mtu": 9, "networkType": "OVNKubernetes"}, "cpuPartitioningMode": "AllNodes"}
    assert json.loads(overrides) == expected
    assert install["spec"]["networking"] == {"serviceNetwork": ["172.30.0.0/16"]}
    required = {"controlPlaneAgents": 2, "arbiterAgents": 1, "workerAgents": 0}
    assert install["spec"]["provisionRequirements"] == required
    host, env, network = (found[kind, "spare"] for kind in ("BareMetalHost", "InfraEnv", "NMStateConfig"))
    assert {obj["metadata"]["namespace"] for obj in (host, env, network)} == {"pool"}
    # The template's own label wins over the user's.
    assert host["metadata"]["labels"]["infraenvs.agent-install.openshift.io"] == "spare"
    assert host["metadata"]["labels"]["site"] == "north"
    assert network["metadata"]["labels"] == env["spec"]["nmStateConfigLabelSelector"]["matchLabels"]
    assert annotations(host)["bmac.agent-install.openshift.io/hostname"] == "n1.lab.test"
    first = found["BareMetalHost", "n0.lab.test"]
    assert (first["spec"]["architecture"], host["spec"]["architecture"]) == ("aarch64", "x86_64")
    assert annotations(first)["bmac.agent-install.openshift.io.node-label.a/b"] == "1"
    text = "\n".join(err)
    assert "spec.caBundleRef: left out" in text
    assert "ManagedCluster" in text
    assert "Secret pool/pull" in text
    assert ("Namespace", "edge") not in found
    assert "Namespace edge, Namespace pool" in text


def test_a_site_config_has_one_infra_env_and_its_manifests(render, tmp_path):
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/a.yaml").write_text("kind: A\n")
    worker = node(1, role="worker", crSuppression=["BareMetalHost"])
    worker["crAnnotations"] = {"add": {"NMStateConfig": {"x": "node"}}}
    worker["nodeNetwork"] = {"config": {"interfaces": []}, "interfaces": [{"name": "e", "macAddress": MACS[1]}]}
    more: dict[str, Any] = {
        "crAnnotations": {"add": {"NMStateConfig": {"x": "c", "z": "c"}, "InfraEnv": {"z": "c"}}},
        "apiVIP": "192.0.2.1",
        "extraManifests": {"searchPaths": ["extra"]},
    }
    code, found, _ = render(site(node(0, ironicInspect="disabled"), worker, version="v1", **more))
    assert code == 0
    assert next(iter(found))[0] == "Namespace"
    assert found["ConfigMap", "north"]["data"] == {"a.yaml": "kind: A\n"}
    spec = found["AgentClusterInstall", "north"]["spec"]
    assert spec["manifestsConfigMapRef"] == {"name": "north"}
    # A worker beside one master is added later, and the requirements must not change then.
    assert spec["provisionRequirements"] == {"controlPlaneAgents": 1, "workerAgents": 0}
    assert [name for kind, name in found if kind == "InfraEnv"] == ["north"]
    assert ("BareMetalHost", "n1.lab.test") not in found
    network = found["NMStateConfig", "n1.lab.test"]
    assert annotations(network).get("x") == "node"
    assert "z" not in annotations(network)
    assert annotations(found["InfraEnv", "north"])["z"] == "c"
    assert annotations(found["BareMetalHost", "n0.lab.test"])["inspect.metal3.io"] == "disabled"
    spec = render(site(extraManifestPath="extra"))[1]["AgentClusterInstall", "north"]["spec"]
    assert spec["manifestsConfigMapRefs"] == [{"name": "north"}]


def test_everything_wrong_is_refused_at_once_and_without_secrets(render):
    bad = node(0, bmcAddress=f"redfish://u:{SECRET}@h/", ignitionConfigOverride=SECRET, role="boss", spam=SECRET)
    bad["bmcCredentialsName"] = SECRET
    wrong = instance(bad, holdInstallation="yes", pullSecretRef={"name": f'{{"auths": "{SECRET}"}}'}, reinstall={})
    del wrong["spec"]["baseDomain"]
    twins = site(node(1), node(2, role="worker", bootMACAddress=MACS[1].upper()))
    outside = site(clusterName="south", extraManifestPath="../..", diskEncryption={"type": "tang"})
    policy = {"kind": "Policy"}
    code, found, lines = render(wrong, twins, outside, policy)
    assert (code, found) == (1, {})
    text = "\n".join(lines)
    assert SECRET not in text
    for field in (
        *("spec.baseDomain: is missing", "spec.holdInstallation: 'yes': must be true", "spec.reinstall: "),
        *("spec.pullSecretRef.name: <not shown>", "spec.nodes[0].bmcAddress: <not shown>: it holds a login"),
        *("spec.nodes[0].ignitionConfigOverride: <not shown>", "spec.nodes[0].role: 'boss': must be master"),
        *("spec.nodes[0].spam: unknown field", "spec.nodes[0].bmcCredentialsName: must be a mapping"),
        "document 2: spec.clusters[0].nodes[1]: bootMACAddress 52:54:00:00:00:01: is that of",
        *("document 3: spec.clusters[0].diskEncryption.type: 'tang'", "document 4: kind: only SiteConfig"),
    ):
        assert sum(field in line for line in lines) == 1, field
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (site(node(0), node(1)), "nodes: 2 of role master: must be 1 or 3"),
        (site(extraManifestPath="../.."), "must be in the folder of the SiteConfig"),
        (instance(node(0), node(1)), "spec.provisionRequirements.controlPlaneAgents: 2"),
        (instance(node(0), node(1, role="arbiter")), "arbiters need clusterType HighlyAvailableArbiter"),
        (instance(node(0, templateRefs=[{"name": "mine", "namespace": "x"}])), "nodes[0].templateRefs: 'mine'"),
        (instance(node(0, nodeLabels={True: "x"})), "spec.nodes[0].nodeLabels: True: a key must be text"),
        (instance(platformType="BareMetal", apiVIPs=["192.0.2.300"]), "spec.apiVIPs[0]: '192.0.2.300': must be an IP"),
        (instance(node(0, rootDeviceHints={"deviceName": "sda"})), "spec.rootDeviceHints.deviceName: 'sda'"),
    ],
)
def test_rules_of_fields_and_of_admission(render, document, line):
    code, found, lines = render(document)
    assert (code, found, len(lines)) == (1, {}, 1)
    assert line in lines[0]


def test_a_folder_is_kubectls_and_of_the_last_render_alone(render, tmp_path):
    folder = tmp_path / "out"
    assert render(site(), options=["-o", str(folder)])[0] == 0
    assert render(instance(), options=["-o", str(folder)])[0] == 0
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in folder.iterdir()} == {*listed, "kustomization.yaml"}
    kinds = {yaml.safe_load((folder / name).read_text())["kind"] for name in listed}
    assert kinds == {"ClusterDeployment", "AgentClusterInstall", "InfraEnv", "BareMetalHost"}
    before = sorted(tmp_path.rglob("*"))
    code, _, lines = render(instance(), options=["-o", str(tmp_path)])
    assert code == 1
    assert "must be new, empty, or the folder of an earlier render" in lines[0]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["mine.yaml", "../of-another-render/kustomization.yaml"])
def test_files_that_no_render_made_stay(render, tmp_path, name):
    folder, another = tmp_path / "out", tmp_path / "of-another-render"
    assert render(instance(), options=["-o", str(folder)])[0] == 0
    assert render(instance(), options=["-o", str(another)])[0] == 0
    (folder / "mine.yaml").write_text("kind: Mine\n")
    listing = folder / "kustomization.yaml"
    listing.write_text(listing.read_text() + f"- {name}\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.yaml")}
    code, _, lines = render(instance(), options=["-o", str(folder)])
    assert code == 1
    assert f"{name}: is not of a render" in lines[0]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.yaml")} == before


def values():
    scalars = st.none() | st.booleans() | st.integers() | st.just(SECRET) | st.sampled_from(["", "a/b", "{", MACS[0]])
    return st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("name"), inner))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_value_in_any_field_is_refused_or_rendered(data):
    """No value ends in an exception, and none that may be a secret is shown."""
    document = copy.deepcopy(data.draw(st.sampled_from([instance(), site()])))
    own, common = schema.table(document["kind"].lower())["spec"], schema.table("common")
    level = document["spec"] if "clusterName" in document["spec"] else document["spec"]["clusters"][0]
    names = {**common["cluster"], **own["cluster"]}
    if data.draw(st.booleans()):
        level, names = level["nodes"][0], {**common["node"], **own["node"]["properties"]}
    name = data.draw(st.sampled_from(sorted(names)))
    level[name] = data.draw(values())
    found = Read()
    read_document(yamltext.load(yamltext.dump(document)), "", Path(), found)
    objects = [resource for cluster in found.clusters for resource in resources(cluster)]
    lines = [*found.problems, *problems(objects)]
    assert bool(objects) or bool(lines)
    if names[name].get("x-hidden") or names[name].get("type") == "object":
        assert SECRET not in "\n".join(lines)
