"""InfraEnvs over a real service: images that come when their inputs are quiet, and stay while the service is away."""

import base64
import shutil
import threading
from contextlib import contextmanager

import pytest

from installer.hub.conditions import condition
from installer.hub.controllers import infraenv
from installer.hub.controllers.infraenv import InfraEnvController, Quiet
from installer.hub.controllers.serviceconfig import ServiceConfigController
from installer.hub.kube.kinds import (
    AGENT_SERVICE_CONFIG,
    CLUSTER_DEPLOYMENT,
    CONFIG_MAP,
    EVENT,
    INFRA_ENV,
    NMSTATE_CONFIG,
    SECRET,
    Key,
    uid_of,
)
from installer.hub.kube.manager import Manager
from installer.testing.hub.apiserver import api_server, until
from installer.testing.hub.crash_kit import Countdown, Killed, mortal_hub
from installer.testing.service.rendezvous_kit import CLUSTER
from installer.testing.service.service_kit import MARKS, standalone

pytestmark = MARKS
KINDS = (INFRA_ENV, NMSTATE_CONFIG, CLUSTER_DEPLOYMENT, SECRET, AGENT_SERVICE_CONFIG, CONFIG_MAP)
CONFIG, MIRRORS = Key("", "agent"), Key("node0-hub", "mirrors")
ONE, REFERENCE = Key("edge", "one"), {"clusterInstallRef": {"name": "one"}}
ENV, PULL, NET = Key("edge", "env"), Key("edge", "pull"), Key("edge", "net")


@pytest.fixture(name="service", scope="module")
def fixture_service(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("hub"), versions=("4.18.0",)) as service:
        client = service.hub()
        client.put_release(service.releases["4.18.0"], service.pull_secret)
        client.close()
        yield service


@pytest.fixture(name="api")
def fixture_api(service, monkeypatch):
    monkeypatch.setattr(infraenv, "QUIET", 0.2)
    with api_server() as server, working(server, service):
        yield server.api()


@contextmanager
def working(server, service):
    stop, client = threading.Event(), service.hub()
    manager = Manager(server.api(), client, KINDS)
    settings = ServiceConfigController(manager.hub, service.dir / "mirror", "node0-hub")
    thread = threading.Thread(target=manager.run, args=([InfraEnvController(manager.hub), settings], stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        client.close()
    assert not thread.is_alive()


def secret(service, text=""):
    data = base64.b64encode((text or service.pull_secret).encode()).decode()
    return SECRET.new(PULL, data={".dockerconfigjson": data})


def env(**spec):
    selector = {"matchLabels": {"env": "env"}}
    return INFRA_ENV.new(ENV, spec={"pullSecretRef": {"name": "pull"}, "nmStateConfigLabelSelector": selector, **spec})


def net(address="192.0.2.5"):
    interface = {
        "name": "eth0",
        "type": "ethernet",
        "state": "up",
        "ipv4": {"enabled": True, "dhcp": False, "address": [{"ip": address, "prefix-length": 24}]},
    }
    obj = NMSTATE_CONFIG.new(
        NET,
        spec={
            "interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:01"}],
            "config": {"interfaces": [interface]},
        },
    )
    obj["metadata"]["labels"] = {"env": "env"}
    return obj


def status(api):
    return (api.get(INFRA_ENV, ENV) or {}).get("status") or {}


def reason(api):
    return condition(api.get(INFRA_ENV, ENV) or {}, "ImageCreated").get("reason")


def test_from_a_missing_secret_to_an_image_and_from_a_changed_network_to_another(api, service):
    api.create(INFRA_ENV, env())
    until(lambda: reason(api) == "ImageCreationError")
    assert "Secret edge/pull, which spec.pullSecretRef names, does not exist" in str(status(api))
    api.create(SECRET, secret(service))
    until(lambda: reason(api) == "InfraEnvAvailable")
    first = status(api)
    assert first["isoDownloadURL"].startswith(f"{service.url}/images/")
    assert all(first["bootArtifacts"].values())
    api.patch(INFRA_ENV, ENV, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    api.create(NMSTATE_CONFIG, net())
    until(lambda: status(api).get("isoDownloadURL") != first["isoDownloadURL"])
    second = status(api)
    assert "staticNetworkDownloadURL" in second["debugInfo"]
    api.patch(NMSTATE_CONFIG, NET, {"spec": {"config": {"interfaces": [{"name": "eth0", "type": "no such"}]}}})
    until(lambda: reason(api) == "ImageCreationError")
    assert "isoDownloadURL" not in status(api)
    api.patch(NMSTATE_CONFIG, NET, {"spec": net()["spec"]})
    until(lambda: reason(api) == "InfraEnvAvailable")
    assert status(api)["isoDownloadURL"] == second["isoDownloadURL"]


def test_a_pull_secret_that_is_none_does_not_reach_the_condition(api, service):
    api.create(SECRET, secret(service, '{"auths": {"r.example": {"auth": "aHVudGVyMjpodW50ZXIy", "x"}}'))
    api.create(INFRA_ENV, env())
    until(lambda: reason(api) == "ImageCreationError")
    assert "pull" in str(status(api))
    assert "aHVudGVyMjpodW50ZXIy" not in str(api.get(INFRA_ENV, ENV)) + str(api.list(EVENT))


def test_an_image_waits_for_its_cluster_and_the_url_stays_while_the_service_is_away(api, service, caplog):
    api.create(SECRET, secret(service))
    api.create(INFRA_ENV, env(clusterRef={"name": "one", "namespace": "edge"}))
    until(lambda: reason(api) == "MissingClusterDeployment")
    api.patch(INFRA_ENV, ENV, {"spec": {"clusterRef": None}})
    until(lambda: reason(api) == "InfraEnvAvailable")
    before = status(api)
    service.kill()
    try:
        api.create(NMSTATE_CONFIG, net())
        until(lambda: "InfraEnv edge/env: " in caplog.text)
        assert status(api) == before
    finally:
        service.start()
    until(lambda: status(api)["isoDownloadURL"] != before["isoDownloadURL"])


def test_a_cluster_made_anew_under_the_same_name_takes_the_image_over(api, service):
    def made(name):
        uid = uid_of(api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(ONE, spec=REFERENCE)))
        params = {**CLUSTER, "name": name, "pull_secret": service.pull_secret, "openshift_version": "4.18.0"}
        return client.put_cluster(uid, params)["id"]

    client = service.hub()
    api.create(SECRET, secret(service))
    first = made("first")
    identity = uid_of(api.create(INFRA_ENV, env(clusterRef={"name": ONE.name, "namespace": ONE.namespace})))
    until(lambda: reason(api) == "InfraEnvAvailable")
    assert client.find_infra_env(identity)["cluster_id"] == first
    client.delete_cluster(first)
    api.delete(CLUSTER_DEPLOYMENT, ONE)
    until(lambda: reason(api) == "MissingClusterDeployment")
    second = made("second")
    until(lambda: reason(api) == "InfraEnvAvailable")
    assert client.find_infra_env(identity)["cluster_id"] == second != first
    client.close()


def test_a_deleted_one_is_gone_in_the_service_first(api, service):
    api.create(SECRET, secret(service))
    identity = uid_of(api.create(INFRA_ENV, env()))
    until(lambda: reason(api) == "InfraEnvAvailable")
    client = service.hub()
    assert client.find_infra_env(identity)["name"] == "env"
    api.delete(INFRA_ENV, ENV)
    until(lambda: api.get(INFRA_ENV, ENV) is None)
    assert client.find_infra_env(identity) is None
    client.close()


@pytest.fixture(name="mirror")
def fixture_mirror(service):
    """Clear the service's folder of mirrors for a test."""
    folder, kept = service.dir / "mirror", service.dir / "kept"
    folder.rename(kept)
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)
    kept.rename(folder)


def test_mirrors_reach_the_service_and_its_images_and_go_with_the_resource(mirror, api, service):
    def said():
        return condition(api.get(AGENT_SERVICE_CONFIG, CONFIG) or {}, "ReconcileCompleted").get("message", "")

    api.create(SECRET, secret(service))
    api.create(INFRA_ENV, env())
    until(lambda: reason(api) == "InfraEnvAvailable")
    before = status(api)["isoDownloadURL"]
    spec = {"mirrorRegistryRef": {"name": "mirrors"}, "osImages": [{"version": "1"}]}
    api.create(AGENT_SERVICE_CONFIG, AGENT_SERVICE_CONFIG.new(CONFIG, spec=spec))
    until(lambda: "ConfigMap node0-hub/mirrors, which spec.mirrorRegistryRef names, does not exist" in said())
    api.create(CONFIG_MAP, CONFIG_MAP.new(MIRRORS, data={"registries.conf": "[[registry"}))
    until(lambda: "ConfigMap mirrors: registries.conf: " in said())
    assert not (mirror / "registries.conf").exists()
    text = '[[registry]]\nprefix = "r.example"\nlocation = "r.example"\n[[registry.mirror]]\nlocation = "m.example"\n'
    api.patch(CONFIG_MAP, MIRRORS, {"data": {"registries.conf": text}})
    until(lambda: status(api)["isoDownloadURL"] != before)
    assert (mirror / "registries.conf").read_text() == text
    assert said().endswith("are set; without effect here: spec.osImages")
    api.delete(AGENT_SERVICE_CONFIG, CONFIG)
    until(lambda: status(api)["isoDownloadURL"] == before)
    assert list(mirror.iterdir()) == []


def test_mirrors_that_an_administrator_has_set_stay(mirror, api):
    (mirror / "registries.conf").write_text("# by hand\n")
    api.create(CONFIG_MAP, CONFIG_MAP.new(MIRRORS, data={"registries.conf": ""}))
    spec = {"mirrorRegistryRef": {"name": "mirrors"}}
    api.create(AGENT_SERVICE_CONFIG, AGENT_SERVICE_CONFIG.new(CONFIG, spec=spec))
    until(lambda: "administrator has set" in str(api.get(AGENT_SERVICE_CONFIG, CONFIG).get("status")))
    api.delete(AGENT_SERVICE_CONFIG, CONFIG)
    until(lambda: api.get(AGENT_SERVICE_CONFIG, CONFIG) is None)
    assert (mirror / "registries.conf").read_text() == "# by hand\n"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_killed_before_any_request_it_ends_as_if_it_had_not_been(service, is_deleted, monkeypatch):
    monkeypatch.setattr(infraenv, "QUIET", 0.0)
    client = service.hub()

    def life(api, left):
        """One process until its end; returns whether it lived to it."""
        try:
            InfraEnvController(mortal_hub(api, client, KINDS, Countdown(left))).reconcile(ENV)
        except Killed:
            return False
        return True

    deaths = 0
    while True:
        with api_server() as server:
            api = server.api()
            api.create(SECRET, secret(service))
            api.create(NMSTATE_CONFIG, net())
            identity = uid_of(api.create(INFRA_ENV, env()))
            before = len(client.infra_envs())
            if is_deleted:
                life(api, None)
                api.delete(INFRA_ENV, ENV)
            lived = life(api, deaths)
            life(api, None)
            found = client.find_infra_env(identity)
            if is_deleted:
                assert (found, api.get(INFRA_ENV, ENV)) == (None, None)
            else:
                assert reason(api) == "InfraEnvAvailable"
                assert status(api)["isoDownloadURL"] == client.image_url(identity)["url"]
                assert len(client.infra_envs()) == before + 1
        if lived:
            break
        deaths += 1
    assert deaths >= (2 if is_deleted else 5)
    client.close()


@pytest.mark.slow
def test_inputs_are_waited_for_until_they_are_quiet_but_not_for_ever():
    now = [0.0]
    quiet = Quiet(lambda: now[0])
    assert quiet.left(ENV, "a") == infraenv.QUIET
    now[0] = 4.0
    assert quiet.left(ENV, "b") == infraenv.QUIET
    now[0] = 9.0
    assert quiet.left(ENV, "b") == 0
    for second in range(100, 100 + int(infraenv.LONGEST_QUIET)):
        now[0] = float(second)
        assert quiet.left(ENV, f"busy {second}") > 0
    now[0] += 1
    assert quiet.left(ENV, "still busy") == 0
