"""Agents: bound late and let go, changed, classified, deleted, as a real service has their hosts."""

import base64
import json

import pytest

from installer.assisted.enums import Stage
from installer.hub.conditions import condition
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLASSIFICATION,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    INFRA_ENV,
    SECRET,
    Key,
    labels_of,
    uid_of,
)
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.world_kit import NAMESPACE, VERSION, cluster_objects, wait_for_input_error, wait_until
from installer.testing.service.service_kit import MARKS

pytestmark = MARKS


def pool(world, name):
    """Apply an InfraEnv of no cluster, with the pull secret and release of a cluster that has no hosts of its own."""
    objects = cluster_objects(name, world.service.releases[VERSION], world.service.pull_secret)
    infra_env = objects[-1][1]
    del infra_env["spec"]["clusterRef"]
    infra_env["spec"]["agentLabels"] = {"rack": "r1"}
    world.apply(*objects)
    key = Key(NAMESPACE, name)
    world.wait(AGENT_CLUSTER_INSTALL, key, "SpecSynced", "True SyncOK")
    world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
    return key


def host(world, infra_env, agent):
    return world.user.find_host(uid_of(world.get(INFRA_ENV, infra_env)), agent.name) or {}


def again(world, infra_env, machine, name, wanted):
    """Register the machine anew, as its agent does after it was bound or unbound."""
    world.register(infra_env, machine)
    world.poll_until(infra_env, [machine], lambda: world.reason(AGENT, Key(NAMESPACE, machine.id), name) == wanted)


def test_an_agent_is_bound_late_moved_and_let_go(world):
    key, machine = pool(world, "pool"), Machine(11, Network())
    world.apply(*cluster_objects("second", world.service.releases[VERSION], world.service.pull_secret))
    (agent,) = world.discovered(key, machine)
    assert world.reason(AGENT, agent, "Bound") == "False Unbound"
    assert labels_of(world.get(AGENT, agent))["rack"] == "r1"
    assert "clusterDeploymentName" not in world.get(AGENT, agent)["spec"]
    world.change(AGENT, agent, clusterDeploymentName={"name": "none", "namespace": NAMESPACE}, approved=True)
    assert "ClusterDeployment site/none" in world.wait(AGENT, agent, "SpecSynced", "False InputError")
    world.change(AGENT, agent, clusterDeploymentName={"name": "pool", "namespace": NAMESPACE})
    world.wait(AGENT, agent, "Bound", "False Binding")
    world.change(AGENT_CLUSTER_INSTALL, key, holdInstallation=True)
    again(world, key, machine, "Bound", "True Bound")
    assert world.reason(AGENT, agent, "SpecSynced") == "True SyncOK"
    namespace = "agent-install.openshift.io/clusterdeployment-namespace"
    assert labels_of(world.get(AGENT, agent))[namespace] == NAMESPACE
    # To another cluster, by way of none.
    world.change(AGENT, agent, clusterDeploymentName={"name": "second", "namespace": NAMESPACE})
    world.wait(AGENT, agent, "Bound", "False Unbinding")
    world.change(AGENT_CLUSTER_INSTALL, Key(NAMESPACE, "second"), holdInstallation=True)
    world.register(key, machine)
    world.poll_until(key, [machine], lambda: world.reason(AGENT, agent, "Bound") == "False Binding")
    again(world, key, machine, "Bound", "True Bound")
    second = world.get(CLUSTER_DEPLOYMENT, Key(NAMESPACE, "second"))
    assert host(world, key, agent)["cluster_id"] == uid_of(second)
    # A cluster that is deleted gives it back.
    world.api.delete(CLUSTER_DEPLOYMENT, Key(NAMESPACE, "second"))
    world.gone((CLUSTER_DEPLOYMENT, Key(NAMESPACE, "second")))
    wait_until("unbound spec", lambda: world.get(AGENT, agent)["spec"].get("clusterDeploymentName"), None)
    again(world, key, machine, "Bound", "False Unbound")
    assert world.get(AGENT, agent)["spec"]["approved"] is True


def test_an_agents_spec_reaches_its_host_and_what_is_refused_is_told(world):
    key, machine = world.cluster("specs"), Machine(12, Network())
    world.change(AGENT_CLUSTER_INSTALL, key, holdInstallation=True)
    (agent,) = world.discovered(key, machine)
    disk = machine.inventory["disks"][0]["id"]
    ignition = '{"ignition": {"version": "3.2.0"}, "storage": {"files": []}}'
    world.change(AGENT, agent, hostname="named", role="master", machineConfigPool="infra")
    world.change(AGENT, agent, installerArgs='["--append-karg", "a=b"]')
    world.change(AGENT, agent, ignitionConfigOverrides=ignition, installation_disk_id=disk, nodeLabels={"a": "b"})
    wait_until("overrides", lambda: host(world, key, agent).get("ignition_config_overrides"), ignition)
    wait_until("labels", lambda: json.loads(host(world, key, agent).get("node_labels", "{}")), {"a": "b"})
    found = host(world, key, agent)
    assert (found["requested_hostname"], found["role"]) == ("named", "master")
    assert found["machine_config_pool_name"] == "infra"
    assert json.loads(found["installer_args"]) == ["--append-karg", "a=b"]
    world.wait(AGENT, agent, "SpecSynced", "True SyncOK")
    for wrong, text in (
        ({"installerArgs": "{"}, "spec.installerArgs is not JSON"),
        ({"installerArgs": '["--nonsense"]'}, "--nonsense"),
        ({"installerArgs": "", "ignitionConfigOverrides": "{"}, "onfig"),
        ({"ignitionConfigOverrides": "", "installation_disk_id": "/dev/not-found-by-hints"}, "no disk"),
        ({"installation_disk_path": disk}, "exclude each other"),
        (
            {"fencingCredentialsSecretRef": "bmc", "installation_disk_path": "", "installation_disk_id": ""},
            "Secret site/bmc",
        ),
        ({"fencingCredentialsSecretRef": None, "hostname": "localhost"}, "localhost"),
        ({"hostname": "named", "clusterDeploymentName": None}, "cannot leave it"),
        ({"hostname": "localhost", "clusterDeploymentName": key._asdict()}, "localhost"),
    ):
        world.change(AGENT, agent, **wrong)
        wait_for_input_error(world, AGENT, agent, text)
    # No start while a spec is not known.
    world.change(AGENT, agent, approved=True)
    world.wait(AGENT_CLUSTER_INSTALL, key, "RequirementsMet", "False UnsyncedAgents")
    login = {"address": "redfish+https://192.0.2.9/redfish/v1/Systems/1", "username": "admin", "password": "hidden"}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in login.items()}
    world.change(AGENT, agent, hostname="named", nodeLabels=None, fencingCredentialsSecretRef="bmc")
    wait_for_input_error(
        world, AGENT, agent, "Secret site/bmc, which spec.fencingCredentialsSecretRef names, does not exist"
    )
    world.apply((SECRET, SECRET.new(Key(NAMESPACE, "bmc"), data=data)))
    world.wait(AGENT, agent, "SpecSynced", "True SyncOK")
    assert json.loads(host(world, key, agent).get("node_labels") or "{}") == {}


def test_a_deleted_agents_host_is_deregistered_and_comes_again_when_it_registers(world):
    key, machine = world.cluster("deleted"), Machine(13, Network())
    (agent,) = world.discovered(key, machine)
    first = uid_of(world.get(AGENT, agent))
    world.api.delete(AGENT, agent)
    world.gone((AGENT, agent))
    assert host(world, key, agent) == {}
    world.register(key, machine)
    assert uid_of(world.get(AGENT, agent)) != first
    # With their InfraEnv go its agents; nothing hangs.
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    world.gone((CLUSTER_DEPLOYMENT, key), (AGENT, agent))
    world.api.delete(INFRA_ENV, key)
    world.gone((INFRA_ENV, key))


def test_classifications_label_agents_and_take_their_labels_back(world):
    key, machine = world.cluster("classes"), Machine(14, Network())

    def classification(name, query):
        spec = {"labelKey": "size", "labelValue": name, "query": query}
        item = Key(NAMESPACE, name)
        world.apply((AGENT_CLASSIFICATION, AGENT_CLASSIFICATION.new(item, spec=spec)))
        return item

    label = "agentclassification.agent-install.openshift.io/size"
    small = classification("small", ".cpu.count == 2 and .memory.physicalBytes >= 4294967296")
    broken = classification("broken", ".cpu.count ==")
    (agent,) = world.discovered(key, machine)
    wait_until("label", lambda: labels_of(world.get(AGENT, agent)).get(label), "small")
    world.wait(AGENT_CLASSIFICATION, small, "QueryErrors", "False NoQueryErrors")
    wait_until("count", lambda: world.get(AGENT_CLASSIFICATION, small)["status"].get("matchedCount"), 1)
    assert "syntax error" in world.wait(AGENT_CLASSIFICATION, broken, "QueryErrors", "True HasQueryErrors")
    world.change(AGENT_CLASSIFICATION, small, query=".cpu.count")
    wait_until("error", lambda: labels_of(world.get(AGENT, agent)).get(label, "")[:10], "QUERYERROR")
    world.wait(AGENT_CLASSIFICATION, small, "QueryErrors", "True HasQueryErrors")
    for item in (small, broken):
        world.api.delete(AGENT_CLASSIFICATION, item)
        world.gone((AGENT_CLASSIFICATION, item))
    assert label not in labels_of(world.get(AGENT, agent))
    assert condition(world.get(AGENT, agent), "SpecSynced")["status"] == "True"


def test_an_installed_host_is_unbound_and_bound_anew(world):
    key, machine = pool(world, "used"), Machine(15, Network())
    (agent,) = world.discovered(key, machine)
    world.change(AGENT, agent, clusterDeploymentName=key._asdict(), approved=True)
    world.wait(AGENT, agent, "Bound", "False Binding")
    world.register(key, machine)
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    world.progress(key, machine, Stage.STARTING, Stage.INSTALLING, Stage.REBOOTING, Stage.JOINED, Stage.DONE)
    wait_until("end", lambda: world.user.cluster(uid_of(world.get(CLUSTER_DEPLOYMENT, key)))["status"], "finalizing")
    world.complete(key)
    world.wait(AGENT, agent, "Installed", "True InstallationCompleted")
    world.change(AGENT, agent, clusterDeploymentName=None)
    world.wait(AGENT, agent, "Bound", "False UnbindingPendingUserAction")
    assert world.reason(AGENT, agent, "RequirementsMet") == "False Unbinding"
    again(world, key, machine, "Bound", "False Unbound")
    world.poll_until(key, [machine], lambda: world.reason(AGENT, agent, "RequirementsMet") == "True AgentIsReady")
    assert world.reason(AGENT, agent, "Installed") == "False InstallationNotStarted"


@pytest.mark.slow
def test_an_agent_moves_to_the_infra_env_whose_image_its_machine_has_booted_last(world):
    first, second, machine = pool(world, "first-pool"), pool(world, "second-pool"), Machine(16, Network())
    (agent,) = world.discovered(first, machine)
    world.change(AGENT, agent, hostname="old", approved=True)
    world.wait(AGENT, agent, "SpecSynced", "True SyncOK")
    wait_until("name", lambda: host(world, first, agent).get("requested_hostname"), "old")
    world.register(second, machine)
    owner = uid_of(world.get(INFRA_ENV, second))
    wait_until("owner", lambda: world.get(AGENT, agent)["metadata"]["ownerReferences"][0]["uid"], owner)
    wait_until("old host", lambda: host(world, first, agent), {})
    found = world.get(AGENT, agent)
    assert "hostname" not in found["spec"]
    assert found["spec"]["approved"] is False
    assert labels_of(found)["infraenvs.agent-install.openshift.io"] == "second-pool"
    world.poll_until(second, [machine], lambda: world.reason(AGENT, agent, "Bound") == "False Unbound")
    world.api.delete(AGENT, agent)
    world.gone((AGENT, agent))
    assert host(world, second, agent) == {}
