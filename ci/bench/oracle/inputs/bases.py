"""Valid inputs that the others are made from, by name: install-config and agent-config."""

from __future__ import annotations

import copy
from typing import Any

from installer.testing.create import inputs_kit as kit

Config = dict[str, Any]

MACHINES, MACHINES_6 = "192.168.111", "fd2e:6f44:5dd8:"
_STATIC = {"enabled": True, "dhcp": False}


def merged(base: Config, change: Config) -> Config:
    """Return `base` with the fields of `change`, mapping by mapping; a platform is replaced as a whole."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict) and key != "platform":
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def host(number: int, role: str = "", *, families: tuple[int, ...] = (4,)) -> Config:
    """Return an agent-config host with static addresses of these families, none with DHCP."""
    mac = f"52:54:00:6e:30:{number:02x}"
    nic: Config = {"name": "eth0", "type": "ethernet", "state": "up", "mac-address": mac}
    servers, routes = [], []
    if 4 in families:
        nic["ipv4"] = {**_STATIC, "address": [{"ip": f"{MACHINES}.{80 + number}", "prefix-length": 24}]}
        servers.append(f"{MACHINES}.1")
        routes.append({"destination": "0.0.0.0/0", "next-hop-address": servers[-1], "next-hop-interface": "eth0"})
    if 6 in families:
        address = {"ip": f"{MACHINES_6}:{80 + number}", "prefix-length": 64}
        nic["ipv6"] = {**_STATIC, "autoconf": False, "address": [address]}
        servers.append(f"{MACHINES_6}:1")
        routes.append({"destination": "::/0", "next-hop-address": servers[-1], "next-hop-interface": "eth0"})
    result: Config = {"hostname": f"node-{number}", "interfaces": [{"name": "eth0", "macAddress": mac}]}
    if role:
        result["role"] = role
    if families:
        network = {"interfaces": [nic], "dns-resolver": {"config": {"server": servers}}, "routes": {"config": routes}}
        result["networkConfig"] = network
    return result


def hosts(*roles: str, families: tuple[int, ...] = (4,)) -> list[Config]:
    """One host of each role."""
    return [host(number, role, families=families) for number, role in enumerate(roles)]


def bmc_host(number: int, role: str) -> Config:
    """Return a host of platform.baremetal, with its BMC."""
    address = f"redfish-virtualmedia+https://10.9.0.1:8000/redfish/v1/Systems/{number}"
    return {
        "name": f"node-{number}", "role": role, "bootMode": "UEFI", "bootMACAddress": f"52:54:00:6e:31:{number:02x}",
        "rootDeviceHints": {"deviceName": "/dev/sda"},
        "bmc": {"address": address, "username": "u", "password": "s3cr3t", "disableCertificateVerification": True},
    }  # fmt: skip


MASTERS = ("master",) * 3
FIVE = (*MASTERS, "worker", "worker")
_NETWORKING: Config = {
    "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
    "serviceNetwork": ["172.30.0.0/16"],
}
_SNO = merged(kit.SNO, {"networking": _NETWORKING})
_COMPACT = merged(kit.COMPACT, {"networking": _NETWORKING})
_HA = merged(_COMPACT, {"compute": [{"name": "worker", "replicas": 2}]})
_VIPS = kit.COMPACT["platform"]["baremetal"]
_VIPS_6 = {"apiVIPs": [f"{MACHINES_6}:5"], "ingressVIPs": [f"{MACHINES_6}:4"]}
_BOTH_VIPS = {key: _VIPS[key] + _VIPS_6[key] for key in _VIPS}
_PROVISIONED = {
    **_VIPS, "provisioningNetwork": "Managed", "provisioningNetworkCIDR": "172.22.0.0/24",
    "provisioningNetworkInterface": "enp1s0", "provisioningDHCPRange": "172.22.0.10,172.22.0.100",
    "clusterProvisioningIP": "172.22.0.3", "additionalNTPServers": ["10.0.0.1", "ntp.test.example"],
    "hosts": [bmc_host(number, role) for number, role in enumerate(FIVE)],
}  # fmt: skip
_MIRRORED: Config = {
    "proxy": {"httpProxy": "http://user:s3cr3t@proxy.example:3128", "httpsProxy": "http://proxy.example:3128",
              "noProxy": ".test.example,10.0.0.0/8"},
    "imageDigestSources": [
        {"source": "127.0.0.1/ocp/release", "mirrors": ["registry.example:5000/ocp/release", "other.example/ocp"]},
        {"source": "quay.io/openshift-release-dev/ocp-v4.0-art-dev", "mirrors": ["registry.example:5000/ocp/release"],
         "sourcePolicy": "NeverContactSource"},
    ],
    "additionalTrustBundlePolicy": "Always",
    "capabilities": {"baselineCapabilitySet": "None",
                     "additionalEnabledCapabilities": ["baremetal", "MachineAPI", "Ingress", "CloudCredential"]},
}  # fmt: skip
_FEATURES: Config = {
    "featureSet": "CustomNoUpgrade", "featureGates": ["SomeGate=true", "Other=false"], "publish": "External",
    "cpuPartitioningMode": "AllNodes", "fips": False, "credentialsMode": "Manual",
    "bootstrapInPlace": {"installationDisk": "/dev/sda"},
}  # fmt: skip
# Fields that few give.
_RARE: Config = {
    "platform": {"baremetal": {
        **_VIPS, "loadBalancer": {"type": "OpenShiftManagedDefault"}, "defaultMachinePlatform": {},
        "bootstrapProvisioningIP": "172.22.0.2", "externalBridge": "baremetal", "libvirtURI": "qemu:///system",
    }},
    "controlPlane": {"platform": {"baremetal": {}}, "architecture": "amd64", "hyperthreading": "Enabled"},
    "networking": {"ovnKubernetesConfig": {"ipv4": {"internalJoinSubnet": "100.65.0.0/16"}}, "clusterNetworkMTU": 1400},
    "compute": [{"name": "worker", "replicas": 2, "architecture": "amd64", "platform": {}}],
}  # fmt: skip


def _agent(entries: list[Config] | None = None, **change: Any) -> Config:
    base = {key: value for key, value in kit.AGENT.items() if key != "hosts"}
    return {**base, **change, **({"hosts": entries} if entries else {})}


def bases(bundle: str) -> dict[str, tuple[Config, Config]]:
    """All bases by name, each (install-config, agent-config); `bundle` is a certificate for those that trust one."""
    dual = merged(kit.DUAL_STACK, {"platform": {"baremetal": _BOTH_VIPS}})
    ipv6_networking = {key: [entry for entry in nets if ":" in str(entry)] for key, nets in dual["networking"].items()}
    wwn = {"model": "m", "vendor": "v", "serialNumber": "s", "wwn": "0x1", "hctl": "0:0:0:0"}
    hinted = host(0, "master")
    hinted["rootDeviceHints"] = {**kit.AGENT["hosts"][0]["rootDeviceHints"], **wwn}
    without_rendezvous = {key: value for key, value in _agent().items() if key != "rendezvousIP"}
    boot = {"bootArtifactsBaseURL": "http://boot.example/files", "minimalISO": True}
    icsp = {"source": "quay.io/ocp/release", "mirrors": ["registry.example:5000/ocp"]}
    fenced = merged(kit.FENCED, {"networking": _NETWORKING})
    for number, entry in enumerate(fenced["controlPlane"]["fencing"]["credentials"]):
        entry |= {"hostName": f"node-{number}", "certificateVerification": "Disabled"}
        entry["address"] = f"redfish+https://10.9.0.1:8000/redfish/v1/Systems/{number}"
    return {
        "sno": (_SNO, _agent([hinted], additionalNTPSources=["0.pool.ntp.test.example", "10.1.2.3"])),
        "sno-no-hosts": (_SNO, _agent()),
        "sno-external": (merged(_SNO, {"platform": kit.EXTERNAL["platform"]}), _agent()),
        "sno-features": (merged(_SNO, _FEATURES), _agent()),
        "sno-icsp": (merged(_SNO, {"imageContentSources": [icsp], "additionalTrustBundle": bundle}), _agent()),
        "compact": (_COMPACT, _agent(hosts(*MASTERS))),
        "ha": (_HA, _agent(hosts(*FIVE))),
        "ha-roles-to-choose": (_HA, {**without_rendezvous, "hosts": hosts(*[""] * 5)}),
        "ha-rare": (merged(_HA, _RARE), _agent(hosts(*FIVE))),
        "ha-bmc": (merged(_HA, {"platform": {"baremetal": _PROVISIONED}}), _agent()),
        "ha-mirrored": (
            merged(_HA, {**_MIRRORED, "additionalTrustBundle": bundle}),
            _agent(hosts(*FIVE), additionalNTPSources=["ntp.test.example"], **boot),
        ),
        "ha-none": (merged(_HA, {"platform": {"none": {}}}), _agent(hosts(*FIVE, families=()))),
        "ha-external": (merged(_HA, {"platform": {"external": {"platformName": "some-cloud"}}}), _agent()),
        "dual-stack": (dual, _agent(hosts(*MASTERS, families=(4, 6)))),
        "ipv6": (
            merged(_COMPACT, {"networking": ipv6_networking, "platform": {"baremetal": _VIPS_6}}),
            _agent(hosts(*MASTERS, families=(6,)), rendezvousIP=f"{MACHINES_6}:80"),
        ),
        "vsphere": (merged(_COMPACT, {"platform": kit.VSPHERE["platform"]}), _agent(hosts(*MASTERS))),
        "vsphere-bare": (merged(_COMPACT, {"platform": {"vsphere": _VIPS}}), _agent(hosts(*MASTERS))),
        "nutanix": (merged(_COMPACT, {"platform": kit.NUTANIX["platform"]}), _agent(hosts(*MASTERS))),
        "arbiter": (merged(kit.ARBITER, {"networking": _NETWORKING}), _agent(hosts("master", "master", "arbiter"))),
        "fenced": (fenced, _agent(hosts("master", "master"))),
    }


#: (base, file, path, value) of fields that no base has.
ADDED: tuple[tuple[str, str, str, Any], ...] = tuple(
    (base, f"{file}-config.yaml", path, value) for base, file, path, value in (
        ("sno", "install", "unknownField", 1),
        ("sno", "install", "networking.machineCIDR", "10.9.0.1/16"),
        ("compact", "install", "networking.serviceCIDR", "172.31.0.0/16"),
        ("compact", "install", "platform.baremetal.apiVIP", "192.168.111.9"),
        ("compact", "install", "platform.baremetal.dnsRecordsType", "Internal"),
        ("compact", "install", "controlPlane.diskSetup", [{"type": "x"}]),
        ("vsphere", "install", "platform.vsphere.failureDomains.0.topology.tagIDs", ["x"] * 11),
        ("vsphere", "install", "platform.vsphere.failureDomains.0.zoneType", "HostGroup"),
        ("vsphere", "install", "platform.vsphere.loadBalancer", {"type": "UserManaged"}),
        ("nutanix", "install", "platform.nutanix.failureDomains", [{"name": "FD_1", "subnetUUIDs": []}]),
        ("compact", "agent", "hosts.3", host(3, "master")),
        ("ha-bmc", "agent", "hosts", hosts(*FIVE)),
        ("sno", "agent", "spec", {"rendezvousIP": "192.168.111.80"}),
        ("sno", "agent", "hosts.0.bmc", {"address": "redfish://10.9.0.1/x", "username": "u"}),
    )
)  # fmt: skip
