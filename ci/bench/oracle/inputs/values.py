"""Values that are put into fields, by the field's kind: right ones, and those that are wrong for this kind."""

from __future__ import annotations

import json
from typing import Any, Final

from installer.testing.create.inputs_kit import PULL_SECRET, SSH_KEY

ABSENT: Final = object()
_LONG = "a" * 70
_DIGEST = "sha256:" + "a" * 64

#: By the ends of fields' paths (`*` is any index): the values that they are given, one after the other. The machine
#: network is that of bases.MACHINES.
VALUES: dict[str, list[Any]] = {
    "rendezvousIP clusterProvisioningIP bootstrapProvisioningIP address.*.ip apiVIP ingressVIP": [
        "", ABSENT, None, "x", 5, "10.0.0.1", "192.168.111.5", "192.168.111.81", "192.168.111.255", "192.168.111.080",
        "0.0.0.0", "192.168.111.80/24", " 192.168.111.80", "fd2e:6f44:5dd8::80", "FD2E:6F44:5DD8::80",
        "::ffff:192.168.111.80", "fd2e::%eth0", "::", "127.0.0.1", "172.22.0.2", "172.22.0.50",
    ],
    "apiVIPs ingressVIPs": [
        ABSENT, None, [], "192.168.111.5", [""], ["x"], [None], [5], ["10.0.0.5"], ["192.168.111.4"],
        ["192.168.111.5"], ["192.168.111.80"], ["192.168.111.0"], ["192.168.111.255"], ["192.168.111.005"],
        ["192.168.111.6", "192.168.111.7"], ["192.168.111.9", "fd2e:6f44:5dd8::9"],
        ["fd2e:6f44:5dd8::9", "192.168.111.9"], ["fd2e:6f44:5dd8::9"], ["FD2E:6F44:5DD8::9"],
        ["192.168.111.9", "fd2e:6f44:5dd8::9", "fd2e:6f44:5dd8::a"],
    ],
    "cidr provisioningNetworkCIDR machineCIDR internalJoinSubnet": [
        "", ABSENT, None, "x", 5, "192.168.111.5/24", "192.168.111.0", "192.168.111.0/33", "0.0.0.0/0", "::/0",
        "100.64.0.0/24", "100.88.1.0/24", "169.254.0.0/24", "172.30.0.0/24", "10.128.0.0/24", "172.17.0.0/24",
        "192.168.111.0/32", "fd00::/64", "fd2e::1/64", "127.0.0.0/8", "224.0.0.0/4", "010.0.0.0/8",
        "192.168.111.0/024", " 192.168.111.0/24", "::ffff:192.168.111.0/120", "192.168.0.0/16", "172.22.0.0/16",
        "172.22.0.1/24", "fd00::/63",
    ],
    "hostPrefix": [ABSENT, None, -1, 0, 8, 13, 24, 25, 26, 32, 33, 48, 63, 64, 65, 128, "23", 23.0, 23.5],
    "serviceNetwork": [
        ABSENT, None, [], "172.30.0.0/16", [None], [""], ["x"], ["172.30.0.1/16"], ["172.30.0.0/11"],
        ["172.16.0.0/12"], ["192.168.111.0/28"], ["10.128.0.0/16"], ["fd02::/112"], ["172.30.0.0/32"],
        ["172.30.0.0/16", "172.31.0.0/16"], ["172.30.0.0/16"] * 2, ["100.64.0.0/16"], ["172.17.0.0/16"],
        ["172.30.0.0/16", "fd02::/112"], ["fd02::/112", "172.30.0.0/16"], ["fd02::/107"],
        ["172.30.0.0/16", "fd02::/64"],
    ],
    "clusterNetwork": [
        ABSENT, None, [], "x", [{}], [{"hostPrefix": 23}], [{"cidr": "10.128.0.0/14"}],
        [{"cidr": "10.128.0.0/24", "hostPrefix": 24}], [{"cidr": "10.128.0.0/23", "hostPrefix": 24}],
        [{"cidr": "10.128.0.0/22", "hostPrefix": 23}],
        [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "10.132.0.0/14", "hostPrefix": 24}],
        [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "10.128.0.0/16", "hostPrefix": 23}],
        [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "fd01::/48", "hostPrefix": 64}],
        [{"cidr": "fd01::/48", "hostPrefix": 64}, {"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        [{"cidr": "172.30.0.0/20", "hostPrefix": 23}], [{"cidr": "192.168.0.0/16", "hostPrefix": 23}],
        [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        [{"cidr": "10.128.0.0/14", "hostPrefix": 24, "hostSubnetLength": 9}],
    ],
    "machineNetwork": [
        ABSENT, None, [], ["192.168.111.0/24"], [{}], [None], [{"cidr": ""}], [{"cidr": "192.168.111.0/24"}] * 2,
        [{"cidr": "192.168.111.0/24"}, {"cidr": "192.168.111.0/25"}],
        [{"cidr": "192.168.111.0/24"}, {"cidr": "10.0.0.0/24"}],
        [{"cidr": "192.168.111.0/24"}, {"cidr": "fd2e:6f44:5dd8::/64"}],
        [{"cidr": "fd2e:6f44:5dd8::/64"}, {"cidr": "192.168.111.0/24"}],
    ],
    "macAddress bootMACAddress mac-address": [
        "", ABSENT, "x", 525400, "52:54:00:6e:30:01", "52:54:00:6E:30:01", "52-54-00-6e-30-00", "5254.006e.3000",
        "52:54:00:6e:30", "52:54:00:6e:30:00:00:00", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00",
        "52:54:00:6e:30:0g", "52:54:0:6e:30:0", "5254006e3000",
    ],
    "hostname hostName hosts.*.name interfaces.*.name": [
        "", ABSENT, None, 5, "node-1", "NODE-0", "a_b", _LONG, "a" * 63, "a.b.c", "x y", "localhost", "-a", "a-", "ä",
    ],
    "metadata.name clusterName": [
        "", ABSENT, None, 5, True, "UPPER", "a.b", "a_b", _LONG, "a" * 54, "a" * 55, "-a", "a-", "0", "ä", "9abc", " a",
    ],
    "baseDomain": [
        "", ABSENT, 3, "test.example.", "TEST.example", "a_b.example", "x" * 254, "example", ".example", "a..b",
        "*.example", "a b", "192.168.1.1", "ex-.example", "x" * 64 + ".example", "y" * 200 + ".example",
    ],
    "server endpoint.address": [
        "", ABSENT, "VC.example", "https://vc.example", "vc.example.", "1.2.3.4", "a_b", f"{_LONG}.x", "other.example",
    ],
    "additionalNTPSources additionalNTPServers": [
        [], None, "x", ["x y"], ["a_b.example"], [""], ["10.0.0.300"], ["fd00::1"], ["UPPER.example"], ["a.example."],
        ["1.2.3.4"] * 2, [5], ["http://x"], ["ntp.test.example", "1.2.3.4", "fd00::1"],
    ],
    "bootArtifactsBaseURL": [
        "", ABSENT, 5, "http://x", "https://x/y/", "x", "ftp://x", "http://", "//x", "http:/x", "http://x y",
        "http://[::1", "file:///x", "http://x:99999/", "HTTP://X", "x://y", "http://x/%zz",
    ],
    "httpProxy httpsProxy": [
        "", ABSENT, "proxy.example:3128", "https://proxy.example", "ftp://p", "http://", "http://10.128.0.5:3128",
        "http://172.30.0.5", "http://192.168.111.9:1", "http://u:p%40@h", "http://user:p@ss@h", "x", "http://h:99999",
        "http://[fd00::1]:3128", "http://100.64.0.5", "HTTP://h", "http://h h",
    ],
    "noProxy": [
        "", ABSENT, "*", "*,x", "a b", "a, b", "*.example", ".example", "a,,b", "10.0.0.0/33", "a_b", "10.0.0.1,", ",x",
        "192.168.111.0/24", "EXAMPLE", "10.1.1.1:80",
    ],
    "source": [
        "", ABSENT, "quay.io/a:tag", f"quay.io/a@{_DIGEST}", "QUAY.io/A", "quay.io/A", "a b", "quay.io", "localhost",
        "a", "https://quay.io/a", "quay.io/a/", "*.quay.io", "quay.io:443/a", "ubi8/ubi", "a_b.example/x",
        "quay.io/a--b", "quay.io/" + "x" * 300,
    ],
    "mirrors.*": [
        "", None, 5, "m/a:tag", f"m/a@{_DIGEST}", "registry.example:5000", "registry.example:99999/x", "https://x/y",
        "M/A", "[fd00::1]:5000/x", "1.2.3.4:5000/x", "unknown.example/x", "registry.example:5000/x/y/z",
    ],
    "imageDigestSources imageContentSources": [
        ABSENT, [], None, {}, "x", [{}], [{"source": "quay.io/a"}], [{"source": "quay.io/a", "mirrors": []}],
        [{"source": "quay.io/a", "mirrors": ["m/a"]}, {"source": "quay.io/a", "mirrors": ["m/b"]}],
        [{"source": "quay.io/a", "mirrors": ["m/a", "m/a"]}], [{"source": "quay.io", "mirrors": ["m"]}],
        [{"source": "quay.io/a", "sourcePolicy": "NeverContactSource"}], [{"source": "quay.io/a", "mirrors": None}],
    ],
    "bmc.address credentials.*.address": [
        "", ABSENT, "x", "ipmi://10.9.0.1:6230", "redfish://10.9.0.1/redfish/v1/Systems/1", "ilo4://10.9.0.1",
        "idrac-virtualmedia://10.9.0.1/redfish/v1/Systems/System.Embedded.1", "10.9.0.1", "http://", "http://[::1",
        "redfish-virtualmedia+https://10.9.0.1:8000/redfish/v1/Systems/1", "libvirt://10.9.0.1:6230/",
        "https://10.9.0.1/redfish/v1", "ftp://10.9.0.1/redfish", " redfish://10.9.0.1/x",
    ],
    "replicas controlPlaneAgents workerAgents": [
        0, 1, 2, 3, 4, 5, 6, -1, ABSENT, None, "3", 3.0, 3.5, "x", 10**12, 2**63,
    ],
    "port": [0, 1, 65535, 65536, -1, ABSENT, "443", None],
    "fips minimalISO rotational disableCertificateVerification userManagedNetworking": [
        True, False, "true", "x", 1, None, ABSENT,
    ],
    "architecture cpuArchitecture": ["amd64", "arm64", "ppc64le", "s390x", "x86_64", "AMD64", "multi", "", "x"],
    "controlPlane.name compute.*.name arbiter.name": [
        "master", "worker", "arbiter", "", ABSENT, "Worker", "edge", "infra",
    ],
    "role": ["master", "worker", "arbiter", "", "x", "Master", "control-plane", ABSENT, None],
    "username user password": ["", ABSENT, 5],
    "provisioningNetworkInterface uuid prismElements.*.name failureDomains.*.name region zone": [
        "", ABSENT, None, 5, "x y", _LONG * 4,
    ],
    "datacenters networks subnetUUIDs": [[], ABSENT, None, "x", [""], ["a", "a"], ["a", "b"], ["x"] * 33],
    "networkType": [
        "OpenShiftSDN", "Kuryr", "", ABSENT, "Calico", "ovnkubernetes", "Cilium", "openshiftsdn", "None", "Other-Net",
    ],
    "deviceName hctl wwnWithExtension": [
        "", ABSENT, "sda", "/dev/", "/dev/disk/by-path/pci-0", "/dev/disk/by-id/x", "/dev/mapper/x", "/tmp/x",
        "/dev/disk/by-path/a/b", "/dev/sda/",
    ],
    "minSizeGigabytes clusterNetworkMTU": [-1, 0, "x", "10", 1.5, None],
    "datacenter computeCluster datastore resourcePool folder template": [
        "", ABSENT, "x", "/dc1/x", "/dc2/host/x", "dc1/host/c1", "/dc1/host/c1/Resources/q",
    ],
    "provisioningDHCPRange": [
        "", "172.22.0.10", "172.22.0.10,172.22.1.100", "x,y", "172.22.0.100,172.22.0.10", "172.22.0.2,172.22.0.100",
        "172.22.0.10,172.22.0.300", "172.22.0.10, 172.22.0.100",
    ],
    "sshKey sshPublicKey": [
        "", ABSENT, "bad", "ssh-rsa", "ssh-rsa AAAA", f"{SSH_KEY}\n\n", f"bad\n{SSH_KEY}", f"# comment\n{SSH_KEY}",
        f"{SSH_KEY}\nbad", ["x"], f'command="x" {SSH_KEY}', f"   {SSH_KEY}  ", "\n",
        SSH_KEY.replace("ssh-ed25519", "ssh-rsa"), f"{SSH_KEY}\n{SSH_KEY}",
    ],
    "pullSecret dockerconfigjson": [
        "", ABSENT, "{}", "[]", "x", '{"auths":{}}', '{"auths":{"a":{}}}', '{"auths":{"a":{"auth":""}}}',
        '{"auths":{"a":{"auth":"!!"}}}', '{"auths":{"a":{"auth":"dXNlcg=="}}}', '{"auths":{"a":{"credsStore":"x"}}}',
        '{"auths":null}', '{"auths":{"a":null}}', '{"auths":{"a":"x"}}', '{"auths":[]}', '{"auths":{"a":{"auth":5}}}',
        '{"auths":{"a":{"auth":"dTpw"}}} ', '{"auths":{"a":{"auth":"dTpw"}}} x', '{"Auths":{"a":{"auth":"dTpw"}}}',
        '{"auths":{"a":{"auth":"dTpw"},"b":{}}}', '{"auths":{"a":{"auth":"dTpw"}},"more":1}', {"auths": {}},
        f"\n{PULL_SECRET}\n", '{"auths":{"a":{"auth":"dTpw"},"a":{"auth":"eDp5"}}}',
        '{"auths":{"a":{"auth":"dTpw","email":"<&>"}}}', '{"auths":{"a":{"Auth":"dTpw"}}}',
        json.dumps({"auths": {"b.example": {"auth": "dTpw"}, "a.example": {"auth": "eDp5"}}}),
    ],
    "rootDeviceHints": [
        {}, None, "x", {"x": 1}, {"deviceName": "/dev/sda"}, {"devicename": "/dev/sda"}, {"wwnWithExtension": "x"},
        {"rotational": "yes"}, {"hctl": "1:2"}, {"minSizeGigabytes": -1},
    ],
    "controlPlane networking bmc topology prismCentral endpoint fencing bootstrapInPlace proxy stringData": [
        ABSENT, None, {}, [], "x", {"x": 1},
    ],
    "compute hosts vcenters failureDomains prismElements interfaces": [
        ABSENT, None, [], {}, "x", [{}], [None], [{"name": "a"}], [{"name": "a"}] * 2,
    ],
    "networkConfig config": [ABSENT, None, {}, [], "x", {"interfaces": []}, {"interfaces": None}, {"x": 1}, 5],
    "controlPlane.platform compute.*.platform": [
        {}, {"baremetal": {}}, {"aws": {"type": "m"}}, {"none": {}}, {"x": {}}, {"vsphere": {"cpus": 4}},
    ],
    "platform": [
        ABSENT, None, {}, "none", {"x": {}}, {"none": None}, {"none": {"a": 1}}, {"baremetal": None}, {"none": {}},
        *({name: {}} for name in ("baremetal", "vsphere", "nutanix", "external", "openstack", "azure", "ibmcloud",
                                  "powervs", "ovirt", "powervc", "libvirt")),
        {"aws": {"region": "us-east-1"}}, {"gcp": {"projectID": "a", "region": "r"}}, {"none": {}, "vsphere": {}},
    ],
    "platform.external": [{}, None, {"platformName": ""}, {"platformName": "a b"}],
    "capabilities": [
        {}, None, *({"baselineCapabilitySet": name} for name in ("None", "x", "", "vCurrent", "v4.11", "v4.99")),
        {"baselineCapabilitySet": "v4.18", "additionalEnabledCapabilities": ["x"]},
        {"additionalEnabledCapabilities": ["baremetal"]}, {"additionalEnabledCapabilities": "x"},
        *({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": names} for names in (
            ["marketplace"], ["Ingress"], ["Ingress", "CloudCredential"], ["Ingress", "Ingress"],
            ["Ingress", "CloudCredential", "baremetal", "CloudControllerManager"])),
    ],
    "loadBalancer": [{}, *({"type": name} for name in ("UserManaged", "OpenShiftManagedDefault", "x", ""))],
    "defaultMachinePlatform": [{}, {"x": 1}, {"cpus": 4}],
    "featureGates": [ABSENT, [], "x", ["A"], ["A=x"], ["A=true=b"], ["=true"], ["A=T"], [""], [None]],
    "arbiter": [None, {}, *({"name": "arbiter", "replicas": number} for number in (1, 0))],
    "kind": [ABSENT, "", "Other"],
    "labels matchLabels": [ABSENT, {"other": "x"}, {"a": 1}],
    "releaseImage": [ABSENT, "", "quay.io/other@sha256:0"],
    **{field: [*words, "", ABSENT, "x", words[0].swapcase(), None] for field, words in {
        "apiVersion": ("v1", "v1beta4", "v1beta3", "v1beta1", "v1alpha1", "v2"),
        "provisioningNetwork": ("Managed", "Unmanaged", "Disabled"), "bootMode": ("UEFI", "legacy", "UEFISecureBoot"),
        "platformType": ("BareMetal", "None", "VSphere", "vSphere", "Cloud"), "platformName": ("oci", "some-cloud"),
        "sourcePolicy": ("NeverContactSource", "AllowContactingSource"), "credentialsMode": ("Manual", "Mint"),
        "featureSet": ("CustomNoUpgrade", "TechPreviewNoUpgrade", "Default", "OKD", "LatencySensitive"),
        "additionalTrustBundlePolicy": ("Proxyonly", "Always"), "publish": ("External", "Internal", "Mixed"),
        "cloudControllerManager": ("External", "None"), "cpuPartitioningMode": ("AllNodes", "None"),
        "certificateVerification hyperthreading": ("Enabled", "Disabled"),
    }.items()},
}  # fmt: skip
_BY_END = {end: values for ends, values in VALUES.items() for end in ends.split(" ")}


def values_of(path: str) -> list[Any]:
    """Return the values for a field by its path, in which `*` stands for indices: those of the longest end that
    fits."""
    parts = path.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((_BY_END[end] for end in ends if end in _BY_END), [])


def trust_bundles(certificate: str, other: str, key: str) -> list[Any]:
    """Values of additionalTrustBundle."""
    return [
        "", "x", 5, certificate, certificate + other, f"{certificate}\ntrailing", f"leading\n{certificate}",
        certificate[:200], f"\n\n{certificate}\n\n", certificate.replace("\n", "\r\n"), certificate.rstrip("\n"),
        f"# comment\n{certificate}", f"{certificate}\n# comment\n", certificate * 2, key, certificate + key,
        certificate.replace("CERTIFICATE", "PRIVATE KEY"),
    ]  # fmt: skip
