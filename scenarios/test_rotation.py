"""Scenarios of certificates that are renewed, of static pods that are replaced by revisions, and of a cluster that was
off until its certificates had run out."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from lab.faults import Outage, PowerCut
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, all_is_well, etcd_is_whole

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

ANY = params(lambda row: row.thorough)
#: The length of a day for certificates (OpenShift's own way to test this): what lives 30 days lives 15 minutes.
DAY_SECONDS = 30
LIFE_SECONDS = 30 * DAY_SECONDS
ROTATIONS = 3
PERIOD_SECONDS, REQUEST_SECONDS = 0.5, 10.0
KIND = "auth.openshift.io/managed-certificate-type"
NOT_AFTER, NOT_BEFORE = "auth.openshift.io/certificate-not-after", "auth.openshift.io/certificate-not-before"
DAY_CONFIG = ("-n", "openshift-config", "configmap", "unsupported-cert-rotation-config")
#: Targets whose lives are short enough to be renewed while the scenario looks.
SHORT = {
    "aggregator-client",
    "assisted-installer-controller-client",
    "console-serving-cert",
    "external-loadbalancer-serving-certkey",
    "internal-loadbalancer-serving-certkey",
    "kube-controller-manager-client-cert-key",
    "kube-scheduler-client-cert-key",
    "kubelet-client",
    "localhost-serving-cert-certkey",
    "machine-config-server-client",
    "router-certs-default",
    "service-network-serving-certkey",
}


def certificates(installation: Installation) -> dict[str, dict[str, str]]:
    """Return the annotations of the certificates that the cluster renews, by the names of their Secrets."""
    listed = installation.kubectl_json("get", "secrets", "--all-namespaces", "-l", f"{KIND} in (signer,target)")
    return {s["metadata"]["name"]: s["metadata"].get("annotations") or {} for s in listed["items"]}


def served(host: str, port: int, name: str, ca: str | None = None) -> x509.Certificate:
    """Return the certificate that a server shows for a name."""
    context = ssl.create_default_context(cadata=ca)
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=REQUEST_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")


@dataclass
class Probes:
    """Requests without a pause, by name: those that succeeded, and of the others when and why."""

    installation: Installation
    good: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    kept: list[http.client.HTTPSConnection] = field(default_factory=list)

    def _client(self) -> tuple[ssl.SSLContext, str, int]:
        """Return what a client with the administrator's certificate connects with, to where."""
        from kubernetes import config
        from kubernetes.client import Configuration

        used = Configuration()
        config.load_kube_config(str(self.installation.deployment.kubeconfig), client_configuration=used)
        context = ssl.create_default_context(cafile=used.ssl_ca_cert)
        context.load_cert_chain(used.cert_file, used.key_file)
        url = urlsplit(used.host)
        return context, url.hostname or "", url.port or 443

    def _probes(self) -> dict[str, Callable[[], int]]:
        context, host, port = self._client()

        def ask(connection: http.client.HTTPSConnection) -> int:
            connection.request("GET", "/api/v1/namespaces/default")
            answer = connection.getresponse()
            answer.read()
            return answer.status

        def connect() -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection(host, port, context=context, timeout=REQUEST_SECONDS)

        def new() -> int:
            with contextlib.closing(connect()) as connection:
                return ask(connection)

        def reused() -> int:
            if not self.kept:
                self.kept.append(connect())
            try:
                return ask(self.kept[0])
            except (OSError, http.client.HTTPException):
                self.kept.pop().close()
                raise

        route = ssl.create_default_context(cadata=self.installation.ca_bundle)
        page = urlsplit(self.installation.deployment.console_url)

        def console() -> int:
            with contextlib.closing(
                http.client.HTTPSConnection(page.hostname or "", 443, context=route, timeout=REQUEST_SECONDS)
            ) as connection:
                connection.request("GET", "/health")  # its page needs the API
                return connection.getresponse().status

        return {"API, new connection": new, "API, same connection": reused, "Route": console}

    def _run(self, stop: threading.Event) -> None:
        probes, began = self._probes(), time.monotonic()
        while not stop.is_set():
            for name, probe in probes.items():
                try:
                    status = probe()
                except (OSError, http.client.HTTPException) as error:
                    self.failed.append(f"{time.monotonic() - began:.1f} s: {name}: {type(error).__name__}: {error}")
                    continue
                if status == 200:
                    self.good[name] = self.good.get(name, 0) + 1
                else:
                    self.failed.append(f"{time.monotonic() - began:.1f} s: {name}: {status}")
            stop.wait(PERIOD_SECONDS)
        for connection in self.kept:
            connection.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Ask for the length of the block."""
        stop = threading.Event()
        thread = threading.Thread(
            target=self.installation.lab.inside, args=(self._run, stop), name="probes", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(4 * REQUEST_SECONDS)


@contextlib.contextmanager
def short_days(installation: Installation) -> Iterator[None]:
    """Have certificates live by days of DAY_SECONDS, until the end of the block, when all are renewed once more."""
    installation.kubectl("create", *DAY_CONFIG, f"--from-literal=base={DAY_SECONDS}s")
    try:
        yield
    finally:
        installation.kubectl("delete", *DAY_CONFIG)


def well(installation: Installation) -> None:
    """Wait until etcd is whole and all operators are well."""
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole")
    wait_until(lambda: installation.unwell_operators() == [], BACK_SECONDS, "operators", installation.unwell_operators)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_certificates_are_renewed_three_times_and_no_probe_fails(installation: Installation) -> None:
    """Certificates of 30 days live 15 minutes: they are renewed in time, and programs serve and show the new ones."""
    seen: dict[str, list[str]] = {name: [] for name in SHORT}

    def turns() -> bool:
        for name, notes in certificates(installation).items():
            if name in seen and (made := notes.get(NOT_BEFORE, "")) not in seen[name]:
                seen[name].append(made)
        return all(len(times) > ROTATIONS for times in seen.values())

    probes = Probes(installation)
    api = urlsplit(installation.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"))
    host, apps = api.hostname or "", urlsplit(installation.deployment.console_url).hostname or ""
    before = {name: installation.lab.inside(lambda where=where: served(*where)) for name, where in {
        "API": (host, 6443, host), "Route": (apps, 443, apps)}.items()}  # fmt: skip
    turns()
    with probes.running(), short_days(installation):
        seconds = (ROTATIONS + 1) * LIFE_SECONDS
        wait_until(turns, seconds, f"{ROTATIONS} rotations of each", lambda: {n: len(t) for n, t in seen.items()})
        for name, where in {"API": (host, 6443, host), "Route": (apps, 443, apps)}.items():
            now = installation.lab.inside(lambda where=where: served(*where))
            assert now.serial_number != before[name].serial_number, f"{name} still shows its first certificate"
            left = (now.not_valid_after_utc - now.not_valid_before_utc).days
            assert left <= 1, f"{name} shows a certificate of {left} days"
        well(installation)
    assert probes.failed == [], probes.failed[:20]
    assert all(count > ROTATIONS * LIFE_SECONDS / 10 for count in probes.good.values()), probes.good


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_signers_get_successors_when_somebody_asks(installation: Installation) -> None:
    """As documented for OpenShift: without its end, a signer is replaced. Nobody who trusts it is let down: logs come
    from kubelets, aggregated APIs answer, and kubelets ask for certificates of the new signer."""
    names = {
        "openshift-kube-apiserver-operator": ("kube-apiserver-to-kubelet-signer", "aggregator-client-signer"),
        "openshift-kube-controller-manager-operator": ("csr-signer",),
    }
    chosen = {name for group in names.values() for name in group}
    before = {name: notes[NOT_BEFORE] for name, notes in certificates(installation).items() if name in chosen}
    probes = Probes(installation)
    with probes.running(), short_days(installation):
        for namespace, group in names.items():
            for name in group:
                installation.kubectl("-n", namespace, "annotate", "secret", name, f"{NOT_AFTER}-")
        wait_until(
            lambda: all(certificates(installation)[name].get(NOT_BEFORE) != made for name, made in before.items()),
            BACK_SECONDS,
            "successors to sign",
        )
        well(installation)
        pods = installation.pods("openshift-kube-scheduler", "kube-scheduler")
        for pod in pods.values():
            installation.kubectl("-n", "openshift-kube-scheduler", "logs", "--tail=1", pod["metadata"]["name"])
        wait_until(lambda: "master" in installation.kubectl("top", "nodes"), BACK_SECONDS, "the aggregated API")
    refused = [text for text in probes.failed if "API" not in text]
    assert refused == [], refused


def statuses(installation: Installation) -> dict[str, dict[str, Any]]:
    """Return the nodes' revisions, as the API server's operator tells of them; none while no API answers."""
    words = ("get", "kubeapiservers", "cluster", "-o", "json", "--request-timeout=10s")
    kubeconfig = str(installation.deployment.kubeconfig)
    result = installation.lab.run(["kubectl", "--kubeconfig", kubeconfig, *words], timeout=30)
    if result.returncode:
        return {}
    status = json.loads(result.stdout).get("status") or {}
    return {
        entry["nodeName"]: entry | {"latest": status["latestAvailableRevision"]} for entry in status["nodeStatuses"]
    }


def at_latest(installation: Installation, number: int) -> bool:
    """Return whether all control plane nodes run a revision, or a later one."""
    seen = statuses(installation)
    names = {spec.name for spec in installation.topology.masters}
    return set(seen) == names and all(entry["currentRevision"] >= number for entry in seen.values())


def latest(installation: Installation) -> int:
    """Return the number of the latest revision."""
    return max((int(entry["latest"]) for entry in statuses(installation).values()), default=0)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_forced_revision_reaches_every_node_and_a_broken_one_is_taken_back(installation: Installation) -> None:
    """Pods are replaced a node at a time. A revision with which the API server does not start ends on its first node,
    which goes back by itself; the cluster says so, and is well once it is mended."""
    before = latest(installation)
    patch = json.dumps({"spec": {"forceRedeploymentReason": f"scenario {time.time():.0f}"}})
    with installation.lab.phase("a forced revision"):
        installation.kubectl("patch", "kubeapiserver", "cluster", "--type=merge", "-p", patch)
        wait_until(
            lambda: at_latest(installation, before + 1),
            2 * BACK_SECONDS,
            "the revision",
            lambda: statuses(installation),
        )
    well(installation)
    # What is made of this key (control-plane-resources) the next operator that leads would mend, and nobody the key.
    signing_key = ("-n", "openshift-kube-apiserver", "patch", "secret", "service-account-signing-key", "--type=json")
    move = {"op": "move", "from": "/data/tls.key", "path": "/data/aside"}
    breaking = [move, {"op": "add", "path": "/data/tls.key", "value": "bm9uZQo="}]
    mending = [{**move, "from": move["path"], "path": move["from"]}]
    with installation.lab.phase("a broken revision"):
        installation.kubectl(*signing_key, "-p", json.dumps(breaking))
        wait_until(
            lambda: any(entry.get("lastFailedRevision") for entry in statuses(installation).values()),
            2 * BACK_SECONDS,
            "the broken revision to be taken back",
            lambda: statuses(installation),
        )
        failed = [name for name, entry in statuses(installation).items() if entry.get("lastFailedRevision")]
        assert len(failed) == 1, "it went no further than its first node"
        wait_until(
            lambda: "kube-apiserver" in installation.unwell_operators(), 120, "Degraded", installation.unwell_operators
        )
        [operator] = [
            o for o in installation.kubectl_json("get", "clusteroperators")["items"]
            if o["metadata"]["name"] == "kube-apiserver"
        ]  # fmt: skip
        said = next(c for c in operator["status"]["conditions"] if c["type"] == "Degraded")
        assert "NodeInstallerDegraded" in said["message"]
        assert "rolled back" in said["message"]
        assert installation.write()
    with installation.lab.phase("the mended revision"):
        installation.kubectl(*signing_key, "-p", json.dumps(mending))
        wait_until(
            lambda: at_latest(installation, before + 3),
            2 * BACK_SECONDS,
            "the mended one",
            lambda: statuses(installation),
        )
    well(installation)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_cluster_that_was_off_until_all_its_short_certificates_had_run_out_comes_back(
    installation: Installation,
) -> None:
    """With days of 30 s the control plane's certificates end after 15 minutes. Each node's operator still reaches its
    own API server, and mends the rest."""
    boots, lab, seconds = installation.ready_boots(), installation.lab, DAY_SECONDS
    with short_days(installation):

        def short() -> bool:
            notes = certificates(installation)
            limit = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * seconds))
            return all(notes[name].get(NOT_AFTER, limit) < limit for name in SHORT)

        wait_until(short, BACK_SECONDS, "short certificates", lambda: certificates(installation))
        with ExitStack() as off:
            for name in lab.nodes:
                off.enter_context(lab.fault(PowerCut(name)))
            end = time.monotonic() + 31 * seconds
            wait_until(lambda: time.monotonic() > end, 40 * seconds, "the last certificate to run out")
        all_is_well(installation, boots, set(boots))
    assert installation.write()


@pytest.mark.vm("a container's clock is the host's")
@pytest.mark.parametrize("days", [30, 360])
@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_cluster_that_was_off_for_long_comes_back_when_its_kubelets_requests_are_approved(
    installation: Installation, days: int
) -> None:
    boots, lab = installation.ready_boots(), installation.lab

    def approved() -> bool:
        words = ["kubectl", "--kubeconfig", str(installation.deployment.kubeconfig), "get", "csr", "-o", "name"]
        listed = lab.run([*words, "--request-timeout=10s"], timeout=30)
        if names := listed.stdout.split():
            installation.kubectl("certificate", "approve", *(name.partition("/")[2] for name in names))
        return listed.returncode == 0 and set(installation.ready_boots()) == set(boots)

    with lab.fault(Outage("chronyd")):
        with ExitStack() as off:
            for name in lab.nodes:
                off.enter_context(lab.fault(PowerCut(name, days * 86400)))
        wait_until(approved, BACK_SECONDS, "all nodes to be Ready again", installation.ready_boots)
        all_is_well(installation, boots, set(boots))
        assert installation.write()
