"""Statuses against the definitions of their resources: a server drops unknown fields without a word."""

import json
from importlib.resources import files

import pytest
import yaml

from installer.hub.conditions import HEARTBEAT, Condition, set_conditions
from installer.hub.tables import agent, cluster, deployment
from installer.hub.tables.cluster import ClusterFacts, Member, Numbers
from installer.rendezvous.clock import now
from installer.testing.service.rendezvous_kit import inventory

TYPES = {"string": str, "integer": int, "boolean": bool, "number": (int, float), "object": dict, "array": list}
STAMP = "2026-01-02T03:04:05.678Z"
VALIDATIONS = json.dumps({"network": [{"id": "a", "status": "failure", "message": "m"}]})
HOST = {
    "status": "installing-in-progress",
    "status_info": "Rebooting",
    "role": "auto-assign",
    "suggested_role": "master",
    "bootstrap": True,
    "kind": "Host",
    "inventory": json.dumps(inventory("n") | {"bmc_address": "192.0.2.1", "bmc_v6address": "2001:db8::1"}),
    "installation_disk_id": "/dev/sda",
    "ntp_sources": json.dumps([{"source_name": "a", "source_state": "synced"}]),
    "validations_info": VALIDATIONS,
    "progress": {
        "current_stage": "Rebooting",
        "stage_started_at": STAMP,
        "stage_updated_at": STAMP,
        "installation_percentage": 5,
        "progress_info": "x",
    },
    "progress_stages": ["Rebooting"],
    "logs_collected_at": STAMP,
}
CLUSTER = {
    "status": "ready",
    "status_info": "x",
    "machine_networks": [{"cidr": "192.0.2.0/24", "cluster_id": "x"}],
    "api_vips": [{"ip": "192.0.2.1"}],
    "ingress_vips": [{"ip": "192.0.2.2"}],
    "connectivity_majority_groups": "{}",
    "progress": {"total_percentage": 4},
    "platform": {"type": "baremetal"},
    "user_managed_networking": False,
    "controller_logs_collected_at": STAMP,
    "validations_info": VALIDATIONS,
}


def unfit(value, schema, path):
    """Yield what a server would refuse or drop."""
    kind = TYPES.get(schema.get("type"), object)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield f"{path}: {value!r} is no {schema['type']}"
    elif value not in schema.get("enum", [value]):
        yield f"{path}: {value!r} is none of {schema['enum']}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from unfit(item, schema["items"], f"{path}[{number}]")
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            yield from unfit(item, known, f"{path}.{name}") if known else [f"{path}.{name} is dropped"]


def agent_status():
    facts = agent.AgentFacts(name="n/a", host=HOST, cleanup="x")
    conditions = set_conditions([], agent.conditions(facts), now(), second=HEARTBEAT)
    return agent.status(facts, "https://e", "https://l") | {"conditions": conditions}


def cluster_status(body):
    members = [Member("a", "master", "known"), Member("b", "worker", "known")]
    facts = ClusterFacts(name="n/c", required=Numbers(1), cluster=body, members=members)
    conditions = set_conditions([], cluster.conditions(facts), now())
    return cluster.status(facts, "https://e", "https://l") | {"conditions": conditions}


def deployment_status():
    install = {"status": cluster_status(CLUSTER | {"status": "installed"})}
    conditions = set_conditions([], deployment.conditions("n/c", install), now())
    return deployment.timestamps({}, install) | {"conditions": conditions}


def classification_status():
    found = Condition("QueryErrors", "False", "NoQueryErrors", "x")
    return {"matchedCount": 1, "errorCount": 1, "conditions": set_conditions([], [found], now(), second=HEARTBEAT)}


@pytest.mark.parametrize(
    ("plural", "status"),
    [
        ("agents", agent_status()),
        ("agentclusterinstalls", cluster_status(CLUSTER)),
        ("agentclusterinstalls", cluster_status(None)),
        ("clusterdeployments", deployment_status()),
        ("agentclassifications", classification_status()),
    ],
)
def test_a_status_has_nothing_that_its_definition_has_not(plural, status):
    definition = yaml.safe_load((files("installer.hub.crds") / f"data/{plural}.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert list(unfit(status, schema, "status")) == []
    assert list(unfit(status | {"unknown": 1}, schema, "status")) == ["status.unknown is dropped"]
