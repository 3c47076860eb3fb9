"""Inputs of `create cluster` and `agent boot` that are refused, all at once and before any BMC is asked."""

import copy
from pathlib import Path

import pytest
import yaml

from installer.config.load import parse_install_config
from installer.errors import ConfigError
from installer.ipi import cluster
from installer.ipi.targets import targets_of
from installer.testing.create.inputs_kit import COMPACT, SNO

BMC = {"username": "admin", "password": "hidden-Pa55", "disableCertificateVerification": True}


def document(*, network="Disabled", **changes):
    """Return an install-config with three hosts; `changes` are fields of the second."""
    document = copy.deepcopy(COMPACT)
    hosts = [
        {
            "name": f"master-{n}",
            "role": "master",
            "bootMACAddress": f"00:00:5e:00:53:0{n}",
            "bmc": {**BMC, "address": f"redfish-virtualmedia+https://192.0.2.{n}/redfish/v1/Systems/1"},
        }
        for n in range(3)
    ]
    hosts[1] |= changes
    document["platform"]["baremetal"] |= {"provisioningNetwork": network, "hosts": hosts}
    return document


def config(**changes):
    return parse_install_config(yaml.safe_dump(document(**changes)))


def test_a_machine_is_what_its_entry_says():
    first, *_ = targets_of(config())
    assert (first.name, first.mac, first.verify, first.tls) == ("master-0", "00:00:5e:00:53:00", False, "1.2")
    assert (first.address.url, first.address.system) == ("https://192.0.2.0", "/redfish/v1/Systems/1")
    assert "hidden-Pa55" not in repr(first)
    assert "hidden-Pa55" not in repr(first.machine())


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"role": ""}, ["3 hosts of role master are wanted, there are 2", "[master-1].role: ''"]),
        ({"network": "Managed", "name": ""}, ["provisioningNetwork: Managed", "[00:00:5e:00:53:01].name: missing"]),
        ({"name": "../a"}, ["[../a].name: '../a': no name of a node"]),
        ({"name": "bootstrap"}, ["[bootstrap].name: bootstrap is the bootstrap machine's"]),
    ],
)
def test_all_that_cannot_be_created_is_named_at_once(changes, lines):
    with pytest.raises(ConfigError) as caught:
        cluster.check(config(**changes))
    told = str(caught.value).splitlines()
    assert len(told) == len(lines)
    for line, wanted in zip(told, lines, strict=True):
        assert line.startswith("install-config.yaml: platform.baremetal.")
        assert wanted in line


def test_another_platform_has_other_commands():
    with pytest.raises(ConfigError, match=r"platform\.none: create cluster installs platform\.baremetal; other"):
        cluster.check(parse_install_config(yaml.safe_dump(SNO)))


def test_hosts_of_the_same_name_are_refused():
    with pytest.raises(ConfigError, match=r"hosts\[master-0\]\.name: 2 hosts have it"):
        targets_of(config(name="master-0"))


def test_bmcs_without_virtual_media_are_named_all():
    document = config(network="Managed", bmc={**BMC, "address": "ipmi://192.0.2.1"})
    with pytest.raises(
        ConfigError, match=r"hosts\[master-1\]\.bmc\.address: ipmi: IPMI has no virtual media"
    ) as caught:
        targets_of(document)
    assert "hidden-Pa55" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (None, "no bootstrap machine: give the file of one by --bootstrap FILE"),
        ({"bmc": {**BMC, "address": "redfish-virtualmedia://192.0.2.9"}, "colour": "red"}, 'unknown field "colour"'),
        ({"bmc": {"address": "redfish-virtualmedia://192.0.2.9"}}, "boot.yaml: bmc.username: missing"),
        (
            {"bmc": {**BMC, "address": "redfish-virtualmedia+https://192.0.2.2/redfish/v1/Systems/1"}},
            "boot.yaml: bmc.address is also that of master-2: the bootstrap machine may become a worker",
        ),
    ],
)
def test_a_bootstrap_machine_that_cannot_be_used_is_refused(tmp_path: Path, entry, told):
    path = tmp_path / "boot.yaml"
    path.write_text(yaml.safe_dump(entry))
    options = cluster.Options(bootstrap=path if entry else None, ports=(1, 2))
    with pytest.raises(ConfigError) as caught:
        cluster.machines_of(config(), options, "", removed=False)
    assert told in str(caught.value)
    assert "hidden-Pa55" not in str(caught.value)


def test_a_removed_bootstrap_machine_needs_no_file():
    machines = cluster.machines_of(config(), cluster.Options(bootstrap=None, ports=(1, 2)), "", removed=True)
    assert [target.name for target in machines.targets] == ["master-0", "master-1", "master-2"]
