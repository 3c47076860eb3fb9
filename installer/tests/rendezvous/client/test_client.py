"""agent-installer-client against the real service: idempotent registration, host configs, failures."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.enums import Role
from installer.assisted.errors import ClientError, ManifestError
from installer.common.certificates import authority
from installer.rendezvous import settings
from installer.rendezvous.client import manifests as cm
from installer.rendezvous.client.command import Client
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.documents import FencingCredentials
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.store.shapes import LoadBalancer
from installer.rendezvous.validations import hints
from installer.testing.service.forked_kit import forked
from installer.testing.service.rendezvous_kit import PULL_SECRET, Running, inventory

HOST_ID = "00000000-0000-4000-8000-000000000001"
OVERRIDES = {"agent-install.openshift.io/install-config-overrides": '{"fips":true}'}


def write_manifests(root: Path) -> None:
    documents = {
        "agent-cluster-install.yaml": {
            "kind": "AgentClusterInstall",
            "metadata": {"name": "ostest", "annotations": OVERRIDES},
            "spec": {
                "imageSetRef": {"name": "openshift-4.18.0"},
                "networking": {
                    "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
                    "machineNetwork": [{"cidr": "192.168.111.0/24"}],
                    "serviceNetwork": ["172.30.0.0/16"],
                    "networkType": "OVNKubernetes",
                    "userManagedNetworking": True,
                },
                "platformType": "None",
                "provisionRequirements": {"controlPlaneAgents": 1},
                "sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop",
            },
        },
        "cluster-deployment.yaml": {
            "kind": "ClusterDeployment",
            "metadata": {"name": "ostest"},
            "spec": {"clusterName": "ostest", "baseDomain": "test.node0.example"},
        },
        "cluster-image-set.yaml": {"kind": "ClusterImageSet", "spec": {"releaseImage": "release.example/r@sha256:1"}},
        "infraenv.yaml": {
            "kind": "InfraEnv",
            "metadata": {"name": "ostest"},
            "spec": {
                "nmStateConfigLabelSelector": {"matchLabels": {"infraenvs.agent-install.openshift.io": "ostest"}},
                "additionalNTPSources": ["192.168.111.1"],
                "sshAuthorizedKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop",
            },
        },
        "nmstateconfig.yaml": {
            "kind": "NMStateConfig",
            "metadata": {"name": "ostest-0", "labels": {"infraenvs.agent-install.openshift.io": "ostest"}},
            "spec": {
                "config": {"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up"}]},
                "interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:80"}],
            },
        },
        "pull-secret.yaml": {"kind": "Secret", "stringData": {".dockerconfigjson": PULL_SECRET}},
    }
    (root / "manifests").mkdir(parents=True)
    for name, document in documents.items():
        (root / "manifests" / name).write_text(yaml.safe_dump(document))
    (root / "extra-manifests").mkdir()
    (root / "extra-manifests" / "a-0.yaml").write_text("kind: Namespace\n")


def write_host(root: Path, name: str, mac: str, role: str = "master", **device_hints: Any) -> None:
    directory = root / "hostconfig" / name
    directory.mkdir(parents=True)
    (directory / "mac_addresses").write_text(mac + "\n")
    (directory / "role").write_text(role)
    (directory / "root-device-hints.yaml").write_text(yaml.safe_dump(device_hints))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with forked(tmp_path) as live:
        yield live


def test_client_twice_and_host_configs(service: Running, tmp_path: Path) -> None:
    root, failures = tmp_path / "assisted", tmp_path / "run" / "host-config-failures"
    write_manifests(root)
    client = Client(service.client(), root, failures, {})
    cluster_id, infra_env_id = client.register_cluster(), client.register_infra_env()
    assert (client.register_cluster(), client.register_infra_env()) == (cluster_id, infra_env_id)
    cluster = service.client().call("GET", f"/clusters/{cluster_id}")
    assert cluster["install_config_overrides"] == '{"fips":true}'
    assert cluster["ocp_release_image"] == "release.example/r@sha256:1"
    manifests = service.client().call("GET", f"/clusters/{cluster_id}/manifests")
    assert [(item["folder"], item["file_name"]) for item in manifests] == [("openshift", "a-0.yaml")]
    (root / "extra-manifests" / "a-0.yaml").write_text("kind: Other\n")
    with pytest.raises(ManifestError, match="another content"):
        client.register_cluster()

    write_host(root, "master-0", "52:54:00:00:00:80", minSizeGigabytes=500)
    write_host(root, "master-9", "52:54:00:00:00:99")
    seen: list[str] = []
    agent = service.client("agentAuth")
    hosts = f"/infra-envs/{infra_env_id}/hosts"

    def sleep(seconds: float) -> None:
        seen.append(failures.read_text())
        if len(seen) == 1:
            agent.call("POST", hosts, {"host_id": HOST_ID})
            body = {"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": _text(inventory())}
            agent.call("POST", f"{hosts}/{HOST_ID}/instructions", body)
        elif len(seen) == 2:
            import shutil

            shutil.rmtree(root / "hostconfig" / "master-9")
            hints_file = root / "hostconfig" / "master-0" / "root-device-hints.yaml"
            hints_file.write_text("deviceName: /dev/vda\n")
            raise InterruptedError

    client.sleep = sleep
    with pytest.raises(InterruptedError):
        client.configure()
    assert "master-0: host with MAC address 52:54:00:00:00:80 has not registered yet" in seen[0]
    assert "no eligible disk matches the root device hints (minSizeGigabytes=500)" in seen[1]
    assert "master-9: host with MAC" in seen[1]
    client.configure()
    assert not failures.exists()
    host = service.client().call("GET", hosts)[0]
    assert (host["role"], host["installation_disk_id"]) == ("master", "/dev/disk/by-path/pci-0000:04:00.0")


def test_a_host_that_is_added_has_a_service_of_its_own(service: Running, tmp_path: Path) -> None:
    """The cluster is imported once, with the place of its configs; of all hosts' configs its own alone counts."""
    root = tmp_path / "assisted"
    write_manifests(root)
    ca = authority("root-ca").certificate
    endpoint = {"url": "https://192.0.2.5:22623/config/worker", "ca_certificate": b64encode(ca.encode()).decode()}
    (root / "clusterconfig").mkdir()
    (root / "clusterconfig/worker-ignition-endpoint.json").write_text(json.dumps(endpoint))
    names = {"NAME": "ostest", "ID": HOST_ID, "API_VIP_DNS_NAME": "api.ostest.test.node0.example"}
    env = {"WORKFLOW_TYPE": "addnodes", **{f"CLUSTER_{name}": value for name, value in names.items()}}
    client = Client(service.client(), root, tmp_path / "failures", env)
    assert client.import_cluster() == client.import_cluster()
    [cluster] = service.client().clusters()
    assert (cluster["status"], cluster["openshift_cluster_id"]) == ("adding-hosts", HOST_ID)
    infra_env_id, agent = client.register_infra_env(), service.client("agentAuth")
    hosts = f"/infra-envs/{infra_env_id}/hosts"
    write_host(root, "worker-8", "52:54:00:00:00:98", "worker")
    assert (
        "has not registered yet" in client.configure_once(cm.host_configs(root / "hostconfig"), alone=True)["worker-8"]
    )
    agent.call("POST", hosts, {"host_id": HOST_ID})
    body = {"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": _text(inventory())}
    agent.call("POST", f"{hosts}/{HOST_ID}/instructions", body)
    assert "none of its NICs" in client.configure_once(cm.host_configs(root / "hostconfig"), alone=True)["this host"]
    write_host(root, "worker-9", "52:54:00:00:00:80", "worker")
    client.configure()
    [host] = service.client().call("GET", hosts)
    assert (host["role"], host["kind"]) == ("worker", "AddToExistingClusterHost")
    steps = agent.call("GET", f"{hosts}/{HOST_ID}/instructions")["instructions"]
    [asked] = [json.loads(step["args"][0]) for step in steps if step["step_type"] == "api-vip-connectivity-check"]
    assert (asked["url"], b64decode(asked["ca_certificate"]).decode()) == (endpoint["url"], ca)
    for wrong in ({"url": "ftp://x/"}, {"url": endpoint["url"], "ca_certificate": "?"}, {"url": "https://x/?a"}):
        with pytest.raises(ClientError, match=r"ignition_endpoint\."):
            service.client().redirect_hosts(cluster["id"], wrong)


FENCE = {"address": "redfish+https://192.168.111.1:8000/x", "username": "admin", "password": "s3cr3t"}


def test_fencing_credentials_reach_the_install_config(service: Running, tmp_path: Path) -> None:
    root, failures = tmp_path / "assisted", tmp_path / "run" / "host-config-failures"
    write_manifests(root)
    client = Client(service.client(), root, failures, {})
    client.register_cluster()
    infra_env_id = client.register_infra_env()
    hosts = f"/infra-envs/{infra_env_id}/hosts"
    agent = service.client("agentAuth")
    agent.call("POST", hosts, {"host_id": HOST_ID})
    body = {"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": _text(inventory())}
    agent.call("POST", f"{hosts}/{HOST_ID}/instructions", body)
    (name,) = {host["requested_hostname"] for host in service.client().call("GET", hosts)}

    # A host by its name in the file for all, and by its MAC in its own folder, which has the same name.
    write_host(root, name, "52:54:00:00:00:80")
    own = {"credentials": [{"macaddress": "52:54:00:00:00:80".upper(), "certificateVerification": "Disabled", **FENCE}]}
    (root / f"hostconfig/{name}/fencing-credentials.yaml").write_text(yaml.safe_dump(own))
    everybody = root / "hostconfig/fencing-credentials.yaml"
    everybody.write_text(yaml.safe_dump({"credentials": [{"hostname": "master-7", **FENCE}]}))
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        seen.append(failures.read_text())
        raise InterruptedError

    client.sleep = sleep
    with pytest.raises(InterruptedError):
        client.configure()
    database = tmp_path / "data/assisted.db"
    assert seen == ["master-7: host with name master-7 has not registered yet\n"]
    everybody.write_text(yaml.safe_dump({"credentials": [{"hostname": name, **FENCE}]}))
    stored = Store(database).host(infra_env_id, HOST_ID)
    own_params = {**FENCE, "certificate_verification": "Disabled", "mac_address": "52:54:00:00:00:80"}
    assert stored.fencing_credentials.value == own_params
    client.configure()
    stored = Store(database).host(infra_env_id, HOST_ID)
    assert stored.fencing_credentials.value == FENCE
    shown = _text(service.client().call("GET", hosts)) + _text(service.client().call("GET", "/clusters"))
    assert FENCE["password"] not in shown


def test_fencing_credentials_in_install_config(tmp_path: Path) -> None:
    config = settings.load({"WORK_DIR": str(tmp_path)})
    cluster = Cluster(id="c", name="ostest", control_plane_count=2, platform={"type": "none"})
    pair = [
        Host(
            id=str(number),
            infra_env_id="i",
            role=Role.MASTER,
            requested_hostname=f"master-{number}",
            fencing_credentials=FencingCredentials.of({**FENCE, **more}),
        )
        for number, more in enumerate(({"certificate_verification": "Disabled"}, {"mac_address": "52:54:00:00:00:81"}))
    ]
    control_plane = installconfig.build(cluster, [], pair, config)["controlPlane"]
    assert control_plane["replicas"] == 2
    assert control_plane["fencing"]["credentials"] == [
        {"hostName": "master-0", "certificateVerification": "Disabled", **FENCE},
        {"macAddress": "52:54:00:00:00:81", **FENCE},
    ]
    for other in (msgspec.structs.replace(cluster, control_plane_count=3), cluster):
        alone = msgspec.structs.replace(pair[1], fencing_credentials=FencingCredentials())
        members = pair if other is not cluster else [pair[0], alone]
        assert "fencing" not in installconfig.build(other, [], members, config)["controlPlane"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hostname": "a", **FENCE, "address": ""}, r"credentials\[0\]\.address: Required value"),
        (FENCE, "neither hostname nor macaddress"),
        ("text", r"credentials\[0\]\.address: Required value"),
    ],
)
def test_wrong_fencing_credentials(tmp_path: Path, wrong: Any, says: str) -> None:
    (tmp_path / "fencing-credentials.yaml").write_text(yaml.safe_dump({"credentials": [wrong]}))
    with pytest.raises(ManifestError, match=says) as error:
        cm.host_configs(tmp_path)
    assert FENCE["password"] not in str(error.value)


def _text(document: Any) -> str:
    import json

    return json.dumps(document)


def test_manifest_errors(tmp_path: Path) -> None:
    write_manifests(tmp_path)
    secret = tmp_path / "manifests" / "pull-secret.yaml"
    secret.write_text("kind: Secret\nstringData: {.dockerconfigjson: '{'}\n")
    with pytest.raises(ManifestError, match="pull secret is not JSON"):
        cm.load(tmp_path / "manifests")
    secret.unlink()
    with pytest.raises(ManifestError, match="exactly one Secret, found 0"):
        cm.load(tmp_path / "manifests")


def test_a_service_that_does_not_run() -> None:
    from installer.assisted.auth import Scheme
    from installer.assisted.client import AssistedClient
    from installer.assisted.endpoint import endpoint

    with pytest.raises(ClientError, match=r"http://127\.0\.0\.1:9 does not answer: .*Connection refused"):
        AssistedClient(endpoint("http://127.0.0.1:9/"), Scheme.USER, "").clusters()


DISK = {
    "id": "/dev/disk/by-id/x",
    "path": "/dev/sda",
    "by_path": "/dev/disk/by-path/p",
    "model": "QEMU HARDDISK",
    "serial": "s1",
    "size_bytes": 20 * 1000**3,
    "drive_type": "HDD",
    "installation_eligibility": {"eligible": True},
}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"deviceName": "/dev/sda"}, True),
        ({"deviceName": "/dev/disk/by-path/p"}, True),
        ({"deviceName": "/dev/sdb"}, False),
        ({"model": "HARD"}, True),
        ({"serialNumber": "s"}, False),
        ({"minSizeGigabytes": 20}, True),
        ({"minSizeGigabytes": 21}, False),
        ({"rotational": True, "serialNumber": "s1"}, True),
        ({"rotational": False}, False),
        ({"nonsense": 1}, False),
    ],
)
def test_hints(wanted: dict[str, Any], fits: bool) -> None:
    assert hints.matches(DISK, wanted) is fits
    assert hints.choose([DISK], wanted) == (DISK["id"] if fits else hints.NOT_FOUND)


@given(st.dictionaries(st.sampled_from(sorted(hints.TABLE)), st.integers(0, 30) | st.booleans(), max_size=3))
def test_more_hints_never_match_more(wanted: dict[str, Any]) -> None:
    if hints.matches(DISK, wanted):
        assert all(hints.matches(DISK, {name: value}) for name, value in wanted.items())


def test_a_load_balancer_has_the_type_that_the_api_knows() -> None:
    spec = {"imageSetRef": {"name": "s"}, "loadBalancer": {"type": "UserManaged"}}
    manifests = cm.Manifests({"metadata": {"name": "c"}, "spec": spec}, {}, {}, {}, pull_secret=PULL_SECRET)
    body = cm.cluster_params(manifests, "r", "v")
    assert msgspec.convert(body["load_balancer"], LoadBalancer) == {"type": "user-managed"}
