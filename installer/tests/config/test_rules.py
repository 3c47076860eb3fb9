"""Rules of install-config.yaml: each row breaks one field of a valid config and says what is to be reported."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.config.load import parse_install_config
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, ConfigError
from installer.testing.inputs_kit import COMPACT, SNO, changed, text

WRAP = "invalid install-config configuration: "

# (base, field, value, expected beginning of the one error)
ROWS = [
    (SNO, "apiVersion", "v2", 'apiVersion: Invalid value: "v2": '),
    (SNO, "apiVersion", "", "apiVersion: Required value"),
    (SNO, "sshKey", "not a key", 'sshKey: Invalid value: "not a key": ssh: no key found'),
    (SNO, "sshKey", "ssh-ed25519 AAAA x", 'sshKey: Invalid value: "ssh-ed25519 AAAA x": ssh: '),
    (SNO, "fips", True, None),
    (SNO, "additionalTrustBundle", "hello", 'additionalTrustBundle: Invalid value: "hello": invalid block'),
    (SNO, "additionalTrustBundlePolicy", "Never", 'additionalTrustBundlePolicy: Invalid value: "Never"'),
    (SNO, "metadata.name", "Os", 'metadata.name: Invalid value: "Os": a lowercase RFC 1123 subdomain'),
    (SNO, "metadata.name", "x" * 55, "metadata.name: Invalid value: "),
    (SNO, "metadata.name", "", "metadata.name: Required value"),
    (COMPACT, "metadata.name", "a.b", 'metadata.name: Invalid value: "a.b": cluster name must not contain'),
    (SNO, "baseDomain", "under_score", 'baseDomain: Invalid value: "under_score"'),
    (SNO, "baseDomain", "", 'baseDomain: Invalid value: ""'),
    (COMPACT, "networking.networkType", "OpenShiftSDN", 'networking.networkType: Invalid value: "OpenShiftSDN"'),
    (SNO, "networking.networkType", "Calico", 'networking.networkType: Invalid value: "Calico": Only OVNKubernetes'),
    (SNO, "networking.machineNetwork", [{"cidr": "10.0.0.1/24"}], "networking.machineNetwork[0]: Invalid value: "
     '"10.0.0.1/24": invalid network address. got 10.0.0.1/24, expecting 10.0.0.0/24'),
    (SNO, "networking.machineNetwork", [{"cidr": "0.0.0.0/24"}], "networking.machineNetwork[0]: Invalid value: "),
    (SNO, "networking.machineNetwork", [{"cidr": "x"}], 'networking.machineNetwork[0]: Invalid value: "x": inv'),
    (SNO, "networking.machineNetwork", [{"cidr": "10.0.0.0/16"}, {"cidr": "10.0.1.0/24"}],
     "networking.machineNetwork[1]: Invalid value: "),
    (SNO, "networking.machineNetwork", [{"cidr": "100.64.1.0/24"}], "networking.machineNetwork[0]: Invalid value: "),
    (SNO, "networking.serviceNetwork", ["192.168.111.0/24"], "networking.serviceNetwork[0]: Invalid value: "),
    (SNO, "networking.serviceNetwork", ["16.0.0.0/8"], "networking.serviceNetwork[0]: Invalid value: "),
    (SNO, "networking.serviceNetwork", ["172.30.0.0/16", "172.31.0.0/16"], "networking.serviceNetwork: Invalid"),
    (SNO, "networking.clusterNetwork", [{"cidr": "192.168.0.0/16", "hostPrefix": 23}],
     "networking.clusterNetwork[0].cidr: Invalid value: "),
    (SNO, "networking.clusterNetwork", [{"cidr": "10.128.0.0/14", "hostPrefix": 10}],
     "networking.clusterNetwork[0].hostPrefix: Invalid value: 10: "),
    (SNO, "networking.clusterNetworkMTU", 1400, "networking.clusterNetworkMTU: Invalid value: 1400"),
    (SNO, "networking.ovnKubernetesConfig", {"ipv4": {"internalJoinSubnet": "192.168.111.0/24"}},
     "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet: Invalid value: "),
    (COMPACT, "platform.baremetal.apiVIPs", ["10.9.9.9"], "platform.baremetal.apiVIPs: Invalid value: "
     '"10.9.9.9": IP expected to be in one of the machine networks: 192.168.111.0/24'),
    (COMPACT, "platform.baremetal.apiVIPs", ["hello"], 'platform.baremetal.apiVIPs: Invalid value: "hello": '),
    (COMPACT, "platform.baremetal.apiVIPs", [], None),
    (COMPACT, "platform.baremetal.ingressVIPs", ["10.9.9.9"], 'platform.baremetal.ingressVIPs: Invalid value: "10.9.9'),
    (COMPACT, "platform.baremetal.ingressVIPs", ["192.168.111.4", "192.168.111.6", "fd00::1"], None),
    (COMPACT, "platform.baremetal.ingressVIPs", ["192.168.111.5"], None),
    (COMPACT, "platform.baremetal.provisioningHostIP", "x", 'platform.baremetal.clusterProvisioningIP: Invalid val'),
    (COMPACT, "platform.baremetal.apiVIP", "192.168.111.9", 'platform.baremetal.apiVIPs: Invalid value: "19'),
    (COMPACT, "platform.baremetal.apiVIPs", ["192.168.111.5", "192.168.111.6"],
     "platform.baremetal.apiVIPs: Invalid value: "),
    (SNO, "platform", {}, 'platform: Invalid value: "": must specify one of the platforms'),
    (COMPACT, "platform", {"aws": {"region": "x"}}, 'platform: Unsupported value: "aws": supported values: "bar'),
    (COMPACT, "platform", {"none": {}, "external": {}}, "platform: Invalid value: "),
    (COMPACT, "platform", {"external": {"platformName": "oci"}},
     'platform.external.cloudControllerManager: Invalid value: "": '),
    (COMPACT, "platform.baremetal.provisioningNetwork", "Sometimes",
     'platform.baremetal.provisioningNetwork: Unsupported value: "Sometimes": supported values: "Disabled", "Managed"'),
    (COMPACT, "platform.baremetal.clusterProvisioningIP", "x", "platform.baremetal.clusterProvisioningIP: Invalid"),
    (COMPACT, "platform.baremetal.loadBalancer", {"type": "x"}, "platform.baremetal.loadBalancer.type: Invalid"),
    (COMPACT, "platform.baremetal.dnsRecordsType", "External", None),
    (COMPACT, "platform.baremetal.dnsRecordsType", "Both", 'platform.baremetal.dnsRecordsType: Invalid value: "Both"'),
    (COMPACT, "controlPlane.architecture", "s390x", None),
    (COMPACT, "platform.baremetal.hosts", [{"name": "a", "bootMACAddress": "52:54:00:00:00:01",
     "bmc": {"address": "redfish-virtualmedia://10.9.0.1/x", "username": "u"}}],
     "platform.baremetal.hosts[0].bmc.password: Required value"),
    (SNO, "controlPlane.name", "boss", 'controlPlane.name: Unsupported value: "boss": supported values: "master"'),
    (COMPACT, "controlPlane.replicas", 6, 'controlPlane.replicas: Unsupported value: 6: supported values: "3", "1"'),
    (COMPACT, "controlPlane.replicas", 2, "controlPlane.fencing.credentials: Forbidden: there should be exactly two"),
    (COMPACT, "compute.0.architecture", "s390x", 'compute[0].architecture: Invalid value: "s390x": on baremetal with'),
    (SNO, "compute.0.architecture", "arm64", 'compute[0].architecture: Invalid value: "arm64": heteregeneous'),
    (SNO, "compute.0.fencing", {"credentials": []}, 'compute[0].fencing: Invalid value: "worker": fencing is only'),
    (SNO, "compute.0.hyperthreading", "On", 'compute[0].hyperthreading: Unsupported value: "On": supported'),
    (COMPACT, "controlPlane.architecture", "mips", None),
    (COMPACT, "compute.0.name", "edge", 'compute[0].name: Unsupported value: "edge": supported values: "worker"'),
    (COMPACT, "compute.0.replicas", -1, "compute[0].replicas: Invalid value: -1"),
    (COMPACT, "compute", [{"name": "worker"}, {"name": "worker"}], 'compute[1].name: Duplicate value: "worker"'),
    (SNO, "compute.0.replicas", 2, "compute.replicas: Forbidden: Total number of compute replicas must be 0 when "),
    (COMPACT, "controlPlane.replicas", 1, 'platform: Invalid value: "baremetal": Only platform none and external'),
    (SNO, "arbiter", {"name": "arbiter", "replicas": 1}, None),
    (SNO, "pullSecret", "{", 'pullSecret: Invalid value: "<not shown>": must be JSON'),
    (SNO, "pullSecret", "{}", 'pullSecret: Invalid value: "<not shown>": auths required'),
    (SNO, "pullSecret", '{"auths":{"a":{}}}', 'pullSecret: Invalid value: "<auths of a>": "a" requires either auth or'),
    (SNO, "proxy", {"noProxy": "a"}, "proxy: Required value"),
    (SNO, "proxy", {"httpProxy": "https://a:1"}, 'proxy.httpProxy: Unsupported value: "https": supported values: "ht'),
    (SNO, "proxy", {"httpProxy": "http://172.30.0.9:1"}, "proxy.httpProxy: Invalid value: "),
    (SNO, "proxy", {"httpProxy": "http://a:1", "noProxy": "a, b"}, "proxy.noProxy: Invalid value: "),
    (SNO, "proxy", {"httpProxy": "http://a:1", "noProxy": "*.b"}, "proxy.noProxy: Invalid value: "),
    (SNO, "imageDigestSources", [{"source": "a.example/b:tag"}],
     'imageDigestSources[0].source: Invalid value: "a.example/b:tag": must be repository--not reference'),
    (SNO, "imageDigestSources", [{"source": "a.example/b", "mirrors": ["c.example/d@sha256:00"]}],
     "imageDigestSources[0].mirrors[0]: Invalid value: "),
    (SNO, "imageDigestSources", [{"source": "a.example/b", "mirrors": ["c.example"], "sourcePolicy": "x"}],
     "imageDigestSources[0].sourcePolicy: Invalid value: "),
    (SNO, "publish", "Internal", 'publish: Invalid value: "Internal"'),
    (SNO, "credentialsMode", "Mint", 'credentialsMode: Invalid value: "Mint"'),
    (SNO, "operatorPublishingStrategy", {"ingress": "Internal"}, 'operatorPublishingStrategy: Invalid value: '),
    (SNO, "capabilities", {"baselineCapabilitySet": "v9"}, 'capabilities.baselineCapabilitySet: Unsupported value'),
    (SNO, "featureSet", "x", 'featureSet: Unsupported value: "x"'),
    (SNO, "featureGates", ["A=true"], "featureGates: Forbidden"),
    (SNO, "cpuPartitioningMode", "x", 'cpuPartitioningMode: Unsupported value: "x"'),
    (SNO, "osImageStream", "rhel-8", None),
    (SNO, "osImageStream", "rhel-9", "osImageStream: Forbidden: this field is protected by the OSStreams feature gate"),
    (SNO, "controlPlane.diskSetup", [{"type": "swap"}], None),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value", "expected"), ROWS, ids=[f"{row[1]}={row[2]}"[:60] for row in ROWS])
def test_rule(base, path, value, expected):
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(changed(base, path, value)))
    found = str(caught.value)
    assert found.startswith(WRAP)
    assert "\n" not in found
    assert caught.value.exit_code == EXIT_FATAL
    if expected is not None:
        assert found.removeprefix(WRAP).startswith(expected), found
    else:
        assert found.startswith(WRAP + "[")  # several at once


def test_valid():
    for base in (SNO, COMPACT):
        config = parse_install_config(text(base))
        assert config.networking is not None
        assert config.networking.service_network == ("172.30.0.0/16",)
        assert config.workers == 0


VALID = [
    (SNO, "baseDomain", "example.com."),
    (SNO, "networking.networkType", "ovnkubernetes"),
    (SNO, "networking", {"machineNetwork": [{"cidr": "fd2e:6f44:5dd8::/64"}], "serviceNetwork": ["fd02::/112"],
                         "clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}]}),
    (SNO, "imageDigestSources", [{"source": "quay.io", "mirrors": ["registry.example:5000/x"],
                                  "sourcePolicy": "NeverContactSource"}]),
    (COMPACT, "platform.baremetal", {"apiVIP": "192.168.111.5", "ingressVIP": "192.168.111.4"}),
    (COMPACT, "platform.baremetal.apiVIP", "192.168.111.5"),
    (COMPACT, "platform.baremetal", {"apiVIPs": ["10.1.1.1"], "ingressVIPs": ["10.1.1.1"],
                                     "loadBalancer": {"type": "UserManaged"}}),
    (SNO, "proxy", {"httpProxy": "http://u:p@proxy.example:3128", "noProxy": ".example,10.0.0.0/8,::1"}),
    (SNO, "pullSecret", '{"auths": {"a": {"credsStore": "x"}}}'),
    (SNO, "bootstrapInPlace", {"installationDisk": "/dev/vda"}),
    (SNO, "metadata.name", 1.10),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value"), VALID, ids=[f"{row[1]}={row[2]}"[:60] for row in VALID])
def test_accepted(base, path, value):
    parse_install_config(text(changed(base, path, value)))


def test_all_errors_of_a_file_at_once_each_once():
    broken = changed(changed(changed(SNO, "baseDomain", "a_b"), "pullSecret", "x"), "metadata.name", "A")
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(broken))
    found = str(caught.value)
    assert found.startswith(WRAP + "[metadata.name: ")
    assert found.endswith("]")
    for path in ("metadata.name: ", "baseDomain: ", "pullSecret: "):
        assert found.count(path) == 1


def test_unknown_fields_and_types_name_line_and_field():
    source = (
        text(SNO).replace("machineNetwork:", "machineNetwrk:").replace("replicas: 1", "replicas: one") + "extra: 1\n"
    )
    with pytest.raises(ConfigError) as caught:
        parse_install_config(source)
    found = str(caught.value)
    assert found.startswith("failed to create install config: failed to unmarshal install-config.yaml: [line ")
    assert 'unknown field "machineNetwrk" in networking, did you mean "machineNetwork"?' in found
    assert 'unknown field "extra"' in found
    assert 'controlPlane.replicas: must be a number, is "one"' in found
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


@pytest.mark.parametrize(
    "source",
    ["", "a: [", "- 1", "a: 1\na: 2", "? [x]\n: 1", "apiVersion: v1\n---\napiVersion: v1", "\tx", "a: *b", "\x00"],
)
def test_not_a_config(source):
    with pytest.raises(ConfigError) as caught:
        parse_install_config(source)
    assert str(caught.value).startswith("failed to create install config: failed to unmarshal install-config.yaml: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


def test_the_pull_secret_is_never_shown():
    for secret in ('{"auths":{"h":{"auth":""}},"x":"s3cr3t"}', "s3cr3t", '{"auths":{"h":{"password":"s3cr3t"}}}'):
        with pytest.raises(ConfigError) as caught:
            parse_install_config(text(changed(SNO, "pullSecret", secret)))
        assert "s3cr3t" not in str(caught.value)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["10.0.0.0/8", "::/0", "1.2.3.4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({row[1] for row in ROWS if ".0." not in row[1]})


@given(st.sampled_from(FIELDS), values)
def test_any_value_is_judged_never_crashed_on(path, value):
    with contextlib.suppress(ConfigError):
        parse_install_config(text(changed(COMPACT, path, value)))
