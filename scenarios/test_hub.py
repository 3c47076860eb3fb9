"""Clusters from custom resources: what a hub says of a cluster that it has installed, and what it says nowhere."""

import base64
import json

import pytest

from drivers.protocols import PowerState
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.hub import HubInstalled

# Everything of the hub is killed on the way; machines belong to no cluster at first; a person boots and approves them.
OTHER_WAYS = [
    "sno-ipv4-static-uefi-discovery_iso-hub-killed",
    "sno-ipv4-static-uefi-discovery_iso-hub-late_binding",
    "ha-ipv4-static-uefi-discovery_iso-hub-late_binding",
    "sno-ipv4-static-uefi-discovery_iso-hub-by_hand",
]
GONE_SECONDS = 60
by_hub = pytest.mark.parametrize("installation", params(lambda row: "hub" in row.variants), indirect=True)

# Of each kind of resource, the conditions of a cluster that is installed: type, status, reason.
CONDITIONS = {
    "infraenvs": {("ImageCreated", "True", "InfraEnvAvailable")},
    "agents": {
        ("SpecSynced", "True", "SyncOK"),
        ("RequirementsMet", "True", "AgentInstallationStopped"),
        ("Bound", "True", "Bound"),
        ("Installed", "True", "InstallationCompleted"),
    },
    "agentclusterinstalls": {
        ("SpecSynced", "True", "SyncOK"),
        ("Completed", "True", "InstallationCompleted"),
        ("Failed", "False", "InstallationNotFailed"),
        ("Stopped", "True", "InstallationCompleted"),
    },
    "clusterdeployments": {
        ("ClusterInstallCompleted", "True", "InstallationCompleted"),
        ("ClusterInstallFailed", "False", "InstallationNotFailed"),
        ("Provisioned", "True", "Provisioned"),
    },
}


def subject_of(installation: Installation) -> HubInstalled:
    assert isinstance(installation, HubInstalled)
    return installation


def assert_done(subject: HubInstalled) -> None:
    """Fail unless every resource says that it is done."""
    for kind, wanted in CONDITIONS.items():
        items = subject.hub.get(kind, "-n", subject.namespace)["items"]
        assert len(items) == (len(subject.topology.nodes) if kind == "agents" else 1)
        for item in items:
            found = {(c["type"], c["status"], c["reason"]) for c in item["status"]["conditions"]}
            assert found >= wanted, (kind, sorted(found))
    hosts = subject.hub.get("baremetalhosts", "-n", subject.namespace)["items"]
    states = [(host["status"]["provisioning"]["state"], host["status"]["errorMessage"]) for host in hosts]
    assert states == [("provisioned", "")] * len(hosts)


@by_hub
def test_every_resource_says_that_it_is_done(installation: Installation) -> None:
    assert_done(subject_of(installation))


@by_hub
def test_each_agent_is_paired_with_its_machine_and_approved(installation: Installation) -> None:
    subject = subject_of(installation)
    agents = subject.hub.get("agents", "-n", subject.namespace)["items"]
    paired = {agent["metadata"]["labels"]["agent-install.openshift.io/bmh"]: agent for agent in agents}
    assert set(paired) == {node.name for node in subject.topology.nodes}
    for name, agent in paired.items():
        macs = {nic["macAddress"].lower() for nic in agent["status"]["inventory"]["interfaces"]}
        assert agent["spec"]["approved"] is True
        assert subject.lab.nodes[name].spec.mac in macs
        assert agent["metadata"]["ownerReferences"][0]["kind"] == "InfraEnv"


@by_hub
def test_the_credentials_are_in_secrets_of_the_cluster_deployment(installation: Installation) -> None:
    subject = subject_of(installation)
    deployment = subject.hub.get("clusterdeployment", subject.topology.cluster_name, "-n", subject.namespace)
    metadata = deployment["spec"]["clusterMetadata"]
    for field, keys in (
        ("adminKubeconfigSecretRef", {"kubeconfig"}),
        ("adminPasswordSecretRef", {"username", "password"}),
    ):
        secret = subject.hub.get("secret", metadata[field]["name"], "-n", subject.namespace)
        assert set(secret["data"]) == keys
        assert secret["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
    version = subject.kubectl_json("get", "clusterversion", "version")
    assert metadata["clusterID"] == version["spec"]["clusterID"]


@by_hub
def test_no_secret_is_in_a_resource_an_event_or_a_log(installation: Installation) -> None:
    subject = subject_of(installation)
    login = subject.lab.credentials
    password = subject.hub.secret(subject.namespace, f"{subject.topology.cluster_name}-admin-password")["password"]
    pair = base64.b64encode(f"{login.registry_user}:{login.registry_password}".encode()).decode()
    kinds = "agents,agentclusterinstalls,clusterdeployments,infraenvs,baremetalhosts,hardwaredata,events"
    texts = {"resources": json.dumps(subject.hub.get(kinds, "-n", subject.namespace))}
    texts |= {
        path.name: path.read_text(errors="replace") for path in (subject.lab.artifacts / "commands").glob("*hub-run*")
    }
    assert len(texts) == 2
    for name, text in texts.items():
        for secret in (login.bmc_password, login.registry_password, pair, password):
            assert secret not in text, name


@pytest.mark.nightly
@pytest.mark.parametrize("installation", OTHER_WAYS, indirect=True)
def test_an_installation_ends_well_on_other_ways_too(installation: Installation) -> None:
    """And nothing is there twice, also where all of the hub was killed on the way: one agent for each machine."""
    subject = subject_of(installation)
    assert_done(subject)
    assert subject.api_ready()
    assert subject.nodes_ready()


@by_hub
@pytest.mark.disruptive
def test_deleting_the_resources_leaves_the_cluster_alone(installation: Installation) -> None:
    """First the cluster, with its agents and Secrets; then its environment and machines, and at last the namespace."""
    subject = subject_of(installation)
    hub, namespace, name = subject.hub, subject.namespace, subject.topology.cluster_name

    def gone(kind: str) -> None:
        wait_until(lambda: hub.get(kind, "-n", namespace)["items"] == [], GONE_SECONDS, f"all {kind} to be gone")

    hub.kubectl("delete", "clusterdeployment", name, "-n", namespace, "--timeout=80s")
    for kind in ("agentclusterinstalls", "agents"):
        gone(kind)
    hub.kubectl("delete", "infraenv", name, "-n", namespace, "--timeout=80s")
    hub.kubectl("delete", "baremetalhosts", "--all", "-n", namespace, "--timeout=80s")
    hub.kubectl("delete", "namespace", namespace, "--timeout=80s")
    for machine in subject.lab.nodes.values():
        assert machine.power.state() is PowerState.ON
    assert subject.api_ready()
    assert subject.nodes_ready()
