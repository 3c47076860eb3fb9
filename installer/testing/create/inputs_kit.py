"""Valid inputs for tests, and changes to them by path."""

import copy
import json
from typing import Any

import yaml

# Made for these tests; its private half was thrown away.
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f test"
PULL_SECRET = json.dumps({"auths": {"registry.example:5000": {"auth": "dXNlcjpzM2NyM3Q="}}})

SNO: dict[str, Any] = {
    "apiVersion": "v1",
    "baseDomain": "test.node0.example",
    "metadata": {"name": "ostest"},
    "controlPlane": {"name": "master", "replicas": 1},
    "compute": [{"name": "worker", "replicas": 0}],
    "networking": {"networkType": "OVNKubernetes", "machineNetwork": [{"cidr": "192.168.111.0/24"}]},
    "platform": {"none": {}},
    "pullSecret": PULL_SECRET,
    "sshKey": SSH_KEY,
}
COMPACT: dict[str, Any] = {
    **SNO,
    "controlPlane": {"name": "master", "replicas": 3},
    "platform": {"baremetal": {"apiVIPs": ["192.168.111.5"], "ingressVIPs": ["192.168.111.4"]}},
}
# Valid ones of the other platforms and topologies.
VSPHERE: dict[str, Any] = {
    **COMPACT,
    "platform": {
        "vsphere": {
            "apiVIPs": ["192.168.111.5"],
            "ingressVIPs": ["192.168.111.4"],
            "vcenters": [{"server": "vc.example", "user": "u", "password": "s3cr3t", "datacenters": ["dc1"]}],
            "failureDomains": [
                {
                    "name": "fd1",
                    "region": "r1",
                    "zone": "z1",
                    "server": "vc.example",
                    "topology": {
                        "datacenter": "dc1",
                        "computeCluster": "/dc1/host/c1",
                        "networks": ["net"],
                        "datastore": "/dc1/datastore/ds",
                        "resourcePool": "/dc1/host/c1/Resources/p",
                        "folder": "/dc1/vm/f",
                    },
                }
            ],
        }
    },
}
NUTANIX: dict[str, Any] = {
    **COMPACT,
    "platform": {
        "nutanix": {
            "apiVIPs": ["192.168.111.5"],
            "ingressVIPs": ["192.168.111.4"],
            "prismCentral": {
                "endpoint": {"address": "pc.example", "port": 9440},
                "username": "u",
                "password": "s3cr3t",
            },
            "prismElements": [{"uuid": "e-1", "endpoint": {"address": "10.1.1.1", "port": 9440}, "name": "pe"}],
            "subnetUUIDs": ["s-1"],
        }
    },
}
EXTERNAL: dict[str, Any] = {
    **COMPACT,
    "platform": {"external": {"platformName": "oci", "cloudControllerManager": "External"}},
}
ARBITER: dict[str, Any] = {
    **COMPACT,
    "controlPlane": {"name": "master", "replicas": 2},
    "arbiter": {"name": "arbiter", "replicas": 1},
}
FENCED: dict[str, Any] = {
    **COMPACT,
    "featureSet": "TechPreviewNoUpgrade",
    "controlPlane": {
        "name": "master",
        "replicas": 2,
        "fencing": {
            "credentials": [
                {
                    "hostName": f"master-{n}",
                    "username": "u",
                    "password": "s3cr3t",
                    "address": f"redfish+https://10.9.0.{n}/x",
                }
                for n in (1, 2)
            ]
        },
    },
}
DUAL_STACK: dict[str, Any] = {
    **COMPACT,
    "networking": {
        "machineNetwork": [{"cidr": "192.168.111.0/24"}, {"cidr": "fd2e:6f44:5dd8::/64"}],
        "serviceNetwork": ["172.30.0.0/16", "fd02::/112"],
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "fd01::/48", "hostPrefix": 64}],
    },
}
AGENT: dict[str, Any] = {
    "apiVersion": "v1beta1",
    "kind": "AgentConfig",
    "metadata": {"name": "ostest"},
    "rendezvousIP": "192.168.111.80",
    "hosts": [
        {
            "hostname": "master-0",
            "role": "master",
            "interfaces": [{"name": "eth0", "macAddress": "52:54:00:6e:30:00"}],
            "rootDeviceHints": {"deviceName": "/dev/vda", "minSizeGigabytes": 10, "rotational": False},
            "networkConfig": {
                "interfaces": [
                    {
                        "name": "eth0",
                        "type": "ethernet",
                        "state": "up",
                        "ipv4": {
                            "enabled": True,
                            "dhcp": False,
                            "address": [{"ip": "192.168.111.80", "prefix-length": 24}],
                        },
                    }
                ]
            },
        }
    ],
}


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Copy `base` with the field at a dotted path (numbers are indices) set, or removed where value is ...."""
    result = copy.deepcopy(base)
    container: Any = result
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")] if path else [""]
    for part in parents:
        if isinstance(container, dict) and part not in container:
            container[part] = {}
        container = container[part]
    if value is ...:
        del container[last]
    else:
        container[last] = value
    return result


def text(data: dict[str, Any]) -> str:
    """As YAML."""
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False))


def many_hosts(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """install-config and agent-config of `count` hosts, each with a static address, DNS and a route."""
    hosts = []
    for index in range(count):
        host = copy.deepcopy(AGENT["hosts"][0])
        host |= {"hostname": f"host-{index}", "role": "master" if index < 3 else "worker"}
        host["interfaces"][0]["macAddress"] = (
            f"52:54:00:{index >> 16 & 255:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"
        )
        network = host["networkConfig"]
        network["interfaces"][0]["ipv4"]["address"] = [
            {"ip": f"10.{20 + (index >> 8)}.{index & 255}.10", "prefix-length": 8}
        ]
        network["dns-resolver"] = {"config": {"server": ["10.1.0.1"]}}
        route = {"destination": "0.0.0.0/0", "next-hop-address": "10.1.0.1", "next-hop-interface": "eth0"}
        network["routes"] = {"config": [route]}
        hosts.append(host)
    # A pod network that has room for them: a /23 each.
    networking = {**COMPACT["networking"], "clusterNetwork": [{"cidr": "10.128.0.0/12", "hostPrefix": 23}]}
    install = {**COMPACT, "networking": networking, "compute": [{"name": "worker", "replicas": count - 3}]}
    return install, {**AGENT, "rendezvousIP": "10.20.0.10", "hosts": hosts}
