"""InfraEnv's table: parameters, the sentence for each mistake, and a status that settles."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, composite, lists, sampled_from

from installer.hub.kube.kinds import CLUSTER_DEPLOYMENT, INFRA_ENV, NMSTATE_CONFIG, Key
from installer.hub.tables import infraenv as table

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
ARTIFACTS = dict.fromkeys(("kernel", "initrd", "rootfs", "ipxe_script", "discovery_ignition"), "https://s/x")


def env(namespace="edge", **spec):
    obj = INFRA_ENV.new(Key(namespace, "env"), spec={"pullSecretRef": {"name": "pull"}, **spec})
    obj["metadata"]["uid"] = "1"
    return obj


def config(name, *macs, namespace="edge", **labels):
    interfaces = [{"name": f"eth{number}", "macAddress": mac} for number, mac in enumerate(macs)]
    obj = NMSTATE_CONFIG.new(Key(namespace, name), spec={"interfaces": interfaces, "config": {"interfaces": []}})
    obj["metadata"]["labels"] = labels
    return obj


def deployment(**spec):
    return CLUSTER_DEPLOYMENT.new(Key("edge", "one"), spec=spec)


MAC, OTHER = "52:54:00:AA:00:01", "52:54:00:aa:00:02"
BOUND = {"clusterRef": {"name": "one", "namespace": "edge"}}


@pytest.mark.parametrize(
    ("selector", "labels", "chooses"),
    [
        ({}, {"a": "b"}, False),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, {"a": "b"}, False),
    ],
)
def test_selectors(selector, labels, chooses):
    assert table.selects(selector, labels) is chooses


@pytest.mark.parametrize(
    "expression", [{"operator": "In"}, {"operator": "Exists", "values": ["a"]}, {"operator": "Is"}]
)
def test_a_selector_of_no_rule_is_an_error(expression):
    with pytest.raises(table.SelectorError, match="matchExpressions of k"):
        table.selects({"matchExpressions": [{"key": "k", **expression}]}, {})


def test_configs_of_other_namespaces_are_not_chosen_and_the_order_is_that_of_names():
    configs = [config("b", MAC, a="b"), config("a", OTHER, a="b"), config("c", MAC, namespace="other", a="b")]
    found = table.chosen(env(nmStateConfigLabelSelector={"matchLabels": {"a": "b"}}), configs)
    assert [item["metadata"]["name"] for item in found] == ["a", "b"]


def test_every_parameter_is_sent_so_that_what_is_taken_out_of_the_spec_is_taken_back():
    full = env(
        sshAuthorizedKey="ssh-ed25519 A",
        additionalNTPSources=["a", "b"],
        proxy={"httpProxy": "http://p"},
        kernelArguments=[{"operation": "append", "value": "x=1"}],
        osImageVersion="4.18",
        imageType="full-iso",
        cpuArchitecture="aarch64",
    )
    sent = table.parameters(table.Inputs(full, [config("a", MAC)], "{}"))
    assert sent["additional_ntp_sources"] == "a,b"
    assert sent["proxy"] == {"http_proxy": "http://p", "https_proxy": "", "no_proxy": ""}
    assert sent["kernel_arguments"] == [{"operation": "append", "value": "x=1"}]
    assert (sent["openshift_version"], sent["image_type"], sent["cpu_architecture"]) == ("4.18", "full-iso", "aarch64")
    (static,) = sent["static_network_config"]
    assert static["mac_interface_map"] == [{"mac_address": MAC, "logical_nic_name": "eth0"}]
    assert json.loads(static["network_yaml"]) == {"interfaces": []}
    bare = table.parameters(table.Inputs(env()))
    assert sent.keys() - bare.keys() == {"openshift_version", "image_type"}
    cluster = {"id": "7", "openshift_version": "4.17"}
    bound = table.parameters(table.Inputs(env(**BOUND), deployment=deployment(), cluster=cluster))
    assert (bound["cluster_id"], bound["openshift_version"]) == ("7", "4.17")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (table.Inputs(env(**BOUND)), "ClusterDeployment edge/one, which spec.clusterRef names, does not exist"),
        (table.Inputs(env(**BOUND), deployment=deployment()), "needs an AgentClusterInstall"),
        (
            table.Inputs(env(**BOUND), deployment=deployment(clusterInstallRef={"name": "aci"})),
            "see the conditions of AgentClusterInstall edge/aci",
        ),
    ],
)
def test_a_missing_cluster_is_named(inputs, words):
    assert words in table.missing_cluster(inputs)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (table.Inputs(env(), secret_problem="Secret edge/pull: no"), "Secret edge/pull"),
        (table.Inputs(env(**BOUND, osImageVersion="4"), deployment=deployment()), "spec.osImageVersion"),
        (table.Inputs(env(ntpSources=["a"], additionalNTPSources=["b"])), "spec.ntpSources"),
        (table.Inputs(env(mirrorRegistryRef={"name": "m"})), "spec.mirrorRegistryRef"),
        (table.Inputs(env(ipxeScriptType="BootOrderControl")), "spec.ipxeScriptType"),
        (table.Inputs(env(), [config("a")]), "NMStateConfig a"),
        (table.Inputs(env(), [config("a", MAC), config("b", OTHER, MAC.lower())]), "52:54:00:aa:00:01 .*: a, b"),
    ],
)
def test_each_mistake_is_a_sentence(inputs, words):
    (problem,) = table.problems(inputs)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(problem)


def test_an_image_version_beside_an_installed_cluster_is_no_mistake():
    inputs = table.Inputs(env(**BOUND, osImageVersion="4"), deployment=deployment(installed=True))
    assert table.problems(inputs) == []


def test_a_repr_has_no_pull_secret():
    assert "hunter2" not in repr(table.Inputs(env(), pull_secret="hunter2"))


@composite
def outcomes(draw):
    url = draw(sampled_from(["https://s/1", "https://s/2", ""]))
    image = table.Image(url, ARTIFACTS, "https://s") if url else None
    if image is not None:
        return table.available(), image
    return draw(sampled_from([table.failed("a"), table.failed("b"), table.waiting("c")])), None


@given(lists(outcomes(), min_size=1, max_size=6), booleans())
def test_any_order_of_outcomes_ends_with_the_last_s_condition_and_then_settles(order, with_network):
    infra_env = env()
    configs = [config("a", MAC)] if with_network else []
    for number, (condition, image) in enumerate(order):
        before = infra_env.get("status") or {}
        now = NOW + timedelta(minutes=number)
        infra_env["status"] = table.status(table.Inputs(infra_env, configs), condition, image, now)
        (found,) = infra_env["status"]["conditions"]
        assert (found["status"], found["reason"], found["message"]) == (
            *(condition.status, condition.reason),
            condition.message,
        )
        assert ("isoDownloadURL" in infra_env["status"]) == ("createdTime" in infra_env["status"]) == bool(image)
        if image and before.get("isoDownloadURL") == image.url:
            assert infra_env["status"]["createdTime"] == before["createdTime"]
    condition, image = order[-1]
    assert (
        table.status(table.Inputs(infra_env, configs), condition, image, NOW + timedelta(days=1)) == infra_env["status"]
    )
