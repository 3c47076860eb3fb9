"""A machine of a lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from lab.bmcs.recorded import problem
from lab.buses import BUSES
from lab.topology import words
from lab.topology.disks import DISK_GIB, MOST, Disk, kernel_names
from lab.topology.nics import LAST_BUS, Attached, Bond, Nic, only_nic
from lab.topology.problems import Checked, Problem, unique, within

#: `bootstrap` is the machine that begins a cluster and is no part of it (docs/upi.md).
Role = Literal["master", "worker", "arbiter", "bootstrap"]
Firmware = Literal["uefi", "bios"]
# The profiles of lab/bmcs/profiles.yaml.
Bmc = Literal[
    "lab", "idrac", "idrac10", "ilo", "xcc", "supermicro", "fujitsu", "openbmc", "nobody", "liar", "bare",
]  # fmt: skip

DAY_SECONDS = 86400
# The first disk with several paths, as multipathd names it (user_friendly_names).
MULTIPATH = "/dev/mapper/mpatha"
_MOST_OFFSET = 100 * 366 * DAY_SECONDS


def known_bmc(field: str, name: str | None) -> Iterator[Problem]:
    """Yield the problem of a BMC that there is not."""
    if name and (text := problem(name)):
        yield field, text


class NodeSpec(Checked, frozen=True, kw_only=True):
    """One machine: `memory_mib` in MiB, `firmware` with or without `secure_boot`, `tpm` a TPM 2, `clock_offset` how
    many seconds its clock is ahead when it is switched on, `bmc` whose BMC it has, if not the
    topology's: a profile's name, or the path of a recorded Redfish tree.

    `nics` and `bonds` say how it is attached; a machine with one NIC needs no more than that NIC's `mac`, and `ip`,
    its address in the first network. With `nics`, `ip` is the address that the lab and the cluster know it by (the
    first unless it is set), and `mac` that NIC's. `disk_gib` is the size in GiB of the disk to install on, which is
    its only one unless `disks` lists them.
    """

    name: str
    role: Role
    mac: str = ""
    ip: str = ""
    vcpu: int = 2
    memory_mib: int = 4096
    disk_gib: int = DISK_GIB
    disks: tuple[Disk, ...] = ()
    firmware: Firmware = "uefi"
    nics: tuple[Nic, ...] = ()
    bonds: tuple[Bond, ...] = ()
    secure_boot: bool = False
    tpm: bool = False
    clock_offset: int = 0
    bmc: str | None = None

    def fill(self) -> None:
        """Set what follows from `nics` and `disks`."""
        if self.nics and not self.ip:
            first = next((text for link in self.attached for text in link.addresses), "")
            msgspec.structs.force_setattr(self, "ip", first)
        if self.nics and not self.mac:
            msgspec.structs.force_setattr(self, "mac", self._mac())
        roots = [disk for disk in self.disks if disk.root]
        if len(roots) == 1 and self.disk_gib == DISK_GIB:
            msgspec.structs.force_setattr(self, "disk_gib", roots[0].size_gib)

    def derived_fields(self) -> Iterator[str]:
        """See the class."""
        if self.nics:
            yield "mac"
        if self.nics and self.ip == next((text for link in self.attached for text in link.addresses), ""):
            yield "ip"
        if self.disks:
            yield "disk_gib"

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from words.label("name", self.name)
        yield from within("vcpu", self.vcpu, 1, 64)
        yield from known_bmc("bmc", self.bmc)
        if self.memory_mib < 256:
            yield "memory_mib", f"{self.memory_mib} is less than 256"
        if self.disk_gib < 1:
            yield "disk_gib", f"{self.disk_gib} is less than 1"
        yield from within("clock_offset", self.clock_offset, -_MOST_OFFSET, _MOST_OFFSET)
        if self.secure_boot and self.firmware != "uefi":
            yield "secure_boot", "only machines with uefi have it"
        yield from self._listed_nics() if self.nics else self._single_nic()
        if self.disks:
            yield from self._listed_disks()

    def _single_nic(self) -> Iterator[Problem]:
        yield from words.mac("mac", self.mac)
        yield from words.one_address("ip", self.ip)
        if self.bonds:
            yield "bonds", "a bond needs NICs; list them under nics"

    def _listed_nics(self) -> Iterator[Problem]:
        if len(self.nics) > LAST_BUS:
            yield "nics", f"{len(self.nics)} are more than {LAST_BUS}, each of which is alone on a PCI bus"
            return
        nics = self.all_nics
        named = [(f"nics[{i}].name", nic.name) for i, nic in enumerate(nics)]
        yield from unique([*named, *((f"bonds[{i}].name", bond.name) for i, bond in enumerate(self.bonds))], "name")
        yield from unique([(f"nics[{i}].mac", nic.mac) for i, nic in enumerate(nics)], "mac")
        yield from unique([(f"nics[{i}].pci", str(nic.pci)) for i, nic in enumerate(nics)], "PCI bus")
        names = {nic.name for nic in nics}
        members = []
        for i, bond in enumerate(self.bonds):
            # What is twice in one bond it tells itself.
            members += [(f"bonds[{i}].nics[{bond.nics.index(name)}]", name) for name in dict.fromkeys(bond.nics)]
        for path, name in members:
            if name not in names:
                yield path, f"there is no NIC {name!r}; the machine has {', '.join(sorted(names))}"
        yield from unique(members, "NIC")
        bonded = {name for _, name in members}
        for i, nic in enumerate(nics):
            if nic.name in bonded and (nic.network or nic.trunk or nic.addresses):
                yield f"nics[{i}]", f"{nic.name} is in a bond: the bond has the network, trunk and addresses"
        addresses = [text for link in self.attached for text in link.addresses]
        if not addresses:
            yield "nics", "none has addresses: the lab has to know one, fixed or reserved, to reach the machine"
        elif self.ip not in addresses:
            yield "ip", f"{self.ip} is none of the machine's addresses, {', '.join(addresses)}"
        elif self.mac != self._mac():
            yield "mac", f"{self.mac} is not that of the NIC with {self.ip}, which is {self._mac()}; leave mac out"

    def _listed_disks(self) -> Iterator[Problem]:
        roots = [disk for disk in self.disks if disk.root]
        if len(roots) != 1:
            yield "disks", f"{len(roots)} are marked root, exactly one must be"
        elif self.disk_gib != roots[0].size_gib:
            yield "disk_gib", f"{self.disk_gib}, but the root disk has {roots[0].size_gib}; leave disk_gib out"
        if len(self.disks) > MOST:
            yield "disks", f"{len(self.disks)} are more than {MOST}"
        for index, disk in enumerate(self.disks):
            if BUSES[disk.bus].remote and not disk.root:
                yield f"disks[{index}].bus", "the firmware attaches one iSCSI disk, the one to boot: mark it root"
        if self.secure_boot and self.portals:
            yield "secure_boot", "iPXE, which attaches an iSCSI disk, is not signed; leave one of them out"
        # Of more than a machine has, two would be called the same.
        serials = [(f"disks[{i}].serial", self.serial(i)) for i in range(min(len(self.disks), MOST))]
        yield from unique(serials, "serial number")
        yield from unique([(f"disks[{i}].wwn", disk.wwn) for i, disk in enumerate(self.disks)], "WWN")

    # -- NICs -----------------------------------------------------------------------------------------------------

    @property
    def mac_fields(self) -> tuple[tuple[str, str], ...]:
        """The MAC addresses of its NICs, and those that it gives them, with the paths of their fields."""
        own = [(f"nics[{k}].mac" if self.nics else "mac", nic.mac) for k, nic in enumerate(self.all_nics)]
        both: list[tuple[str, Attached]] = [(f"nics[{k}]", link) for k, link in enumerate(self.nics)]
        both += [(f"bonds[{k}]", link) for k, link in enumerate(self.bonds)]
        return (*own, *((f"{path}.clones[{k}]", mac) for path, link in both for k, mac in enumerate(link.clones)))

    @property
    def all_nics(self) -> tuple[Nic, ...]:
        """Its NICs, with bus and name spelled out."""
        nics = self.nics or (only_nic(self.mac, self.ip),)
        return tuple(nic.at(index) for index, nic in enumerate(nics))

    def members(self, bond: Bond) -> tuple[Nic, ...]:
        """Return the NICs of one of its bonds."""
        return tuple(nic for nic in self.all_nics if nic.name in bond.nics)

    @property
    def attached(self) -> tuple[Nic | Bond, ...]:
        """NICs on their own, then bonds."""
        bonded = {name for bond in self.bonds for name in bond.nics}
        return (*(nic for nic in self.all_nics if nic.name not in bonded), *self.bonds)

    def mac_of(self, link: Attached) -> str:
        """Return the MAC address of a NIC, or of a bond, which is its first NIC's."""
        nics = (link,) if isinstance(link, Nic) else self.members(link) if isinstance(link, Bond) else ()
        return next((nic.mac for nic in nics), "")

    def _mac(self) -> str:
        return next((self.mac_of(link) for link in self.attached if self.ip in link.addresses), "")

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of its addresses, the one that it is known by first."""
        addresses = [text for link in self.attached for text in link.addresses]
        return tuple(dict.fromkeys([self.ip, *addresses]))

    # -- disks -----------------------------------------------------------------------------------------------------

    @property
    def all_disks(self) -> tuple[Disk, ...]:
        """Its disks in order: /dev/vda, /dev/vdb and so on."""
        return self.disks or (Disk(size_gib=self.disk_gib, root=True),)

    @property
    def root_index(self) -> int:
        """The index of the disk to install on."""
        return next(index for index, disk in enumerate(self.all_disks) if disk.root)

    def device(self, index: int) -> str:
        """Return the kernel's name of a disk, without /dev/."""
        return kernel_names(self.all_disks)[index]

    @property
    def root_device(self) -> str:
        """The device file of the disk to install on."""
        if self.all_disks[self.root_index].multipath:
            return MULTIPATH
        return f"/dev/{self.device(self.root_index)}"

    @property
    def portals(self) -> tuple[str, ...]:
        """The networks in which it reaches the iSCSI disk that it boots; none without such a disk."""
        return next((disk.portals for disk in self.disks if disk.root), ())

    def serial(self, index: int) -> str:
        """Return a disk's serial number."""
        return self.all_disks[index].serial or f"{self.name}-{self.device(index)}"
