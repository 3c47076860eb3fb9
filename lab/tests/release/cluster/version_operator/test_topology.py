"""One node becomes three: the topologies change only when nothing is in the way."""

import datetime as dt

from lab.release.cluster.installconfig import parse
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import WORKER, View
from lab.release.cluster.version_operator.topology import Transition
from lab.testing.clusterapi import Api, node

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SNO = parse(
    """
apiVersion: v1
metadata: {name: c}
baseDomain: d.example
controlPlane: {replicas: 1}
compute: [{name: worker, replicas: 0}]
platform: {none: {}}
pullSecret: '{"auths":{}}'
"""
)


def master(number: int):
    made = node(f"m{number}", f"192.0.2.{number}")
    made["metadata"]["labels"][WORKER] = ""
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def asked(wanted: str) -> Api:
    api = Api()
    status = {"controlPlaneTopology": "SingleReplica", "infrastructureTopology": "SingleReplica"}
    infrastructure = {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}}
    api.create(infrastructure | {"spec": {"controlPlaneTopology": wanted}, "status": status})
    return api


def stepped(api: Api, nodes, good=True):
    seen = View(api, None, NOW, nodes, [], "c.d.example", "apps.c.d.example", SNO)
    Transition(api).step(seen, {"etcd": Finding(good, "as it is", "Reason")})
    status = api.get("", "Infrastructure", "cluster")["status"]
    return set(status.values()), {(e["reason"], e["message"]) for e in api.list("v1", "Event")}


def test_it_waits_for_three_nodes_and_well_operators_and_says_for_which():
    api, three = asked("HighlyAvailable"), [master(1), master(2), master(3)]
    three[2]["spec"]["unschedulable"] = True
    topologies, events = stepped(api, [*three, node("w0", "192.0.2.9", "worker")], good=False)
    assert topologies == {"SingleReplica"}
    [(reason, message)] = events
    assert reason == "PreflightCheckFailed"
    for part in ("operator etcd is not well", "2 of 3 control plane nodes", "w0: no worker"):
        assert part in message
    three[2]["spec"] = {}
    assert stepped(api, three)[0] == {"HighlyAvailable"}


def test_another_topology_is_refused():
    topologies, events = stepped(asked("DualReplica"), [master(1), master(2), master(3)])
    assert topologies == {"SingleReplica"}
    assert {reason for reason, _ in events} == {"UnsupportedTransition"}
