"""The installer's command and the bootstrap's rendering, with everything real but the API server."""

import json
import os
import re
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from installer.common.certificates import authority
from lab.release.cluster import templates, tls
from lab.release.cluster.bootkube import command as bootkube
from lab.release.cluster.errors import ConfigError, WaitError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import parse
from lab.release.cluster.kube import payload
from lab.release.cluster.openshift_install import command as install
from lab.release.cluster.pods.pod import RESOURCES
from lab.testing.ignition import read_data_url

RELEASE = "release.example/n/r@sha256:" + "0" * 64
TAGS = (
    "etcd",
    "hyperkube",
    "pod",
    "machine-config-operator",
    "haproxy-router",
    "console",
    "agent-installer-csr-approver",
)
CONFIG = {
    "apiVersion": "v1",
    "metadata": {"name": "c"},
    "baseDomain": "d.example",
    "controlPlane": {"replicas": 1},
    "bootstrapInPlace": {"installationDisk": "/dev/vda"},
    "compute": [{"name": "worker", "replicas": 0}],
    "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
    "platform": {"none": {}},
    "pullSecret": '{"auths":{"m.example:5000":{"auth":"dXNlcjpwYXNz"}}}',
    "imageDigestSources": [{"source": "release.example/n/r", "mirrors": ["m.example:5000/n/r"]}],
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Provide a directory after both commands, and one user manifest put between them."""
    directory = tmp_path_factory.mktemp("install")
    (directory / "install-config.yaml").write_text(yaml.safe_dump(CONFIG))
    own = authority("admin-kubeconfig-signer")
    tls.save({"admin-kubeconfig-signer": own}, directory / "tls")
    (directory / "tls" / "kubeadmin-password.hash").write_text("$2a$10$hash")
    os.environ[install.RELEASE_ENV] = RELEASE
    try:
        assert install.main(["create", "manifests", "--dir", str(directory)]) == 0
        mine = machineconfig.machine_config("99-mine", "master", ignition.config([ignition.file("/etc/mine", "x")]))
        (directory / "openshift" / "mine.yaml").write_text(yaml.safe_dump(mine))
        assert install.main(["create", "single-node-ignition-config", "--dir", str(directory)]) == 0
    finally:
        del os.environ[install.RELEASE_ENV]
    return directory


def unpack(config, root):
    for entry in config["storage"]["files"]:
        path = root / entry["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = entry["contents"]
        path.write_bytes(read_data_url(contents["source"], contents.get("compression")))
        path.chmod(entry["mode"])


def test_outputs(outputs):
    live = json.loads((outputs / "bootstrap-in-place-for-live-iso.ign").read_text())
    paths = {f["path"] for f in live["storage"]["files"]}
    assert {
        "/usr/local/bin/bootkube.sh",
        "/opt/openshift/auth/kubeconfig-loopback",
        "/opt/openshift/openshift/mine.yaml",
    } <= paths
    units = {u["name"]: u["enabled"] for u in live["systemd"]["units"]}
    assert units == {"bootkube.service": False, "progress.service": True, "approve-csr.service": True}
    pointer = json.loads((outputs / "worker.ign").read_text())
    assert pointer["ignition"]["config"]["merge"][0]["source"] == "https://api-int.c.d.example:22623/config/worker"
    assert (outputs / "auth" / "kubeadmin-password").read_text() == ""
    assert json.loads((outputs / "metadata.json").read_text())["clusterName"] == "c"


def test_secrets_are_private_and_not_in_the_stored_config(outputs):
    for path in [*outputs.glob("*.ign"), *(outputs / "auth").iterdir(), *(outputs / "tls").glob("*.key")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    stored = yaml.safe_load((outputs / "manifests" / "cluster-config.yaml").read_text())["data"]["install-config"]
    assert "dXNlcjpwYXNz" not in stored
    assert parse(stored).single_node


def test_the_users_kubeconfig_is_signed_by_the_given_signer(outputs):
    pairs = tls.load(outputs / "tls")
    signer = x509.load_pem_x509_certificate(pairs["admin-kubeconfig-signer"].certificate.encode())
    client = x509.load_pem_x509_certificate(pairs["admin-kubeconfig-client"].certificate.encode())
    client.verify_directly_issued_by(signer)


def test_a_second_run_keeps_the_cluster_id(outputs, tmp_path, monkeypatch):
    monkeypatch.setenv(install.RELEASE_ENV, RELEASE)
    again = install.load_assets(outputs, RELEASE)
    assert again.cluster_id == json.loads((outputs / "metadata.json").read_text())["clusterID"]


def test_errors_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(install.RELEASE_ENV, RELEASE)
    assert install.main(["create", "manifests", "--dir", str(tmp_path)]) == 1
    assert "install-config.yaml: no such file" in capsys.readouterr().err


def test_what_cannot_be_installed_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(install.RELEASE_ENV, RELEASE)
    for replicas, target in ((2, "ignition-configs"), (3, "single-node-ignition-config")):
        changed = {**CONFIG, "controlPlane": {"replicas": replicas}}
        (tmp_path / "install-config.yaml").write_text(yaml.safe_dump(changed))
        assert install.main(["create", target, "--dir", str(tmp_path)]) == 1
        assert "controlPlane.replicas" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.ign"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"baseDomain": None}, "baseDomain"),
        ({"controlPlane": {"replicas": "one"}}, "controlPlane.replicas"),
        ({"pullSecret": "nonsense"}, "pullSecret"),
        ({"networking": {"machineNetwork": [{"cidr": "x"}]}}, r"machineNetwork\[0\]"),
    ],
)
def test_bad_fields_are_named(change, field):
    with pytest.raises(ConfigError, match=field):
        parse(yaml.safe_dump({**CONFIG, **change}))


@pytest.fixture(scope="module")
def bootstrapped(outputs, tmp_path_factory):
    """Provide a bootstrap host's root after rendering, with a stand-in for what etcd wrote."""
    root = tmp_path_factory.mktemp("root")
    unpack(json.loads((outputs / "bootstrap-in-place-for-live-iso.ign").read_text()), root)
    tags = [{"name": t, "from": {"kind": "DockerImage", "name": f"release.example/n/r@sha256:{t}"}} for t in TAGS]
    stream = {"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "4.18.0"}}
    (root / "release-manifests").mkdir()
    (root / "release-manifests" / "image-references").write_text(json.dumps({**stream, "spec": {"tags": tags}}))
    metadata = {"kind": "cincinnati-metadata-v0", "version": "4.18.0"}
    (root / "release-manifests" / "release-metadata").write_text(json.dumps(metadata))
    assets = root / "opt" / "openshift"
    host = bootkube.Host(assets, root / "etc/kubernetes", root / "var/lib/etcd", ("192.0.2.10",), "n1", "debian")
    cluster = bootkube.load(assets, root)
    bootkube.render(cluster, host, bootkube.machine_configs(cluster, bootkube.user_objects(cluster, assets)))
    (host.etcd_data / "member" / "snap").mkdir(parents=True)
    (host.etcd_data / "member" / "snap" / "db").write_bytes(b"db")
    return cluster, host


def test_master_ignition_is_a_whole_control_plane(bootstrapped):
    cluster, host = bootstrapped
    objects = bootkube.machine_configs(cluster, bootkube.user_objects(cluster, host.assets))
    config = bootkube.master_ignition(cluster, host, objects)
    files = {f["path"]: f for f in config["storage"]["files"]}
    assert "/etc/mine" in files, "the user's MachineConfig is part of it"
    assert "/var/lib/etcd/member/snap/db" in files
    at_once = {"etcd", "kube-apiserver", "assisted-installer-controller"}
    for pod in [p for s in bootkube.stages(cluster, host) for p in s.pods]:
        folder = "manifests" if pod.name in at_once else "manifests-operators"
        text = read_data_url(files[f"/etc/kubernetes/{folder}/{pod.name}-pod.yaml"]["contents"]["source"])
        spec = yaml.safe_load(text)["spec"]
        assert spec["hostNetwork"]
        image = spec["containers"][0]["image"]
        assert image.startswith(("release.example/n/r@sha256:", RELEASE))
        secrets = [p for p in files if p.startswith(f"{RESOURCES}/{pod.secrets}/")]
        assert secrets, pod.name
        # every file that a command line names is there
        for word in spec["containers"][0]["command"]:
            for part in word.split("=")[-1].split(","):
                if part.startswith(RESOURCES) and Path(part).suffix:
                    assert part in files, f"{pod.name}: {part}"
    assert all(files[p]["mode"] == 0o600 for p in files if p.endswith(".key") or "kubeconfig" in p)
    assert {u["name"] for u in config["systemd"]["units"]} >= {
        "kubelet.service",
        "bootkube.service",
        "containerd.service",
    }


def test_temporary_control_plane_runs_the_same_commands(bootstrapped):
    cluster, host = bootstrapped
    script = (host.assets / "bootstrap-manifests" / "etcd.sh").read_text()
    pod = bootkube.temporary_pods(cluster, host)[0]
    assert script.startswith("podman run")
    assert all(word in script for word in pod.command)
    assert (
        "/etc/kubernetes/static-pod-resources/etcd-certs:/etc/kubernetes/static-pod-resources/etcd-certs:ro" in script
    )


def test_serving_certificates_carry_the_names_by_which_they_are_reached(bootstrapped):
    cluster, host = bootstrapped
    files = bootkube.static_pod_files(cluster, host, [])

    def names(path):
        cert = x509.load_pem_x509_certificate(files[path].encode())
        san = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {str(n.value) for n in san}

    assert "api-int.c.d.example" in names("kube-apiserver-certs/internal-lb-server.crt")
    assert {"kubernetes.default.svc", "172.30.0.1"} <= names("kube-apiserver-certs/service-network-server.crt")
    assert {"localhost", "192.0.2.10", "n1"} <= names("etcd-certs/server.crt")
    assert names("machine-config-server/tls.crt") >= {"api-int.c.d.example", "localhost"}
    key = serialization.load_pem_private_key(files["etcd-certs/server.key"].encode(), None)
    cert = x509.load_pem_x509_certificate(files["etcd-certs/server.crt"].encode())
    assert key.public_key() == cert.public_key()


def test_turns_are_taken_by_files_and_not_for_ever(tmp_path, monkeypatch):
    host = bootkube.Host(tmp_path, tmp_path, tmp_path, ("192.0.2.10",), "n1", "debian")
    bootkube.say(host, "rendered")
    assert [p.name for p in (tmp_path / bootkube.TURNS).iterdir()] == ["said-rendered"]
    (tmp_path / bootkube.TURNS / "told-stopped").touch()
    bootkube.expect(host, "stopped")
    monkeypatch.setattr(bootkube, "TURN_SECONDS", -1.0)
    with pytest.raises(WaitError, match="operators-stopped"):
        bootkube.expect(host, "operators-stopped")


def test_script_and_program_wait_for_no_word_that_the_other_does_not_say():
    script, program = templates.text("bootkube.sh"), Path(bootkube.__file__).read_text()
    sent_by_host, heard = (
        re.findall(r'say\(host, "([a-z-]+)"', program),
        re.findall(r"^ *expect ([a-z-]+)$", script, re.M),
    )
    assert set(heard) == set(sent_by_host)
    sent_by_script, awaited = (
        re.findall(r"^ *tell ([a-z-]+)$", script, re.M),
        re.findall(r'expect\(host, "([a-z-]+)"', program),
    )
    assert awaited
    assert set(sent_by_script) == set(awaited)


def test_rendering_twice_gives_the_same_machine_config(bootstrapped):
    cluster, host = bootstrapped
    objects = bootkube.user_objects(cluster, host.assets)
    first, second = (bootkube.machine_configs(cluster, objects) for _ in range(2))
    assert first == second
    assert payload.SNAPSHOT not in json.dumps(objects)
