"""Fields that the state names by their values, read as wait-for reads them."""

from pathlib import Path

import msgspec
import pytest
import yaml

from installer.config.state import FILE as STATE_FILE
from installer.create.stages.check import check
from installer.create.stages.places import places
from installer.create.stages.read import read
from installer.create.stages.resolve import TARGET
from installer.observe.state import Places
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create.inputs_kit import COMPACT, text
from installer.testing.create.outputs_kit import create

NMSTATE = """
interfaces:
- name: eth0
  type: ethernet
  state: up
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.168.111.%d, prefix-length: 24}]}
  ipv6: {enabled: true, dhcp: true}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.168.111.1, next-hop-interface: eth0}]}
dns-resolver: {config: {server: [192.168.111.1%s]}}
"""


def write(directory: Path) -> None:
    """Write both config files, with three hosts."""
    hosts = [
        {
            "hostname": f"host-{index}",
            "interfaces": [{"name": "eth0", "macAddress": f"52:54:00:00:00:0{index}"}],
            "networkConfig": yaml.safe_load(NMSTATE % (80 + index, more)),
        }
        for index, more in enumerate(("", ", FD00:0::2", ""))
    ]
    agent = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": {"name": "ostest"}, "hosts": hosts}
    mirrors = {"source": "quay.io/a", "mirrors": ["mirror.example:5000/a", "other.example/b"]}
    install = {**COMPACT, "imageDigestSources": [mirrors]}
    (directory / "install-config.yaml").write_text(text(install))
    (directory / "agent-config.yaml").write_text(text({**agent, "rendezvousIP": "192.168.111.81"}))


def found_in(directory: Path) -> Places:
    return msgspec.convert(places(check(read(directory, TARGET), TARGET)), Places, strict=True)


def test_values_lead_back_to_fields(tmp_path: Path) -> None:
    write(tmp_path)
    found = found_in(tmp_path)
    each = [f"agent-config.yaml: hosts[{index}]" for index in range(3)]
    assert found == Places(
        hosts=each,
        rendezvous_ip="agent-config.yaml: rendezvousIP",
        dns={
            "192.168.111.1": [f"{host}.networkConfig.dns-resolver" for host in each],
            "fd00::2": [f"{each[1]}.networkConfig.dns-resolver"],
        },
        addresses={f"192.168.111.{80 + index}": [host] for index, host in enumerate(each)},
        mirrors={
            "mirror.example:5000": "install-config.yaml: imageDigestSources[0].mirrors[0]",
            "other.example": "install-config.yaml: imageDigestSources[0].mirrors[1]",
        },
        pull_field="install-config.yaml: pullSecret",
        trust_bundle="install-config.yaml: additionalTrustBundle",
        proxy="install-config.yaml: proxy",
    )


def test_values_of_manifests_lead_back_to_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setenv(RELEASE_OVERRIDE, f"127.0.0.1:1/a@sha256:{'0' * 64}")
    assert create("cluster-manifests", tmp_path) == 0
    (tmp_path / STATE_FILE).unlink()  # it has agent-config.yaml
    found = found_in(tmp_path)
    assert found.hosts == ["cluster-manifests/nmstateconfig.yaml: spec.interfaces"] * 3
    assert found.dns["fd00::2"] == ["cluster-manifests/nmstateconfig.yaml: spec.config.dns-resolver"]
    assert set(found.mirrors.values()) == {"mirror/registries.conf"}
    assert (found.pull_field, found.proxy) == ("cluster-manifests/pull-secret.yaml", "cluster-manifests/infraenv.yaml")
    # agent-config.yaml may add to some of the hosts, and lists no others.
    host = {"hostname": "host-0", "interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:00"}]}
    agent = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": {"name": "ostest"}, "hosts": [host]}
    (tmp_path / "agent-config.yaml").write_text(text({**agent, "rendezvousIP": "192.168.111.81"}))
    assert found_in(tmp_path).hosts == ["agent-config.yaml: hosts[0]", *found.hosts[1:]]
