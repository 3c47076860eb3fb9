"""The hub's manifests on a real API server: definitions, validation, and what the operator's account may do."""

import json

import pytest

from installer.hub.crds.manifests import definitions, operator_objects
from lab.testing.hub import LoopbackHub, loopback_hub

pytestmark = pytest.mark.lab
NMSTATE = """\
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: host, namespace: default}
spec:
  interfaces: [{name: eth0, macAddress: "MAC"}]
  config: {}
"""
INFRA_ENV = """\
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: env, namespace: default}
spec: {pullSecretRef: {name: pull-secret}}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with loopback_hub(tmp_path_factory.mktemp("hub") / "place") as hub:
        everything = {"apiVersion": "v1", "kind": "List", "items": [*definitions(), *operator_objects()]}
        # This API server knows no CEL rules, which kubectl would say; it leaves them out.
        run = hub.kubectl("create", "--validate=false", "-f", "-", text=json.dumps(everything))
        assert run.returncode == 0, run.stderr
        assert hub.kubectl("wait", "--for=condition=Established", "crd", "--all").returncode == 0
        yield hub


def test_every_schema_is_structural(hub):
    items = json.loads(hub.kubectl("get", "crd", "-o", "json").stdout)["items"]
    assert len(items) == len(definitions())
    types = {condition["type"] for item in items for condition in item["status"]["conditions"]}
    assert types == {"NamesAccepted", "Established"}


def test_values_are_checked_and_defaults_filled_in(hub):
    refused = hub.kubectl("apply", "-f", "-", text=NMSTATE.replace("MAC", "52:54:00"))
    assert "spec.interfaces.macAddress" in refused.stderr
    assert hub.kubectl("apply", "-f", "-", text=NMSTATE.replace("MAC", "52:54:00:00:00:01")).returncode == 0
    assert hub.kubectl("apply", "-f", "-", text=INFRA_ENV).returncode == 0
    spec = json.loads(hub.kubectl("get", "infraenv", "env", "-o", "json").stdout)["spec"]
    assert (spec["cpuArchitecture"], spec["ipxeScriptType"]) == ("x86_64", "DiscoveryImageAlways")


def may(hub: LoopbackHub, *words: str) -> bool:
    account = "--as=system:serviceaccount:node0-hub:node0-hub"
    return hub.kubectl("auth", "can-i", *words, account).stdout.strip() == "yes"


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("create agents -n default", True),
        ("update infraenvs --subresource=status -n default", True),
        ("delete infraenvs -n default", False),
        ("get secrets -n default", True),
        ("delete secrets -n default", False),
        ("delete baremetalhosts -n default", False),
        ("create clusterdeployments -n default", False),
        ("update leases -n node0-hub", True),
        ("update leases -n kube-system", False),
        ("create pods -n node0-hub", False),
        ("update clusterroles", False),
    ],
)
def test_the_operators_account_may_do_its_work_and_no_more(hub, words, allowed):
    assert may(hub, *words.split()) is allowed
