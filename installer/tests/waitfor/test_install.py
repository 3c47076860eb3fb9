"""wait-for install-complete against a cluster that answers over TLS (waitfor_kit)."""

from __future__ import annotations

import base64
import copy
import dataclasses
import stat
import time
from types import SimpleNamespace

import pytest
import yaml

from installer.observe.state import Expected
from installer.testing.waitfor_kit import (
    DONE,
    INGRESS_CM,
    KUBE_CA,
    NODES,
    OPERATORS,
    PASSWORD,
    QUICK,
    ROUTE,
    ROUTER_CA,
    VERSION,
    Moment,
    World,
    cluster,
    config_map,
    host,
    nodes,
    operator,
    version,
)
from installer.waitfor import install, kubeconfig
from installer.waitfor.bootstrap import Bootstrap
from installer.waitfor.nodes import Node, problems

READY_CLUSTER = {
    **DONE,
    VERSION: version("True", "False", "Cluster version is 4"),
    OPERATORS: {"items": [operator("etcd"), operator("console")]},
    INGRESS_CM: config_map(**{"ca-bundle.crt": ROUTER_CA.certificate}),
    ROUTE: {"spec": {"tls": {"termination": "edge"}}, "status": {"ingress": [
        {"host": "console.apps.x", "conditions": [{"type": "Admitted", "status": "True"}]}]}},
}  # fmt: skip


def test_install_complete(run):
    half = version("False", "True", "Working towards 4: 5 of 10 done (50% complete)")
    moments = [Moment(kube=DONE), Moment(kube={VERSION: half}), Moment(kube=READY_CLUSTER)]
    assert run(moments, target="install-complete") == 0
    path = run.dir / "auth" / "kubeconfig"
    tail = run.lines("INFO")[-5:]
    assert tail == [
        "Checking to see if there is a route at openshift-console/console...",
        "Install complete!",
        f"To access the cluster as the system:admin user when using 'oc', run\n    export KUBECONFIG={path}",
        "Access the OpenShift web-console here: https://console.apps.x",
        f'Login to the console with user: "kubeadmin", and password: "{PASSWORD}"',
    ]
    assert [r.secret for r in run.caplog.records if PASSWORD in r.message] == [True]
    assert any("50% complete" in line for line in run.lines("DEBUG"))
    merged = base64.b64decode(
        yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    ).decode()
    assert kubeconfig.blocks(merged) == [ROUTER_CA.certificate.strip(), KUBE_CA.certificate.strip()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_install_complete_without_a_console(run):
    state = {key: value for key, value in READY_CLUSTER.items() if key != ROUTE}
    assert run([Moment(kube=state)], target="install-complete") == 0
    assert any("no console" in line for line in run.lines("WARNING"))
    assert run.lines("INFO")[-1].startswith("To access the cluster")


@pytest.fixture
def hour(run, monkeypatch):
    """Let an hour pass for wait-for once it has looked at the cluster: however long that took, the time is up
    then."""

    def monotonic():
        has_looked = any(line.startswith("Still waiting for the cluster to initialize") for line in run.lines())
        return time.monotonic() + 3600 * has_looked

    monkeypatch.setattr(install, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))


@pytest.mark.usefixtures("hour")
def test_cluster_that_does_not_initialize(run):
    state = {**DONE, VERSION: version("False", "True", "Working towards 4: waiting on dns"),
             OPERATORS: {"items": [operator("dns", "True", "False")]}}  # fmt: skip
    assert run([Moment(kube=state)], target="install-complete", timeout=600) == 6
    errors = run.lines("ERROR")
    assert errors[0] == "Cluster operator dns Available is False with R: it is"
    assert errors[-1].startswith("failed to initialize the cluster: Working towards 4: waiting on dns")


@pytest.mark.usefixtures("hour")
@pytest.mark.parametrize(
    ("there", "first"),
    [
        (nodes(master_1="True", master_2="True"), "Node master-0 has not joined the cluster"),
        (nodes(master_0="True", master_1="Unknown", master_2="True"), "Node master-1 is not Ready: it is Unknown"),
    ],
)
def test_a_node_that_is_missing_or_not_ready_is_named_first(run, there, first):
    state = {**DONE, NODES: there, VERSION: version("False", "True", "Working towards 4: waiting on etcd"),
             OPERATORS: {"items": [operator("etcd", "True", "False")]}}  # fmt: skip
    names = ("master-0", "master-1", "master-2")
    assert run([Moment(kube=state)], names=names, target="install-complete", timeout=600) == 6
    assert run.lines("ERROR")[0].startswith(first)
    assert any(line.startswith(first) for line in run.lines("DEBUG"))


def test_a_host_that_is_lost_before_the_rendezvous_host_reboots_ends_the_waiting(run):
    state = {**DONE, VERSION: version("False", "True", "Working towards 4: waiting on etcd")}
    waits = host("master-0", "installing-in-progress", "Waiting for controller")
    lost = host("worker-0", "error", "Waiting for control plane", "Host lost its connection to the service")
    lost["logs_info"] = "completed"
    there = host("worker-0", "installing-in-progress", "Waiting for control plane")
    moments = [
        Moment(cluster("installing"), [waits, there], kube=state, evaluations=4),
        Moment(cluster("error", "cluster has hosts in error"), [waits, lost], kube=state),
    ]
    assert run(moments, names=("master-0", "worker-0"), target="install-complete", timeout=30) == 6
    assert "cluster bootstrap is complete" in run.lines("INFO")
    errors = run.lines("ERROR")
    assert (
        errors[0] == "Host worker-0 failed at stage Waiting for control plane: Host lost its connection to the service"
    )
    assert errors[-1] == (
        "failed to initialize the cluster: cluster installation ended in status error: cluster has hosts in error"
    )
    assert (run.dir / "logs" / "hosts.json").is_file()


def test_the_service_may_go_with_its_hosts_reboot_once_the_bootstrap_is_complete(run):
    rebooting = [Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Rebooting")], kube=DONE)]
    assert run([*rebooting, Moment(kube=READY_CLUSTER)], target="install-complete") == 0


WORKING = {**DONE, VERSION: version("False", "True", "Working towards 4: waiting on etcd")}
LOST = host("worker-0", "error", "Waiting for control plane", "Host lost its connection to the service")
LOST["logs_info"] = "completed"


def test_a_complete_cluster_ends_the_waiting_whatever_the_service_says(run):
    assert run([Moment(cluster("error"), [LOST], kube=READY_CLUSTER)], target="install-complete") == 0
    assert not run.lines("ERROR")


@pytest.mark.parametrize(("target", "code"), [("bootstrap-complete", 0), ("install-complete", 6)])
def test_an_installation_that_failed_after_its_bootstrap_is_reported_so_again(run, target, code):
    assert run([Moment(cluster("error"), [LOST], kube=WORKING)], target=target) == code
    assert "cluster bootstrap is complete" in run.lines("INFO")


def test_openshifts_service_may_give_up_a_cluster_that_completes(run):
    """The cluster goes on without the service: its installer looks at the cluster alone."""
    moments = [Moment(cluster("error", "cluster has hosts in error"), [LOST], kube=WORKING), Moment(kube=READY_CLUSTER)]
    assert run(moments, target="install-complete", openshift=True) == 0
    assert [line for line in run.lines("WARNING") if "cluster installation ended" in line] == [
        "cluster installation ended in status error: cluster has hosts in error; still waiting, since the cluster may "
        "complete: Host worker-0 failed at stage Waiting for control plane: Host lost its connection to the service"
    ]
    assert not run.lines("ERROR")


def test_a_service_that_begins_anew_after_the_bootstrap_fails_no_installation(run):
    on = Moment(cluster("installing"), [host("master-0", "installing-in-progress")], kube=WORKING, evaluations=3)
    anew = Moment(cluster("ready"), [host("master-0", "known")], kube=WORKING, evaluations=12)
    settings = dataclasses.replace(QUICK, ready_limit=0.1)
    assert run([on, anew, Moment(kube=READY_CLUSTER)], target="install-complete", settings=settings) == 0


def test_a_refusal_after_the_bootstrap_does_not_blame_the_image(run, monkeypatch):
    """The host at the address may serve something else by then, and tokens of OpenShift's service expire."""
    served = World.rest
    monkeypatch.setattr(
        World, "rest", lambda self, *asked: (401, {"message": "expired"}) if self.index else served(self, *asked)
    )
    on = Moment(cluster("installing"), [host("master-0", "installing-in-progress")], kube=WORKING, evaluations=3)
    assert run([on, dataclasses.replace(on), Moment(kube=READY_CLUSTER)], target="install-complete") == 0
    assert not run.lines("WARNING")


@pytest.mark.parametrize(("kube", "code"), [(None, 5), (WORKING, 6)], ids=["bootstrap", "cluster"])
def test_an_interrupt_while_logs_are_awaited_ends_that_alone(run, monkeypatch, kube, code):
    def interrupt(_self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bootstrap, "await_uploads", interrupt)
    assert run([Moment(cluster("error"), [LOST], kube=kube)], target="install-complete") == code
    assert not any("the installation goes on" in line for line in run.lines())
    assert (run.dir / "logs" / "hosts.json").is_file()


def test_a_service_that_hangs_does_not_delay_looks_at_the_cluster(monkeypatch):
    """Seconds that pass in looks at the service are a small part of all, and one that answers is always looked at."""
    now, looks, seconds = 0.0, 0, 0.0
    monkeypatch.setattr(install, "time", SimpleNamespace(monotonic=lambda: now))

    def hang() -> None:
        nonlocal now, looks
        now += seconds
        looks += 1

    kube = SimpleNamespace()
    waiting = install.Install(SimpleNamespace(), kube, QUICK, None, follow=hang)
    for took, begun, least, most in ((10.0, 0.0, 1, 7), (0.01, 1000.0, 150, 150)):
        now, looks, seconds = begun, 0, took
        while now < begun + 300:
            waiting.look_at_service()
            now += 2
        assert least <= looks <= most


def test_nodes_without_names_are_counted():
    two = [Node("a", "True"), Node("b", "False", "KubeletNotReady", "")]
    assert problems(two, Expected((), 3)) == (
        "2 of 3 nodes have joined the cluster: a, b",
        "Node b is not Ready: KubeletNotReady",
    )
    assert problems([Node("a", "")], Expected((), 1)) == ("Node a is not Ready: it has no condition Ready",)
    assert problems([Node("a", "True")], Expected(("a",), 1)) == ()


def test_the_reason_for_not_joining_is_given_for_missing_nodes_only():
    lines = problems([Node("a", "True")], Expected(("a", "b"), 2), "api-int leads nowhere")
    assert lines == ("Node b has not joined the cluster: its kubelet has not registered it; api-int leads nowhere",)
    assert problems([], Expected((), 1), "x") == ("0 of 1 nodes have joined the cluster: none; x",)


def test_missing_router_ca(run):
    state = {key: value for key, value in READY_CLUSTER.items() if key != INGRESS_CM}
    assert run([Moment(kube=state)], target="install-complete") == 6
    assert "default-ingress-cert is missing" in run.lines("ERROR")[-1]


def test_unstable_operator(run):
    state = {**READY_CLUSTER, OPERATORS: {"items": [operator("etcd"), operator("machine-config", "True")]}}
    assert run([Moment(kube=state)], target="install-complete", settings=dataclasses.replace(QUICK, operators=0.3)) == 7
    assert run.lines("ERROR")[-1].endswith(": machine-config")


@pytest.mark.parametrize(
    ("date", "code"),
    [
        ("Mon, 01 Jan 2024 00:00:05 GMT", 7),  # five seconds after the change, by the cluster's clock
        ("Mon, 01 Jan 2024 00:01:00 GMT", 0),
        ("Mon, 01 Jan 2024 00:01:00 -0000", 7),  # of no zone
        ("yesterday", 7),
        ("", 7),
    ],
)
def test_the_clusters_clock_decides_how_long_an_operator_has_been_stable(run, date, code):
    """This machine's clock is years ahead of the change."""
    state = copy.deepcopy(READY_CLUSTER)
    for item in state[OPERATORS]["items"]:
        for condition in item["status"]["conditions"]:
            condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
    settings = dataclasses.replace(QUICK, stable_for=30, operators=0.5)
    result = run([Moment(kube=state)], target="install-complete", settings=settings, dated=lambda: date)
    assert result == code


def test_an_api_name_that_keeps_nodes_from_joining_is_an_early_warning(run):
    """Nobody has a name in x.example, which is the user's to serve on platform none."""
    waiting = {**DONE, NODES: nodes(), VERSION: version("False", "True", "Working towards 4: waiting on etcd")}
    joined = {**READY_CLUSTER, NODES: nodes(master_0="True")}
    settings = dataclasses.replace(QUICK, unreachable_after=0.0)
    assert (
        run([Moment(kube=waiting, evaluations=4), Moment(kube=joined)], target="install-complete", settings=settings)
        == 0
    )
    lines = [line for line in run.lines("WARNING") if "has not joined" in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "Node master-0 has not joined the cluster: its kubelet has not registered it; kubelets look"
    )
    assert "api-int.ostest.x.example: api-int.ostest.x.example has no address here" in lines[0]
