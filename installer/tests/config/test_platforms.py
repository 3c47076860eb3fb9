"""Rules of platforms, topologies and features; the table of rules against the numbers of the reference's page."""

import contextlib
import json
import logging
from dataclasses import replace

import pytest

from installer.config import notes
from installer.config.load import as_written, parse_install_config
from installer.config.rules import catalogue as rules
from installer.config.types.install import ImageSource
from installer.config.types.uses import Use
from installer.credentials.background import make
from installer.errors import ConfigError
from installer.testing.create.inputs_kit import (
    ARBITER,
    COMPACT,
    DUAL_STACK,
    EXTERNAL,
    FENCED,
    NUTANIX,
    SNO,
    VSPHERE,
    changed,
    text,
)
from installer.testing.create.rules_kit import ROWS as PLAIN_ROWS
from installer.testing.create.rules_kit import WRAP

FD = "platform.vsphere.failureDomains.0"
TOPOLOGY = "platform.vsphere.failureDomains.topology"
CREDENTIAL = "controlPlane.fencing.credentials.0"
BY_MAC = changed(FENCED, "controlPlane.fencing.credentials.1.macAddress", "52:54:00:00:00:ab")
BMC = {"name": "a", "bootMACAddress": "52:54:00:00:00:01", "bmc": {"address": "redfish-virtualmedia://h/x",
       "username": "u", "password": "p"}}  # fmt: skip
WITH_BMC = changed(COMPACT, "platform.baremetal.hosts", [BMC])
TWO_SOURCES = {**SNO, "imageContentSources": [{"source": "a.example/b"}]}
GATED = {**COMPACT, "featureSet": "CustomNoUpgrade", "featureGates": ["OnPremDNSRecords=true"]}
GATED_DISKS = {**SNO, "featureSet": "CustomNoUpgrade", "featureGates": ["MultiDiskSetup=true", "MultiDiskSetup=0"]}
# (base, field, value, expected beginning of one of the errors)
ROWS = [
    (GATED_DISKS, "controlPlane.diskSetup", [{"type": "etcd"}],
     'controlPlane.diskSetup.etcd: Invalid value: "type: etcd\\n": etcd configuration must be created'),
    (GATED_DISKS, "controlPlane.diskSetup", [{"type": "swap", "swap": {}}] * 2,
     "controlPlane.diskSetup.swap: Too many: 2"),
    (GATED_DISKS, "compute", [{"name": "worker", "replicas": 0, "diskSetup": [{"type": "etcd", "etcd": {}}]}],
     'compute[0].diskSetup.etcd: Invalid value: "etcd: {}\\ntype: etcd\\n": cannot specify etcd on worker'),
    (DUAL_STACK, "platform.baremetal.apiVIPs", ["x", "fd2e:6f44:5dd8::5"],
     'platform.baremetal: Invalid value: {"API": ["x", "fd2e:6f44:5dd8::5"], "Ingress": ['),
    (changed(WITH_BMC, "platform.baremetal.provisioningNetwork", "Disabled"),
     "platform.baremetal.hosts.0.bmc.address", "ipmi://1.2.3.4",
     'platform.baremetal.hosts[0].bmc: Invalid value: "ipmi://1.2.3.4": driver ipmi requires provisioning network'),
    (COMPACT, "platform", {"azure": {"region": ""}}, "platform.azure.region: Required value: region should be set"),
    (COMPACT, "platform", {"azure": {}}, "platform.azure.baseDomainResourceGroupName: Required value: it names"),
    (COMPACT, "platform", {"powervs": {}}, "platform.powervs.zone: Required value: zone must be specified"),
    (COMPACT, "platform", {"powervs": {"zone": "x"}}, 'platform: Unsupported value: "powervs"'),
    (SNO, "networking.ovnKubernetesConfig", {"ipv4": {"internalJoinSubnet": "fd98:1::/64"}},
     "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet: Invalid value: "),
    (VSPHERE, "platform.vsphere.nodeNetworking", {"external": {"excludeNetworkSubnetCidr": [""]}},
     "platform.vsphere.nodeNetworking.external.excludeNetworkSubnetCidr: Required value: must specify a IP address"),
    (VSPHERE, "platform.vsphere.vcenters.0.user", "", "platform.vsphere.vcenters[0].user: Required value: All cred"),
    (VSPHERE, "platform.vsphere.vcenters.0.password", "", "platform.vsphere.vcenters[0].password: Required value"),
    (VSPHERE, "platform.vsphere.vcenters.0.datacenters", [], "platform.vsphere.vcenters[0].datacenter: Required"),
    (VSPHERE, "platform.vsphere.vcenters.0.server", "", "platform.vsphere.vcenters[0].server: Required value"),
    (VSPHERE, "platform.vsphere.vcenters.0.server", "a_b", 'platform.vsphere.vcenters[0].server: Invalid value: "a_b"'),
    (VSPHERE, "platform.vsphere.vcenters.0.server", "a b", "failed to create install config: failed to upconvert "
     'install config: parse "https://a b": invalid character " " in host name'),
    (SNO, "platform", {"ovirt": {}}, "platform.ovirt: Forbidden: Platform oVirt is no longer supported"),
    (SNO, "platform", {"ovirt": {}}, "platform.ovirt.api_vips: Required value: must specify at least one VIP for the"),
    (SNO, "platform", {"ovirt": {}}, 'platform: Invalid value: "ovirt": must specify one of the platforms (aws, azure, '
     "baremetal, external, gcp, ibmcloud, none, nutanix, openstack, powervc, powervs, vsphere)"),
    (SNO, "platform", {"none": {}, "vsphere": {}}, "platform.vsphere.apiVIPs: Required value: must specify at least"),
    ({**SNO, "credentialsMode": "Passthrough"}, "platform", None,
     'credentialsMode: Invalid value: "Passthrough": cannot be set when using the "" platform'),
    ({**COMPACT, "credentialsMode": "Mint"}, "platform", {"openstack": {}},
     'credentialsMode: Unsupported value: "Mint": supported values: "Passthrough"'),
    (DUAL_STACK, "networking.clusterNetwork.0.cidr", None, 'networking.clusterNetwork: Invalid value: "<nil>, fd01::/48'
     '": dual-stack IPv4/IPv6 requires an IPv4 network in this list'),
    (DUAL_STACK, "networking.clusterNetwork.1", None, ...),
    (COMPACT, "networking.machineNetwork.0", None, 'platform.baremetal.apiVIPs: Invalid value: "192.168.111.5": IP '
     "expected to be in one of the machine networks: <nil>"),
    (changed(SNO, "networking.machineNetwork", [None]), "networking.clusterNetwork", [{"hostPrefix": 23}],
     'networking.clusterNetwork[0].cidr: Invalid value: "<nil>": cluster network must not overlap with any of the'),
    (SNO, "networking.serviceNetwork", [None, None],
     'networking.serviceNetwork[1]: Invalid value: "<nil>": service network must not overlap with service network 0'),
    (SNO, "networking.machineNetwork", [{}, {"cidr": None}],
     'networking.machineNetwork[1]: Invalid value: "<nil>": machine network must not overlap with machine network 0'),
    (SNO, "networking.machineNetwork", [None], ...),
    (VSPHERE, f"{FD}.topology.folder", "", "platform.vsphere.failureDomains[0].topology.folder: Required value"),
    (VSPHERE, f"{FD}.topology.folder", "f", ...),
    (VSPHERE, f"{FD}.topology.folder", "/dc2/vm/f", f'{TOPOLOGY}.folder: Invalid value: "/dc2/vm/f": the folder def'),
    (VSPHERE, f"{FD}.topology.datastore", "/dc1/ds", f'{TOPOLOGY}.datastore: Invalid value: "/dc1/ds": full path'),
    (VSPHERE, f"{FD}.topology.datastore", "", f"{TOPOLOGY}.datastore: Required value"),
    (VSPHERE, f"{FD}.topology.computeCluster", "/dc2/host/c", f"{TOPOLOGY}.computeCluster: Invalid value"),
    (VSPHERE, f"{FD}.topology.resourcePool", "/dc1/host/c2/p", f"{TOPOLOGY}.resourcePool: Invalid value"),
    (VSPHERE, f"{FD}.topology.datacenter", "dc2", f'{TOPOLOGY}.datacenter: Invalid value: "dc2": datacenter must be'),
    (VSPHERE, f"{FD}.topology.networks", [], f"{TOPOLOGY}.networks: Required value"),
    (VSPHERE, f"{FD}.topology.networks", ["n"] * 11, f"{TOPOLOGY}.networks: Too many: 11: must have at most 10 items"),
    (VSPHERE, f"{FD}.topology.tagIDs", ["x"], f"{TOPOLOGY}.tagIDs: Invalid value"),
    (VSPHERE, f"{FD}.name", "", "platform.vsphere.failureDomains.name: Required value"),
    (VSPHERE, f"{FD}.zoneType", "HostGroup", "platform.vsphere.failureDomains.regionType: Required value"),
    (VSPHERE, f"{FD}.server", "other", 'platform.vsphere.failureDomains.server: Invalid value: "other": server does'),
    (VSPHERE, "platform.vsphere.diskType", "big", 'platform.vsphere.diskType: Invalid value: "big"'),
    (VSPHERE, "platform.vsphere.apiVIPs", [], "platform.vsphere.apiVIPs: Required value"),
    (VSPHERE, "platform.vsphere.nodeNetworking", {"external": {"network": "x"}},
     'platform.vsphere.nodeNetworking.external.network: Invalid value: "x"'),
    (VSPHERE, "platform.vsphere.loadBalancer", {"type": "x"}, "platform.vsphere.loadBalancer.type: Invalid value"),
    (NUTANIX, "platform.nutanix.prismCentral.endpoint.address", "",
     "platform.nutanix.prismCentral.endpoint.address: Required value"),
    (NUTANIX, "platform.nutanix.prismCentral.endpoint.port", 70000,
     "platform.nutanix.prismCentral.endpoint.port: Invalid value: 70000"),
    (NUTANIX, "platform.nutanix.prismCentral.username", "", "platform.nutanix.prismCentral.username: Required value"),
    (NUTANIX, "platform.nutanix.prismCentral.password", "", "platform.nutanix.prismCentral.password: Required value"),
    (NUTANIX, "platform.nutanix.prismElements", [], "platform.nutanix.prismElements: Required value"),
    (NUTANIX, "platform.nutanix.prismElements.0.uuid", "", "platform.nutanix.prismElements.uuid: Required value"),
    (NUTANIX, "platform.nutanix.subnetUUIDs", [], "platform.nutanix.subnetUUIDs: Required value"),
    (NUTANIX, "platform.nutanix.subnetUUIDs", ["a", "a"], 'platform.nutanix.subnetUUIDs: Invalid value: "a": should'),
    (NUTANIX, "platform.nutanix.failureDomains", [{"name": "A"}], "platform.nutanix.failureDomain.name: Invalid"),
    (NUTANIX, "credentialsMode", "Mint", 'credentialsMode: Unsupported value: "Mint": supported values: "Manual"'),
    (EXTERNAL, "platform.external.cloudControllerManager", "", "platform.external.cloudControllerManager: Invalid"),
    (EXTERNAL, "platform.external.cloudControllerManager", "X", "platform.external.cloudControllerManager: Invalid"),
    (WITH_BMC, "platform.baremetal.provisioningNetworkCIDR", "192.168.111.0/24",
     'platform.baremetal.provisioningNetworkCIDR: Invalid value: "192.168.111.0/24": cannot overlap with machine'),
    (WITH_BMC, "platform.baremetal.provisioningDHCPRange", "1.2.3.4", "platform.baremetal.provisioningDHCPRange: Inv"),
    (WITH_BMC, "platform.baremetal.clusterProvisioningIP", "172.22.0.50", 'platform.baremetal.clusterProvisioningIP: '),
    (WITH_BMC, "platform.baremetal.hosts", [BMC, BMC], 'platform.baremetal.hosts[1].bmc.address: Duplicate value'),
    # Counted as in the file, whatever their roles.
    (WITH_BMC, "platform.baremetal.hosts", [{**BMC, "role": "worker", "bmc": {"username": "u", "password": "p"}},
                                            {**BMC, "role": "master", "bootMACAddress": "52:54:00:00:00:02"}],
     "platform.baremetal.hosts[0].bmc.address: Required value"),
    (WITH_BMC, "platform.baremetal.additionalNTPServers", ["a_b"], 'platform.baremetal: Invalid value: "a_b": NTP'),
    (ARBITER, "arbiter.replicas", 2, "arbiter.replicas: Invalid value: 2: TNA (Two Node with Arbiter) configuration"),
    (ARBITER, "arbiter.name", "judge", ...),
    (ARBITER, "featureSet", "CustomNoUpgrade", "arbiter: Forbidden: HighlyAvailableArbiter feature must be enabled"),
    (ARBITER, "arbiter.replicas", 0, "arbiter.replicas: Invalid value: 0: number of arbiter replicas must be positive"),
    (ARBITER, "controlPlane.replicas", 1, "arbiter.replicas: Invalid value: 1: number of controlPlane replicas"),
    (ARBITER, "platform", VSPHERE["platform"], 'arbiter.platform: Unsupported value: "vsphere": supported'),
    (FENCED, "featureSet", "", "controlPlane.fencing: Invalid value: \"configured\": fencing configuration requires"),
    (FENCED, "controlPlane.replicas", 3, "controlPlane.fencing.credentials: Forbidden: there should not be any fen"),
    (FENCED, f"{CREDENTIAL}.password", "", "controlPlane.fencing.credentials[0].password: Required value"),
    (FENCED, f"{CREDENTIAL}.hostName", "", "controlPlane.fencing.credentials[0].hostName: Required value"),
    (FENCED, f"{CREDENTIAL}.hostName", "master-2", "controlPlane.fencing.credentials[1].hostName: Duplicate value"),
    (FENCED, f"{CREDENTIAL}.macAddress", "01:00:5e:00:00:01",
     "controlPlane.fencing.credentials[0].macAddress: Invalid value"),
    (BY_MAC, f"{CREDENTIAL}.macAddress", "52-54-00-00-00-AB",
     "controlPlane.fencing.credentials[1].macAddress: Duplicate value"),
    (FENCED, f"{CREDENTIAL}.address", "ipmi://10.9.0.1:623", "controlPlane.fencing.credentials[0].address: Invalid"),
    (FENCED, f"{CREDENTIAL}.address", "h.example/redfish/v1", 'controlPlane.fencing.credentials[0].address: Invalid '
     'value: "h.example/redfish/v1": failed to parse redfish address, no port number found'),
    (FENCED, f"{CREDENTIAL}.certificateVerification", "No",
     "controlPlane.fencing.credentials[0][CertificateVerification]: Invalid value"),
    (FENCED, "platform", VSPHERE["platform"], "controlPlane.fencing: Forbidden: fencing is only supported on bare"),
    (TWO_SOURCES, "imageDigestSources", [{"source": "a.example/b"}], "imageContentSources: Invalid value"),
    # The service networks say whether it is dual-stack.
    (DUAL_STACK, "networking.serviceNetwork", ["172.30.0.0/16"], ...),
    (DUAL_STACK, "networking.machineNetwork", [{"cidr": "192.168.111.0/24"}], "networking.machineNetwork: Invalid"),
    (DUAL_STACK, "networking.clusterNetwork.1.hostPrefix", 56, "networking.clusterNetwork[1].hostPrefix: Invalid"),
    (DUAL_STACK, "platform.baremetal.apiVIPs", ["fd2e:6f44:5dd8::5"], "platform.baremetal.apiVIPs: Invalid value"),
    (SNO, "capabilities", {"baselineCapabilitySet": "None"}, "capabilities: Invalid value"),
    (NUTANIX, "platform.nutanix.apiVIPs", ["x"], 'platform.nutanix.apiVIPs: Invalid value: ["x"]: invalid IP[0]: x'),
    (VSPHERE, "controlPlane.platform", {"vsphere": {"cpus": 4, "coresPerSocket": 3}},
     "controlPlane.platform.vsphere.cpus: Invalid value: 4: numCPUs specified should be a multiple of"),
    (VSPHERE, "controlPlane.platform", {"vsphere": {"zones": ["x"]}},
     'controlPlane.platform.vsphere.zones: Invalid value: "x": zone not defined in failureDomains'),
    (WITH_BMC, "platform.baremetal.bootstrapProvisioningIP", "172.22.0.50",
     'platform.baremetal.bootstrapProvisioningIP: Invalid value: "172.22.0.50": "172.22.0.50" overlaps with the'),
    (WITH_BMC, "platform.baremetal.provisioningDHCPRange", "172.22.0.10, 172.22.0.99",
     "platform.baremetal.provisioningDHCPRange: Invalid value: "),
    (SNO, "capabilities", {"additionalEnabledCapabilities": ["X"]}, "capabilities.additionalEnabledCapabilities[0]: "),
    (COMPACT, "capabilities", {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["Ingress"]},
     "additionalEnabledCapabilities: Invalid value: [\"Ingress\"]: platform baremetal requires the baremetal cap"),
    (COMPACT, "capabilities", {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": []},
     "additionalEnabledCapabilities: Invalid value: []: platform baremetal requires the baremetal cap"),
    (COMPACT, "capabilities", {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": None},
     "additionalEnabledCapabilities: Invalid value: null: platform baremetal requires the baremetal cap"),
    (VSPHERE, "capabilities", {"baselineCapabilitySet": "v4.14"}, "capabilities: Invalid value"),
    (EXTERNAL, "capabilities", {"baselineCapabilitySet": "v4.15"}, "capabilities: Invalid value"),
    (SNO, "capabilities", {"baselineCapabilitySet": "v4.14", "additionalEnabledCapabilities": ["Ingress"]},
     "additionalEnabledCapabilities: Invalid value: [\"Ingress\"]: the marketplace capability requires"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value", "expected"), ROWS, ids=[f"{row[1]}={row[2]}"[:70] for row in ROWS])
def test_rule(base, path, value, expected):
    if expected is ...:
        parse_install_config(text(changed(base, path, value)))
        return
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(changed(base, path, value)))
    message = str(caught.value).removeprefix(WRAP)
    assert any(message.startswith(before + expected) for before in ("", "[")) or f", {expected}" in message, message
    assert "s3cr3t" not in message


VALID = {
    "vsphere": VSPHERE,
    "vsphere without credentials": changed(
        changed(VSPHERE, "platform.vsphere.vcenters", []), "platform.vsphere.failureDomains", []
    ),
    "nutanix": NUTANIX,
    "external": EXTERNAL,
    "single node external": {**SNO, "platform": {"external": {"platformName": "x"}}},
    "arbiter": ARBITER,
    "fencing": FENCED,
    "fencing by MAC addresses": changed(BY_MAC, "controlPlane.fencing.credentials.1.hostName", ""),
    "four control plane nodes": changed(COMPACT, "controlPlane.replicas", 4),
    "five control plane nodes": changed(COMPACT, "controlPlane.replicas", 5),
    "HA": changed(COMPACT, "compute.0.replicas", 2),
    "dual stack": changed(DUAL_STACK, "platform.baremetal", {
        "apiVIPs": ["192.168.111.5", "fd2e:6f44:5dd8::5"], "ingressVIPs": ["192.168.111.4", "fd2e:6f44:5dd8::4"]
    }),
    "BMCs": changed(WITH_BMC, "platform.baremetal.provisioningNetwork", "Disabled"),
    "managed provisioning": WITH_BMC,
    "arm64 workers": changed(changed(COMPACT, "compute.0.replicas", 2), "compute.0.architecture", "arm64"),
    "external DNS": changed(changed(GATED, "platform.baremetal.dnsRecordsType", "External"),
                            "platform.baremetal.loadBalancer", {"type": "UserManaged"}),
    "no capabilities but": changed(COMPACT, "capabilities", {
        "baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["Ingress", "baremetal", "MachineAPI"]
    }),
    "gated disks": {**COMPACT, "featureSet": "DevPreviewNoUpgrade",
                    "controlPlane": {"name": "master", "replicas": 3,
                                     "diskSetup": [{"type": "etcd", "etcd": {"platformDiskID": "sdb"}}]}},
    "stream": {**SNO, "featureSet": "TechPreviewNoUpgrade", "osImageStream": "rhel-10"},
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_accepted(name):
    parse_install_config(text(VALID[name]))


def test_every_rule_of_the_page_is_somewhere():
    numbers = {entry.number for entry in rules.table()}
    assert {number for number in numbers if number.isdigit()} | set(rules.ELSEWHERE) == {str(n) for n in range(1, 58)}
    assert not numbers & set(rules.ELSEWHERE)
    assert len(numbers) == len(rules.TABLE), "a number stands for one check"


def test_every_rule_of_the_table_is_broken_by_a_row(monkeypatch):
    """Each check alone finds something in one of the rows: none is there for nothing."""
    seen: list = []
    table = rules.table()
    monkeypatch.setattr(rules, "run", lambda config: seen.append(config) or [])
    for base, path, value, _ in (*PLAIN_ROWS, *ROWS):
        with contextlib.suppress(ConfigError):
            parse_install_config(text(changed(base, path, value)))
    assert [entry.number for entry in table if not any(list(entry.check(config)) for config in seen)] == []


def test_fips_needs_a_host_in_fips_mode(monkeypatch, tmp_path, caplog):
    from installer.config.rules import general as rules_general

    monkeypatch.setattr(rules_general, "FIPS_STATE", tmp_path / "state")
    monkeypatch.delenv(rules_general.SKIP_FIPS_CHECK, raising=False)
    config = changed({**SNO, "fips": True}, "sshKey", "")
    for state in (None, "0\n"):
        if state is not None:
            (tmp_path / "state").write_text(state)
        with pytest.raises(ConfigError, match="fips: Forbidden: target cluster is in FIPS mode, enable FIPS mode"):
            parse_install_config(text(config))
    (tmp_path / "state").write_text("1\n")
    parse_install_config(text(config))
    (tmp_path / "state").write_text("0\n")
    monkeypatch.setenv(rules_general.SKIP_FIPS_CHECK, "1")
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        parse_install_config(text(config))
    assert "enable FIPS mode on the host" in caplog.text


def test_warnings_about_valid_configs(caplog):
    config = changed(COMPACT, "platform.baremetal.externalBridge", "br0") | {
        "imageContentSources": [{"source": "a.example/b", "mirrors": ["m.example:5000/x", "registry.example:5000/y"]}],
        "bootstrapInPlace": {"installationDisk": "/dev/sda"},
        "compute": [{"name": "worker", "replicas": 0, "hyperthreading": "Disabled", "platform": {"baremetal": {}}}],
    }
    with caplog.at_level(logging.DEBUG, "installer"):
        logging.getLogger("installer").propagate = True
        parse_install_config(text(changed(config, "platform.baremetal.libvirtURI", "qemu:///x")))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "compute[0].hyperthreading: Disabled is ignored",
        "compute[0].platform is ignored",
        "platform.baremetal.externalBridge: br0 is ignored",
        "bootstrapInPlace.installationDisk: /dev/sda is ignored",
        "imageContentSources is deprecated, please use ImageDigestSources",
        'Mirror registry "m.example:5000" is not found in pullSecret',
    ]
    assert "platform.baremetal.libvirtURI: qemu:///x is ignored" in caplog.text


@pytest.mark.parametrize(("mode", "count"), [("AllNodes", 0), ("None", 0), ("allnodes", 1), ("x y", 1)])
def test_an_unknown_partitioning_mode_is_a_warning(caplog, mode, count):
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        config = parse_install_config(text(COMPACT | {"cpuPartitioningMode": mode}))
    # What it is called stays in the manifests, as OpenShift's.
    assert config.cpu_partitioning_mode == mode
    assert caplog.text.count(f"cpuPartitioningMode: {mode} is neither None nor AllNodes") == count


@pytest.mark.parametrize("name", ["auths", "Auths"])
def test_registries_of_a_pull_secret_are_found_as_go_finds_them(name):
    config = SNO | {
        "pullSecret": json.dumps({name: {"registry.example": {"auth": "dXNlcjpzM2NyM3Q="}}}),
        "imageDigestSources": [{"source": "a.example/b", "mirrors": ["m.example/x", "registry.example/y"]}],
    }
    parsed = parse_install_config(text(config))
    assert notes.missing_credentials(parsed) == ["m.example"]
    both = replace(parsed, image_content_sources=(ImageSource("c.example/d", ("n.example/x",)),))
    assert notes.missing_credentials(both) == ["m.example", "n.example"]


def test_ignored_fields_of_other_platforms():
    vsphere = changed(VSPHERE, "platform.vsphere.hosts", [{"role": "x"}, {"role": "y"}])
    vsphere = changed(
        changed(vsphere, "platform.vsphere.diskType", "thin"), "platform.vsphere.defaultMachinePlatform", {}
    )
    config = parse_install_config(text(vsphere))
    assert list(notes.unused(config, Use.IGNORED)) == [
        "platform.vsphere.diskType: thin is ignored",
        "platform.vsphere.hosts is ignored",
    ]
    nutanix = changed(changed(NUTANIX, "platform.nutanix.prismAPICallTimeout", 5), "credentialsMode", "Manual")
    assert list(notes.unused(as_written(text(nutanix)), Use.IGNORED)) == [
        "platform.nutanix.prismAPICallTimeout: 5 is ignored",
        "credentialsMode: Manual is ignored",
    ]


def test_deprecated_vsphere_becomes_a_vcenter_and_a_failure_domain():
    old = {
        "vCenter": "vc.example", "username": "u", "password": "s3cr3t", "datacenter": "dc1", "cluster": "c1",
        "defaultDatastore": "ds", "network": "net", "folder": "/dc1/vm/f", "apiVIP": "192.168.111.5",
        "ingressVIP": "192.168.111.4",
    }  # fmt: skip
    platform = parse_install_config(text({**COMPACT, "platform": {"vsphere": old}})).platform.vsphere
    assert platform.api_vips == ("192.168.111.5",)
    assert [vcenter.server for vcenter in platform.vcenters] == ["vc.example"]
    (domain,) = platform.failure_domains
    assert domain.topology.compute_cluster == "/dc1/host/c1"
    assert domain.topology.datastore == "/dc1/datastore/ds"
    with pytest.raises(ConfigError, match=r"platform.vsphere.username: Required value"):
        parse_install_config(text({**COMPACT, "platform": {"vsphere": {**old, "username": ""}}}))


def test_a_vcenter_that_nobody_has_credentials_for_is_not_asked():
    server = "platform.vsphere.vcenters.0"
    unnamed = changed(changed(VSPHERE, f"{server}.server", "a b"), f"{server}.password", "")
    with pytest.raises(ConfigError, match="All credential fields are required") as caught:
        parse_install_config(text(unnamed))
    assert caught.value.exit_code == 1
    with pytest.raises(ConfigError, match="failed to upconvert") as caught:
        parse_install_config(text(changed(VSPHERE, f"{server}.server", "a b")))
    assert caught.value.exit_code == 3


def test_defaults_are_not_told_as_ignored(caplog):
    """openshift-install does: of credentialsMode on some clouds, and of a provisioningBridge without its network."""
    logging.getLogger("installer").propagate = True
    with caplog.at_level(logging.DEBUG, "installer"):
        parse_install_config(text(changed(COMPACT, "platform.baremetal.provisioningNetwork", "Disabled")))
        parse_install_config(text(changed(NUTANIX, "metadata.creationTimestamp", None)))
        with pytest.raises(ConfigError, match="Unsupported value"):
            parse_install_config(text({**COMPACT, "platform": {"openstack": {}}}))
    assert not [message for message in caplog.messages if message.endswith("is ignored")]


def test_a_certificate_that_is_called_a_key_is_taken_and_a_key_is_not():
    certificate = make().signers["admin-kubeconfig-signer"].certificate
    called_a_key = certificate.replace("CERTIFICATE", "PRIVATE KEY")
    config = parse_install_config(text({**SNO, "additionalTrustBundle": called_a_key}))
    assert config.additional_trust_bundle.strip() == called_a_key.strip()
    key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0OnNlY3JldA==\n-----END PRIVATE KEY-----"
    with pytest.raises(ConfigError, match="invalid block: PRIVATE KEY is not a certificate"):
        parse_install_config(text({**SNO, "additionalTrustBundle": key}))


def test_passwords_in_urls_are_not_shown():
    for base, path, value in (
        (SNO, "proxy", {"httpProxy": "https://u:s3cr3t@p.example:1"}),
        (SNO, "proxy", {"httpProxy": "http://u:s3cr3t@172.30.0.9:1"}),
        (SNO, "proxy", {"httpProxy": "http://u:s3cr3t@p.example:x"}),
        (FENCED, f"{CREDENTIAL}.address", "ipmi://u:s3cr3t@10.9.0.1"),
        (SNO, "additionalTrustBundle", "-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----"),
        (SNO, "sshKey", "-----BEGIN OPENSSH PRIVATE KEY-----\ns3cr3t\n-----END OPENSSH PRIVATE KEY-----"),
    ):
        with pytest.raises(ConfigError) as caught:
            parse_install_config(text(changed(base, path, value)))
        assert "s3cr3t" not in str(caught.value)
