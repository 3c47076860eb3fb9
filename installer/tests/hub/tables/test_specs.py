"""Specs as the service gets them, and what is wrong with them: clusters, hosts, classifications, admission."""

import json

import pytest

from installer.hub.admission.rules import RULES
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLASSIFICATION,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    Key,
)
from installer.hub.tables import classification, clusterspec, hostspec
from installer.hub.tables.classification import Rule
from installer.hub.tables.clusterspec import Release, SpecError
from installer.rendezvous.resources.requests.clusters import ClusterParams
from installer.rendezvous.resources.requests.params import decoded

KEY = Key("ns", "c")
RELEASE = Release("r.example/release@sha256:1", "4.18.0", ("x86_64",))


def install(masters=1, **spec):
    return AGENT_CLUSTER_INSTALL.new(KEY, spec={"provisionRequirements": {"controlPlaneAgents": masters}, **spec})


def params(obj):
    deployment = CLUSTER_DEPLOYMENT.new(KEY, spec={"baseDomain": "b.example"})
    found = clusterspec.cluster_params(deployment, obj, RELEASE, "{}")
    decoded(found, ClusterParams)  # what the service takes, at any depth
    return found


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {},
            {"platform": {"type": "none"}, "user_managed_networking": True, "name": "c", "cpu_architecture": "x86_64"},
        ),
        ({"masters": 3}, {"platform": {"type": "baremetal"}, "user_managed_networking": False}),
        ({"masters": 3, "platformType": "None"}, {"platform": {"type": "none"}, "user_managed_networking": True}),
        (
            {"masters": 3, "platformType": "External", "external": {"platformName": "oci"}},
            {"platform": {"type": "external", "external": {"platform_name": "oci"}}, "user_managed_networking": True},
        ),
        ({"masters": 3, "apiVIP": "192.0.2.1"}, {"api_vips": [{"ip": "192.0.2.1"}]}),
        (
            {"networking": {"clusterNetwork": [{"cidr": "10.0.0.0/8", "hostPrefix": 23}], "networkType": "Calico"}},
            {"cluster_networks": [{"cidr": "10.0.0.0/8", "host_prefix": 23}], "network_type": "Calico"},
        ),
        ({"controlPlane": {"hyperthreading": "Disabled"}}, {"hyperthreading": "arbiters,workers"}),
        ({"compute": [{"hyperthreading": "Enabled"}]}, {"hyperthreading": "all"}),
        (
            {"diskEncryption": {"enableOn": "all", "mode": "tpmv2"}},
            {"disk_encryption": {"enable_on": "all", "mode": "tpmv2"}},
        ),
        ({"loadBalancer": {"type": "UserManaged"}}, {"load_balancer": {"type": "user-managed"}}),
        ({"proxy": {"httpProxy": "http://p.example"}, "mastersSchedulable": True}, {"http_proxy": "http://p.example"}),
    ],
)
def test_a_clusters_parameters(spec, wanted):
    found = params(install(**spec))
    assert {key: found[key] for key in wanted} == wanted


def test_a_mirrors_sources_are_overrides_below_the_annotations():
    text = '[[registry]]\nlocation = "a.example"\n[[registry.mirror]]\nlocation = "m.example"\n'
    mirror = clusterspec.mirror_overrides("ns/m", {"registries.conf": text})
    assert mirror == {"imageDigestSources": [{"source": "a.example", "mirrors": ["m.example"]}]}
    obj = install()
    obj["metadata"]["annotations"] = {clusterspec.OVERRIDES: '{"fips": true}'}
    assert json.loads(clusterspec.install_config_overrides(obj, mirror)) == {"fips": True, **mirror}
    assert clusterspec.install_config_overrides(obj, {}) == '{"fips": true}'
    for wrong in ("", "[[registry", "[[registry]]\nprefix = 1\n"):
        with pytest.raises(SpecError, match="ns/m"):
            clusterspec.mirror_overrides("ns/m", {"registries.conf": wrong})


def test_ignored_validations_are_lists_however_they_are_written():
    obj = install()
    assert clusterspec.ignored_validations(obj) is None
    for text in ("a, b", '["a","b"]'):
        obj["metadata"]["annotations"] = {clusterspec.IGNORED_CLUSTER: text, clusterspec.IGNORED_HOST: ""}
        assert clusterspec.ignored_validations(obj) == ("[]", '["a", "b"]')


def test_changes_of_a_host_are_those_that_differ_and_a_disk_has_several_names():
    disk = {"id": "/dev/disk/by-id/x", "path": "/dev/sda", "by_path": "/dev/disk/by-path/y"}
    host = {"role": "master", "installation_disk_id": disk["id"], "inventory": json.dumps({"disks": [disk]})}
    for name in (disk["id"], disk["by_path"], "/dev/sda"):
        assert not hostspec.changes({"role": "master", "installation_disk_path": name}, host)
    found = hostspec.changes({"role": "worker", "installation_disk_id": "/dev/sdb", "nodeLabels": {"a": "b"}}, host)
    assert found.params == {
        "host_role": "worker",
        "disks_selected_config": [{"id": "/dev/sdb", "role": "install"}],
        "node_labels": [{"key": "a", "value": "b"}],
    }
    assert not hostspec.changes({"hostname": "", "role": ""}, {"node_labels": "{}", "installer_args": "[]"})
    with pytest.raises(SpecError, match=r"spec\.ignitionEndpointHTTPHeaders: 'X Y' is no name of a header"):
        hostspec.changes({"ignitionEndpointHTTPHeaders": {"X Y": "z"}}, {})


def test_queries_give_one_boolean_and_read_nothing_but_the_inventory():
    inventory = {"cpu": {"count": 4}, "disks": [{"sizeBytes": 5}, {"sizeBytes": 7}]}
    assert classification.matches(".cpu.count >= 4", inventory)
    assert not classification.matches("[.disks[] | select(.sizeBytes > 6)] | length > 1", inventory)
    for query, text in (
        (".cpu.count", "int"),
        (".disks[] | true", "several"),
        ("empty", "no value"),
        ("env.HOME == null", "env"),
        ("$ENV | length > 0", "ENV"),
        ("[inputs] == []", "inputs"),
        ("", "jq program"),
    ):
        with pytest.raises(ValueError, match=text):
            classification.matches(query, inventory)


def test_labels_of_classifications_come_and_go_and_those_of_nobody_stay():
    big, over = Rule("size", "big", ".cpu.count > 2"), Rule("size", "big", ".cpu.count > 2", is_over=True)
    inventory = {"cpu": {"count": 4}}
    assert classification.labels([big], inventory, {}) == {big.label: "big"}
    assert classification.labels([big], inventory, {big.label: "big"}) == {}
    assert classification.labels([big], {"cpu": {"count": 1}}, {big.label: "big"}) == {big.label: None}
    assert classification.labels([over], inventory, {big.label: big.error}) == {big.label: None}
    assert classification.labels([over], inventory, {big.label: "another's"}) == {}
    assert classification.labels([big], {}, {}) == {}


def completed(reason, **spec):
    obj = install(imageSetRef={"name": "a"}, **spec)
    return obj | {"status": {"conditions": [{"type": "Completed", "status": "False", "reason": reason}]}}


@pytest.mark.parametrize(
    ("kind", "old", "new", "problem"),
    [
        (AGENT_CLUSTER_INSTALL, None, install(networking={"userManagedNetworking": False}), "single node"),
        (
            AGENT_CLUSTER_INSTALL,
            None,
            install(3, platformType="None", networking={"userManagedNetworking": False}),
            "None",
        ),
        (AGENT_CLUSTER_INSTALL, None, install(2), "controlPlaneAgents"),
        (AGENT_CLUSTER_INSTALL, completed("InstallationNotStarted"), install(imageSetRef={"name": "b"}), "imageSetRef"),
        (
            AGENT_CLUSTER_INSTALL,
            completed("InstallationNotStarted"),
            install(imageSetRef={"name": "a"}, apiVIP="x"),
            "",
        ),
        (
            AGENT_CLUSTER_INSTALL,
            completed("InstallationInProgress"),
            install(imageSetRef={"name": "a"}, apiVIP="x"),
            "'x'",
        ),
        (
            AGENT_CLUSTER_INSTALL,
            completed("InstallationInProgress"),
            install(imageSetRef={"name": "a"}, clusterMetadata={"infraID": "x"}),
            "",
        ),
        (AGENT_CLUSTER_INSTALL, completed("InstallationCompleted"), install(3, imageSetRef={"name": "a"}), ""),
        (
            AGENT_CLUSTER_INSTALL,
            completed("InstallationNotStarted", external={"platformName": "oci"}),
            install(imageSetRef={"name": "a"}, external={"platformName": "x"}),
            "platformName",
        ),
        (CLUSTER_DEPLOYMENT, {"spec": {"installed": True}}, {"spec": {"installed": False}}, "spec.installed"),
        (
            CLUSTER_DEPLOYMENT,
            {"spec": {"installed": True, "clusterMetadata": {"infraID": "a"}}},
            {"spec": {"installed": True, "clusterMetadata": {"infraID": "b"}}},
            "clusterMetadata.infraID",
        ),
        (CLUSTER_DEPLOYMENT, {"spec": {}}, {"spec": {"installed": True}}, ""),
        (AGENT, None, {"spec": {"installation_disk_id": "a", "installation_disk_path": "b"}}, "exclude each other"),
        (
            AGENT,
            {"spec": {}, "status": {"debugInfo": {"state": "installing"}}},
            {"spec": {"clusterDeploymentName": {"name": "x"}}, "metadata": {}},
            "installing",
        ),
        (
            AGENT,
            None,
            {
                "spec": {"ignitionEndpointTokenReference": {"name": "t", "namespace": "other"}},
                "metadata": {"namespace": "own"},
            },
            "ignitionEndpointTokenReference.namespace: 'other': must be 'own'",
        ),
        (
            AGENT_CLUSTER_INSTALL,
            None,
            install(3, ignitionEndpoint={"url": "https://api/config?x"}),
            "spec.ignitionEndpoint.url: must have no login, query or fragment",
        ),
        (
            AGENT_CLASSIFICATION,
            {"spec": {"labelKey": "a", "labelValue": "b", "query": "true"}, "metadata": {}},
            {"spec": {"labelKey": "c", "labelValue": "b", "query": "true"}, "metadata": {}},
            "labelKey: cannot change",
        ),
        (
            AGENT_CLASSIFICATION,
            None,
            {"spec": {"labelKey": "a", "labelValue": "QUERYERRORx", "query": "true"}, "metadata": {}},
            "QUERYERROR",
        ),
        (AGENT_CLASSIFICATION, None, {"spec": {"labelKey": "a", "labelValue": "b", "query": "."}, "metadata": {}}, ""),
    ],
)
def test_rules_of_admission(kind, old, new, problem):
    found = RULES[kind].check(old, new)
    assert (len(found) == 1 and problem in found[0]) if problem else not found
