"""Metrics: what Prometheus is told of objects, reconciles and requests."""

import threading
import urllib.request

import pytest

from installer.errors import ConfigError
from installer.hub.kube.kinds import AGENT, AGENT_CLUSTER_INSTALL, BARE_METAL_HOST, INFRA_ENV, SECRET, Key
from installer.hub.kube.manager import Manager, Retry
from installer.hub.metrics import served
from installer.testing.hub.apiserver import api_server, until
from installer.testing.hub.feed_kit import ScriptedService

KINDS = (AGENT, AGENT_CLUSTER_INSTALL, BARE_METAL_HOST, INFRA_ENV, SECRET)


class Failing:
    """Reconciles Agents; the first one fails."""

    kind = AGENT

    def __init__(self):
        self.looks = 0

    def watches(self):
        return {}

    def reconcile(self, key):
        self.looks += 1
        if self.looks == 1:
            raise Retry("not yet", 1000.0)


def agent(api, name, state, *failing):
    made = api.create(AGENT, AGENT.new(Key("n", name)))
    items = [{"id": item, "status": "failure"} for item in failing] + [{"id": "ntp-synced", "status": "success"}]
    api.update_status(AGENT, made | {"status": {"debugInfo": {"state": state}, "validationsInfo": {"network": items}}})


def test_states_validations_reconciles_and_requests_are_counted():
    with api_server() as server:
        api, controller, stop = server.api(), Failing(), threading.Event()
        agent(api, "a", "insufficient", "has-inventory", "connected")
        agent(api, "b", "insufficient", "connected")
        agent(api, "c", "installed")
        manager = Manager(server.api(), ScriptedService(), KINDS)
        thread = threading.Thread(target=manager.run, args=([controller], stop))
        thread.start()
        with served(manager, lambda: True, ("127.0.0.1", 0)) as port:
            until(lambda: controller.looks == 3)
            until(lambda: sum(manager.runners[0].counts.values()) == 3)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            with (
                pytest.raises(ConfigError, match="cannot listen"),
                served(manager, bool, ("127.0.0.1", port)),
            ):
                pass
        stop.set()
        thread.join(20)
    assert {
        "node0_hub_leading 1",
        'node0_hub_agents{state="insufficient"} 2',
        'node0_hub_agents{state="installed"} 1',
        'node0_hub_failing_validations{validation="connected"} 2',
        'node0_hub_failing_validations{validation="has-inventory"} 1',
        'node0_hub_reconcile_errors_total{kind="Agent"} 1',
        'node0_hub_reconcile_seconds_bucket{kind="Agent",le="+Inf"} 3',
        'node0_hub_reconcile_seconds_count{kind="Agent"} 3',
        'node0_hub_queue_length{kind="Agent"} 0',
    } <= set(lines)
    assert any(line.startswith('node0_hub_api_requests_total{method="GET"}') for line in lines)
