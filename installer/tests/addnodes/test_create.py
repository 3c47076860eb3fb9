"""`agent add-nodes create` end to end: a cluster's API, a real registry, real images."""

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from installer.addnodes import access
from installer.addnodes.target import (
    CLUSTER_VERSION,
    INSTALL_CONFIG,
    MACHINE_CONFIG,
    NODE,
    POOL,
    PROXY,
    PULL_SECRET,
    TRUST_BUNDLE,
    USER_DATA,
)
from installer.cli import main
from installer.common.certificates import authority
from installer.hub.kube.kinds import CONFIG_MAP, SECRET, Key
from installer.testing.create.image_kit import NEEDED, content
from installer.testing.create.inputs_kit import AGENT, COMPACT
from installer.testing.create.outputs_kit import lab  # noqa: F401 - a fixture: its ISO boots from a network, too
from installer.testing.create.registry_kit import Registry
from installer.testing.hub.apiserver import ApiServer, Store

pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")

CA = authority("root-ca").certificate
URL = "https://192.168.111.5:22623/config/worker"
MAC = "52:54:00:6e:30:07"
HOST: dict[str, Any] = {"hostname": "worker-9", "interfaces": [{"name": "eth0", "macAddress": MAC}]}
NETWORK = AGENT["hosts"][0]["networkConfig"]
NETWORK_OF_ITS_OWN = yaml.safe_load(yaml.safe_dump(NETWORK).replace("192.168.111.80", "192.168.111.87"))
MASTER = {"name": "master-0", "role": "master", "bootMACAddress": "52:54:00:6E:30:00"}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@dataclass
class Cluster:
    """A cluster's API, a directory for images, and the command run on them."""

    server: ApiServer
    directory: Path

    def describe(self, **config: Any) -> None:
        (self.directory / "nodes-config.yaml").write_text(yaml.safe_dump({"hosts": [HOST], **config}))

    def create(self, *words: str, target: str = "image") -> int:
        where = ["--dir", str(self.directory), "--kubeconfig", str(self.directory / "kubeconfig")]
        return main(["agent", "add-nodes", "create", target, *where, *words])

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} - {"nodes-config.yaml", "kubeconfig"}


@pytest.fixture
def cluster(
    lab: tuple[Registry, str, Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    registry, release, _ = lab
    monkeypatch.setenv("XDG_CACHE_HOME", str(registry.folder / "cache"))
    monkeypatch.delenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", raising=False)
    source = {"source": registry.sources[0].source, "mirrors": [registry.repository]}
    platform = {"baremetal": {**COMPACT["platform"]["baremetal"], "hosts": [MASTER]}}
    install = {**COMPACT, "pullSecret": "", "imageDigestSources": [source], "platform": platform, "ofAnotherTime": 1}
    authorities = {"tls": {"certificateAuthorities": [{"source": f"data:;base64,{b64(CA)}"}]}}
    pointer = {"ignition": {"version": "3.2.0", "config": {"merge": [{"source": URL}]}, "security": authorities}}
    addresses = [{"type": "InternalIP", "address": "192.168.111.80"}, {"type": "Hostname", "address": "master-0"}]
    chrony = {"path": "/etc/chrony.conf", "contents": {"source": "data:,pool%20ntp.example%20iburst%0Artcsync"}}
    rendered = {"spec": {"config": {"storage": {"files": [chrony]}}}}
    store = Store([POOL, MACHINE_CONFIG, CLUSTER_VERSION, PROXY, NODE, CONFIG_MAP, SECRET])
    history = [{"image": release, "version": "4.18.0-test", "state": "Completed"}]
    for kind, key, members in (
        (CLUSTER_VERSION, Key("", "version"), {"spec": {"clusterID": "1" * 8}, "status": {"history": history}}),
        (PROXY, Key("", "cluster"), {"spec": {}}),
        (SECRET, PULL_SECRET, {"data": {".dockerconfigjson": b64(registry.pull_secret)}}),
        (CONFIG_MAP, TRUST_BUNDLE, {"data": {"ca-bundle.crt": registry.ca_pem}}),
        (CONFIG_MAP, INSTALL_CONFIG, {"data": {"install-config": yaml.safe_dump(install)}}),
        (SECRET, USER_DATA, {"data": {"userData": b64(json.dumps(pointer))}}),
        (POOL, Key("", "worker"), {"spec": {"configuration": {"name": "rendered-worker-1"}}}),
        (MACHINE_CONFIG, Key("", "rendered-worker-1"), rendered),
        (NODE, Key("", "master-0"), {"status": {"addresses": addresses}}),
    ):
        store.create(kind, key, kind.new(key, **members))
    server = ApiServer(store)
    named = {"name": "c", "cluster": {"server": server.url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    document = {
        "clusters": [named],
        "contexts": [context],
        "current-context": "x",
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    made = Cluster(server, tmp_path)
    made.describe()
    yield made
    server.close()


def test_an_image_imports_the_cluster_and_adds_the_host(cluster, capsys):
    cluster.describe(
        hosts=[{**HOST, "networkConfig": NETWORK_OF_ITS_OWN, "rootDeviceHints": {"deviceName": "/dev/vdb"}}]
    )
    assert cluster.create() == 0, capsys.readouterr().err
    assert cluster.files() == {".openshift_install.log", "node.x86_64.iso"}
    config, files = content(cluster.directory / "node.x86_64.iso")
    units = {unit["name"] for unit in config["systemd"]["units"] if unit["enabled"]}
    assert {"agent-import-cluster.service", "agent-add-node.service", "agent-auth-token-status.service"} <= units
    assert not {"agent-register-cluster.service", "start-cluster-installation.service"} & units
    rendezvous = dict(line.split("=", 1) for line in files["/etc/assisted/rendezvous-host.env"].splitlines())
    assert (rendezvous["NODE_ZERO_IP"], rendezvous["WORKFLOW_TYPE"]) == ("127.0.0.1", "addnodes")
    imported = dict(line.split("=", 1) for line in files["/etc/assisted/add-nodes.env"].splitlines())
    assert imported["CLUSTER_API_VIP_DNS_NAME"] == "api.ostest.test.node0.example"
    endpoint = json.loads(files["/etc/assisted/clusterconfig/worker-ignition-endpoint.json"])
    assert (endpoint["url"], base64.b64decode(endpoint["ca_certificate"]).decode()) == (URL, CA)
    assert files["/etc/assisted/hostconfig/worker-9/role"] == "worker"
    assert "/dev/vdb" in files["/etc/assisted/hostconfig/worker-9/root-device-hints.yaml"]
    assert "192.168.111.87" in files["/etc/assisted/network/host0/eth0.nmconnection"]
    assert files["/etc/chrony.conf"].startswith("server ntp.example iburst\n")
    assert "ntp.example" in files["/etc/assisted/manifests/infraenv.yaml"]
    # Of the cluster's own keys a host gets none, and its service's certificate is for the host itself.
    assert {path for path in files if path.startswith("/opt/agent/tls/")} == {
        f"/opt/agent/tls/{name}" for name in ("ca.crt", "service.crt", "service.key")
    }
    certificate = x509.load_pem_x509_certificate(files["/opt/agent/tls/service.crt"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_tokens_are_in_the_cluster_and_last_as_long_as_they_are_good_for_a_day(cluster):
    def tokens() -> dict[str, str]:
        return dict(cluster.server.store.get(SECRET, access.KEY)["data"])

    assert cluster.create("--mac-address", MAC, "--hostname", "one", "--output-name", "own.iso") == 0
    _, files = content(cluster.directory / "own.iso")
    assert files["/etc/assisted/hostnames/" + MAC] == "one"
    first = tokens()
    assert cluster.create("--report", target="pxe-files") == 0
    assert tokens() == first
    names = {path.name for path in (cluster.directory / "boot-artifacts").iterdir()}
    assert names == {f"node.x86_64-{name}" for name in ("initrd.img", "rootfs.img", "vmlinuz")}
    report = json.loads((cluster.directory / "report.json").read_text())
    assert (report["stages"][-1]["id"], report["result"]) == ("generate-pxe", {"exit_code": 0})
    old = access.make(datetime.now(UTC) - access.LIFETIME + access.LEAST - timedelta(minutes=1))
    secret = cluster.server.store.get(SECRET, access.KEY)
    cluster.server.store.replace(SECRET, access.KEY, {**secret, "data": old.data()}, "")
    assert cluster.create() == 0
    assert tokens() not in (first, old.data())
    assert access.read({"data": tokens()}).expiry > datetime.now(UTC) + access.LEAST


@pytest.mark.parametrize(
    ("config", "words", "says"),
    [
        ({"rendezvousIP": "192.168.111.80"}, [], 'unknown field "rendezvousIP"'),
        ({"additionalNTPSources": ["a b"]}, [], "additionalNTPSources: Invalid value"),
        ({"hosts": []}, [], "hosts: Required value: at least one host must be defined"),
        ({"hosts": [HOST, {**HOST, "hostname": "b"}]}, [], "hosts[1].interfaces[0].macAddress: Invalid value"),
        (
            {"hosts": [HOST, {"hostname": "WORKER-9", "interfaces": [{"macAddress": MAC[:-1] + "8"}]}]},
            [],
            "hosts[0] has",
        ),
        ({"hosts": [{**HOST, "role": "arbiter"}]}, [], "hosts[0].role: Unsupported value"),
        ({"cpuArchitecture": "s390"}, [], "cpuArchitecture: Unsupported value"),
        ({"cpuArchitecture": "aarch64"}, [], "cpuArchitecture: Forbidden: the cluster's release is for amd64 alone"),
        ({"hosts": [{**HOST, "hostname": "master-0"}]}, [], "a node of the cluster has this name"),
        ({"hosts": [{**HOST, "networkConfig": NETWORK}]}, [], "node master-0 of the cluster has this address"),
        ({}, ["-m", "52-54-00-6E-30-00"], "node master-0 of the cluster has this MAC address"),
        ({}, ["--hostname", "x"], "--hostname: valid only with --mac-address"),
        ({}, ["-m", MAC, "--root-device-hint", "sda", "-k", "/nowhere"], "must be NAME:VALUE; --ssh-key-path /nowhere"),
        ({}, ["-m", MAC, "--root-device-hint", "size:3"], 'unknown field "size"'),
        ({}, ["-o", "../x.iso"], "--output-name ../x.iso: must be the name"),
        ({}, ["-o", "kubeconfig"], "--output-name kubeconfig: is there already"),
        ({}, ["-o", "report.json", "--report"], "--output-name report.json: is the name of another file"),
        ({}, ["-o", "a" * 300], "File name too long"),
        ({}, ["-m", MAC, "--root-device-hint", "rotational:["], "'rotational:[': did not find expected"),
    ],
)
def test_invalid_inputs_are_refused_and_change_nothing(cluster, config, words, says, capsys):
    cluster.describe(**config)
    assert cluster.create(*words) == 1
    error = capsys.readouterr().err
    assert says in error.replace('\\"', '"')
    assert "Traceback" not in error
    assert cluster.files() <= {".openshift_install.log", "report.json"}
    assert not [path for method, path in cluster.server.requests if method != "GET"]


def test_a_network_that_is_wrong_is_refused_before_anything_is_fetched(cluster, capsys, monkeypatch):
    monkeypatch.setattr("installer.addnodes.create.resolve_payload", lambda *_, **__: pytest.fail("fetched"))
    cluster.describe(hosts=[{**HOST, "networkConfig": {"interfaces": "x"}}])
    assert cluster.create() == 1
    assert "staticNetwork configuration is not valid" in capsys.readouterr().err


def test_several_problems_are_in_one_message_and_in_the_report(cluster, capsys):
    host = {"hostname": "MASTER-0", "interfaces": [{"macAddress": "52:54:00:6e:30:00"}]}
    cluster.describe(hosts=[{**host, "networkConfig": None}, {**HOST, "networkConfig": NETWORK}])
    assert cluster.create() == 1
    error = capsys.readouterr().err
    for text in ("has this name", "has this MAC address", "has this address"):
        assert text in error
    result = json.loads((cluster.directory / "report.json").read_text())["result"]
    assert result["exit_code"] == 1
    assert result["error_message"] in error.replace('\\"', '"')


def test_an_image_whose_tokens_the_cluster_does_not_take_is_not_there(cluster, monkeypatch, capsys):
    monkeypatch.setattr(access, "usable", lambda _, now: (access.make(now), None))
    cluster.server.store.create(SECRET, access.KEY, SECRET.new(access.KEY, data={}))  # another was first
    assert cluster.create() == 1
    assert "already exists" in capsys.readouterr().err
    assert cluster.files() <= {".openshift_install.log", "report.json"}


def test_tokens_of_two_times_are_made_anew():
    first, second = (access.make(datetime.now(UTC)).data() for _ in range(2))
    assert access.read({"data": first})
    for name in first:
        assert access.read({"data": first | {name: second[name]}}) is None, name


@pytest.mark.parametrize(
    ("source", "ca"),
    [("file:///etc/worker", ""), (URL.replace("worker", "infra"), ""), ("https://u:p@x/config/worker", ""), (URL, "x")],
)
def test_a_pointer_that_leads_to_no_worker_config_is_refused(cluster, source, ca, capsys):
    authorities = [{"source": f"data:,{ca}"}]
    config = {"merge": [{"source": source}]}
    pointer = {"ignition": {"config": config, "security": {"tls": {"certificateAuthorities": authorities}}}}
    secret = cluster.server.store.get(SECRET, USER_DATA)
    cluster.server.store.replace(SECRET, USER_DATA, {**secret, "data": {"userData": b64(json.dumps(pointer))}}, "")
    assert cluster.create() == 1
    assert "its userData is no pointer to a machine-config server" in capsys.readouterr().err


def test_time_sources_are_unpacked_and_what_cannot_be_read_is_named_without_its_content(cluster, capsys):
    def replaced(kind, key, **members):
        cluster.server.store.replace(kind, key, {**cluster.server.store.get(kind, key), **members}, "")

    def chrony(**contents):
        files = [{"path": "/etc/chrony.conf", "contents": contents}]
        replaced(MACHINE_CONFIG, Key("", "rendered-worker-1"), spec={"config": {"storage": {"files": files}}})

    packed = base64.b64encode(gzip.compress(b"server packed.example iburst")).decode()
    chrony(compression="gzip", source=f"data:;base64,{packed}")
    assert cluster.create() == 0
    _, files = content(cluster.directory / "node.x86_64.iso")
    assert files["/etc/chrony.conf"].startswith("server packed.example iburst\n")
    chrony(source="data:;base64,a")
    assert cluster.create() == 1
    assert "an object of its cluster is not as OpenShift makes it" in capsys.readouterr().err
    chrony(source="data:,")
    replaced(SECRET, PULL_SECRET, data={".dockerconfigjson": base64.b64encode(b"s3cret\xff").decode()})
    assert cluster.create() == 1
    error = capsys.readouterr().err
    assert "codec can't decode byte 0xff" in error.replace("\\", "")
    assert "s3cret" not in error


def test_a_cluster_that_is_another_or_lacks_something_is_named(cluster, capsys):
    state = {"node0": {"clusterName": "other", "baseDomain": "test.node0.example"}}
    (cluster.directory / ".openshift_install_state.json").write_text(json.dumps(state))
    assert cluster.create() == 1
    assert "is of cluster ostest.test.node0.example" in capsys.readouterr().err
    (cluster.directory / ".openshift_install_state.json").unlink()
    for kind, key in ((SECRET, PULL_SECRET), (CONFIG_MAP, INSTALL_CONFIG)):
        cluster.server.store.delete(kind, key, {})
    assert cluster.create() == 1
    error = capsys.readouterr().err
    assert f"no Secret {PULL_SECRET}; no ConfigMap {INSTALL_CONFIG}" in error
    cluster.server.refusals.append(401)
    assert cluster.create() == 1
    assert "kubeconfig" in capsys.readouterr().err
    cluster.server.close()
    assert cluster.create() == 1
    assert "Connection refused" in capsys.readouterr().err
    (cluster.directory / "kubeconfig").unlink()
    assert cluster.create() == 1
    assert "no such file" in capsys.readouterr().err
