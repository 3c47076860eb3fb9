"""What a lab consists of, as data: frozen, typed, and the same in Python and YAML.

    name: sno
    addressing: static          # or dhcp: reservations for every node
    machine: vm                 # or container: no emulation (docs/machines.md)
    platform: none              # or baremetal: API and ingress on virtual IPs
    nodes:
      - {name: master-0, role: master, mac: "52:54:00:6e:30:00", ip: 192.168.111.80, memory_mib: 4096}

A node has one empty disk of `disk_gib` unless its disks are listed, in the order in which it detects them:

        disks:
          - {size_gib: 10, serial: KEEP-1, holds: data}         # somebody's data: not a byte may change
          - {size_gib: 20, serial: SYSTEM-1, holds: old-system, root: true}
          - {size_gib: 30}

Unknown fields, wrong types and contradictions are errors that name the file and the field.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from lab.errors import TopologyError
from lab.release.cluster import yamltext

Role = Literal["master", "worker", "arbiter"]
Firmware = Literal["uefi", "bios"]
Addressing = Literal["static", "dhcp"]
Platform = Literal["none", "baremetal"]
MachineKind = Literal["vm", "container"]
Holds = Literal["nothing", "data", "old-system"]

# Emulated CPUs of one machine slow each other down. Only node0, which also runs the bootstrap, gains from a second one.
NODE0_VCPU = 2
OTHER_VCPU = 1
# Memory of the presets' machines, in MiB.
DISK_GIB = 20
SNO_MIB = 4096
MASTER_MIB = 4096
WORKER_MIB = 3072

_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
_SERIAL = re.compile(r"^[A-Za-z0-9_.-]{1,20}$")
# virtio disks by their kernel names, vda to vdz.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


def _demand(good: bool, message: str) -> None:
    if not good:
        raise ValueError(message)


def _domain(name: str) -> bool:
    return len(name) <= 253 and all(_LABEL.fullmatch(label) for label in name.split("."))


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One disk of a machine.

    `size_gib` is in GiB (sparse); `serial` is its serial number (default: the machine's name and the device's); `root`
    marks the disk to install on. `holds` says what is on it beforehand (lab.machines.disks): nothing, somebody's data
    (a file system, a volume group, random bytes), or an old system's volume group.
    """

    size_gib: int = DISK_GIB
    serial: str = ""
    root: bool = False
    holds: Holds = "nothing"

    def __post_init__(self) -> None:
        _demand(1 <= self.size_gib <= 1 << 16, f"size_gib is {self.size_gib}, not within 1 to {1 << 16}")
        # A virtio disk reports up to 20 bytes of serial number (virtio 1.1, 5.2.6.1), which udev puts into names.
        good = self.serial == "" or bool(_SERIAL.fullmatch(self.serial))
        _demand(good, f"serial {self.serial!r} is not of up to 20 letters, digits, dots, dashes and underscores")


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine: `memory_mib` in MiB, `mac` in lower case, `ip` its permanent address. `disk_gib` is the size in GiB
    of the disk to install on, which is its only one unless `disks` lists them."""

    name: str
    role: Role
    mac: str
    ip: str
    vcpu: int = 2
    memory_mib: int = 4096
    disk_gib: int = DISK_GIB
    disks: tuple[Disk, ...] = ()
    firmware: Firmware = "uefi"

    def __post_init__(self) -> None:
        _demand(bool(_LABEL.fullmatch(self.name)), f"name {self.name!r} is not a DNS label")
        _demand(bool(_MAC.fullmatch(self.mac)), f"mac {self.mac!r} is not six lower-case hex pairs joined by colons")
        _demand(int(self.mac[:2], 16) & 1 == 0, f"mac {self.mac!r} is a multicast address")
        ipaddress.ip_address(self.ip)
        _demand(1 <= self.vcpu <= 64, f"vcpu is {self.vcpu}, not within 1 to 64")
        _demand(self.memory_mib >= 256, f"memory_mib is {self.memory_mib}, less than 256")
        _demand(self.disk_gib >= 1, f"disk_gib is {self.disk_gib}, less than 1")
        if self.disks:
            self._check_disks()

    def _check_disks(self) -> None:
        roots = [disk for disk in self.disks if disk.root]
        _demand(len(roots) == 1, f"disks: {len(roots)} are marked root, exactly one must be")
        _demand(len(self.disks) <= len(_LETTERS), f"disks: {len(self.disks)} are more than {len(_LETTERS)}")
        serials = [self.serial(index) for index in range(len(self.disks))]
        _unique("disks: serial", serials)
        [size] = [disk.size_gib for disk in roots]
        if self.disk_gib == DISK_GIB:
            msgspec.structs.force_setattr(self, "disk_gib", size)
        _demand(self.disk_gib == size, f"disk_gib is {self.disk_gib}, the root disk has {size}; leave disk_gib out")

    @property
    def all_disks(self) -> tuple[Disk, ...]:
        """Its disks in order: /dev/vda, /dev/vdb and so on."""
        return self.disks or (Disk(size_gib=self.disk_gib, root=True),)

    @property
    def root_index(self) -> int:
        """The index of the disk to install on."""
        return next(index for index, disk in enumerate(self.all_disks) if disk.root)

    def device(self, index: int) -> str:
        """The kernel's name of a disk, without /dev/."""
        return f"vd{_LETTERS[index]}"

    @property
    def root_device(self) -> str:
        """The device file of the disk to install on."""
        return f"/dev/{self.device(self.root_index)}"

    def serial(self, index: int) -> str:
        """A disk's serial number."""
        return self.all_disks[index].serial or f"{self.name}-{self.device(index)}"


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cluster's machines and its network.

    `address` (default: the first of `machine_network`) is the lab's own: gateway, DNS, NTP, registry, BMC and HTTP
    server. At `aliases`, which may lie outside of the network, the lab is gateway, DNS and NTP server too.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    addressing: Addressing = "static"
    machine: MachineKind = "vm"
    platform: Platform = "none"
    cluster_name: str = "ostest"
    base_domain: str = "test.node0.example"
    machine_network: str = "192.168.111.0/24"
    api_vip: str | None = None
    ingress_vip: str | None = None
    address: str | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _demand(bool(_LABEL.fullmatch(self.name)), f"name {self.name!r} is not a DNS label")
        _demand(bool(_LABEL.fullmatch(self.cluster_name)), f"cluster_name {self.cluster_name!r} is not a DNS label")
        _demand(_domain(self.base_domain), f"base_domain {self.base_domain!r} is not a domain name")
        _demand(bool(self.nodes), "nodes is empty")
        network = self.network
        _demand(network.prefixlen <= 28, f"machine_network {network} has no room for a lab; use a /28 or wider")
        vips = (self.api_vip, self.ingress_vip)
        if self.platform == "none":
            _demand(vips == (None, None), "platform none has no api_vip or ingress_vip")
        else:
            _demand(None not in vips, "platform baremetal needs api_vip and ingress_vip")
        addresses = [*(n.ip for n in self.nodes), *(v for v in vips if v is not None)]
        for address in [*addresses, self.gateway]:
            _demand(ipaddress.ip_address(address) in network, f"address {address} is outside machine_network {network}")
        _unique("node name", (n.name for n in self.nodes))
        _unique("mac", (n.mac for n in self.nodes))
        _unique("address", [self.gateway, *addresses, *self.aliases])
        for alias in self.aliases:
            ipaddress.IPv4Address(alias)

    @property
    def network(self) -> ipaddress.IPv4Network:
        """`machine_network`, parsed."""
        return ipaddress.IPv4Network(self.machine_network)

    @property
    def gateway(self) -> str:
        """The lab's own address on the machine network."""
        return self.address or str(next(self.network.hosts()))

    @property
    def cluster_domain(self) -> str:
        """<cluster name>.<base domain>."""
        return f"{self.cluster_name}.{self.base_domain}"

    @property
    def masters(self) -> tuple[NodeSpec, ...]:
        """The nodes of role master, in order."""
        return tuple(n for n in self.nodes if n.role == "master")

    @property
    def workers(self) -> tuple[NodeSpec, ...]:
        """The nodes of role worker, in order."""
        return tuple(n for n in self.nodes if n.role == "worker")

    @property
    def rendezvous_ip(self) -> str:
        """The address of the first master, which is node0 by convention."""
        return self.masters[0].ip

    @property
    def api_addresses(self) -> tuple[str, ...]:
        """Where api and api-int point: the virtual IP, else every master."""
        return (self.api_vip,) if self.api_vip else tuple(n.ip for n in self.masters)

    @property
    def ingress_addresses(self) -> tuple[str, ...]:
        """Where *.apps points: the virtual IP, else every worker, else every master."""
        if self.ingress_vip:
            return (self.ingress_vip,)
        return tuple(n.ip for n in (self.workers or self.masters))

    @property
    def memory_mib(self) -> int:
        """The memory of all guests, in MiB."""
        return sum(n.memory_mib for n in self.nodes)

    def node(self, name: str) -> NodeSpec | None:
        """The node of that name."""
        return next((n for n in self.nodes if n.name == name), None)

    def on(self, machine: MachineKind | None) -> Topology:
        """The same with machines of this kind; None leaves them as they are."""
        return msgspec.structs.replace(self, machine=machine) if machine else self

    def dump(self) -> str:
        """This topology as YAML that `load_text` reads back to an equal one."""
        return msgspec.yaml.encode(self).decode()


def _unique(what: str, values: Iterable[str]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    _demand(not twice, f"{what} {', '.join(twice)} is used more than once")


def load_text(text: str | bytes, source: str = "topology") -> Topology:
    """The topology in a YAML text. Raises TopologyError with `source` and the path of the field."""
    try:
        return msgspec.convert(yamltext.load(text), Topology)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise TopologyError(source, " ".join(str(error).split())) from error


def load(name_or_path: str) -> Topology:
    """A preset by its name (sno, compact, ha, with -dhcp or -bios appended) or a YAML file by its path."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]()
    path = Path(name_or_path)
    try:
        text = path.read_bytes()
    except OSError as error:
        presets = ", ".join(sorted(PRESETS))
        raise TopologyError(
            name_or_path, f"neither a readable file ({error.strerror}) nor a preset ({presets})"
        ) from error
    return load_text(text, source=name_or_path)


def _nodes(
    masters: int, workers: int, addressing: Addressing, firmware: Firmware, *, master_mib: int = MASTER_MIB
) -> tuple[NodeSpec, ...]:
    # As in dev-scripts: static hosts from .80, DHCP reservations from .20 (reference/lab.md §1.1).
    base = 80 if addressing == "static" else 20
    roles: list[tuple[str, Role, int]] = [(f"master-{i}", "master", master_mib) for i in range(masters)]
    roles += [(f"worker-{i}", "worker", WORKER_MIB) for i in range(workers)]
    return tuple(
        NodeSpec(
            name=name,
            role=role,
            mac=f"52:54:00:6e:30:{index:02x}",
            ip=f"192.168.111.{base + index}",
            vcpu=OTHER_VCPU if index else NODE0_VCPU,
            memory_mib=memory,
            firmware=firmware,
        )
        for index, (name, role, memory) in enumerate(roles)
    )


def sno(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """One node that is control plane and worker; platform none."""
    return Topology(name="sno", addressing=addressing, nodes=_nodes(1, 0, addressing, firmware, master_mib=SNO_MIB))


def compact(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """Three masters that run workloads too; platform baremetal."""
    nodes = _nodes(3, 0, addressing, firmware)
    return _baremetal("compact", addressing, nodes)


def ha(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """Three masters and two workers; platform baremetal."""
    nodes = _nodes(3, 2, addressing, firmware)
    return _baremetal("ha", addressing, nodes)


def _baremetal(name: str, addressing: Addressing, nodes: tuple[NodeSpec, ...]) -> Topology:
    return Topology(
        name=name,
        addressing=addressing,
        platform="baremetal",
        nodes=nodes,
        api_vip="192.168.111.5",
        ingress_vip="192.168.111.4",
    )


def _presets() -> dict[str, Callable[[], Topology]]:
    def preset(make: Callable[[Addressing, Firmware], Topology], a: Addressing, f: Firmware) -> Callable[[], Topology]:
        return lambda: make(a, f)

    out: dict[str, Callable[[], Topology]] = {}
    shapes: dict[str, Callable[[Addressing, Firmware], Topology]] = {"sno": sno, "compact": compact, "ha": ha}
    addressings: tuple[tuple[str, Addressing], ...] = (("", "static"), ("-dhcp", "dhcp"))
    firmwares: tuple[tuple[str, Firmware], ...] = (("", "uefi"), ("-bios", "bios"))
    for name, make in shapes.items():
        for a_suffix, addressing in addressings:
            for f_suffix, firmware in firmwares:
                out[name + a_suffix + f_suffix] = preset(make, addressing, firmware)
    return out


PRESETS = _presets()
