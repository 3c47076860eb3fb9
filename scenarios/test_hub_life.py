"""A hub's machines after, between and instead of installations, and the clusters that they come to and leave."""

import json
import re
import sys
from collections.abc import Iterator

import pytest

from lab.deploy import Deployment
from lab.waiting import wait_until
from scenarios.testing import ignitionguard
from scenarios.testing.hub import OPERATOR, Hub, operator
from scenarios.testing.hublife import INSTALLER_ARGS, Life, machine, one_node, resolve, shared
from scenarios.testing.hubresources import resources

SNO, COMPACT = (f"{shape}-ipv4-static-uefi-discovery_iso-hub" for shape in ("sno", "compact"))
READY_SECONDS = 300
SETTINGS = "unsupported.agent-install.openshift.io/assisted-service-configmap"
GUARD_PORT, GUARD_TOKEN = 8480, "dG9rZW4tb2YtaWduaXRpb24="

pytestmark = pytest.mark.nightly


@pytest.fixture
def hub(deployment: Deployment) -> Iterator[Hub]:
    """Provide the operator in a lab whose machines are off."""
    with operator(deployment) as running:
        yield running


@pytest.mark.parametrize("deployment", [f"{SNO}-two_clusters"], indirect=True)
def test_hosts_of_one_infra_env_are_dealt_to_two_clusters(deployment: Deployment, hub: Hub) -> None:
    life, documents = Life(hub), resources(deployment)
    machines = {node.name: name for node, name in zip(deployment.topology.nodes, ("first", "second"), strict=True)}
    resolve(hub.lab, {machines[node.name]: node.ip for node in deployment.topology.nodes})
    clusters = [item for name in machines.values() for item in one_node(documents, name, name)]
    hosts = [item for name in machines for item in machine(documents, name, "master")]
    with hub.lab.phase("discovered"):
        life.apply(*shared(documents), *clusters, *hosts)
        for name in machines:
            life.reached(name, "known-unbound")
    with hub.lab.phase("bound to installed"):
        for name, cluster in machines.items():
            life.bind(name, cluster)
        for cluster in machines.values():
            hub.wait_for(f"clusterdeployment/{cluster}")
    for name, cluster in machines.items():
        life.reached(name, "installed", seconds=READY_SECONDS)
        assert life.nodes(cluster) == {name: True}
    ids = {life.get("clusterdeployment", name)["spec"]["clusterMetadata"]["clusterID"] for name in machines.values()}
    assert len(ids) == len(machines)


@pytest.mark.parametrize("deployment", [f"{SNO}-day2_worker", f"{COMPACT}-day2_worker"], indirect=True)
def test_a_machine_that_comes_later_is_a_worker(deployment: Deployment, hub: Hub) -> None:
    """Of the same InfraEnv: applied after the installation, it is approved, added, and its Node is ready."""
    life, documents = Life(hub), resources(deployment)
    *masters, later = deployment.topology.nodes
    cluster = deployment.topology.cluster_name
    if len(masters) == 1:
        resolve(hub.lab, {cluster: masters[0].ip})
    with hub.lab.phase("apply to installed"):
        required = {"controlPlaneAgents": len(masters)}
        own = [
            *shared(documents, is_bound=True),
            *one_node(documents, cluster, cluster, provisionRequirements=required),
        ]
        life.apply(*own, *(item for node in masters for item in machine(documents, node.name)))
        hub.wait_for(f"clusterdeployment/{cluster}")
    with hub.lab.phase("apply to added"):
        life.apply(*machine(documents, later.name))
        agent = life.reached(later.name, "added-to-existing-cluster")
    assert agent["spec"]["approved"] is True
    assert life.conditions("agent", agent["metadata"]["name"])["Installed"] == ("True", "InstallationCompleted")
    assert life.nodes(cluster) == {node.name: True for node in (*masters, later)}
    assert life.conditions("agentclusterinstall", cluster)["Completed"] == ("True", "InstallationCompleted")


@pytest.mark.parametrize("deployment", [f"{SNO}-unbound"], indirect=True)
def test_an_installed_host_that_is_unbound_is_installed_again(deployment: Deployment, hub: Hub) -> None:
    """In another cluster: its BMC boots it into discovery, and nobody else does anything."""
    life, documents = Life(hub), resources(deployment)
    [node] = deployment.topology.nodes
    domain_name = deployment.topology.cluster_name
    life.apply(*shared(documents), *one_node(documents, "before", domain_name), *machine(documents, node.name))
    with hub.lab.phase("first installation"):
        life.reached(node.name, "known-unbound")
        life.bind(node.name, "before")
        hub.wait_for("clusterdeployment/before")
    first = life.nodes("before")
    with hub.lab.phase("unbound to discovered"):
        life.bind(node.name, "")
        life.reached(node.name, "known-unbound")
    with hub.lab.phase("second installation"):
        life.apply(*one_node(documents, "after", domain_name))
        life.bind(node.name, "after")
        hub.wait_for("clusterdeployment/after")
    assert life.nodes("after") == first == {node.name: True}
    ids = {life.get("clusterdeployment", name)["spec"]["clusterMetadata"]["clusterID"] for name in ("before", "after")}
    assert len(ids) == 2


@pytest.mark.parametrize("deployment", [f"{SNO}-held"], indirect=True)
def test_a_held_installation_takes_another_image_is_deleted_and_begins_anew(deployment: Deployment, hub: Hub) -> None:
    """Held: nothing begins. Another NMStateConfig: the host boots another image. Released, and deleted while it is
    installed: the host is discovered again. Its next cluster is installed."""
    life, documents = Life(hub), resources(deployment)
    [node] = deployment.topology.nodes
    cluster = deployment.topology.cluster_name
    held = one_node(documents, cluster, cluster, holdInstallation=True)
    life.apply(*shared(documents), *held, *machine(documents, node.name))
    with hub.lab.phase("held"):
        life.reached(node.name, "known-unbound")
        life.bind(node.name, cluster)
        life.says("agentclusterinstall", cluster, "Completed", ("False", "InstallationOnHold"))
    with hub.lab.phase("another image"):
        before = life.get("infraenv", cluster)["status"]["isoDownloadURL"]
        [config] = [item for item in documents if item["kind"] == "NMStateConfig"]
        config["spec"]["config"]["interfaces"][0]["mtu"] = 1400
        life.apply(config)

        def mtus() -> set[int]:
            inventory = (life.agent(node.name).get("status") or {}).get("inventory") or {}
            return {nic.get("mtu") for nic in inventory.get("interfaces", ())}

        wait_until(lambda: 1400 in mtus(), READY_SECONDS, "the host to have booted the new image", mtus, poll=2)
        assert life.get("infraenv", cluster)["status"]["isoDownloadURL"] != before
        life.says("agentclusterinstall", cluster, "Completed", ("False", "InstallationOnHold"))
    with hub.lab.phase("released and deleted"):
        life.patch("agentclusterinstall", cluster, {"spec": {"holdInstallation": False}})
        life.reached(node.name, "installing-in-progress", seconds=READY_SECONDS)
        hub.kubectl("delete", "clusterdeployment", cluster, "-n", life.namespace, "--timeout=80s")
        life.reached(node.name, "known-unbound")
    with hub.lab.phase("installed anew"):
        life.apply(*one_node(documents, cluster, cluster))
        life.bind(node.name, cluster)
        hub.wait_for(f"clusterdeployment/{cluster}")
    assert life.nodes(cluster) == {node.name: True}


@pytest.mark.parametrize("deployment", [f"{SNO}-failed"], indirect=True)
def test_a_failed_installation_is_tried_again_with_a_new_cluster_install(deployment: Deployment, hub: Hub) -> None:
    """The host is given a folder that it has not; with that corrected, the AgentClusterInstall is made anew."""
    life, documents = Life(hub), resources(deployment)
    [node] = deployment.topology.nodes
    cluster = deployment.topology.cluster_name
    own, [*network, host] = one_node(documents, cluster, cluster), machine(documents, node.name)
    host["metadata"]["annotations"][INSTALLER_ARGS] = json.dumps(["--copy-network", "--network-dir", "/nowhere"])
    life.apply(*shared(documents, is_bound=True), *own, *network, host)
    with hub.lab.phase("failed"):
        life.says("agentclusterinstall", cluster, "Failed", ("True", "InstallationFailed"))
    failed = life.agent(node.name)
    assert life.conditions("agent", failed["metadata"]["name"])["Installed"] == ("False", "InstallationFailed")
    assert life.conditions("clusterdeployment", cluster)["ProvisionStopped"][0] == "True"
    with hub.lab.phase("tried again"):
        life.patch("baremetalhost", node.name, {"metadata": {"annotations": {INSTALLER_ARGS: "[]"}}})
        hub.kubectl("delete", "agentclusterinstall", cluster, "-n", life.namespace, "--timeout=80s")
        life.apply(*own)
        hub.wait_for(f"clusterdeployment/{cluster}")
    assert life.nodes(cluster) == {node.name: True}


@pytest.mark.parametrize("deployment", [f"{SNO}-imported"], indirect=True)
def test_an_installed_cluster_that_is_imported_gets_a_worker(deployment: Deployment, hub: Hub) -> None:
    """All that the hub knew of it is deleted; then it is applied as one that is installed, with its kubeconfig.

    The worker's Ignition comes from a server of somebody else's that wants a token, which its Agent names.
    """
    life, documents = Life(hub), resources(deployment)
    first, later = deployment.topology.nodes
    cluster, imported = deployment.topology.cluster_name, "imported"
    resolve(hub.lab, {cluster: first.ip})
    with hub.lab.phase("apply to installed"):
        own = one_node(documents, cluster, cluster)
        life.apply(*shared(documents), *own, *machine(documents, first.name))
        life.reached(first.name, "known-unbound")
        life.bind(first.name, cluster)
        hub.wait_for(f"clusterdeployment/{cluster}")
    life.nodes(cluster)
    kubeconfig = (hub.directory / f"{cluster}.kubeconfig").read_text()
    with hub.lab.phase("forgotten"):
        # The host goes on: what the hub has of it is deleted before it could be booted into discovery.
        hub.kubectl("delete", "baremetalhost", first.name, "-n", life.namespace, "--timeout=80s")
        hub.kubectl("delete", "clusterdeployment", cluster, "-n", life.namespace, "--timeout=80s")
        hub.kubectl("delete", "agents", "--all", "-n", life.namespace, "--timeout=80s")
    with hub.lab.phase("imported to added"):
        again, install = one_node(documents, imported, cluster)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept", "namespace": life.namespace}}
        metadata = {"adminKubeconfigSecretRef": {"name": "kept"}, "clusterID": "", "infraID": ""}
        again["spec"] |= {"installed": True, "clusterMetadata": metadata}
        gateway = deployment.topology.gateway
        install["spec"]["ignitionEndpoint"] = {"url": f"http://{gateway}:{GUARD_PORT}/config"}
        life.apply(secret | {"stringData": {"kubeconfig": kubeconfig}}, again, install)
        life.says("agentclusterinstall", imported, "Completed", ("True", "InstallationCompleted"))
        life.apply(*machine(documents, later.name))
        life.reached(later.name, "known-unbound")
        life.bind(later.name, imported)
        guard = ["-m", ignitionguard.__name__, gateway, str(GUARD_PORT), f"http://{first.ip}:22624"]

        def answers() -> list[str]:
            """Return the statuses that the worker was answered with."""
            [log] = (hub.lab.artifacts / "commands").glob("*-ignition-guard.log")
            return re.findall(rf"^{re.escape(later.ip)} .* (\d+) -$", log.read_text(), re.MULTILINE)

        environment = {ignitionguard.TOKEN: GUARD_TOKEN}
        with hub.lab.running([sys.executable, *guard], env=environment, name="ignition-guard"):
            life.reached(later.name, "insufficient")
            wait_until(lambda: "401" in answers(), READY_SECONDS, "the worker to be refused its Ignition", answers)
            secret["metadata"] = {"name": "token", "namespace": life.namespace}
            life.apply(secret | {"stringData": {"ignition-token": GUARD_TOKEN}})
            reference = {"ignitionEndpointTokenReference": secret["metadata"]}
            life.patch("agent", life.agent(later.name)["metadata"]["name"], {"spec": reference})
            life.reached(later.name, "installing-in-progress")
            checked = answers()
            life.reached(later.name, "added-to-existing-cluster")
    assert checked[-1] == "200"
    # The installed system itself has asked, too, and was not refused.
    assert set(answers()[len(checked) :]) == {"200"}
    assert life.nodes(imported) == {first.name: True, later.name: True}


@pytest.mark.parametrize("deployment", [f"{SNO}-converged"], indirect=True)
def test_a_machine_of_the_converged_flow_is_installed(deployment: Deployment, hub: Hub) -> None:
    """Its BareMetalHost gets a deploy method in the place of an image, and a PreprovisioningImage to boot."""
    life, documents = Life(hub), resources(deployment)
    [node] = deployment.topology.nodes
    cluster = deployment.topology.cluster_name
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": OPERATOR}}
    config = {
        "apiVersion": "agent-install.openshift.io/v1beta1",
        "kind": "AgentServiceConfig",
        "metadata": {"name": "agent", "annotations": {SETTINGS: "settings"}},
        "spec": {"databaseStorage": {}, "filesystemStorage": {}},
    }
    life.apply(settings | {"data": {"ALLOW_CONVERGED_FLOW": "true"}}, config)
    with hub.lab.phase("apply to installed"):
        life.apply(*shared(documents, is_bound=True), *one_node(documents, cluster, cluster))
        life.apply(*machine(documents, node.name))
        hub.wait_for(f"clusterdeployment/{cluster}")
    host = life.get("baremetalhost", node.name)
    assert (host["spec"]["customDeploy"], host["spec"].get("image")) == ({"method": "start_assisted_install"}, None)
    image = life.get("preprovisioningimage", node.name)["status"]
    assert image["imageUrl"] == host["status"]["provisioning"]["image"]["url"]
    assert life.conditions("preprovisioningimage", node.name)["Ready"] == ("True", "InfraEnvAvailable")
    assert life.nodes(cluster) == {node.name: True}
