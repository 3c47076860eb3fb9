"""Rules of agent-config.yaml and hosts, rendezvous IP, loading of directories."""

import json
import logging
import subprocess

import pytest

from installer.config.load import parse_agent_config
from installer.config.state import INSTALL_CONFIG, State
from installer.create.stages.check import Inputs, check
from installer.create.stages.read import read
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, InstallerError
from installer.testing.create.inputs_kit import AGENT, COMPACT, SNO, changed, text

TARGET = "Agent Installer ISO"
DHCP = {"enabled": True, "dhcp": True}


def load_inputs(directory, target) -> Inputs:
    return check(read(directory, target), target)


def write(directory, install=SNO, agent=AGENT):
    (directory / "install-config.yaml").write_text(text(install))
    if agent is not None:
        (directory / "agent-config.yaml").write_text(text(agent))
    return directory


ROWS = [
    ("rendezvousIP", "1.2.3", "Agent Config", 'rendezvousIP: Invalid value: "1.2.3"'),
    ("additionalNTPSources", ["a_b"], "Agent Config", 'additionalNTPSources: Invalid value: "a_b"'),
    ("bootArtifactsBaseURL", "a/b", "Agent Config", 'bootArtifactsBaseURL: Invalid value: "a/b"'),
    ("hosts.0.interfaces", [], "Hosts", "hosts[0].interfaces: Required value"),
    ("hosts.0.interfaces.0.macAddress", "", "Hosts", "hosts[0].interfaces[0].macAddress: Required value"),
    ("hosts.0.interfaces.0.macAddress", "x", "Hosts", 'hosts[0].interfaces[0].macAddress: Invalid value: "x"'),
    ("hosts.0.interfaces.0.macAddress", "00:11:22:33:44", "Hosts", "hosts[0].interfaces[0].macAddress: Invalid value"),
    (
        "hosts.0.interfaces.0.macAddress",
        "01:11:22:33:44:55",
        "Hosts",
        "hosts[0].interfaces[0].macAddress: Invalid value",
    ),
    ("hosts.0.rootDeviceHints.deviceName", "vda", "Hosts", 'hosts[0].rootDeviceHints.deviceName: Invalid value: "vda"'),
    (
        "hosts.0.rootDeviceHints.deviceName",
        "/dev/disk/by-id/x",
        "Hosts",
        "hosts[0].rootDeviceHints.deviceName: Invalid",
    ),
    ("hosts.0.rootDeviceHints.wwnWithExtension", "x", "Hosts", "hosts[0].rootDeviceHints.wwnWithExtension: Forbidden"),
    (
        "hosts.0.rootDeviceHints.wwnVendorExtension",
        "x",
        "Hosts",
        "hosts[0].rootDeviceHints.wwnVendorExtension: Forbidden",
    ),
    (
        "hosts.0.role",
        "boss",
        "Hosts",
        'hosts[0].role: Unsupported value: "boss": supported values: "master", "worker", ',
    ),
]


@pytest.mark.parametrize(("path", "value", "wrap", "expected"), ROWS, ids=[f"{row[0]}={row[1]}" for row in ROWS])
def test_rule(tmp_path, path, value, wrap, expected):
    with pytest.raises(InstallerError) as caught:
        load_inputs(write(tmp_path, agent=changed(AGENT, path, value)), TARGET)
    assert f"invalid {wrap} configuration: {expected}" in str(caught.value)
    assert caught.value.exit_code == EXIT_FATAL


@pytest.mark.parametrize("value", ["", "v7", None])
def test_an_unknown_version_is_reported_alone(tmp_path, value):
    write(tmp_path, agent=changed(AGENT, "apiVersion", value))
    with pytest.raises(
        InstallerError, match=r'failed to load asset "Agent Config": apiVersion: (Required|Invalid) value'
    ):
        load_inputs(tmp_path, TARGET)


@pytest.mark.parametrize("name", ["eth7", "eth0 "])
def test_a_nic_of_network_config_may_lack_its_mac_address(tmp_path, name, caplog):
    write(tmp_path, agent=changed(AGENT, "hosts.0.interfaces.0.name", name))
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        load_inputs(tmp_path, TARGET)
    assert "which is not among the host's interfaces" in caplog.text


def test_worker_cannot_be_the_rendezvous_host(tmp_path):
    agent = changed(AGENT, "hosts.0.role", "worker")
    with pytest.raises(InstallerError, match=r"hosts\[0\].role: Forbidden"):
        load_inputs(write(tmp_path, COMPACT, agent), TARGET)


@pytest.mark.parametrize("spelling", ["52:54:00:6E:30:00", "52-54-00-6e-30-00", "5254.006e.3000"])
def test_duplicate_mac_whatever_its_spelling(tmp_path, spelling):
    agent = changed(AGENT, "hosts", [AGENT["hosts"][0], {"interfaces": [{"name": "e", "macAddress": spelling}]}])
    wrong = r"hosts\[1\].interfaces\[0\].macAddress: Invalid value.*duplicate MAC address found"
    with pytest.raises(InstallerError, match=f"{wrong}, in another spelling"):
        load_inputs(write(tmp_path, COMPACT, agent), TARGET)
    agent["hosts"][1]["interfaces"][0]["macAddress"] = "52:54:00:6e:30:00"
    with pytest.raises(InstallerError, match=f"{wrong}$"):
        load_inputs(write(tmp_path, COMPACT, agent), TARGET)


def test_a_mac_address_with_dashes_is_found_by_its_host(tmp_path, caplog, monkeypatch):
    """The live host knows its NICs by the kernel's spelling."""
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    agent = changed(AGENT, "hosts", [{"interfaces": [{"name": "e", "macAddress": "52-54-00-6E-30-00"}]}])
    assert [host.macs for host in load_inputs(write(tmp_path, SNO, agent), TARGET).host_files] == [
        ("52:54:00:6e:30:00",)
    ]
    network = {"interfaces": [{"name": "eth0", "mac-address": "52:54:00:6e:30:00", "ipv4": DHCP}]}
    host = {"name": "a", "bootMACAddress": "52-54-00-6E-30-00", "networkConfig": network}
    baremetal = changed(COMPACT, "platform.baremetal.hosts", [host])
    load_inputs(write(tmp_path, baremetal, AGENT | {"hosts": []}), TARGET)
    assert "BootMACAddress" not in caplog.text


@pytest.mark.parametrize("document", [{}, [], ""])
def test_a_network_document_without_a_network_is_refused(tmp_path, document):
    agent = changed(AGENT, "hosts.0.networkConfig", document)
    wrong = f'failed to fetch {TARGET}: failed to generate asset "NMState Config": .*: hosts.0..networkConfig: '
    with pytest.raises(InstallerError, match=wrong):
        load_inputs(write(tmp_path, SNO, agent), TARGET)


def test_problems_of_interfaces_name_the_path_of_the_interface(tmp_path):
    agent = changed(AGENT, "hosts.0.interfaces.0.macAddress", "52-54-00-6e-30-00")
    agent = changed(agent, "hosts.0.networkConfig.interfaces.0.mtu", "x")
    with pytest.raises(InstallerError) as caught:
        load_inputs(write(tmp_path, SNO, agent), TARGET)
    message = str(caught.value)
    assert "[hosts[0].interfaces[0].macAddress: is incorrectly formatted" in message
    assert ", hosts[0].networkConfig: interfaces[0].mtu: must be a whole number" in message


def test_too_many_hosts_is_an_error_too_few_a_warning(tmp_path, caplog):
    nic = {"interfaces": [{"name": "e", "macAddress": "52:54:00:00:00:01"}]}
    with pytest.raises(InstallerError, match=r"number of worker hosts defined \(1\) exceeds .* Compute replicas \(0\)"):
        load_inputs(write(tmp_path, SNO, changed(AGENT, "hosts", [AGENT["hosts"][0], nic])), TARGET)
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        load_inputs(write(tmp_path, COMPACT, AGENT), TARGET)
    assert "not enough master hosts defined (1) to support all the configured ControlPlane replicas (3)" in caplog.text


@pytest.mark.parametrize(
    ("address", "roles", "expected"),
    [("fd00:0::0005", ["master"], "fd00::5"), ("", ["master"], "192.168.111.80"), ("", [""], "192.168.111.80")],
)
def test_rendezvous_ip(tmp_path, address, roles, expected):
    agent = changed(changed(AGENT, "rendezvousIP", address), "hosts.0.role", roles[0])
    assert load_inputs(write(tmp_path, agent=agent), TARGET).rendezvous_ip == expected


def test_no_rendezvous_ip_at_all(tmp_path):
    with pytest.raises(InstallerError, match="missing rendezvousIP"):
        load_inputs(write(tmp_path, agent=None), TARGET)


def test_mac_addresses_and_dates_stay_text():
    """YAML 1.1 would read this MAC address as a number in base 60."""
    source = text(AGENT).replace("52:54:00:6e:30:00", "52:54:00:11:22:33").replace("name: ostest", "name: 2024-01-01")
    config = parse_agent_config(source)
    assert config.hosts[0].interfaces[0].mac_address == "52:54:00:11:22:33"
    assert config.metadata.name == "2024-01-01"


def test_unknown_field(tmp_path):
    write(tmp_path, agent=changed(AGENT, "hosts.0.hostNam", "x"))
    with pytest.raises(
        InstallerError, match=r'failed to unmarshal agent-config.yaml: .*unknown field "hostNam"'
    ) as caught:
        load_inputs(tmp_path, TARGET)
    assert caught.value.exit_code == EXIT_FATAL


def test_broken_install_config_ends_with_3(tmp_path):
    write(tmp_path)
    (tmp_path / "install-config.yaml").write_bytes(b"a: \xff")
    with pytest.raises(
        InstallerError, match='failed to load asset "Install Config": failed to create install config'
    ) as caught:
        load_inputs(tmp_path, TARGET)
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InstallerError, match="missing configuration or manifest file"):
        load_inputs(tmp_path, TARGET)
    with pytest.raises(InstallerError, match="does not exist"):
        load_inputs(tmp_path / "absent", TARGET)


def test_extra_manifests_are_split_and_judged(tmp_path):
    write(tmp_path)
    folder = tmp_path / "openshift"
    folder.mkdir()
    (folder / "a.yaml").write_text("kind: ConfigMap\n---\n---\nkind: Secret\n")
    (folder / "b.yml").write_text("kind: X\n")
    (folder / "notes.txt").write_text("hello")
    inputs = load_inputs(tmp_path, TARGET)
    assert sorted(inputs.extra_manifests) == ["a-0.yaml", "a-1.yaml", "b-0.yml"]
    (folder / "b.yml").write_text("just: data\n")
    with pytest.raises(InstallerError, match=r"openshift/b.yml: document 0 is not a manifest"):
        load_inputs(tmp_path, TARGET)


def test_consumed_inputs_come_back_from_the_state(tmp_path):
    inputs = load_inputs(write(tmp_path), TARGET)
    state = State.load(tmp_path)
    for asset, files in inputs.consumed.items():
        state.put_files(asset, files)
    state.save()
    assert state.path.stat().st_mode & 0o777 == 0o600
    for name in ("install-config.yaml", "agent-config.yaml"):
        (tmp_path / name).unlink()
    again = load_inputs(tmp_path, TARGET)
    assert (again.install, again.agent, again.rendezvous_ip) == (inputs.install, inputs.agent, inputs.rendezvous_ip)
    assert again.consumed == {}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({INSTALL_CONFIG: {"Files": [{"Filename": "x"}]}})])
def test_damaged_state_is_one_line(tmp_path, content):
    (tmp_path / ".openshift_install_state.json").write_text(content)
    with pytest.raises(InstallerError, match="failed to load state file"):
        load_inputs(tmp_path, TARGET)


PRERELEASE = """\
kind: AgentConfig
metadata:
  name: kni22
spec:
  rendezvousIP: 192.168.111.80
  hosts:
  - hostname: master-0
    interfaces: [{name: eth0, macAddress: "52:54:00:6e:30:00"}]
"""


def test_the_deprecated_form_of_agent_config(caplog):
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        config = parse_agent_config(PRERELEASE)
    assert "deprecated" in caplog.text
    assert (config.rendezvous_ip, config.metadata.name, config.hosts[0].hostname) == (
        "192.168.111.80",
        "kni22",
        "master-0",
    )


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (PRERELEASE + "hosts: []\n", 'line 6: key "hosts" is both in spec and outside'),
        (PRERELEASE.replace("hostname", "hostnam"), 'line 7: unknown field "hostnam" in hosts[0]'),
        ("kind: AgentConfig\nspec: 5\n", 'line 2: unknown field "spec"'),
        ("apiVersion: v1beta1\n" + PRERELEASE, 'line 5: unknown field "spec"'),
        ("rendezvousIP: 1.2.3.4\n", "apiVersion: Required value"),
    ],
)
def test_invalid_files_in_the_deprecated_form(source, problem):
    with pytest.raises(InstallerError) as caught:
        parse_agent_config(source)
    assert problem in str(caught.value)


def test_configs_misplaced_in_cluster_manifests(tmp_path):
    directory = tmp_path / "my cluster"
    (directory / "cluster-manifests").mkdir(parents=True)
    for name in ("install-config.yaml", "agent-config.yaml"):
        (directory / "cluster-manifests" / name).write_text("x: 1")
    with pytest.raises(InstallerError, match=r"cluster-manifests/agent-config\.yaml belong into the ") as caught:
        load_inputs(directory, TARGET)
    # The command runs as it stands.
    subprocess.run(["bash", "-c", str(caught.value).rpartition("manifests: ")[2]], check=True)
    assert sorted(path.name for path in directory.glob("*.yaml")) == ["agent-config.yaml", "install-config.yaml"]


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("agent-config.yaml", "the agent-config.yaml in the asset directory itself is read"),
        ("cluster-manifests/infraenv.yaml", "it belongs into the asset directory itself: mv "),
        (".openshift_install_state.json", "it belongs into the asset directory itself: mv "),
    ],
)
def test_a_misplaced_config_beside_other_inputs_is_noted(tmp_path, caplog, beside, why):
    (tmp_path / "cluster-manifests").mkdir()
    for name in ("cluster-manifests/agent-config.yaml", beside, *["install-config.yaml"] * (beside[0] == "a")):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InstallerError):
        load_inputs(tmp_path, TARGET)
    assert [
        text for text in caplog.messages if text.startswith(f"cluster-manifests/agent-config.yaml is ignored: {why}")
    ]
