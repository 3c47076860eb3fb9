"""Waiting for the new cluster's API on the bootstrap host, for the service elsewhere; nothing comes too early."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.orchestrator import controlplane
from installer.orchestrator.errors import StageError
from installer.orchestrator.kube import KubeApi, Node
from installer.testing.orchestrator_kit import Cluster, Site, api_server


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    with api_server(tmp_path / "api") as api:
        yield api


def kubeconfig(site: Site, cluster: Cluster) -> None:
    path = site.root / "opt/openshift/auth/kubeconfig"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cluster.kubeconfig)


def host(name: str, stage: str | None = None, role: str = "master", status: str = "") -> dict[str, Any]:
    progress = {"progress": {"current_stage": stage}} if stage else {}
    return {"id": f"id-{name}", "requested_hostname": name, "role": role, "status": status, **progress}


def node(**fields: Any) -> Node:
    return msgspec.convert(fields, Node)


def inventory(*addresses: str) -> str:
    nic = {
        f"ipv{version}_addresses": [text for text in addresses if (":" in text) == (version == 6)] for version in (4, 6)
    }
    return json.dumps({"interfaces": [{"name": "eno1", **nic}]})


@pytest.mark.parametrize(("count", "wanted"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2)])
def test_so_many_other_masters(count: int, wanted: int) -> None:
    assert controlplane.wanted_masters(count) == wanted


def test_masters_are_waited_for(site: Site, cluster: Cluster) -> None:
    def worker_and_a_master_that_is_not_ready() -> None:
        cluster.node("w", "worker")
        cluster.node("a", ready=False)
        cluster.node("b", "control-plane")

    def both() -> None:
        cluster.answers["/api/v1/nodes"] = {"items": []}
        cluster.node("a")
        cluster.node("b", "control-plane")

    site.meanwhile = [
        lambda: kubeconfig(site, cluster),
        lambda: cluster.answers.update({"/api/v1/nodes": 503}),
        lambda: cluster.answers.update({"/api/v1/nodes": {"items": []}}),
        worker_and_a_master_that_is_not_ready,
        both,
    ]
    controlplane.wait_masters(site.host, site.reporter(), 3, site.sleep)
    assert site.naps == [5.0] * 5
    assert cluster.connections == 1


def test_an_arbiter_is_waited_for_where_the_cluster_has_one(site: Site, cluster: Cluster) -> None:
    kubeconfig(site, cluster)
    cluster.node("a")
    site.service.hosts = [host("a"), host("x", role="arbiter")]
    site.meanwhile = [
        lambda: cluster.node("x", "arbiter", ready=False),
        lambda: cluster.answers["/api/v1/nodes"]["items"].pop(),
        lambda: cluster.node("x", "arbiter"),
    ]
    controlplane.wait_masters(site.host, site.reporter(), 2, site.sleep)
    assert site.meanwhile == []


def test_a_service_that_does_not_answer_is_no_reason_to_go_on(site: Site, cluster: Cluster) -> None:
    kubeconfig(site, cluster)
    cluster.node("a")
    site.service.statuses = [404]
    site.meanwhile = [lambda: None]
    controlplane.wait_masters(site.host, site.reporter(), 2, site.sleep)
    assert site.naps == [5.0]


def test_the_service_is_told_who_has_joined(site: Site, cluster: Cluster) -> None:
    kubeconfig(site, cluster)
    for name in ("ready", "again", "early", "h"):
        cluster.node(name)
    cluster.node("coming", ready=False)
    cluster.node("known", ready=False)
    cluster.node("called.example.com", address="192.0.2.5")
    cluster.node("six.example.com", address="2001:db8::6")
    site.service.hosts = [
        host("absent", "Rebooting"),
        host("ready", "Rebooting"),
        host("again", "Configuring"),
        host("early", "Writing image to disk"),
        host("coming", "Rebooting"),
        host("known", "Configuring"),
        {**host("h", "Rebooting"), "id": "h"},
        {"id": "nameless"},
        {**host("Early", "Rebooting"), "inventory": inventory("192.0.2.99/24")},
        {**host("called", "Rebooting"), "inventory": inventory("10.0.0.1/8", "192.0.2.5/24")},
        {**host("six", "Rebooting"), "inventory": inventory("2001:db8::6/64")},
        {**host("elsewhere", "Rebooting"), "inventory": inventory("192.0.2.50/24")},
        {**host("unreadable", "Rebooting"), "inventory": "{"},
        host("done", "Done"),
        host("stageless"),
    ]
    controlplane.wait_masters(site.host, site.reporter(), 3, site.sleep)
    lines = [line for line in site.timeline.all() if line.startswith("PUT")]
    assert lines == [
        'PUT /infra-envs/i/hosts/id-ready/progress {"current_stage": "Joined"}',
        'PUT /infra-envs/i/hosts/id-again/progress {"current_stage": "Joined"}',
        'PUT /infra-envs/i/hosts/id-coming/progress {"current_stage": "Configuring"}',
        'PUT /infra-envs/i/hosts/id-Early/progress {"current_stage": "Joined"}',
        'PUT /infra-envs/i/hosts/id-called/progress {"current_stage": "Joined"}',
        'PUT /infra-envs/i/hosts/id-six/progress {"current_stage": "Joined"}',
    ]


def test_a_report_that_is_refused_does_not_keep_the_others_back(site: Site, cluster: Cluster) -> None:
    kubeconfig(site, cluster)
    cluster.node("a")
    cluster.node("b")
    site.service.hosts = [host("a", "Rebooting"), host("b", "Rebooting")]
    site.service.statuses = [200, 409]
    controlplane.wait_masters(site.host, site.reporter(), 3, site.sleep)
    assert [line for line in site.timeline.all() if "id-b" in line]


def test_etcd_is_waited_for_by_the_unit_that_watches_it(site: Site) -> None:
    site.programs.says("systemctl", "active\n")
    site.meanwhile = [
        lambda: site.programs.says("systemctl", "activating\n"),
        lambda: site.programs.says("systemctl", "failed\n", 3),
        lambda: site.programs.says("systemctl", "inactive\n", 3),
    ]
    controlplane.wait_etcd(site.host, site.sleep)
    assert site.timeline.programs() == ["systemctl is-active progress.service"] * 4
    assert site.naps == [5.0] * 3


def test_the_controller_is_waited_for(site: Site, cluster: Cluster) -> None:
    site.meanwhile = [
        lambda: kubeconfig(site, cluster),
        lambda: cluster.event("default", "AssistedControllerIsReady"),
        lambda: cluster.event("assisted-installer", "SomethingElse.17ab", "Pulled"),
        lambda: cluster.event("assisted-installer", "AssistedControllerIsReady"),
    ]
    controlplane.wait_controller(site.host, site.sleep)
    assert site.naps == [5.0] * 4
    assert cluster.connections == 1


def test_workers_are_waited_for_until_they_need_the_service_no_more(site: Site) -> None:
    early = ["Starting installation", "Installing", "Writing image to disk", "Waiting for control plane"]
    site.service.hosts = [host("w", role="worker"), host("m"), host("e", role="worker", status="error")]

    def turn(stage: str) -> None:
        site.service.hosts[0] = host("w", stage, "worker")

    site.meanwhile = [lambda stage=stage: turn(stage) for stage in (*early, "Rebooting")]  # type: ignore[misc]
    controlplane.wait_workers(site.reporter(), site.sleep)
    assert site.naps == [30.0] * 5


def test_one_worker_of_two_is_not_enough(site: Site) -> None:
    site.service.hosts = [host("a", "Rebooting", "worker"), host("b", "Installing", "worker")]
    site.meanwhile = [lambda: site.service.hosts.pop()]
    controlplane.wait_workers(site.reporter(), site.sleep)
    assert site.naps == [30.0]


def test_a_worker_waits_for_two_of_the_control_plane(site: Site) -> None:
    site.service.hosts = [host("a", "Joined"), host("b", "Rebooting"), host("w", "Joined", "worker"), host("c")]
    site.meanwhile = [
        lambda: site.service.hosts.append(host("w2", "Done", "worker")),
        lambda: site.service.hosts.append(host("x", "Done", "arbiter")),
    ]
    controlplane.wait_ready_masters_by_service(site.reporter(), site.sleep)
    assert site.naps == [5.0, 5.0]
    site.service.hosts = [host("a", "Done"), host("b", "Joined")]
    controlplane.wait_ready_masters_by_service(site.reporter(), site.sleep)
    assert site.naps == [5.0, 5.0]


def test_the_api_is_asked_over_one_connection(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig)
    api = KubeApi(tmp_path / "kubeconfig")
    cluster.node("a")
    cluster.answers["/lost"] = "lost"
    cluster.answers["/list"] = []
    cluster.answers["/no-json"] = b"{"
    cluster.answers["/none"] = {"items": None}
    assert [node.name for node in api.nodes()] == ["a"]
    assert cluster.requests == [("/api/v1/nodes", "application/json")]
    with pytest.raises(StageError, match=r"^GET /missing: HTTP 404$"):
        api.get("/missing", Node)
    with pytest.raises(StageError, match=r"^GET /list: answer is of another form: "):
        api.get("/list", Node)
    assert cluster.connections == 1
    # One that breaks is made anew once, and again for the next question.
    for path, connections in (("/no-json", 1), ("/lost", 3)):
        with pytest.raises(StageError, match=f"^GET {path}: "):
            api.get(path, Node)
        assert len(api.nodes()) == 1
        assert cluster.connections == connections
    cluster.answers["/api/v1/nodes"] = {}
    assert api.nodes() == []
    api.close()


def test_events_by_their_name_and_by_their_reason(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig)
    api = KubeApi(tmp_path / "kubeconfig")
    cluster.answers["/api/v1/namespaces/empty/events"] = {}
    assert not api.has_event("empty", "A")
    cluster.event("ns", "A.17f", "B")
    cluster.event("ns", "C.17f.x")
    existing = {name for name in ("A", "B", "C", "A.17f", "17f", "D") if api.has_event("ns", name)}
    assert existing == {"A", "B", "C"}
    api.close()


@pytest.mark.parametrize("change", [None, "[", "- a", "clusters: []", "clusters: [{cluster: {}}]", "clusters: 1"])
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, change: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if change is not None:
        path.write_text(change)
    with pytest.raises(StageError, match=r"kubeconfig: cannot be used: "):
        KubeApi(path)


def test_a_kubeconfig_whose_certificates_are_none(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(cluster.kubeconfig.replace("client-key-data: ", "client-key-data: eA==\n    old: "))
    with pytest.raises(StageError, match=r"kubeconfig: cannot be used: "):
        KubeApi(path)
    left = [path for path in Path("/tmp").glob("tmp*") if path.is_file() and path.stat().st_size == 1]
    assert left == []


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}], False),
        (None, False),
    ],
)
def test_readiness(conditions: Any, ready: bool) -> None:
    assert node(status={"conditions": conditions}).is_ready is ready
    assert node().is_ready is node(status=None).is_ready is False


@pytest.mark.parametrize(
    ("labels", "master", "arbiter"),
    [
        ({}, False, False),
        (None, False, False),
        ({"node-role.kubernetes.io/master": ""}, True, False),
        ({"node-role.kubernetes.io/control-plane": ""}, True, False),
        ({"node-role.kubernetes.io/worker": ""}, False, False),
        ({"node-role.kubernetes.io/arbiter": ""}, False, True),
    ],
)
def test_roles_by_label(labels: Any, master: bool, arbiter: bool) -> None:
    found = node(metadata={"labels": labels})
    assert (found.is_master, found.is_arbiter) == (master, arbiter)


def test_addresses_by_which_a_node_is_reached() -> None:
    listed = [{"type": "InternalIP"}, {"address": "a"}, {"type": "ExternalIP", "address": "b"}, {}]
    assert node(status={"addresses": [*listed, {"type": "InternalIP", "address": "c"}]}).internal_addresses == ["c"]
    assert node(status={"addresses": None}).internal_addresses == node().internal_addresses == []


@pytest.mark.parametrize(
    "answer", [{"items": 1}, {"items": [1]}, {"items": [{"metadata": 1}]}, {"items": [{"metadata": {"name": 1}}]}]
)
def test_an_answer_of_another_form_is_no_end_of_the_wait(cluster: Cluster, tmp_path: Path, answer: Any) -> None:
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig)
    api = KubeApi(tmp_path / "kubeconfig")
    cluster.answers |= {"/api/v1/nodes": answer, "/api/v1/namespaces/ns/events": answer}
    for ask in (api.nodes, lambda: api.has_event("ns", "A")):
        with pytest.raises(StageError, match="answer is of another form"):
            ask()
    cluster.answers["/api/v1/namespaces/ns/events"] = {"items": [{}, {"metadata": {}}]}
    assert not api.has_event("ns", "A")
    api.close()
