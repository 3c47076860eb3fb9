"""Variants of a scenario: changes of its machines and networks, or of the files that the installer is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from ipaddress import ip_address
from random import Random
from typing import Any, get_args

import msgspec
import yaml

from lab.bmcs.profile import working
from lab.faults import DiskErrors, DiskSlow
from lab.inputs.configs import Access
from lab.topology import WORKER_MIB, Addressing, Bmc, Bond, Disk, Network, Nic, NodeSpec, Topology
from scenarios.catalogue.faulty import ROWS, Row

SMALL_DISK_GIB = 4
WORKERS = 2
JUMBO = 9000
# What the lab release asks of a lone node: processors, MiB, GiB (lab.release.components).
MINIMUM = (2, 3072, 10)
STORAGE = Network(name="storage", ipv4="10.9.0.0/24", gateway="none", dns="none", ntp="none")
VLAN = 111
# More than the 256 KiB that an ISO's embed area holds, in objects that each fit into etcd.
LARGE_MANIFESTS, LARGE_KIB = 4, 600
# Operator, service and the images that it makes.
HUB_MIB = 512
KERNEL_ARGUMENTS = ("node0.first=1", "node0.second=2")
# The disks of a machine that has been used before: one full of data, which comes first and would be fit for an
# installation too, the disk to install on, known by its serial number only, and an empty one.
USED_DISKS = (
    Disk(size_gib=10, serial="KEEP-THIS", holds="data"),
    Disk(size_gib=20, serial="INSTALL-HERE", holds="old-system", root=True),
    Disk(size_gib=30, serial="LEAVE-EMPTY"),
)


def _same(topology: Topology) -> Topology:
    return topology


def _unchanged(_config: dict[str, Any], _lab: Topology | Access) -> None:
    return


def _none(_topology: Topology) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Variant:
    """A change of a scenario: other machines, other configs, or further files, by their paths in the
    installer's directory; and with which addressing there can be such a scenario, or whether of several nodes only."""

    machines: Callable[[Topology], Topology] = _same
    addressing: tuple[Addressing, ...] = ("static", "dhcp")
    install_config: Callable[[dict[str, Any], Topology], None] = _unchanged
    _: KW_ONLY
    agent_config: Callable[[dict[str, Any], Topology], None] = _unchanged
    # For what neither config has a field: a user has `create cluster-manifests` make the file, and edits it.
    cluster_install: Callable[[dict[str, Any], Access], None] = _unchanged
    files: Callable[[Topology], dict[str, str]] = _none
    several: bool = False

    @property
    def edits_manifests(self) -> bool:
        """Return whether it changes what `create cluster-manifests` has made."""
        return self.cluster_install is not _unchanged

    @property
    def written(self) -> bool:
        """Return whether it is in the installer's files, which a service that discovers hosts is not given."""
        edits = (self.install_config, self.agent_config, self.cluster_install)
        return any(edit is not _unchanged for edit in edits) or self.files is not _none


def each(topology: Topology, change: Callable[[int, NodeSpec], NodeSpec]) -> Topology:
    """Return the topology with every machine changed, each by its index."""
    nodes = tuple(change(index, node) for index, node in enumerate(topology.nodes))
    return msgspec.structs.replace(topology, nodes=nodes)


def _networks(topology: Topology, change: Callable[[Network], Network], *more: Network) -> Topology:
    """Return the topology with its networks changed, and further ones after them."""
    networks = tuple(change(network) for network in topology.all_networks)
    return msgspec.structs.replace(topology, networks=(*networks, *more), address=None, aliases=())


def _small_disk(topology: Topology) -> Topology:
    """Every node's disk is smaller than the lab release requires."""
    return each(topology, lambda _, node: msgspec.structs.replace(node, disk_gib=SMALL_DISK_GIB, disks=()))


def _minimum(topology: Topology) -> Topology:
    """Machines have no more than a lone node must have."""
    vcpu, memory, disk = MINIMUM
    least = {"vcpu": vcpu, "memory_mib": memory, "disk_gib": disk, "disks": ()}
    return each(topology, lambda _, node: msgspec.structs.replace(node, **least))


def _two_vcpus(topology: Topology) -> Topology:
    """Every machine has two processors: a container may ask for more than one."""
    return each(topology, lambda _, node: msgspec.structs.replace(node, vcpu=2))


def _node0_alone(topology: Topology) -> Topology:
    """Give little memory to the other machines, which are never powered on."""
    return each(topology, lambda i, node: msgspec.structs.replace(node, memory_mib=256) if i else node)


def _left_out(config: dict[str, Any], _topology: Topology) -> None:
    """Neither the rendezvous IP nor any role is set: installer and service choose them."""
    del config["rendezvousIP"]
    for host in config["hosts"]:
        del host["role"]


def _same_hostname(config: dict[str, Any], topology: Topology) -> None:
    """node0 is configured with the name that the second host gets from DHCP."""
    config["hosts"][0]["hostname"] = topology.nodes[1].name
    del config["hosts"][1]["hostname"]


def _no_such_disk(config: dict[str, Any], _topology: Topology) -> None:
    """Each host's hints ask for a disk that it does not have."""
    for host in config["hosts"]:
        host["rootDeviceHints"] = {"serialNumber": "NOT-THERE"}


def _mac_identifier(config: dict[str, Any], _topology: Topology) -> None:
    """Each host's first NIC has a name of the user's, and is known by its MAC address."""
    for host in config["hosts"]:
        first, *others = host["networkConfig"]["interfaces"]
        name = first["name"]
        first |= {"name": "uplink", "identifier": "mac-address", "mac-address": host["interfaces"][0]["macAddress"]}
        for route in host["networkConfig"].get("routes", {}).get("config", []):
            if route["next-hop-interface"] == name:
                route["next-hop-interface"] = first["name"]
        host["networkConfig"]["interfaces"] = [first, *others]


def _three_disks(topology: Topology) -> Topology:
    """Make the disk to install on the second of three, known by its serial number; the others are not to be
    touched."""
    return each(topology, lambda _, node: msgspec.structs.replace(node, disk_gib=20, disks=USED_DISKS))


def _jumbo(topology: Topology) -> Topology:
    """Networks have an MTU of 9000, which static hosts are configured with and others are told."""
    return _networks(topology, lambda network: msgspec.structs.replace(network, mtu=JUMBO))


def _second_nic(topology: Topology) -> Topology:
    """Put the first NIC into a network without a way out; the machine is known by its second, with the default
    route."""
    home = topology.home.name

    def nics(index: int, node: NodeSpec) -> NodeSpec:
        storage = Nic(mac=f"52:54:00:6e:31:{index:02x}", network=STORAGE.name, addresses=(f"10.9.0.{80 + index}",))
        nic = Nic(mac=node.mac, network=home, addresses=topology.known_addresses(node))
        return msgspec.structs.replace(node, nics=(storage, nic))

    return each(_networks(topology, lambda network: network, STORAGE), nics)


def _san(paths: int) -> Callable[[Topology], Topology]:
    """Make the disk an iSCSI target's, reached by so many NICs of the machine's, each in a network of its
    own."""

    def change(topology: Topology) -> Topology:
        home, names = topology.home.name, [f"san{number}" for number in range(paths)]
        more = [
            Network(name=name, ipv4=f"10.9.{number}.0/24", gateway="none", dns="none", ntp="none", dhcp=True)
            for number, name in enumerate(names)
        ]

        def nics(index: int, node: NodeSpec) -> NodeSpec:
            nic = Nic(mac=node.mac, network=home, addresses=topology.known_addresses(node))
            storage = (
                Nic(
                    mac=f"52:54:00:6e:{0x31 + number:02x}:{index:02x}",
                    network=name,
                    addresses=(f"10.9.{number}.{80 + index}",),
                )
                for number, name in enumerate(names)
            )
            disk = Disk(size_gib=node.disk_gib, bus="iscsi", portals=tuple(names), root=True)
            return msgspec.structs.replace(node, nics=(nic, *storage), disks=(disk,))

        return each(_networks(topology, lambda network: network, *more), nics)

    return change


def _bond_vlan(topology: Topology) -> Topology:
    """Two NICs are a bond, and the machine's network is a VLAN on it."""
    home = topology.home.name

    def nics(index: int, node: NodeSpec) -> NodeSpec:
        nics = (Nic(mac=node.mac), Nic(mac=f"52:54:00:6e:31:{index:02x}"))
        bond = Bond(
            mode="active-backup", nics=("enp1s0", "enp2s0"), trunk=(home,), addresses=topology.known_addresses(node)
        )
        return msgspec.structs.replace(node, nics=nics, bonds=(bond,))

    return each(_networks(topology, lambda network: msgspec.structs.replace(network, vlan=VLAN)), nics)


def _unlike_bmcs(topology: Topology) -> Topology:
    """Give each machine the BMC of another vendor: those that read HTTP, HTTPS or a network share alone come first."""
    kinds: tuple[Bmc, ...] = ("supermicro", "openbmc", "fujitsu", *BMCS)
    nodes = [msgspec.structs.replace(node, bmc=bmc) for node, bmc in zip(topology.nodes, kinds, strict=False)]
    return msgspec.structs.replace(topology, nodes=tuple(nodes))


def _with_bootstrap(topology: Topology) -> Topology:
    """Have a worker, which is the bootstrap before, and BMCs of vendors whose virtual media read HTTP or HTTPS. No
    machine does more than the others, so each has one processor."""
    kinds: tuple[Bmc, ...] = ("idrac10", "ilo", "openbmc", "xcc")
    nodes = _workers(topology, 1).nodes
    nodes = tuple(msgspec.structs.replace(node, bmc=bmc, vcpu=1) for node, bmc in zip(nodes, kinds, strict=True))
    return msgspec.structs.replace(topology, nodes=nodes)


def _with_bmcs(bmc: Bmc) -> Callable[[Topology], Topology]:
    """Machines have BMCs of this kind."""
    return lambda topology: topology.with_bmcs(bmc)


def _wanted(row: Row) -> Callable[[Topology], Topology]:
    """Machines as a row's faults want them: with BMCs of its kind, and disks that can fail where they do."""
    failing = {fault.node for fault in row.faults if isinstance(fault, DiskErrors | DiskSlow)}

    def disks(_: int, node: NodeSpec) -> NodeSpec:
        if node.name not in failing:
            return node
        able = tuple(msgspec.structs.replace(disk, can_fail=True) for disk in node.all_disks)
        return msgspec.structs.replace(node, disks=able)

    return lambda topology: each(topology.with_bmcs(row.bmc), disks)


def _proxy(topology: Topology) -> Topology:
    """Let hosts reach the registry through the lab's HTTP proxy alone."""
    return msgspec.structs.replace(topology, proxy=True)


def _none_platform(topology: Topology) -> Topology:
    """Choose platform none: nobody holds a virtual IP, and a user's load balancer leads to API and ingress."""
    bare = {"api_vip": None, "ingress_vip": None, "api_vips": (), "ingress_vips": ()}
    return msgspec.structs.replace(topology, platform="none", load_balancer=True, **bare)


def _user_provisioned(topology: Topology) -> Topology:
    """Add a bootstrap machine in front of machines that the user boots, behind a load balancer of the user's."""
    last, count = topology.nodes[-1], len(topology.nodes)
    bootstrap = NodeSpec(
        name="bootstrap",
        role="bootstrap",
        mac=f"52:54:00:6e:30:{count:02x}",
        ip=str(ip_address(last.ip) + 1),
        vcpu=topology.nodes[0].vcpu,
        memory_mib=last.memory_mib,
        firmware=last.firmware,
    )
    return msgspec.structs.replace(_none_platform(topology), nodes=(*topology.nodes, bootstrap))


def _external_platform(topology: Topology) -> Topology:
    """Choose platform external: as none, with a cloud of the user's that the cluster knows by its name."""
    return msgspec.structs.replace(_none_platform(topology), platform="external", load_balancer=len(topology.nodes) > 1)


def _workers(topology: Topology, number: int = WORKERS) -> Topology:
    """Add workers, two unless it is said, with the addresses after those that there are."""
    count, last = len(topology.nodes), topology.nodes[-1]
    more = []
    for index in range(number):
        mac = f"52:54:00:6e:30:{count + index:02x}"
        addresses = tuple(str(ip_address(text) + 1 + index) for text in topology.known_addresses(last))
        worker = NodeSpec(
            name=f"worker-{len(topology.workers) + index}",
            role="worker",
            mac=mac,
            ip=addresses[0],
            nics=(Nic(mac=mac, addresses=addresses),) if len(addresses) > 1 else (),
            vcpu=last.vcpu,
            memory_mib=max(WORKER_MIB, last.memory_mib),
            disk_gib=last.disk_gib,
            firmware=last.firmware,
        )
        more.append(worker)
    return msgspec.structs.replace(topology, nodes=(*topology.nodes, *more))


def _hub_cluster(topology: Topology) -> Topology:
    """Add a machine that is no part of the cluster, and to the first memory for a hub."""
    return each(
        _workers(topology, 1),
        lambda i, node: node if i else msgspec.structs.replace(node, memory_mib=node.memory_mib + HUB_MIB),
    )


def _first_alone(config: dict[str, Any], _topology: Topology) -> None:
    """Describe no machine but the first."""
    del config["hosts"][1:]


def _last_left_out(config: dict[str, Any], _topology: Topology) -> None:
    """Describe all machines but the last, which is there for later."""
    del config["hosts"][-1:]


def _no_workers(config: dict[str, Any], _topology: Topology) -> None:
    config["compute"][0]["replicas"] = 0


def _own_balancer(topology: Topology) -> Topology:
    """Give the virtual IPs to a load balancer of the user's."""
    return msgspec.structs.replace(topology, load_balancer=True)


def _fips(config: dict[str, Any], _topology: Topology) -> None:
    """Put the cluster into FIPS mode."""
    config["fips"] = True


def _signed_with_tpm(topology: Topology) -> Topology:
    """Give machines secure boot, which a BIOS has not, and a TPM 2."""
    return each(topology, lambda _, node: msgspec.structs.replace(node, secure_boot=True, tpm=True))


def _encrypted(manifest: dict[str, Any], _access: Access) -> None:
    """Encrypt the roots of all hosts, with keys in their TPMs."""
    manifest["spec"]["diskEncryption"] = {"enableOn": "all", "mode": "tpmv2"}


def _with_tang(topology: Topology) -> Topology:
    """Give the lab a Tang server."""
    return msgspec.structs.replace(topology, tang=True)


def _encrypted_by_tang(manifest: dict[str, Any], access: Access) -> None:
    """Encrypt the roots of all hosts, with keys that the lab's Tang server has a part of."""
    manifest["spec"]["diskEncryption"] = {"enableOn": "all", "mode": "tang", "tangServers": access.tang_servers}


def _kernel_arguments(topology: Topology) -> dict[str, str]:
    """Return a MachineConfig for each role that there is, in openshift/."""
    documents = {
        role: {
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {
                "name": f"99-{role}-kernel-arguments",
                "labels": {"machineconfiguration.openshift.io/role": role},
            },
            "spec": {"config": {"ignition": {"version": "3.2.0"}}, "kernelArguments": list(KERNEL_ARGUMENTS)},
        }
        for role in dict.fromkeys(node.role for node in topology.nodes)
    }
    return {f"openshift/99-{role}-kernel-arguments.yaml": yaml.safe_dump(text) for role, text in documents.items()}


def _large_manifests(_topology: Topology) -> dict[str, str]:
    """ConfigMaps in openshift/ that are too large for an embed area."""
    documents = {
        f"large-{number}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"large-{number}", "namespace": "default"},
            # Random text, which does not compress well.
            "data": {"text": Random(number).randbytes(LARGE_KIB * 512).hex()},
        }
        for number in range(LARGE_MANIFESTS)
    }
    return {f"openshift/{name}.yaml": yaml.safe_dump(text) for name, text in documents.items()}


#: The BMCs through which a cluster can be installed (docs/bmcs.md).
BMCS: tuple[Bmc, ...] = tuple(profile for profile in get_args(Bmc) if profile in working())
#: Variants whose clusters get installed: what a row of the matrix may have (matrix.yaml).
FEATURES: dict[str, Variant] = {
    # Without static addresses in agent-config.yaml there is none to choose the rendezvous IP from.
    "left_out": Variant(agent_config=_left_out, addressing=("static",)),
    "minimum": Variant(machines=_minimum),
    "three_disks": Variant(machines=_three_disks),
    "jumbo": Variant(machines=_jumbo),
    "second_nic": Variant(machines=_second_nic),
    "bond_vlan": Variant(machines=_bond_vlan),
    "iscsi": Variant(machines=_san(1)),
    "multipath": Variant(machines=_san(2)),
    "proxy": Variant(machines=_proxy),
    "none_platform": Variant(machines=_none_platform, several=True),
    "external_platform": Variant(machines=_external_platform),
    "own_balancer": Variant(machines=_own_balancer, several=True),
    "workers": Variant(machines=_workers, several=True),
    "hub": Variant(machines=lambda topology: topology.with_hub(True)),
    "kernel_arguments": Variant(files=_kernel_arguments),
    "fips": Variant(install_config=_fips),
    "tpm_encryption": Variant(machines=_signed_with_tpm, cluster_install=_encrypted),
    # The initramfs asks DHCP: what a static host has of a network is in its root.
    "tang_encryption": Variant(machines=_with_tang, addressing=("dhcp",), cluster_install=_encrypted_by_tang),
    **{bmc: Variant(machines=_with_bmcs(bmc)) for bmc in BMCS},
}
# Features with which nothing can be installed.
BROKEN_BMCS: tuple[Bmc, ...] = ("liar", "bare")
VARIANTS = FEATURES | {
    "small_disk": Variant(machines=_small_disk),
    "same_hostname": Variant(agent_config=_same_hostname),
    "no_such_disk": Variant(agent_config=_no_such_disk),
    "mac_identifier": Variant(agent_config=_mac_identifier, addressing=("static",)),
    "large_manifests": Variant(files=_large_manifests),
    "node0_alone": Variant(machines=_node0_alone),
    "two_vcpus": Variant(machines=_two_vcpus),
    # These differ only in what the test does to the lab; the name keeps their evidence apart.
    "agent_only": Variant(),
    "power_cut": Variant(),
    "agent_boot": Variant(machines=_unlike_bmcs),
    "ipi": Variant(machines=_with_bootstrap),
    "service_killed": Variant(),
    "discovery": Variant(),
    "interactive": Variant(),
    **{name: Variant() for name in ("killed", "late_binding", "by_hand", "unbound", "held", "failed", "wrong_inputs")},
    "converged": Variant(),
    **{name: Variant(machines=partial(_workers, number=1)) for name in ("day2_worker", "imported", "two_clusters")},
    "added": Variant(machines=partial(_workers, number=1), install_config=_no_workers, agent_config=_last_left_out),
    "hub_cluster": Variant(machines=_hub_cluster, install_config=_no_workers, agent_config=_first_alone),
    "discovery_minimal": Variant(),
    "upi": Variant(machines=_user_provisioned),
    **{bmc: Variant(machines=_with_bmcs(bmc)) for bmc in BROKEN_BMCS},
    **{row.name: Variant(machines=_wanted(row)) for row in ROWS},
}

#: Faults that a seed has drawn (scenarios/catalogue/chaos.py): `chaos_17`, or `chaos_17_0_2` for two of them.
CHAOS = re.compile(r"chaos_(?P<seed>\d{1,9})(?P<only>(?:_\d)*)")


def variant_of(word: str) -> Variant | None:
    """Return the change for a word of an id; None for a word that is no variant."""
    return Variant() if CHAOS.fullmatch(word) else VARIANTS.get(word)
