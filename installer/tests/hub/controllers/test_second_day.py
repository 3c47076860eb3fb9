"""Hosts that are added to an installed cluster, which is an API server in memory here: Nodes, certificates, labels."""

import base64
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from installer.assisted.enums import Stage
from installer.common.certificates import ec_key
from installer.hub.controllers import agent as agents
from installer.hub.controllers.spoke import CSR, NODE, Spoke
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    INFRA_ENV,
    SECRET,
    Key,
    labels_of,
)
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.hub.apiserver import ApiServer, Store
from installer.testing.hub.world_kit import NAMESPACE, VERSION, cluster_objects, wait_until
from installer.testing.service.service_kit import MARKS

pytestmark = MARKS
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"


@pytest.fixture
def spoke():
    server = ApiServer(Store((NODE, CSR)))
    yield server
    server.close()


def request(name, signer, user, *, common="", names=()):
    """Return a CertificateSigningRequest as a kubelet makes it."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, common or f"system:node:{name}"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(item) for item in names]), False)
    pem = builder.sign(ec_key(), hashes.SHA256()).public_bytes(Encoding.PEM)
    spec = {"signerName": signer, "username": user, "request": base64.b64encode(pem).decode()}
    return CSR.new(Key("", f"{name}-{len(user)}-{signer[-7:]}"), spec=spec)


def test_only_what_the_hosts_own_kubelet_asks_for_is_approved(spoke):
    api = spoke.api()
    node = NODE.new(Key("", "w"), status={"addresses": [{"type": "Hostname", "address": "w"}]})
    for first, is_node, wanted in (
        (request("w", CLIENT, BOOTSTRAPPER), False, True),
        (request("w", CLIENT, BOOTSTRAPPER), True, False),
        (request("w", CLIENT, "system:node:other"), False, False),
        (request("w", CLIENT, BOOTSTRAPPER, common="system:node:master-0"), False, False),
        (request("w", "kubernetes.io/kube-apiserver-client", BOOTSTRAPPER), False, False),
        (request("w", SERVING, "system:node:w", names=["w"]), True, True),
        (request("w", SERVING, "system:node:w", names=["w", "master-0"]), True, False),
        (request("w", SERVING, "system:node:w", names=["w"]), False, False),
        (request("w", SERVING, "system:node:w"), True, False),
    ):
        api.create(CSR, first)
        assert bool(Spoke(api).approve("w", node if is_node else None)) is wanted
        assert Spoke(api).approve("w", node if is_node else None) == []
        api.delete(CSR, Key("", first["metadata"]["name"]))
    api.close()


def test_a_worker_is_added_to_an_imported_cluster_and_taken_out_of_it(world, spoke, monkeypatch):
    monkeypatch.setattr(agents, "PATIENCE", 0.5)
    key, machine, api = Key(NAMESPACE, "imported"), Machine(31, Network()), spoke.api()
    objects = cluster_objects("imported", world.service.releases[VERSION], world.service.pull_secret)
    kubeconfig = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": spoke.url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    data = {"kubeconfig": base64.b64encode(json.dumps(kubeconfig).encode()).decode()}
    metadata = {"adminKubeconfigSecretRef": {"name": "kc"}, "clusterID": "", "infraID": ""}
    objects[2][1]["spec"] |= {"installed": True, "clusterMetadata": metadata}
    world.apply((SECRET, SECRET.new(Key(NAMESPACE, "kc"), data=data)), *objects)
    world.wait(AGENT_CLUSTER_INSTALL, key, "SpecSynced", "True SyncOK")
    world.wait(AGENT_CLUSTER_INSTALL, key, "Completed", "True InstallationCompleted")
    world.wait(INFRA_ENV, key, "ImageCreated", "True InfraEnvAvailable")
    world.wait(CLUSTER_DEPLOYMENT, key, "Provisioned", "True Provisioned")
    (agent,) = world.discovered(key, machine)
    world.change(AGENT, agent, approved=True, hostname="w", role="worker", nodeLabels={"rack": "r1"})
    world.poll_until(key, [machine], lambda: "install" in world.steps[machine.id])
    world.progress(key, machine, Stage.STARTING, Stage.INSTALLING, Stage.WRITING, Stage.REBOOTING)
    api.create(CSR, request("w", CLIENT, BOOTSTRAPPER))
    name = request("w", CLIENT, BOOTSTRAPPER)["metadata"]["name"]
    wait_until("approval", lambda: "status" in (api.get(CSR, Key("", name)) or {}), True)
    api.create(NODE, NODE.new(Key("", "w"), status={"conditions": [{"type": "Ready", "status": "False"}]}))
    world.reached(agent, Stage.JOINED)
    assert labels_of(api.get(NODE, Key("", "w"))) == {}
    api.patch(NODE, Key("", "w"), {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.reached(agent, Stage.DONE)
    world.wait(AGENT, agent, "Installed", "True InstallationCompleted")
    assert labels_of(api.get(NODE, Key("", "w"))) == {"rack": "r1"}
    # A cluster that does not answer: the deletion waits and says so, and goes on with the cluster.
    spoke.close()
    world.api.delete(AGENT, agent)
    assert "skip-spoke-cleanup" in world.wait(AGENT, agent, "Cleanup", "False CleanupFailed")
    back = ApiServer(spoke.store, spoke.port)
    world.gone((AGENT, agent))
    assert api.get(NODE, Key("", "w")) is None
    back.close()
    api.close()
