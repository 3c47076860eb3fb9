"""Messages of `agent create` on inputs that the service would refuse: the user's own file and field, once."""

import logging

import pytest

from installer.common.certificates import authority
from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.create.stages.render import manifest_files
from installer.create.stages.resolve import ResolvedRelease
from installer.errors import ConfigError
from installer.testing.create.inputs_kit import AGENT, SNO, changed, text
from installer.testing.create.manifests_kit import RELEASE, edited, generated

ACI, DEPLOYMENT = "cluster-manifests/agent-cluster-install.yaml", "cluster-manifests/cluster-deployment.yaml"
OVERRIDES = "agent-install.openshift.io/install-config-overrides"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Provide the manifests that an image of these inputs would have."""
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", RELEASE)

    def make(files):
        for name, data in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data if isinstance(data, bytes) else text(data).encode())
        return manifest_files(check(read(tmp_path, "X"), "X"), ResolvedRelease(RELEASE, "4.18.0", {}))

    return make


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("baseDomain", "example.com.", ["install-config.yaml: baseDomain: DNS format mismatch"]),
        ("proxy", {"httpProxy": "http://a_b:1"}, ["install-config.yaml: proxy.httpProxy: its host"]),
        (
            "networking.machineNetwork",
            [{"cidr": "192.168.111.0/24"}, {"cidr": "10.9.0.0/24"}],
            ["install-config.yaml: Single-stack"],
        ),
        ("additionalNTPSources", ["x"], ["agent-config.yaml: additionalNTPSources: 'x' is neither"]),
    ],
)
def test_configs_are_blamed_for_what_is_made_of_them(made, path, value, said):
    of_agent = path.startswith("additionalNTP")
    install, agent = (SNO, changed(AGENT, path, value)) if of_agent else (changed(SNO, path, value), AGENT)
    with pytest.raises(ConfigError) as refused:
        made({"install-config.yaml": install, "agent-config.yaml": agent})
    message = str(refused.value)
    assert all(message.count(line) == 1 for line in said), message
    assert "cluster-manifests" not in message


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        (DEPLOYMENT, "spec.baseDomain", "x.", f"{DEPLOYMENT}: spec.baseDomain: DNS format mismatch"),
        (DEPLOYMENT, "spec.clusterName", "A_b", f"{DEPLOYMENT}: spec.clusterName 'A_b' must match"),
        (ACI, "spec.sshPublicKey", "x", f"{ACI}: spec.sshPublicKey: line 1 is no SSH public key"),
        (ACI, "metadata.annotations", {OVERRIDES: '{"a": 1}'}, f'{ACI}: {OVERRIDES}: unknown field "a"'),
    ],
)
def test_manifests_are_blamed_by_their_fields(made, name, path, value, said):
    files = edited(generated()[2], name, path, value)
    with pytest.raises(ConfigError) as refused:
        made({**files, "agent-config.yaml": AGENT})
    assert said in str(refused.value)


def test_a_bundle_that_is_too_long_is_told_in_words(made):
    certificate = authority("x").certificate
    bundle = certificate * (65535 // len(certificate) + 1)
    with pytest.raises(
        ConfigError, match=r"install-config\.yaml: additionalTrustBundle: must be a text of length <= 65535"
    ):
        made({"install-config.yaml": {**SNO, "additionalTrustBundle": bundle}, "agent-config.yaml": AGENT})


def test_a_warning_comes_once(made, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    unused = {"name": "eth7", "macAddress": "52:54:00:6e:30:77"}
    with caplog.at_level(logging.WARNING, "installer"):
        interfaces = [*AGENT["hosts"][0]["interfaces"], unused]
        made({"install-config.yaml": SNO, "agent-config.yaml": changed(AGENT, "hosts.0.interfaces", interfaces)})
    # The same record may come twice: other tests may have left the handler at a logger.
    assert len({id(record) for record in caplog.records if "does not use interface eth7" in record.getMessage()}) == 1


def test_a_network_of_a_manifest_is_blamed_on_it(made, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    nmstate = "cluster-manifests/nmstateconfig.yaml"
    files = edited(generated()[2], nmstate, "spec.config.interfaces.0.ipv4.address.0.ip", "192.168.111.255")
    with caplog.at_level(logging.WARNING, "installer"):
        made({**files, "agent-config.yaml": AGENT})
    ignored = f"hosts[0].networkConfig of agent-config.yaml is ignored: {nmstate} has another for this host"
    assert ignored in caplog.messages
    place = f"{nmstate}: hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.111.255 is the broadcast"
    assert any(message.startswith(place) for message in caplog.messages)


def test_a_vip_beside_others_is_told(made, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    files = edited(generated()[2], ACI, "spec.apiVIP", "192.168.111.9")
    with caplog.at_level(logging.WARNING, "installer"), pytest.raises(ConfigError):
        made({**edited(files, ACI, "spec.apiVIPs", ["192.168.111.5"]), "agent-config.yaml": AGENT})
    assert f"{ACI}: spec.apiVIP: 192.168.111.9 is ignored" in caplog.messages
