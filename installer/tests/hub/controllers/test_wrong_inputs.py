"""Inputs that are wrong, and then right: a condition with the field's reason that names the object, and a watch."""

import json

import pytest

from installer.assisted.enums import Stage
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    CLUSTER_IMAGE_SET,
    CONFIG_MAP,
    INFRA_ENV,
    NMSTATE_CONFIG,
    SECRET,
    Key,
    uid_of,
)
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.world_kit import (
    CANARY,
    NAMESPACE,
    VERSION,
    cluster_objects,
    wait_for_input_error,
    wait_until,
)
from installer.testing.service.service_kit import MARKS

pytestmark = MARKS
ACI = AGENT_CLUSTER_INSTALL


def config_map(name, **data):
    return CONFIG_MAP, CONFIG_MAP.new(Key(NAMESPACE, name), data={f"{key}.yaml": text for key, text in data.items()})


def test_what_comes_late_is_noticed_at_once(world):
    """Each object is missing first, and comes when its absence has been wait_for_input_error."""
    key = Key(NAMESPACE, "late")
    objects = cluster_objects("late", world.service.releases[VERSION], world.service.pull_secret)
    secret, image_set, deployment, install, _ = objects
    install[1]["spec"]["manifestsConfigMapRefs"] = [{"name": "late-a"}, {"name": "late-b"}]
    world.apply(install)
    wait_for_input_error(world, ACI, key, "ClusterDeployment site/late does not exist")
    for obj, text in (
        (deployment, "Secret site/late-pull-secret, which spec.pullSecretRef of ClusterDeployment site/late names"),
        (secret, "ClusterImageSet late-release, which spec.imageSetRef names, does not exist"),
        (image_set, "ConfigMap site/late-a, which spec.manifestsConfigMapRefs names, does not exist"),
        (config_map("late-a", one="a: 1", two="b: 1"), "ConfigMap site/late-b"),
        (config_map("late-b", two="b: 2"), "ConfigMaps late-a and late-b both have a manifest two.yaml"),
    ):
        world.apply(obj)
        wait_for_input_error(world, ACI, key, text)
    world.api.patch(CONFIG_MAP, Key(NAMESPACE, "late-b"), {"data": {"two.yaml": None, "three.yaml": "c: 3"}})
    world.wait(ACI, key, "SpecSynced", "True SyncOK")
    cluster_id = uid_of(world.get(CLUSTER_DEPLOYMENT, key))

    def names():
        return sorted(item["file_name"] for item in world.user.manifests(cluster_id))

    assert names() == ["one.yaml", "three.yaml", "two.yaml"]
    world.api.patch(CONFIG_MAP, Key(NAMESPACE, "late-a"), {"data": {"two.yaml": None, "one.yaml": "a: 2"}})
    wait_until("files", names, ["one.yaml", "three.yaml"])
    assert world.user.manifest(cluster_id, "one.yaml") == b"a: 2"


def test_a_release_that_cannot_be_read_names_no_secret_and_is_not_asked_for_again_and_again(world):
    key, image = (
        Key(NAMESPACE, "unreadable"),
        world.service.releases[VERSION].rpartition("@")[0] + "@sha256:" + "0" * 64,
    )
    objects = cluster_objects("unreadable", image, world.service.pull_secret)
    world.apply(*objects)
    wait_for_input_error(world, ACI, key, "ClusterImageSet unreadable-release: ")
    assert CANARY not in json.dumps([*world.server.store.objects[ACI].values()])
    writes = len([path for method, path in world.server.requests if method != "GET" and "unreadable" in path])
    assert writes < 12
    world.api.patch(
        CLUSTER_IMAGE_SET, Key("", "unreadable-release"), {"spec": {"releaseImage": world.service.releases[VERSION]}}
    )
    world.wait(ACI, key, "SpecSynced", "True SyncOK")


def test_specs_that_contradict_themselves_and_annotations_that_are_no_json(world):
    key = Key(NAMESPACE, "contrary")
    objects = cluster_objects("contrary", world.service.releases[VERSION], world.service.pull_secret)
    objects[3][1]["spec"]["networking"]["userManagedNetworking"] = False
    world.apply(*objects)
    wait_for_input_error(world, ACI, key, "spec.networking.userManagedNetworking: false")
    world.change(ACI, key, networking={"userManagedNetworking": True})
    world.wait(ACI, key, "SpecSynced", "True SyncOK")
    name = "agent-install.openshift.io/install-config-overrides"
    world.api.patch(ACI, key, {"metadata": {"annotations": {name: "{"}}})
    wait_for_input_error(world, ACI, key, "overrides are not JSON")
    world.api.patch(ACI, key, {"metadata": {"annotations": {name: '{"nosuch": 1}'}}})
    wait_for_input_error(world, ACI, key, f'annotation {name}: body: unknown field "nosuch"')
    world.api.patch(ACI, key, {"metadata": {"annotations": {name: '{"fips": true}'}}})
    world.wait(ACI, key, "SpecSynced", "True SyncOK")
    cluster = world.user.cluster(uid_of(world.get(CLUSTER_DEPLOYMENT, key)))
    assert cluster["install_config_overrides"] == '{"fips": true}'
    stranger = Key(NAMESPACE, "stranger")
    world.apply((ACI, ACI.new(stranger, spec=objects[3][1]["spec"])))
    wait_for_input_error(
        world, ACI, stranger, "ClusterDeployment site/contrary names another AgentClusterInstall: 'contrary'"
    )
    world.api.delete(ACI, stranger)
    world.gone((ACI, stranger))
    world.change(ACI, key, imageSetRef={"name": "another"})
    wait_for_input_error(world, ACI, key, "ClusterImageSet another")


def test_a_network_of_which_no_profile_can_be_made_is_named(world):
    key = world.cluster("networked")
    wrong = NMSTATE_CONFIG.new(
        Key(NAMESPACE, "second"),
        spec={"interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:01:01"}], "config": {"nosuch": 1}},
    )
    wrong["metadata"]["labels"] = {"of": "networked"}
    world.apply((NMSTATE_CONFIG, wrong))
    world.change(INFRA_ENV, key, nmStateConfigLabelSelector={"matchLabels": {"of": "networked"}})
    text = world.wait(INFRA_ENV, key, "ImageCreated", "False ImageCreationError")
    assert text == "the discovery image cannot be made: NMStateConfig second: nosuch: unknown field (got 1)"
    nic = {"name": "eth0", "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "dhcp": True}}
    world.change(NMSTATE_CONFIG, Key(NAMESPACE, "second"), config={"nosuch": None, "interfaces": [nic]})
    world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")


def test_a_cluster_deployment_that_names_no_install_any_more_can_be_deleted(world):
    key = world.cluster("loosened")
    identity = uid_of(world.get(CLUSTER_DEPLOYMENT, key))
    world.change(CLUSTER_DEPLOYMENT, key, clusterInstallRef=None)
    wait_for_input_error(world, ACI, key, "names another AgentClusterInstall")
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    world.gone((CLUSTER_DEPLOYMENT, key))
    world.api.delete(ACI, key)  # the garbage collector's part
    world.gone((ACI, key))
    assert world.user.find_cluster(identity) is None


def test_an_install_that_no_deployment_names_any_more_takes_its_cluster_with_it(world):
    key = world.cluster("unnamed")
    identity = uid_of(world.get(CLUSTER_DEPLOYMENT, key))
    world.change(CLUSTER_DEPLOYMENT, key, clusterInstallRef=None)
    wait_for_input_error(world, ACI, key, "names another AgentClusterInstall")
    world.api.delete(ACI, key)
    world.gone((ACI, key))
    assert world.user.find_cluster(identity) is None


def test_a_spec_that_changes_after_the_start_is_refused_and_the_installation_goes_on(world):
    key, machine = world.cluster("begun"), Machine(1, Network())
    world.change(ACI, key, holdInstallation=True)
    (agent,) = world.discovered(key, machine)
    world.change(AGENT, agent, approved=True)
    world.wait(ACI, key, "RequirementsMet", "True ClusterIsReady")
    world.wait(ACI, key, "Completed", "False InstallationOnHold")
    world.change(ACI, key, holdInstallation=False)
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    world.progress(key, machine, Stage.STARTING, Stage.INSTALLING)
    world.change(
        ACI, key, sshPublicKey="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop x"
    )
    wait_for_input_error(world, ACI, key, "can no longer be changed")
    assert world.reason(ACI, key, "Completed") == "False InstallationInProgress"
    # Deleted while it is being installed: cancelled, and all is gone.
    world.api.delete(CLUSTER_DEPLOYMENT, key)
    world.gone((CLUSTER_DEPLOYMENT, key), (ACI, key), (AGENT, agent))
    assert world.user.hosts(uid_of(world.get(INFRA_ENV, key))) == []


@pytest.mark.slow
def test_a_wrong_pull_secret_is_told_without_it(world):
    key = Key(NAMESPACE, "odd")
    objects = cluster_objects("odd", world.service.releases[VERSION], world.service.pull_secret)
    right = objects[0][1]["data"]
    world.apply(
        *objects[1:], (SECRET, SECRET.new(Key(NAMESPACE, "odd-pull-secret"), data={".dockerconfigjson": "e30="}))
    )
    wait_for_input_error(world, ACI, key, "Secret site/odd-pull-secret")
    world.api.patch(SECRET, Key(NAMESPACE, "odd-pull-secret"), {"data": right})
    world.wait(ACI, key, "SpecSynced", "True SyncOK")
