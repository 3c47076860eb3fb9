"""Warnings of `create` for inputs that are valid: none of what is used, and a line for each thing that is not."""

import dataclasses
import json
import logging
import re
import typing

import pytest

from installer.config.load import parse_agent_config, parse_install_config
from installer.config.types.agent import AgentConfig
from installer.config.types.install import InstallConfig
from installer.config.types.uses import DEFAULTS, FIELDS, Use
from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.manifests.types import (
    ClusterDeploymentSpec,
    ClusterInstallSpec,
    ImageSetSpec,
    InfraEnvSpec,
    NMStateSpec,
)
from installer.manifests.uses import USES
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create.inputs_kit import AGENT, ARBITER, COMPACT, FENCED, SNO, VSPHERE, changed, text

TARGET = "Agent Installer ISO"
PODS = changed(SNO, "networking.clusterNetwork", [{"cidr": "10.128.0.0/14", "hostPrefix": 23}])
GATED = {**COMPACT, "featureSet": "DevPreviewNoUpgrade"}


def once(caplog):
    """Return the messages, each once: other tests may have left the handler at a logger."""
    return list(dict.fromkeys(caplog.messages))


@pytest.fixture
def warnings(tmp_path, caplog, monkeypatch):
    """List the warnings for these inputs, beside those of SNO and its agent-config."""
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)

    def get(install=SNO, agent=AGENT):
        (tmp_path / "install-config.yaml").write_text(text(install))
        (tmp_path / "agent-config.yaml").write_text(text(agent))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "installer"):
            check(read(tmp_path, TARGET), TARGET)
        return once(caplog)

    return get


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("quay.io/openshift-release-dev/ocp-release", 0),
        ("quay.io/openshift-release-dev", 0),
        ("quay.io", 0),
        ("quay.io/openshift-release-dev/ocp", 1),
    ],
)
def test_mirrors_of_a_namespace_have_the_release(warnings, monkeypatch, source, count):
    monkeypatch.setenv(RELEASE_OVERRIDE, f"quay.io/openshift-release-dev/ocp-release@sha256:{'0' * 64}")
    mirrors = [{"source": source, "mirrors": ["registry.example/mirror"]}]
    seen = warnings(SNO | {"imageDigestSources": mirrors})
    assert sum("should have at least one source field" in message for message in seen) == count


@pytest.mark.parametrize(
    ("entry", "mirror", "missing"),
    [
        ("m.example/org", "m.example/org/release", []),
        ("m.example:5000/org/release", "m.example:5000/org/release", []),
        ("m.example/org", "m.example/organisation", ["m.example"]),
        ("https://m.example:5000", "m.example:5000/org", []),
        ("https://index.docker.io/v1/", "docker.io/org/release", []),
        ("m.example", "m.example:5000/org", ["m.example:5000"]),
    ],
)
def test_credentials_of_a_pull_secret_are_matched_as_pulls_match_them(warnings, entry, mirror, missing):
    config = SNO | {
        "pullSecret": json.dumps({"auths": {entry: {"auth": "dXNlcjpzM2NyM3Q="}}}),
        "imageDigestSources": [{"source": "a.example/b", "mirrors": [mirror]}],
    }
    notes = [f'Mirror registry "{host}" is not found in pullSecret' for host in missing]
    assert [message for message in warnings(config) if "is not found in pullSecret" in message] == notes


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("agent-config.yml", "agent-config.yml is ignored: it would be read as agent-config.yaml"),
        ("cluster-manifests/infraenv.yml", "it would be read as cluster-manifests/infraenv.yaml"),
        ("cluster-manifests/99-kernel.yaml", "manifests for the cluster are read from openshift/"),
        ("manifests/99-kernel.yaml", "manifests for the cluster are read from openshift/"),
        ("mirror/ca.pem", "only mirror/registries.conf and mirror/ca-bundle.crt are read"),
        ("values.yml", None),
        ("manifests/README", None),
        ("cluster-manifests/.swp", None),
        ("openshift/99-kernel.yaml", None),
    ],
)
def test_files_in_the_wrong_place_are_told(warnings, tmp_path, name, message):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("kind: MachineConfig\n")
    seen = [line for line in warnings() if line.startswith(f"{name} is ignored: ")]
    assert len(seen) == (message is not None)
    assert message is None or message in seen[0]


@pytest.mark.parametrize(
    ("field", "written", "read_as"),
    [
        ("wwn", "0x5000c500a0b1c2d3", "5764824129520911059"),
        ("serialNumber", "0123456", "42798"),
        ("model", "12e45", "+Inf"),
        ("vendor", "yes", "true"),
        ("minSizeGigabytes", "0100", "64"),
        ("serialNumber", "123456", None),
        ("serialNumber", '"0123456"', None),
        ("minSizeGigabytes", "100", None),
    ],
)
def test_values_that_are_read_as_others_are_told(tmp_path, caplog, monkeypatch, field, written, read_as):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    hosts = f"hosts:\n- interfaces: [{{macAddress: 52:54:00:00:00:0a}}]\n  rootDeviceHints:\n    {field}: {written}\n"
    with caplog.at_level(logging.WARNING, "installer"):
        [host] = parse_agent_config(f"apiVersion: v1beta1\n{hosts}").hosts
    value = getattr(host.root_device_hints, re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", field))
    assert str(value) == (read_as or written.strip('"'))
    why = "a 0 in front makes it octal" if field == "minSizeGigabytes" else "it is not in quotes"
    note = f"agent-config.yaml: line 5: hosts[0].rootDeviceHints.{field}: {written} is read as {read_as}, since {why}"
    assert once(caplog) == ([note] if read_as else [])


def test_numbers_of_networks_that_are_read_as_octal_are_told(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    with caplog.at_level(logging.WARNING, "installer"):
        parse_agent_config(text(AGENT).replace("prefix-length: 24", "prefix-length: 024"))
    [note] = once(caplog)
    assert "networkConfig.interfaces[0].ipv4.address[0].prefix-length: is not read as it stands" in note


def test_nothing_is_said_of_a_vcenter_that_nobody_wrote(warnings):
    vips = {"apiVIPs": ["192.168.111.5"], "ingressVIPs": ["192.168.111.4"]}
    assert warnings({**COMPACT, "platform": {"vsphere": vips}}, {**AGENT, "hosts": []}) == []


def test_a_password_that_is_read_as_another_is_told_without_it(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    install = changed(FENCED, "controlPlane.fencing.credentials.0.password", 6210535)
    with caplog.at_level(logging.WARNING, "installer"):
        parse_install_config(text(install).replace("6210535", "0x5ec3e7"))
    path = "controlPlane.fencing.credentials[0].password"
    [note] = [message for message in once(caplog) if path in message]
    assert note.endswith(f"{path}: is not read as it stands, since it is not in quotes")


BMC = {"address": "redfish-virtualmedia+https://10.9.0.9/x", "username": "u", "password": "p"}
BAREMETAL = "platform.baremetal"


def reachable(cls, seen, table=FIELDS):
    """Return the types whose fields are judged one by one: those below fields that are carried."""
    seen.add(cls)
    hints = typing.get_type_hints(cls)
    for name, use in table.get(cls, {}).items():
        queue = [hints[name]] if use in (Use.CARRIED, Use.CONDITIONAL) else []
        while queue:
            hint = queue.pop()
            queue += typing.get_args(hint)
            if dataclasses.is_dataclass(hint) and hint not in seen:
                reachable(hint, seen, table)
    return seen


def test_every_field_of_the_types_has_its_use():
    assert reachable(InstallConfig, set()) | reachable(AgentConfig, set()) == FIELDS.keys()
    specs = (ClusterInstallSpec, ClusterDeploymentSpec, ImageSetSpec, InfraEnvSpec, NMStateSpec)
    of_manifests = set().union(*(reachable(spec, set(), USES) for spec in specs))
    assert of_manifests | FIELDS.keys() == USES.keys()
    for cls, names in USES.items():
        assert {field.name for field in dataclasses.fields(cls)} == names.keys(), cls
    for cls, name in DEFAULTS:
        assert FIELDS[cls][name] is Use.IGNORED, (cls, name)


@pytest.mark.parametrize(
    ("base", "path", "value", "shown"),
    [
        (SNO, "controlPlane.hyperthreading", "Disabled", ": Disabled"),
        (SNO, "metadata.labels", {"a": "b"}, ""),
        (SNO, "networking.ovnKubernetesConfig", {"ipv4": {"internalJoinSubnet": "100.99.0.0/16"}}, ""),
        (GATED, "controlPlane.diskSetup", [{"type": "etcd", "etcd": {"platformDiskID": "sdb"}}], ""),
        ({**SNO, "featureSet": "TechPreviewNoUpgrade"}, "osImageStream", "rhel-10", ": rhel-10"),
        (COMPACT, f"{BAREMETAL}.bmcVerifyCA", "x", ": x"),
        (COMPACT, f"{BAREMETAL}.clusterOSImage", "https://u:s3cr3t@a.example/x", ": https://u:"),
        (COMPACT, f"{BAREMETAL}.provisioningBridge", "br0", ": br0"),
        (COMPACT, f"{BAREMETAL}.provisioningNetwork", "Managed", ": Managed"),
        (COMPACT, f"{BAREMETAL}.provisioningNetworkInterface", "eno9", ": eno9"),
        (COMPACT, f"{BAREMETAL}.provisioningDHCPRange", "172.22.0.20,172.22.0.30", ": 172.22.0.20,172.22.0.30"),
        (COMPACT, f"{BAREMETAL}.additionalNTPServers", ["ntp.example"], ""),
        (ARBITER, "arbiter.hyperthreading", "Disabled", ": Disabled"),
        (VSPHERE, "platform.vsphere.nodeNetworking", {"external": {"network": "net"}}, ""),
        (VSPHERE, "platform.vsphere.hosts", [{"role": "master"}], ""),
        (SNO, "networking.machineCIDR", "10.1.0.0/16", ": 10.1.0.0/16"),
        (SNO, "networking.type", "Calico", ": Calico"),
        (PODS, "networking.clusterNetworks", [{"cidr": "10.1.0.0/16", "hostPrefix": 24}], ""),
        # What nobody writes who has not lost it.
        (SNO, "networking.machineCIDR", "192.168.111.0/24", None),
        (SNO, "networking.type", "ovnkubernetes", None),
        (SNO, "networking.serviceCIDR", "172.31.0.0/16", None),
        (PODS, "networking.clusterNetworks", [{"cidr": "10.128.0.0/14", "hostPrefix": 23}], None),
        (COMPACT, f"{BAREMETAL}.provisioningNetwork", "Disabled", None),
        (COMPACT, f"{BAREMETAL}.libvirtURI", "qemu:///x", None),
        (SNO, "controlPlane.platform", {}, None),
    ],
)
def test_what_is_not_carried_is_told(warnings, base, path, value, shown):
    agent = AGENT | {"additionalNTPSources": ["ntp.other.example"], "hosts": []}
    seen = warnings(changed(base, path, value), agent)
    notes = [message for message in seen if message.startswith(path) and message.endswith(" is ignored")]
    assert len(notes) == (shown is not None), seen
    assert shown is None or notes[0].startswith(f"{path}{shown}")
    assert "s3cr3t" not in str(seen)


@pytest.mark.parametrize("bmc", [BMC, None])
def test_how_bmcs_are_driven_is_told_only_where_there_are_none(warnings, bmc):
    """`agent boot` uses it."""
    host = {"name": "a", "role": "master", "bootMACAddress": "52:54:00:00:00:0a", "bootMode": "legacy", "bmc": bmc}
    install = changed(changed(COMPACT, f"{BAREMETAL}.hosts", [host]), f"{BAREMETAL}.bmcVerifyCA", "x")
    seen = warnings(install, AGENT | {"hosts": []})
    told = [message for message in seen if "bootMode" in message or "bmcVerifyCA" in message]
    ignored = [f"{BAREMETAL}.hosts[0].bootMode: legacy is ignored", f"{BAREMETAL}.bmcVerifyCA: x is ignored"]
    assert told == ([] if bmc else ignored)


def test_a_provisioning_network_is_what_bmcs_have(warnings):
    managed = changed(COMPACT, f"{BAREMETAL}.provisioningNetwork", "Managed")
    hosts = [{"hostname": "a", "BMC": BMC, "interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:0a"}]}]
    agent = AGENT | {"hosts": hosts}
    assert not [message for message in warnings(managed, agent) if "is ignored" in message]
    assert "hosts[0].BMC is ignored" in warnings(SNO, agent)
