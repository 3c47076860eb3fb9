"""The bench of a hub: what it reads of the operator's own metrics."""

from ci.bench.service.hub import quantile, samples
from installer.hub.controllers.classification import ClassificationController
from installer.hub.kube.kinds import INFRA_ENV
from installer.hub.kube.manager import Manager, Runner
from installer.hub.metrics import text
from installer.hub.operator import KINDS
from installer.testing.hub.apiserver import api_server


def test_figures_are_those_of_the_operators_metrics():
    with api_server() as server:
        manager = Manager(api := server.api(), None, KINDS)
        for _ in range(3):
            api.list(INFRA_ENV)
        manager.runners = [Runner(ClassificationController(manager.hub), None) for _ in range(2)]
        for runner in manager.runners:
            runner.counts |= {0.01: 48, 0.25: 1, 30.0: 1}
        found = text(manager, True)
    assert samples(found, "node0_hub_api_requests_total", "method") == {"GET": 3}
    buckets = samples(found, "node0_hub_reconcile_seconds_bucket", "le")
    assert (buckets["0.01"], buckets["0.25"], buckets["+Inf"]) == (96, 98, 100)
    assert [quantile(buckets, share) for share in (0.5, 0.97, 0.99)] == ["0.01", "0.25", "30"]
