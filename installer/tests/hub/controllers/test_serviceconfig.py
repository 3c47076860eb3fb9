"""Settings that are refused: of another service, under another name, for hosted control planes."""

from installer.hub.conditions import condition
from installer.hub.controllers.serviceconfig import HypershiftController, ServiceConfigController
from installer.hub.kube.kinds import AGENT_SERVICE_CONFIG, CONFIG_MAP, HYPERSHIFT_AGENT_SERVICE_CONFIG, Key
from installer.testing.hub.apiserver import api_server
from installer.testing.hub.crash_kit import Countdown, mortal_hub

KINDS = (AGENT_SERVICE_CONFIG, CONFIG_MAP, HYPERSHIFT_AGENT_SERVICE_CONFIG)


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
