"""An empty machine becomes a cluster: every topology is installed once, then examined from inside and outside."""

import json
import re
import time

import pytest

from lab.waiting import wait_until
from scenarios.cluster import Installation

pytestmark = pytest.mark.parametrize(
    "installation",
    ["sno-ipv4-static-uefi", "sno-ipv4-static-bios"],
    indirect=True,
    scope="module",
)

SERVICES = ("kubelet", "containerd", "NetworkManager", "chrony", "ssh")
STATIC_PODS = (
    ("openshift-etcd", "etcd"),
    ("openshift-kube-apiserver", "kube-apiserver"),
    ("openshift-kube-controller-manager", "kube-controller-manager"),
    ("openshift-machine-config-operator", "machine-config-server"),
    ("openshift-cluster-version", "cluster-version-operator"),
    ("openshift-ingress", "router"),
)


# ---- from inside, over SSH


def test_every_node_runs_from_its_disk_with_the_iso_still_inserted(installation: Installation):
    for name, node in installation.lab.nodes.items():
        host = node.ssh()
        assert host.check_output("findmnt -no SOURCE /").startswith("/dev/vda"), name
        assert "coreos.liveiso" not in host.file("/proc/cmdline").content_string, name
        assert node.media.inserted(), name


def test_hostname_and_static_address_are_those_of_the_config(installation: Installation):
    for spec in installation.topology.nodes:
        host = installation.lab.nodes[spec.name].ssh()
        assert host.check_output("hostname") == spec.name
        links = json.loads(host.check_output("ip -json address"))
        nic = next(link for link in links if link.get("address") == spec.mac)
        ipv4 = [a for a in nic["addr_info"] if a["family"] == "inet"]
        assert spec.ip in [a["local"] for a in ipv4]
        assert not any(a.get("dynamic") for a in ipv4), "the address came from DHCP, not from the NMState config"


def test_services_run_and_no_unit_failed(installation: Installation):
    for name, node in installation.lab.nodes.items():
        host = node.ssh()
        for service in SERVICES:
            assert host.service(service).is_running, f"{name}: {service}"
        assert host.check_output("systemctl --failed --no-legend --plain") == "", name


def test_clock_follows_the_lab(installation: Installation):
    for name, node in installation.lab.nodes.items():
        sources = node.ssh().check_output("chronyc -n sources")
        assert re.search(r"^\^\* ", sources, re.M), f"{name}: no selected source in\n{sources}"


# ---- from outside, with everybody's own clients


def test_kubectl_sees_the_nodes_ready_and_every_csr_issued(installation: Installation):
    nodes = installation.kubectl_json("get", "nodes")["items"]
    assert {n["metadata"]["name"] for n in nodes} == {spec.name for spec in installation.topology.nodes}
    for node in nodes:
        conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", node["metadata"]["name"]
    csrs = installation.kubectl_json("get", "csr")["items"]
    assert {c["spec"]["signerName"] for c in csrs} >= {
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
    }
    for csr in csrs:
        assert csr["status"].get("certificate"), csr["metadata"]["name"]


def test_static_pods_run_and_their_logs_can_be_read(installation: Installation):
    for namespace, name in STATIC_PODS:
        pods = installation.kubectl_json("-n", namespace, "get", "pods")["items"]
        found = [p for p in pods if p["metadata"]["name"].startswith(name)]
        assert found, f"no pod {namespace}/{name}*: {[p['metadata']['name'] for p in pods]}"
        assert found[0]["status"]["phase"] == "Running", name
        assert installation.kubectl("-n", namespace, "logs", "--tail=5", found[0]["metadata"]["name"]).strip(), name


def test_cluster_version_and_operators_are_available(installation: Installation):
    version = installation.kubectl_json("get", "clusterversion", "version")
    conditions = {c["type"]: c["status"] for c in version["status"]["conditions"]}
    assert (conditions["Available"], conditions["Progressing"], conditions["Failing"]) == ("True", "False", "False")
    assert version["status"]["history"][0]["state"] == "Completed"
    assert version["status"]["desired"]["version"] == installation.release.version
    operators = installation.kubectl_json("get", "clusteroperators")["items"]
    assert operators
    for operator in operators:
        states = {c["type"]: c["status"] for c in operator["status"]["conditions"]}
        assert (states["Available"], states["Degraded"]) == ("True", "False"), operator["metadata"]["name"]
        message = next(c["message"] for c in operator["status"]["conditions"] if c["type"] == "Available")
        assert message, f"{operator['metadata']['name']} does not say what it looked at"


def test_an_operator_reports_what_it_really_sees(installation: Installation):
    """Stop the router: ingress must turn unavailable, and come back."""
    host = next(iter(installation.lab.nodes.values())).ssh()
    manifest = host.check_output("sudo sh -c \"grep -l 'name: router' /etc/kubernetes/manifests/*\"").splitlines()[0]

    def available() -> str:
        operator = installation.kubectl_json("get", "clusteroperator", "ingress")
        return str(next(c["status"] for c in operator["status"]["conditions"] if c["type"] == "Available"))

    host.check_output("sudo mv %s /root/router.off", manifest)
    try:
        wait_until(
            lambda: available() == "False", 180, "ClusterOperator ingress to notice that the router is gone", available
        )
    finally:
        host.check_output("sudo mv /root/router.off %s", manifest)
    wait_until(lambda: available() == "True", 240, "ClusterOperator ingress to see the router again", available)


def test_console_answers(installation: Installation):
    status, body = installation.get(installation.console_url)
    assert status == 200
    assert installation.topology.cluster_name in body


def test_official_python_client_creates_watches_and_deletes_a_configmap(installation: Installation):
    def exercise() -> list[str]:
        from kubernetes import client, watch

        api = client.CoreV1Api(installation.api_client())
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="scenario"), data={"a": "1"})
        start = api.list_namespaced_config_map("default").metadata.resource_version
        api.create_namespaced_config_map("default", body)
        api.patch_namespaced_config_map("scenario", "default", {"data": {"a": "2"}})
        api.delete_namespaced_config_map("scenario", "default")
        seen = []
        for event in watch.Watch().stream(
            api.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=60
        ):
            if event["object"].metadata.name == "scenario":
                seen.append(event["type"])
            if event["type"] == "DELETED":
                break
        return seen

    assert installation.lab.inside(exercise) == ["ADDED", "MODIFIED", "DELETED"]


def test_filled_maps_do_not_kill_the_api_server(installation: Installation):
    """The trap of building 1.20 with Go 1.19: the server died on the first object with a filled map."""

    def soak(seconds: float) -> int:
        from kubernetes import client

        api = client.CoreV1Api(installation.api_client())
        deadline, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            name = f"soak-{rounds}"
            body = client.V1ConfigMap(
                metadata=client.V1ObjectMeta(name=name, labels={"soak": "yes"}),
                data={f"key{i}": str(i) for i in range(20)},
            )
            api.create_namespaced_config_map("default", body)
            assert api.read_namespaced_config_map(name, "default").data == body.data
            api.list_config_map_for_all_namespaces()
            rounds += 1
        api.delete_collection_namespaced_config_map("default", label_selector="soak=yes")
        return rounds

    restarts_before = installation.restarts("openshift-kube-apiserver")
    assert installation.lab.inside(soak, 45.0) >= 5
    assert installation.restarts("openshift-kube-apiserver") == restarts_before


# ---- last, since it changes the machine


def test_a_reboot_comes_back_without_running_ignition_again(installation: Installation):
    node = next(iter(installation.lab.nodes.values()))
    host = node.ssh()
    boot_id = host.check_output("cat /proc/sys/kernel/random/boot_id")
    report = host.check_output("sudo sha256sum /etc/.ignition-result.json")
    node.power.cycle()

    def new_boot() -> bool:
        return bool(node.ssh().check_output("cat /proc/sys/kernel/random/boot_id") != boot_id)

    wait_until(new_boot, 240, f"{node.name} to be back after a power cycle")
    host = node.ssh()
    assert host.check_output("sudo sha256sum /etc/.ignition-result.json") == report
    assert "ignition.firstboot" not in host.file("/proc/cmdline").content_string
    ran = host.check_output("sudo journalctl -b -o cat -t ignition | head -n 3")
    assert ran == "", f"Ignition ran again: {ran}"
    wait_until(installation.api_ready, 300, "the API to answer after the reboot")
    wait_until(installation.nodes_ready, 240, "every node to be Ready after the reboot")
