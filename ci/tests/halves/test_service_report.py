"""The cluster's controller against the real service: what the bootstrap host leaves in the cluster is all it knows."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from installer.hostsys.system import HostSystem
from installer.orchestrator.controller import Controller
from installer.testing.engine.fleet_kit import Machine
from installer.testing.service.rendezvous_kit import Running, running, wait_for
from installer.testing.service.service_kit import INSTALLER
from installer.testing.service.single_kit import World
from lab.release.cluster.bootkube import command as bootkube
from lab.release.cluster.controller import servicereport
from lab.release.cluster.errors import ApiError, ServiceError

MANIFESTS = Path(servicereport.__file__).parents[1] / "manifests"
CA = "-----BEGIN CERTIFICATE-----\nof the ingress\n-----END CERTIFICATE-----\n"
KUBECONFIG = {"clusters": [{"name": "c", "cluster": {"certificate-authority-data": base64.b64encode(b"API").decode()}}]}


class Objects:
    """The cluster's API as far as the controller reads it: objects by kind, namespace and name."""

    def __init__(self, controller: Controller, invoker: str) -> None:
        self.away = False
        self.stored: dict[tuple[str, str | None, str], Any] = {}
        for text in controller.manifests().values():
            self.put(yaml.safe_load(text))
        meta = {"namespace": "openshift-config", "name": "openshift-install-manifests"}
        self.put({"kind": "ConfigMap", "metadata": meta, "data": {"invoker": invoker}})

    def put(self, obj) -> None:
        meta = obj["metadata"]
        self.stored[obj["kind"], meta.get("namespace"), meta["name"]] = obj

    def get(self, api_version, kind, name, namespace=None):
        if self.away:
            raise ApiError("GET", name, 0, "nobody answers")
        return self.stored.get((kind, namespace, name))

    def list(self, api_version, kind, namespace=None, labels=""):
        return [obj for (stored, _, _), obj in self.stored.items() if stored == kind]

    def node(self, name: str, address: str, ready: bool) -> None:
        status = {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        self.put({"kind": "Node", "metadata": {"name": name}, "status": status})

    def operators(self, available: bool) -> None:
        conditions = [{"type": "Available", "status": str(available), "message": "seen"}]
        status = {"conditions": conditions, "history": [{"version": "4.18.0"}], "versions": [{"version": "4.18.0"}]}
        self.put({"kind": "ClusterVersion", "metadata": {"name": "version"}, "status": status})
        self.put({"kind": "ClusterOperator", "metadata": {"name": "console"}, "status": status})


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    binary = folder / "openshift-install"
    binary.write_text(INSTALLER.replace('"clusters: []"', repr(yaml.safe_dump(KUBECONFIG))))
    binary.chmod(0o755)
    with running(folder, INSTALLER_BINARY=str(binary)) as live:
        yield live


ELSEWHERE = Controller(
    url="https://192.0.2.1:8090/", ca_pem="PEM\n", insecure=False, token="x", cluster_id="c", control_plane_count=1
)


def controller_of(service: Running, cluster_id: str) -> Controller:
    """Return the service's answers to the controller of a cluster of one node."""
    address = {"url": service.url, "ca_pem": service.ca.read_text(), "token": service.keys.token("agentAuth")}
    return replace(ELSEWHERE, **address, cluster_id=cluster_id)


class Rebooting:
    """A cluster of one node whose host has just rebooted into its disk."""

    def __init__(self, service: Running, name: str) -> None:
        self.service, self.world = service, World(service)
        self.cluster, self.infra_env = self.world.cluster(name)
        self.machine = Machine(0, self.world.network)
        self.world.register(self.infra_env, self.machine)
        wait_for("the cluster to be ready", lambda: self.polled() == "ready")
        self.user = service.client()
        self.user.call("POST", f"/clusters/{self.cluster}/actions/install")
        wait_for("the cluster to be installing", lambda: self.polled() == "installing", 120)
        for stage in ("Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk"):
            self.world.progress(self.infra_env, self.machine, stage)
        self.world.progress(self.infra_env, self.machine, "Rebooting")
        self.controller = controller_of(service, self.cluster)

    def polled(self) -> str:
        self.world.poll(self.infra_env, self.machine)
        return self.world.status(self.cluster)

    def host(self):
        return self.user.call("GET", f"/infra-envs/{self.infra_env}/hosts/{self.machine.id}")

    def stage(self) -> str:
        return str(self.host()["progress"]["current_stage"])

    def remove(self) -> None:
        self.user.call("DELETE", f"/clusters/{self.cluster}")


def test_a_host_becomes_a_node_and_the_cluster_installed(service: Running) -> None:
    rebooting = Rebooting(service, "reported")
    kube = Objects(rebooting.controller, "assisted-installer")
    where = servicereport.target(kube)
    assert where is not None
    reporter = servicereport.Reporter(kube, where)
    assert reporter.step() is False
    assert rebooting.stage() == "Rebooting"
    kube.node("another-name", rebooting.machine.ip, ready=False)
    assert reporter.step() is False
    assert rebooting.stage() == "Joined"
    kube.node("another-name", rebooting.machine.ip, ready=True)
    reporter.step()
    assert (rebooting.stage(), rebooting.host()["status"]) == ("Done", "installed")
    assert rebooting.world.status(rebooting.cluster) == "finalizing"

    kube.operators(available=False)
    assert reporter.step() is False
    operators = {
        item["name"]: item
        for item in rebooting.user.call("GET", f"/clusters/{rebooting.cluster}")["monitored_operators"]
    }
    assert {name: (item["status"], item["version"]) for name, item in operators.items()} == {
        "console": ("failed", "4.18.0"),
        "cvo": ("failed", "4.18.0"),
    }
    kube.operators(available=True)
    assert reporter.step() is False, "the ingress CA is not there yet"
    meta = {"namespace": "openshift-config-managed", "name": "default-ingress-cert"}
    kube.put({"kind": "ConfigMap", "metadata": meta, "data": {"ca-bundle.crt": CA}})
    assert reporter.step() is True
    assert rebooting.world.status(rebooting.cluster) == "installed"
    raw = rebooting.user.download(f"/clusters/{rebooting.cluster}/downloads/credentials", {"file_name": "kubeconfig"})
    [cluster] = yaml.safe_load(raw)["clusters"]
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode() == f"API\n{CA}"
    # The controller of another node, or of the next boot, has nothing left to say.
    assert servicereport.Reporter(kube, where).step() is True


@pytest.mark.slow
def test_the_loop_outlasts_an_api_and_a_service_that_are_away(service: Running) -> None:
    rebooting = Rebooting(service, "patient")
    kube = Objects(rebooting.controller, "assisted-installer")
    kube.away = True
    stop = threading.Event()
    loop = threading.Thread(target=servicereport.run, args=(kube, stop, 0.05))
    loop.start()
    try:
        service.kill()
        kube.away = False
        kube.node("host-0", rebooting.machine.ip, ready=True)
        service.start()
        wait_for("the host to be Done", lambda: rebooting.stage() == "Done")
        assert loop.is_alive()
        rebooting.user.call("POST", f"/clusters/{rebooting.cluster}/actions/cancel")
        loop.join(20)
        assert not loop.is_alive(), "a cluster that was cancelled is still reported"
    finally:
        stop.set()
        loop.join(20)


def test_a_service_that_does_not_know_the_cluster_ends_the_reports(service: Running) -> None:
    controller = controller_of(service, "00000000-0000-4000-8000-00000000dead")
    servicereport.run(Objects(controller, "assisted-installer"), threading.Event(), 0.05)  # comes back: 404
    where = servicereport.target(Objects(controller, "assisted-installer"))
    assert where is not None
    with pytest.raises(ServiceError) as caught:
        servicereport.Reporter(Objects(controller, "assisted-installer"), where).step()
    assert caught.value.status == 404
    stranger = replace(controller, token="no token")
    servicereport.run(Objects(stranger, "assisted-installer"), threading.Event(), 0.05)  # comes back: 401 three times


def test_the_controller_of_an_earlier_attempt_tells_nothing(service: Running) -> None:
    rebooting = Rebooting(service, "again")
    before = replace(rebooting.controller, attempt="the one before")
    kube = Objects(before, "assisted-installer")
    kube.node("host-0", rebooting.machine.ip, ready=True)
    servicereport.run(kube, threading.Event(), 0.05)  # comes back: 409
    assert rebooting.stage() == "Rebooting"


def test_a_cluster_of_agent_installer_reports_to_nobody() -> None:
    assert servicereport.target(Objects(ELSEWHERE, "agent-installer")) is None


def test_bootkube_creates_what_the_orchestrator_leaves(tmp_path) -> None:
    ELSEWHERE.write(HostSystem(tmp_path))
    assets = tmp_path / "opt/openshift"
    cluster = SimpleNamespace(images=SimpleNamespace(version="4.18.0"))
    objects = bootkube.user_objects(cluster, assets)
    assert [(item["kind"], item["metadata"]["name"]) for item in objects] == [
        ("ConfigMap", servicereport.CONFIG_MAP),
        ("Secret", servicereport.SECRET),
    ]
    namespaces = yaml.safe_load_all((MANIFESTS / "0000_05_config-operator_02_namespaces.yaml").read_text())
    [own] = [item for item in namespaces if item["metadata"]["name"] == servicereport.NAMESPACE]
    assert own["metadata"]["annotations"]["release.openshift.io/bootstrap-required"] == "true"
    assert {item["metadata"]["namespace"] for item in objects} == {servicereport.NAMESPACE}


def test_the_controller_may_read_what_it_reads() -> None:
    documents = yaml.safe_load_all((MANIFESTS / "0000_50_machine-approver_02_controller.yaml").read_text())
    [role] = [item for item in documents if item["kind"] == "ClusterRole"]
    allowed = {
        (group, resource, name)
        for rule in role["rules"]
        if "get" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }
    assert allowed >= {
        ("", "configmaps", servicereport.CONFIG_MAP),
        ("", "configmaps", "default-ingress-cert"),
        ("", "configmaps", "openshift-install-manifests"),
        ("", "secrets", servicereport.SECRET),
        ("", "nodes", ""),
        ("config.openshift.io", "clusteroperators", ""),
        ("config.openshift.io", "clusterversions", ""),
    }
    assert not [entry for entry in allowed if entry[1] in ("configmaps", "secrets") and not entry[2]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "progressing"),
        ([("Available", "True"), ("Degraded", "True")], "available"),
        ([("Degraded", "False"), ("Progressing", "True"), ("Available", "False")], "progressing"),
        ([("Available", "False"), ("Progressing", "True")], "failed"),
        ([("Degraded", "True"), ("Available", "True")], "failed"),
    ],
)
def test_the_first_condition_that_says_something_decides(conditions, expected) -> None:
    conditions_made = [{"type": kind, "status": status, "message": "m"} for kind, status in conditions]
    assert servicereport.operator_status(conditions_made)[0] == expected
