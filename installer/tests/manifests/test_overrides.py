"""The install-config overrides, and what else the platforms bring to the manifests and the live host."""

import json

import pytest
import yaml

from installer.config.load import parse_agent_config, parse_install_config, resolve_hosts
from installer.config.types.agent import AgentConfig
from installer.create.stages.render import fencing_files
from installer.ignition.live import HostFiles
from installer.manifests.cluster import Inputs, agent_cluster_install
from installer.manifests.overrides import ANNOTATION
from installer.testing.create.inputs_kit import (
    AGENT,
    ARBITER,
    COMPACT,
    EXTERNAL,
    FENCED,
    NUTANIX,
    SNO,
    VSPHERE,
    changed,
    text,
)

BMC = {"address": "redfish-virtualmedia://h/x", "username": "u", "password": "p"}
HOSTS = [{"name": "a", "role": "master", "bootMACAddress": "52:54:00:00:00:01", "bmc": BMC}]


def manifest(install, agent=None):
    config = parse_install_config(text(install))
    hosts = resolve_hosts(config, parse_agent_config(text(agent)) if agent else AgentConfig())
    return agent_cluster_install(Inputs(config, (), hosts, "r@sha256:0", release_version="4.18"))


def overrides(install, agent=None):
    annotation = manifest(install, agent)["metadata"].get("annotations", {}).get(ANNOTATION)
    return json.loads(annotation) if annotation else None


@pytest.mark.parametrize("install", [SNO, COMPACT, ARBITER], ids=["sno", "compact", "arbiter"])
def test_none_where_nothing_differs(install):
    assert overrides(install, AGENT) is None


def test_bmcs_and_the_provisioning_network_for_them():
    install = changed(COMPACT, "platform.baremetal.hosts", HOSTS)
    assert overrides(install) == {
        "platform": {
            "baremetal": {
                "hosts": [
                    {
                        **host,
                        "hardwareProfile": "",
                        "bmc": {"disableCertificateVerification": False, **dict(host["bmc"])},
                    }
                    for host in HOSTS
                ],
                "clusterProvisioningIP": "172.22.0.3",
                "provisioningNetwork": "Managed",
                "provisioningNetworkCIDR": "172.22.0.0/24",
                "provisioningDHCPRange": "172.22.0.10,172.22.0.254",
            }
        }
    }


def test_vsphere():
    spec = manifest(VSPHERE)["spec"]
    assert (spec["platformType"], spec["apiVIPs"], "apiVIP" in spec) == ("VSphere", ["192.168.111.5"], False)
    platform = VSPHERE["platform"]["vsphere"]
    assert overrides(VSPHERE) == {
        "platform": {"vsphere": {"vcenters": platform["vcenters"], "failureDomains": platform["failureDomains"]}}
    }
    plain = changed(changed(VSPHERE, "platform.vsphere.vcenters", []), "platform.vsphere.failureDomains", [])
    assert overrides(plain) is None


def test_nutanix_without_what_is_ignored():
    install = changed(NUTANIX, "platform.nutanix.prismAPICallTimeout", 5)
    own = {**NUTANIX["platform"]["nutanix"], "dnsRecordsType": "Internal"}
    assert overrides(install) == {"platform": {"nutanix": own}}
    assert manifest(install)["spec"]["platformType"] == "Nutanix"


def test_external_platform_always_has_overrides():
    assert overrides(EXTERNAL) == {"platform": EXTERNAL["platform"]}
    assert manifest(EXTERNAL)["spec"]["external"] == EXTERNAL["platform"]["external"]


def test_all_other_overrides():
    install = {
        **COMPACT,
        "capabilities": {"baselineCapabilitySet": "v4.18", "additionalEnabledCapabilities": ["Console"]},
        "cpuPartitioningMode": "AllNodes",
        "additionalTrustBundlePolicy": "Always",
        "featureSet": "CustomNoUpgrade",
        "featureGates": ["A=true"],
    }
    install = changed(install, "networking.networkType", "Calico")
    overridden = overrides(install)
    assert overridden == {
        "capabilities": {"baselineCapabilitySet": "v4.18", "additionalEnabledCapabilities": ["Console"]},
        "cpuPartitioningMode": "AllNodes",
        "additionalTrustBundlePolicy": "Always",
        "featureSet": "CustomNoUpgrade",
        "featureGates": ["A=true"],
        "networking": {
            "networkType": "Calico",
            "machineNetwork": [{"cidr": "192.168.111.0/24"}],
            "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
            "serviceNetwork": ["172.30.0.0/16"],
        },
    }
    assert manifest(install)["spec"]["networking"]["networkType"] == "OVNKubernetes"


def test_fencing_credentials_for_the_live_host():
    document = yaml.safe_load(fencing_files(parse_install_config(text(FENCED)), [])[0])
    assert document["credentials"][0] == {
        "hostname": "master-1",
        "username": "u",
        "password": "s3cr3t",
        "address": "redfish+https://10.9.0.1/x",
    }
    assert fencing_files(parse_install_config(text(COMPACT)), []) == ("", ())


def test_fencing_credentials_by_mac_address_are_their_hosts():
    """openshift/installer PR 10513 and 10684: a credential names its host by name, or by a MAC address in any form."""
    install = changed(FENCED, "controlPlane.fencing.credentials.0.macAddress", "52-54-00-00-00-0A")
    install = changed(install, "controlPlane.fencing.credentials.1.macAddress", "52:54:00:00:00:0B")
    for index in (0, 1):
        del install["controlPlane"]["fencing"]["credentials"][index]["hostName"]
    hosts = [HostFiles("master-1", macs=("52:54:00:00:00:0a",)), HostFiles("master-2")]
    rest, (host, other) = fencing_files(parse_install_config(text(install)), hosts)
    [credential] = yaml.safe_load(host.fencing_credentials)["credentials"]
    assert (credential["macaddress"], credential["address"]) == ("52:54:00:00:00:0a", "redfish+https://10.9.0.1/x")
    assert not other.fencing_credentials
    assert [entry["macaddress"] for entry in yaml.safe_load(rest)["credentials"]] == ["52:54:00:00:00:0b"]


def test_an_empty_entry_of_a_list_of_networks_is_written_as_upstream_writes_it():
    # Not both in one: two that are empty overlap.
    machines = manifest(changed(SNO, "networking.machineNetwork", [{}]))["spec"]["networking"]
    assert machines["machineNetwork"] == [{"cidr": "<nil>"}]
    services = manifest(changed(SNO, "networking.serviceNetwork", [None]))["spec"]["networking"]
    assert services["serviceNetwork"] == ["<nil>"]
