"""The operators' writing about nodes and pools; merging; the lease; the machine-config server over HTTP."""

import datetime as dt
import http.client
import threading
from http.server import ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.console import command as console
from lab.release.cluster.errors import ApiError, ClusterError, UnknownKind, WaitError
from lab.release.cluster.ignition.machineconfig import CURRENT, PREFIX, ROLE
from lab.release.cluster.kube import apply, lease
from lab.release.cluster.machine_config_server import command as mcs
from lab.release.cluster.version_operator import operators
from lab.testing.clusterapi import Api

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_ensure_is_idempotent_and_has_all_that_is_required(existing, required):
    merged = apply.ensure(existing, required)
    assert apply.ensure(merged, required) == merged
    if isinstance(existing, dict) and isinstance(required, dict):
        assert set(merged) == set(existing) | {key for key, value in required.items() if value is not None}
    else:
        assert merged == required


def test_defaults_of_the_api_are_no_change_and_what_an_older_release_asked_for_is():
    port = {"name": "http", "port": 8080}
    container = {"name": "main", "image": "i@sha256:0", "readinessProbe": {"httpGet": {"path": "/", "port": 1}}}
    required = {"spec": {"ipFamilyPolicy": None, "ports": [port], "containers": [container]}}
    probe = {"httpGet": {"path": "/", "port": 1, "scheme": "HTTP"}, "failureThreshold": 3}
    stored = {**container, "resources": {}, "imagePullPolicy": "IfNotPresent", "readinessProbe": probe}
    ports = [{**port, "protocol": "TCP", "targetPort": 8080}]
    existing = {"spec": {"clusterIP": "10.0.0.1", "ports": ports, "containers": [stored]}}
    assert apply.ensure(existing, required) == existing
    for old in ({"args": ["-v"]}, {"imagePullPolicy": "Always"}, {"env": [{"name": "A", "value": "b"}]}):
        had = {"spec": {**existing["spec"], "containers": [{**stored, **old}]}}
        assert apply.ensure(had, required)["spec"]["containers"] == [
            {key: value for key, value in stored.items() if key not in old}
        ]
    assert apply.ensure({"spec": {"ports": [*ports, {"port": 1}]}}, {"spec": {"ports": [port]}}) == {
        "spec": {"ports": ports}
    }


def node(role="master", current="rendered-master-1", **labels):
    ready = {"type": "Ready", "status": "True"}
    meta = {"name": "n", "labels": {ROLE: role, CURRENT: current, **labels}}
    return {"metadata": meta, "spec": {}, "status": {"conditions": [ready]}}


def patched(patch, target):
    return apply.ensure(target, patch)


@pytest.mark.parametrize(
    ("role", "schedulable", "roles"),
    [
        ("master", True, {"master", "control-plane", "worker"}),
        ("master", False, {"master", "control-plane"}),
        ("worker", False, {"worker"}),
        ("arbiter", True, {"arbiter"}),
        ("arbiter", False, {"arbiter"}),
    ],
)
def test_nodes_get_their_roles_once(role, schedulable, roles):
    patch = operators.node_patch(node(role), schedulable)
    assert {k.split("/")[1] for k in patch["metadata"]["labels"]} == roles
    assert patch["metadata"]["annotations"][f"{PREFIX}/currentConfig"] == "rendered-master-1"
    taints = [taint["key"] for taint in patch.get("spec", {}).get("taints", [])]
    reserved = role == "arbiter" or (role == "master" and not schedulable)
    assert taints == ([f"node-role.kubernetes.io/{role}"] if reserved else [])
    later = patched(patch, node(role))
    assert operators.node_patch(later, schedulable) == {}
    later["metadata"]["annotations"][f"{PREFIX}/currentConfig"] = "rendered-master-2"
    assert operators.node_patch(later, schedulable) == {}, "what the node runs later is the daemon's to say"


def test_a_node_that_does_not_say_what_it_booted_gets_no_role():
    assert operators.node_patch({"metadata": {"name": "n"}, "spec": {}}, True) == {}


class Store(Api):
    """An API that knows few kinds, and others once they are defined."""

    def __init__(self):
        super().__init__()
        self.kinds = {"Namespace", "Lease", "CustomResourceDefinition"}

    def resource(self, api_version, kind):
        if kind not in self.kinds:
            raise UnknownKind(api_version, kind)

    def create(self, obj):
        self.resource(obj["apiVersion"], obj["kind"])
        if obj["kind"] == "CustomResourceDefinition":
            self.kinds.add(obj["spec"]["names"]["kind"])
        return super().create(obj)


def test_create_all_waits_for_definitions():
    store = Store()
    custom = {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t"}, "status": {"a": 1}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things"},
        "spec": {"names": {"kind": "Thing"}},
    }
    assert apply.create_all(store, [custom, crd], 10, pause=lambda _: None) == 2
    assert store.get("g/v1", "Thing", "t")["status"] == {"a": 1}
    assert apply.create_all(store, [custom, crd], 10, pause=lambda _: None) == 0


def test_create_all_says_what_it_gave_up_on():
    ticks = iter(range(0, 1000, 5))
    orphan = {"apiVersion": "g/v1", "kind": "Orphan", "metadata": {"name": "o"}}
    with pytest.raises(WaitError, match=r"creating 1 of 1 manifests.*Orphan o"):
        apply.create_all(Store(), [orphan], 20, clock=lambda: next(ticks), pause=lambda _: None)


def test_lease_is_held_renewed_and_taken_over_only_when_stale():
    store, mine, yours = Store(), lease.Observed(), lease.Observed()
    assert lease.acquire(store, "ns", "l", "host_1", now=NOW, observed=mine)
    assert not lease.acquire(store, "ns", "l", "host_2", now=NOW + dt.timedelta(seconds=100), observed=yours)
    assert lease.acquire(store, "ns", "l", "host_1", now=NOW + dt.timedelta(seconds=100), observed=mine)
    assert not lease.acquire(store, "ns", "l", "host_2", now=NOW + dt.timedelta(seconds=150), observed=yours)
    assert lease.acquire(
        store, "ns", "l", "host_2", now=NOW + dt.timedelta(seconds=100 + lease.DURATION_SECONDS), observed=yours
    )


@pytest.mark.parametrize(
    ("holder", "boot", "taken"),
    [("host_2", "b", True), ("host_2", "a", False), ("host_2", "", False), ("other_2", "b", False)],
)
def test_a_lease_of_an_earlier_boot_of_the_same_host_is_nobodys(holder, boot, taken):
    store = Store()
    assert lease.acquire(store, "ns", "l", "host_1", now=NOW, observed=lease.Observed(), boot="a")
    assert lease.acquire(store, "ns", "l", holder, now=NOW, observed=lease.Observed(), boot=boot) is taken


@pytest.fixture
def server():
    def source(pool):
        if pool == "master":
            return {"ignition": {"version": "3.2.0"}}
        raise ClusterError(f"no MachineConfigPool {pool}")

    running = ThreadingHTTPServer(("127.0.0.1", 0), mcs.handler(source))
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running.server_address[1]
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("GET", "/healthz", "", 200),
        ("GET", "/config/master", "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1", 200),
        ("HEAD", "/config/master", "", 200),
        ("GET", "/config/master", "application/vnd.coreos.ignition+json;version=2.2.0", 400),
        ("GET", "/config/other", "", 500),
        ("GET", "/elsewhere", "", 404),
        ("POST", "/config/master", "", 405),
    ],
)
def test_machine_config_server_answers_as_documented(server, method, path, accept, status, caplog):
    connection = http.client.HTTPConnection("127.0.0.1", server, timeout=5)
    caplog.set_level("INFO")
    connection.request(method, path, headers={"Accept": accept, "User-Agent": "Ignition/2.14.0"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == status
    if method == "GET" and path == "/config/master" and status == 200:
        assert b'"version": "3.4.0"' in body
        assert answer.headers["Content-Type"] == "application/json"
        assert 'Pool "master" requested by address:"127.0.0.1:' in caplog.text
        assert '" User-Agent:"Ignition/2.14.0"' in caplog.text
    else:
        assert body == b""


def test_console_page_escapes_what_the_api_says():
    evil = {"metadata": {"name": "<script>"}, "status": {"conditions": []}}
    text = console.page(None, [evil], [])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_api_errors_say_where():
    assert str(ApiError("GET", "/x", 0, "refused")) == "GET /x: no answer: refused"
