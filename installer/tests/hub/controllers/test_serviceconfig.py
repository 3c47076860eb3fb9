"""Settings that are refused: of another service, under another name, for hosted control planes, of firmware."""

from installer.hub.conditions import condition
from installer.hub.controllers.hostparts import FirmwareSettingsController
from installer.hub.controllers.serviceconfig import (
    SETTINGS,
    Converged,
    HypershiftController,
    ServiceConfigController,
)
from installer.hub.kube.kinds import (
    AGENT_SERVICE_CONFIG,
    CONFIG_MAP,
    HOST_FIRMWARE_SETTINGS,
    HYPERSHIFT_AGENT_SERVICE_CONFIG,
    Key,
)
from installer.testing.hub.apiserver import api_server
from installer.testing.hub.crash_kit import Countdown, mortal_hub

KINDS = (AGENT_SERVICE_CONFIG, CONFIG_MAP, HOST_FIRMWARE_SETTINGS, HYPERSHIFT_AGENT_SERVICE_CONFIG)


def said(server, kind, key, make, **spec):
    api = server.api()
    api.create(kind, kind.new(key, spec=spec))
    make(mortal_hub(api, None, KINDS, Countdown())).reconcile(key)
    found = condition(api.get(kind, key), "ReconcileCompleted")
    assert (found["status"], found["reason"]) == ("False", "ConfigFailure")
    return found["message"]


def test_each_refusal_names_its_reason():
    def settings(hub):
        return ServiceConfigController(hub, None, "node0-hub")

    mirrors = {"mirrorRegistryRef": {"name": "mirrors"}}
    with api_server() as server:
        server.api().create(CONFIG_MAP, CONFIG_MAP.new(Key("node0-hub", "mirrors"), data={"registries.conf": ""}))
        assert "--service" in said(server, AGENT_SERVICE_CONFIG, Key("", "agent"), settings, **mirrors)
        assert "named agent" in said(server, AGENT_SERVICE_CONFIG, Key("", "other"), settings)
        key = Key("hosted", "agent")
        assert "not offered" in said(server, HYPERSHIFT_AGENT_SERVICE_CONFIG, key, HypershiftController)


def test_the_configmap_of_settings_says_which_flow_hosts_take_and_is_refused_for_another_database():
    key, cluster = Key("node0-hub", "settings"), Key("", "agent")
    with api_server() as server:
        api = server.api()
        config = AGENT_SERVICE_CONFIG.new(cluster, spec={})
        config["metadata"]["annotations"] = {SETTINGS: key.name}
        api.create(AGENT_SERVICE_CONFIG, config)
        for data, text, is_converged in (
            (None, "ConfigMap node0-hub/settings, which the annotation", False),
            ({"ALLOW_CONVERGED_FLOW": "yes"}, "'yes' is neither true nor false", False),
            ({"DB_PASS": "hidden", "DB_HOST": "db"}, "settings: DB_HOST, DB_PASS: no other database is offered", False),
            ({"LOG_LEVEL": "debug"}, "the classic flow; without effect here: LOG_LEVEL", False),
            ({"ALLOW_CONVERGED_FLOW": "true"}, "the converged flow", True),
        ):
            if data is not None:
                if api.get(CONFIG_MAP, key):
                    api.delete(CONFIG_MAP, key)
                api.create(CONFIG_MAP, CONFIG_MAP.new(key, data=data))
            hub = mortal_hub(api, None, KINDS, Countdown())
            ServiceConfigController(hub, None, "node0-hub").reconcile(cluster)
            message = condition(api.get(AGENT_SERVICE_CONFIG, cluster), "ReconcileCompleted")["message"]
            assert text in message
            assert "hidden" not in message
            assert Converged(hub, "node0-hub")() is is_converged


def test_a_service_that_does_not_answer_is_said_beside_settings_that_are_well():
    key = Key("", "agent")
    with api_server() as server:
        api = server.api()
        api.create(AGENT_SERVICE_CONFIG, AGENT_SERVICE_CONFIG.new(key, spec={}))
        for problem, healthy in (
            ("no answer", ("False", "DeploymentFailure", "no answer")),
            ("", ("True", "DeploymentSucceeded", "the service answers")),
        ):
            hub = mortal_hub(api, None, KINDS, Countdown())
            hub.feed.problem = problem
            ServiceConfigController(hub, None, "node0-hub").reconcile(key)
            config = api.get(AGENT_SERVICE_CONFIG, key)
            found = condition(config, "DeploymentsHealthy")
            assert (found["status"], found["reason"], found["message"]) == healthy
            assert condition(config, "ReconcileCompleted")["reason"] == "ReconcileSucceeded"


def test_settings_of_firmware_are_named_as_invalid_and_none_are_fine():
    with api_server() as server:
        api = server.api()
        for name, settings in (("asks", {"ProcTurboMode": "Disabled"}), ("none", {})):
            key = Key("ns", name)
            api.create(HOST_FIRMWARE_SETTINGS, HOST_FIRMWARE_SETTINGS.new(key, spec={"settings": settings}))
            FirmwareSettingsController(mortal_hub(api, None, KINDS, Countdown())).reconcile(key)
            found = api.get(HOST_FIRMWARE_SETTINGS, key)
            changed, valid = condition(found, "ChangeDetected"), condition(found, "Valid")
            assert (changed["status"], changed["reason"]) == (str(bool(settings)), "Success")
            wanted = ("False", "ConfigurationError") if settings else ("True", "Success")
            assert (valid["status"], valid["reason"]) == wanted
            assert ("ProcTurboMode" in valid["message"]) is bool(settings)
