"""A cluster installed with the browser alone: real Chromium, real service over TLS, the swarm's hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from drivers.browser import PROGRAM, Page, chromium
from installer.agent.swarm.run import Plan, Swarm
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, Running, running, wait_for
from installer.testing.service.service_kit import INSTALLER
from scenarios.testing import wizard

pytestmark = pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell")
NETWORK = IPv4Network("10.64.0.0/16")
TEXT = "document.getElementById('main').innerText"
VALUES = {
    "Cluster name": "paged",
    "Base domain": "test.node0.example",
    "Pull secret": PULL_SECRET,
    "SSH public key": str(CLUSTER["ssh_public_key"]),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("installs")
    binary = folder / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    with running(folder, PAGE_ACCESS="open", INSTALLER_BINARY=str(binary)) as live:
        yield live


@contextmanager
def browser(service: Running, folder: Path) -> Iterator[Page]:
    certificate = (service.directory / "tls/service.crt").read_bytes()
    with chromium(folder / "profile", certificate) as tab:
        tab.open(service.url)
        tab.until(wizard.LIVE)
        yield tab


@contextmanager
def swarm(service: Running, infra_env: str, hosts: int, until: Callable[[], bool] = lambda: False) -> Iterator[Swarm]:
    """Provide so many simulated hosts in an infra-env, at work in threads of their own."""
    plan = Plan(
        hosts, service.url, service.keys.token("agentAuth"), service.ca, infra_envs=(infra_env,), network=NETWORK,
        seconds=300, stage_seconds=0.1,
    )  # fmt: skip
    crowd = Swarm(plan)
    worker = threading.Thread(target=crowd.run, args=(until,))
    worker.start()
    try:
        yield crowd
    finally:
        crowd.stop.set()
        worker.join(30)


def finish(service: Running, cluster: str) -> None:
    """Report what the cluster's controller reports once all of it is there."""
    agent = service.client("agentAuth")
    path = f"/clusters/{cluster}"
    wait_for("finalizing", lambda: service.client().call("GET", path)["status"] == "finalizing", 120)
    for name in ("cvo", "console"):
        agent.call("PUT", f"{path}/monitored-operators", {"name": name, "status": "available", "version": "4.18.0"})
    agent.call("POST", f"{path}/actions/complete-installation", {"is_success": True})


def cluster_of(service: Running, identity: str) -> Any:
    return service.client().call("GET", f"/clusters/{identity}")


def test_a_cluster_is_installed_by_browser_alone(service: Running, tmp_path: Path) -> None:
    with browser(service, tmp_path) as page:
        assert "Create a cluster" not in page.text()
        wizard.sign_in(page, service.keys.token("userAuth"))
        cluster = wizard.create_cluster(page, VALUES)
        [infra_env] = service.client().call("GET", "/infra-envs")
        assert infra_env["cluster_id"] == cluster
        with swarm(service, infra_env["id"], 3):
            page.push("Hosts", "link")
            page.until(f"{TEXT}.includes('3 hosts have registered')")
            wizard.go_to(page, "Networking")
            wizard.save(page, {"API addresses": str(NETWORK[2]), "Ingress addresses": str(NETWORK[3])})
            wizard.wait_for_hosts(page, 3, 120)
            wizard.install(page)
            finish(service, cluster)
            wizard.wait_until_installed(page, 60)
        assert cluster_of(service, cluster)["status"] == "installed"
        assert page.complaints == []
