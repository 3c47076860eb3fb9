"""`node0 agent create image` end to end: real registry, real skopeo, an ISO made by xorriso."""

import base64
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import jwt
import pytest
import yaml
from cryptography import x509

from installer.cli import main
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.config.rules.general import SKIP_FIPS_CHECK
from installer.config.state import State
from installer.credentials.background import SIGNERS
from installer.testing.create.embed_kit import KARGS
from installer.testing.create.image_kit import NEEDED, content
from installer.testing.create.inputs_kit import AGENT, SNO, changed, text

pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")


@pytest.fixture(autouse=True)
def shared_cache(directory, lab, monkeypatch):
    """Fetch the release and its base ISO before the other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(lab[0].folder / "cache"))


def create(directory: Path) -> int:
    return main(["agent", "create", "image", "--dir", str(directory)])


def test_outputs(directory, lab, capsys):
    assert create(directory) == 0
    err = capsys.readouterr().err
    assert [line.partition("msg=")[2][:30] for line in err.splitlines() if "level=info" in line][:4] == [
        "Configuration has 1 master rep",
        "Consuming Install Config from ",
        "Consuming Agent Config from ta",
        "The rendezvous host IP (node0 ",
    ]
    assert sorted(path.name for path in directory.iterdir()) == [
        ".openshift_install.log",
        ".openshift_install_state.json",
        "agent.x86_64.iso",
        "auth",
        "rendezvousIP",
    ]
    assert (directory / "rendezvousIP").read_text() == "192.168.111.80"
    # Web servers and hypervisors read the image.
    assert (directory / "agent.x86_64.iso").stat().st_mode & 0o777 == 0o644
    for name in (".openshift_install_state.json", "auth/kubeconfig", "auth/kubeadmin-password"):
        assert (directory / name).stat().st_mode & 0o777 == 0o600, name
    log = (directory / ".openshift_install.log").read_text()
    state = json.loads((directory / ".openshift_install_state.json").read_text())
    secrets = [state["*gencrypto.AuthConfig"][f"{who}AuthToken"] for who in ("Agent", "User", "Watcher")]
    secrets += [(directory / "auth/kubeadmin-password").read_text(), "PRIVATE KEY"]
    secrets += [entry["auth"] for entry in json.loads(lab[0].pull_secret)["auths"].values()]
    assert not any(secret in log or secret in err for secret in secrets)


def test_what_is_in_the_iso(directory, lab):
    server, release, _bad = lab
    assert create(directory) == 0
    config, files = content(directory / "agent.x86_64.iso")
    assert config["ignition"]["version"] == "3.2.0"
    units = {unit["name"] for unit in config["systemd"]["units"]}
    assert {"pre-network-manager-config.service", "assisted-service.service", "agent.service"} <= units
    (user,) = config["passwd"]["users"]
    assert (user["name"], user["sshAuthorizedKeys"]) == ("core", [SNO["sshKey"]])
    assert files["/root/.docker/config.json"] == server.pull_secret
    assert files["/etc/pki/ca-trust/source/anchors/domain.crt"] == server.ca_pem
    assert server.repository in files["/etc/containers/registries.conf"]
    assert files["/etc/assisted/hostnames/52:54:00:6e:30:00"] == "master-0"
    assert files["/etc/assisted/network/host0/mac_interface.ini"] == "52:54:00:6e:30:00=eth0\n"
    assert "192.168.111.80/24" in files["/etc/assisted/network/host0/eth0.nmconnection"]
    hints = yaml.safe_load(files["/etc/assisted/hostconfig/master-0/root-device-hints.yaml"])
    assert hints == AGENT["hosts"][0]["rootDeviceHints"]
    images = files["/usr/local/share/assisted-service/agent-images.env"].split()
    assert len(images) == 4
    assert all("@sha256:" in line for line in images)
    image_set = yaml.safe_load(files["/etc/assisted/manifests/cluster-image-set.yaml"])
    assert image_set["spec"]["releaseImage"] == release
    aci = yaml.safe_load(files["/etc/assisted/manifests/agent-cluster-install.yaml"])
    assert aci["spec"]["provisionRequirements"] == {"controlPlaneAgents": 1}
    assert aci["spec"]["networking"]["userManagedNetworking"] is True
    modes = {entry["path"]: entry["mode"] for entry in config["storage"]["files"]}
    for path, mode in modes.items():
        if any(word in files[path] for word in ("PRIVATE KEY", '"auth"', "TOKEN=")):
            assert mode & 0o077 == 0, path
    for name in SIGNERS:
        assert {f"/opt/agent/tls/{name}.crt", f"/opt/agent/tls/{name}.key"} <= files.keys()


def test_certificates_tokens_and_kubeconfig_belong_together(directory, tmp_path):
    assert create(directory) == 0
    _config, files = content(directory / "agent.x86_64.iso")
    ca = x509.load_pem_x509_certificate(files["/opt/agent/tls/ca.crt"].encode())
    service = x509.load_pem_x509_certificate(files["/opt/agent/tls/service.crt"].encode())
    service.verify_directly_issued_by(ca)
    names = service.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["192.168.111.80"]
    env = dict(
        line.split("=", 1)
        for name in ("/etc/assisted/rendezvous-host.env", "/usr/local/share/assisted-service/assisted-service.env")
        for line in files[name].splitlines()
    )
    public = base64.b64decode(env["EC_PUBLIC_KEY_PEM"])
    for variable, scheme in (
        ("PULL_SECRET_TOKEN", "agentAuth"),
        ("USER_AUTH_TOKEN", "userAuth"),
        ("WATCHER_AUTH_TOKEN", "watcherAuth"),
    ):
        assert jwt.decode(env[variable], public, algorithms=["ES256"]) == {"auth_scheme": scheme}
    kubeconfig = yaml.safe_load((directory / "auth/kubeconfig").read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    assert cluster["server"] == "https://api.ostest.test.node0.example:6443"
    client = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    signer = x509.load_pem_x509_certificate(files["/opt/agent/tls/admin-kubeconfig-signer.crt"].encode())
    client.verify_directly_issued_by(signer)
    assert client.subject.rfc4514_string() == "CN=system:admin,O=system:masters"
    # OpenSSL agrees, as curl on the live host must.
    (tmp_path / "ca.crt").write_text(files["/opt/agent/tls/ca.crt"])
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))


def test_again_from_the_state_keeps_all_secrets(directory, capsys):
    assert create(directory) == 0
    before = {name: (directory / name).read_bytes() for name in ("auth/kubeconfig", "auth/kubeadmin-password")}
    first = content(directory / "agent.x86_64.iso")[1]
    capsys.readouterr()
    assert create(directory) == 0
    assert "Using cached Base ISO" in capsys.readouterr().err
    assert {name: (directory / name).read_bytes() for name in before} == before
    assert content(directory / "agent.x86_64.iso")[1] == first


def test_the_state_is_loaded_once(directory, monkeypatch):
    loaded, load = [], State.load.__func__
    monkeypatch.setattr(State, "load", classmethod(lambda cls, folder: loaded.append(folder) or load(cls, folder)))
    for _round in ("from configs", "from the state"):
        assert create(directory) == 0
        assert loaded == [directory]
        loaded.clear()


def test_extra_manifests_fips_and_proxy(directory, monkeypatch):
    monkeypatch.setenv(SKIP_FIPS_CHECK, "1")
    (directory / "openshift").mkdir()
    (directory / "openshift/x.yaml").write_text("kind: ConfigMap\nmetadata: {name: x}\n")
    install = yaml.safe_load((directory / "install-config.yaml").read_text())
    rsa = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(directory.parent / "key")], check=False
    ).returncode
    if rsa == 0:
        install |= {"fips": True, "sshKey": (directory.parent / "key.pub").read_text()}
    install["proxy"] = {"httpProxy": "http://proxy.example:3128/a%20b", "noProxy": "example.com"}
    (directory / "install-config.yaml").write_text(text(install))
    assert create(directory) == 0
    assert not (directory / "openshift").exists()
    _config, files = content(directory / "agent.x86_64.iso")
    assert yaml.safe_load(files["/etc/assisted/extra-manifests/x-0.yaml"])["metadata"] == {"name": "x"}
    proxy = files["/etc/systemd/system.conf.d/10-default-env.conf"]
    assert "%%20" in proxy
    assert "example.com,192.168.111.0/24" in proxy
    # Beside *, which is valid only alone, a network is not added.
    install["proxy"]["noProxy"] = "*"
    (directory / "install-config.yaml").write_text(text(install))
    assert create(directory) == 0
    _config, files = content(directory / "agent.x86_64.iso")
    assert 'NO_PROXY="*"' in files["/etc/systemd/system.conf.d/10-default-env.conf"]
    with (directory / "agent.x86_64.iso").open("rb") as file:
        iso = Iso(file, "x")
        assert current_kargs(iso, kargs_area(iso)) == KARGS + (" fips=1" if rsa == 0 else "")


def untouched(directory: Path) -> None:
    """Nothing but the log was added, nothing was consumed."""
    names = {path.name for path in directory.iterdir()}
    assert names - {".openshift_install.log", "openshift"} == {"install-config.yaml", "agent-config.yaml"}


def broken(directory: Path, name: str, path: str, value: object) -> None:
    file = directory / name
    file.write_text(text(changed(yaml.safe_load(file.read_text()), path, value)))


@pytest.mark.parametrize(
    ("name", "path", "value", "code", "says"),
    [
        ("install-config.yaml", "baseDomain", "a_b", 1, "baseDomain: Invalid value"),
        ("install-config.yaml", "surprise", 1, 3, 'unknown field "surprise"'),
        ("agent-config.yaml", "hosts.0.role", "boss", 1, "hosts[0].role: Unsupported value"),
        (
            "agent-config.yaml",
            "hosts.0.networkConfig.interfaces.0.ipv4.address.0.ip",
            "x",
            1,
            "hosts[0].networkConfig: ",
        ),
        ("install-config.yaml", "additionalTrustBundle", "", 1, "certificate is not trusted"),
        ("install-config.yaml", "pullSecret", '{"auths":{"a":{"auth":"eDp5"}}}', 1, "rejected the pull secret"),
        ("install-config.yaml", "imageDigestSources.0.mirrors", ["127.0.0.1:1/x"], 1, "could be reached"),
        ("install-config.yaml", "controlPlane.architecture", "arm64", 1, "doesn't match Release Image Arch: amd64"),
    ],
)
def test_failures_are_one_fatal_line_and_change_nothing(directory, capsys, name, path, value, code, says):
    broken(directory, name, path, value)
    if path == "controlPlane.architecture":
        broken(directory, name, "compute.0.architecture", "arm64")
    assert create(directory) == code
    (fatal,) = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith(("level=info", "level=warn"))
    ]
    assert fatal.startswith("level=error" if code == 3 else "level=fatal")
    assert says in fatal
    assert "Traceback" not in fatal
    untouched(directory)


def test_the_cause_of_a_release_that_cannot_be_read_comes_first_with_its_field(directory, capsys):
    broken(directory, "install-config.yaml", "pullSecret", '{"auths":{"a":{"auth":"eDp5"}}}')
    assert create(directory) == 1
    *_, cause, fatal = capsys.readouterr().err.splitlines()
    assert fatal.startswith("level=fatal")
    assert " rejects the pull secret (install-config.yaml: pullSecret): it needs valid credentials" in cause


def test_a_base_iso_that_is_no_iso(directory, tmp_path, monkeypatch, capsys):
    (tmp_path / "fake.iso").write_bytes(b"x" * 70000)
    monkeypatch.setenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", str(tmp_path / "fake.iso"))
    assert create(directory) == 1
    assert "fake.iso: not an ISO 9660 image" in capsys.readouterr().err
    untouched(directory)


def test_large_manifests_make_the_embed_area_grow(directory):
    (directory / "openshift").mkdir()
    noise = base64.b64encode(os.urandom(300_000)).decode()
    (directory / "openshift/big.yaml").write_text(f"kind: ConfigMap\ndata: {{x: {noise}}}\n")
    assert create(directory) == 0
    _config, files = content(directory / "agent.x86_64.iso")
    assert noise in files["/etc/assisted/extra-manifests/big-0.yaml"]


def test_a_base_iso_that_does_not_match_its_checksum(directory, lab, monkeypatch, capsys):
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", lab[2])
    assert create(directory) == 1
    assert "the payload says 0000" in capsys.readouterr().err
    untouched(directory)


def test_no_override_says_what_to_set(directory, monkeypatch, capsys):
    monkeypatch.delenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE")
    broken(directory, "install-config.yaml", "imageDigestSources.0.source", "release.node0.example/node0/lab-release")
    assert create(directory) == 1
    assert "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE" in capsys.readouterr().err


def test_module_runs_as_a_program(directory):
    done = subprocess.run(
        [sys.executable, "-m", "installer", "agent", "create", "image", "--dir", str(directory), "--log-level", "warn"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "level=info" not in done.stderr
