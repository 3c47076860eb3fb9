"""A cluster that node0 has installed as the hub that installs the next one, the operator in it as a Deployment."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.deploy import Deployment
from lab.layout import bracketed
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation, output_of
from scenarios.testing.hub import OPERATOR, Hub
from scenarios.testing.hublife import Life, machine, one_node, resolve, shared
from scenarios.testing.hubresources import Json, resources
from scenarios.testing.page import SERVICE_PORT
from scenarios.testing.service import write_mirrors

NEXT = "next"
ROLLOUT_SECONDS = 600
_VOLUME = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SETTINGS: Json = {
    "apiVersion": "agent-install.openshift.io/v1beta1",
    "kind": "AgentServiceConfig",
    "metadata": {"name": "agent"},
    "spec": {"mirrorRegistryRef": {"name": "mirrors"}, "databaseStorage": _VOLUME, "filesystemStorage": _VOLUME},
}


@dataclass
class ClusterHub(Hub):
    """The installed cluster, with the operator in it."""

    @property
    def kubeconfig(self) -> Path:
        """The installed cluster's."""
        return self.deployment.directory / "auth/kubeconfig"

    def install(self, address: str) -> None:
        """Have the operator run on the node that has this address, with the lab's registry as mirror."""
        where = (
            "--image",
            self.lab.components["agent-installer-hub"],
            "--listen",
            f"{bracketed(address)}:{SERVICE_PORT}",
        )
        words = ["hub", "install", "--kubeconfig", str(self.kubeconfig), *where]
        result = self.lab.run([*self.deployment.installer, *words], name="hub-install", timeout=300)
        assert result.returncode == 0, output_of(result)[-2000:]
        write_mirrors(self.deployment, self.directory)
        self.kubectl("create", "configmap", "mirrors", "-n", OPERATOR, f"--from-file={self.directory / 'mirror'}")
        self.apply([SETTINGS])

        def ready() -> int:
            return int(self.get("deployment", OPERATOR, "-n", OPERATOR)["status"].get("readyReplicas", 0))

        wait_until(ready, ROLLOUT_SECONDS, "the operator to be ready", self.pods, poll=2)

    def pods(self) -> str:
        """Return what becomes of the operator's pod."""
        return self.kubectl("get", "pods", "-n", OPERATOR, "-o", "wide")


@pytest.mark.weekly
@pytest.mark.parametrize("deployment", ["sno-ipv4-static-uefi-hub_cluster"], indirect=True)
def test_an_installed_cluster_installs_the_next(deployment: Deployment) -> None:
    lab, cluster = deployment.lab, deployment.topology.cluster_name
    first, second = deployment.topology.nodes
    resolve(lab, {cluster: first.ip, NEXT: second.ip})
    deployment.create_image()
    deployment.boot(first.name)
    deployment.wait()
    hub = ClusterHub(deployment, lab.layout.root / "operator")
    hub.directory.mkdir(mode=0o700)
    with lab.phase("the operator in the cluster"):
        hub.install(first.ip)
    life, documents = Life(hub), resources(deployment)
    with lab.phase("apply to discovered"):
        life.apply(*shared(documents), *one_node(documents, NEXT, NEXT), *machine(documents, second.name, "master"))
        life.reached(second.name, "known-unbound")
    # Its own resources have passed its webhooks, and what is wrong does not.
    refused = lab.run(
        ["kubectl", f"--kubeconfig={hub.kubeconfig}", "patch", "bmh", second.name, "-n", cluster, "--type=merge",
         "-p", '{"spec": {"bootMACAddress": "52:54:00:00:00:01"}}'],
        name="kubectl-hub", timeout=90,
    )  # fmt: skip
    assert 'admission webhook "baremetalhost.metal3.io" denied the request' in output_of(refused)
    with lab.phase("bound to installed"):
        life.bind(second.name, NEXT)
        hub.wait_for(f"clusterdeployment/{NEXT}")
    assert life.nodes(NEXT) == {second.name: True}
    assert Installation(deployment).api_ready()
