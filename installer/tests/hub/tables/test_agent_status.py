"""The status and labels of an Agent, from a host as the service shows it."""

import json

from installer.hub.tables.agent import NAMESPACE_LABEL, AgentFacts, labels, status
from installer.testing.service.rendezvous_kit import inventory


def facts(**host):
    return AgentFacts(name="ns/a", host={"status": "known", "role": "auto-assign", "suggested_role": "master", **host})


def test_the_inventory_is_the_custom_resources():
    found = status(facts(inventory=json.dumps(inventory("node-1"))), "https://events", "https://logs")
    assert found["role"] == "master"
    assert found["inventory"]["hostname"] == "node-1"
    disk = found["inventory"]["disks"][0]
    assert disk["id"]
    assert isinstance(disk["installationEligibility"]["notEligibleReasons"], list)
    nic = found["inventory"]["interfaces"][0]
    assert nic["macAddress"]
    assert {"ipV4Addresses", "ipV6Addresses", "flags"} <= set(nic)
    assert found["debugInfo"] == {"eventsURL": "https://events", "state": "known"}


def test_labels_follow_from_the_inventory_and_have_only_what_labels_may_have():
    data = inventory("node-1") | {
        "system_vendor": {"manufacturer": "A (B) Inc.", "product_name": "-x", "virtual": True},
        "cpu": {"count": 4, "flags": ["vmx"], "architecture": "x86_64"},
    }
    found = labels(status(facts(inventory=json.dumps(data)), "", "")["inventory"], "ns")
    prefix = "inventory.agent-install.openshift.io/"
    assert found[NAMESPACE_LABEL] == "ns"
    assert found[f"{prefix}cpu-virtenabled"] == "true"
    assert found[f"{prefix}host-isvirtual"] == "true"
    # A trailing dot, or a dash in front, is none that a label may have: upstream leaves such labels out too.
    assert f"{prefix}host-manufacturer" not in found
    assert f"{prefix}host-productname" not in found
    assert labels({}, "") == {NAMESPACE_LABEL: ""}


def test_progress_has_whole_seconds_and_is_absent_before_there_is_any():
    assert "progress" not in status(facts(), "", "")
    stages = {"current_stage": "Rebooting", "stage_started_at": "2026-01-02T03:04:05.678Z"}
    found = status(facts(progress=stages, progress_stages=["Rebooting", "Done"]), "", "")["progress"]
    assert found["stageStartTime"] == "2026-01-02T03:04:05Z"
    assert found["progressStages"] == ["Rebooting", "Done"]
