"""A hub's API server accepts custom resources as the field writes them, and its controllers clear up after owners."""

import json

import pytest

from lab.testing.hub import LoopbackHub, loopback_hub
from lab.waiting import wait_until

pytestmark = pytest.mark.lab
STATUS = {"type": "object", "required": ["url"], "properties": {"url": {"type": "string", "default": ""}}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.test.node0.example"},
    "spec": {
        "group": "test.node0.example",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": STATUS}}},
            }
        ],
    },
}


THING = {
    "apiVersion": "test.node0.example/v1",
    "kind": "Thing",
    "metadata": {"name": "thing", "namespace": "default"},
    "status": {"url": ""},
}


def applied(hub: LoopbackHub, resource: dict[str, object]) -> None:
    run = hub.kubectl("apply", "-f", "-", text=json.dumps(resource))
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with loopback_hub(tmp_path_factory.mktemp("hub") / "place") as hub:
        yield hub


def test_a_resource_with_an_empty_text_is_accepted(hub):
    applied(hub, DEFINITION)
    assert hub.kubectl("wait", "--for=condition=Established", "crd", "--all").returncode == 0
    applied(hub, THING)
    assert json.loads(hub.kubectl("get", "thing", "thing", "-o", "json").stdout)["status"] == {"url": ""}


def test_an_owned_object_goes_with_its_owner(hub):
    def config_map(name: str, *owners: object) -> dict[str, object]:
        metadata = {"name": name, "namespace": "default", "ownerReferences": owners}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    applied(hub, config_map("owner"))
    owner = json.loads(hub.kubectl("get", "configmap", "owner", "-o", "json").stdout)
    uid = owner["metadata"]["uid"]
    applied(hub, config_map("owned", {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}))
    assert hub.kubectl("delete", "configmap", "owner").returncode == 0
    wait_until(lambda: hub.kubectl("get", "configmap", "owned").returncode == 1, 60, "the owned object to be removed")


def test_a_service_account_gets_a_token(hub):
    secrets = ["get", "secrets", "-n", "default", "-o", "jsonpath={.items[*].type}"]
    wait_until(
        lambda: "kubernetes.io/service-account-token" in hub.kubectl(*secrets).stdout,
        30,
        "a token in namespace default",
    )
