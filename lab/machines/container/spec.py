"""The description of a container machine: plain data, kept as machine.json in the machine's directory.

The runtime (this package) and the machine's firmware (lab.machines.container.firmware) both read it; a change of a
field is a change of both. The firmware's side of the contract:

    boot(spec, *, devices, root, console, fence) -> Boot

It runs privileged (in the user namespace of the host) in a private mount namespace of this boot, has what the machine
boots read behind `fence` (lab.machines.container.fence.reader), and runs nothing of it. `devices` maps the machine's
disks and partitions ("vda", "vda3") to block device files of the host; `root` is an empty directory, in which the early
boot finds what is mounted there. The firmware returns that early boot: code that the machine runs itself (Early). It
raises NotBootable when nothing boots, or when a boot loader stops; the console says so then, and the machine stays on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import msgspec

from lab.buses import Bus
from lab.errors import LabError

BootFrom = Literal["hd", "usb", "cdrom", "network"]
USUAL_ORDER: tuple[BootFrom, ...] = ("hd", "usb", "cdrom", "network")
FILE = "machine.json"

FirmwareKind = Literal["uefi", "bios"]


class NotBootable(LabError):
    """The machine has no root file system to start from; `reason` says what was tried, a line each. With `again` the
    machine is to be restarted."""

    again = False

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Nic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A NIC: its name in the machine, its MAC address, the bridge of the lab's that its cable ends in ("": the lab's
    switch); and `shown`, the PCI ids of vendor and device and the driver that the machine sees."""

    name: str
    mac: str
    network: str
    mtu: int = 1500
    shown: tuple[str, str, str] = ("0x1af4", "0x0001", "virtio_net")


class DiskSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A disk: its kernel name in the machine ("vda"), the raw image or block device, its size in bytes, and its bus as
    the machine sees it."""

    target: str
    path: str
    size: int
    serial: str = ""
    model: str = ""
    vendor: str = ""
    wwn: str = ""
    rotational: bool = False
    bus: Bus = "virtio"

    def partition(self, number: int) -> str:
        """Name a partition as the kernel does."""
        return f"{self.target}{'p' if self.target[-1].isdigit() else ''}{number}"


class MachineSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine. `cdrom` is the image in its drive, `stick` the target of the disk that is a USB stick, `boot` the boot
    order, `boot_once` the first device at the next boot only, `boot_disks` the targets of the disks that are booted
    from as "hd", in order (none: all), `pulled` the MAC addresses of NICs without a cable. `uid_base` is the host's
    user that is root inside (65536 belong to it), or the next that no other machine has at power-on."""

    name: str
    uuid: str
    serial: str = ""
    memory_mib: int
    vcpus: int
    firmware: FirmwareKind = "uefi"
    nics: tuple[Nic, ...] = ()
    disks: tuple[DiskSpec, ...] = ()
    cdrom: str | None = None
    stick: str = ""
    boot: tuple[BootFrom, ...] = USUAL_ORDER
    boot_once: BootFrom | None = None
    boot_disks: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    console_log: str
    console_socket: str
    uid_base: int

    @property
    def order(self) -> tuple[BootFrom, ...]:
        """The devices to try at the next power-on, in order, each once; a stick that is not plugged in is no device."""
        first = (self.boot_once,) if self.boot_once else ()
        return tuple(name for name in dict.fromkeys([*first, *self.boot]) if name != "usb" or self.stick)

    @property
    def bootable(self) -> tuple[str, ...]:
        """The targets of the disks to try, in order."""
        return self.boot_disks or tuple(disk.target for disk in self.disks)

    def save(self, directory: Path) -> None:
        """Write it into the machine's directory, whole or not at all."""
        part = directory / f".{FILE}.partial"
        part.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        part.replace(directory / FILE)

    @classmethod
    def load(cls, directory: Path) -> MachineSpec:
        """Read it from there. Raises OSError or msgspec.DecodeError."""
        return msgspec.json.decode((directory / FILE).read_bytes(), type=cls)


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """A medium: the machine's name of its drive or stick, its label, the number of its block device and of the device
    with its index for erofs (or None), and descriptors that keep both devices."""

    name: str
    label: str
    number: tuple[int, int]
    index: tuple[int, int] | None = None
    held: tuple[int, ...] = ()


class Early(msgspec.Struct, frozen=True, kw_only=True):
    """The early boot, which a machine runs before its init, as its first process and behind its fence: module:class of
    its Stage, descriptors of the initrds as the boot loader read them, whose sender closes them, and the media that the
    machine may mount."""

    stage: str
    images: tuple[int, ...]
    drives: tuple[Drive, ...] = ()


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a boot: the kernel's arguments, the init to start with its own, its environment, and the early
    boot before it."""

    arguments: list[str]
    init: list[str]
    early: Early
    environment: dict[str, str] = {}


class Stage(Protocol):
    """The early boot's code. It is made before the fence is closed and must have loaded all that it needs: no file of
    the host can be opened later."""

    def __init__(self, memory_mib: int, arguments: Sequence[str]) -> None: ...

    def lay_out(self, place: Path, images: Sequence[memoryview]) -> None:
        """Mount at `place` the file system that it runs in; with directories for /proc, /sys, /dev and /run, which are
        mounted afterwards. The firmware's `root` is beside it. Raises NotBootable."""

    def go(self, console: BinaryIO) -> Path:
        """Run it in that file system, and return the directory of the machine's root. Raises NotBootable."""


@dataclass(frozen=True)
class Fence:
    """The fence of an image's readers: a descriptor of the machine's user namespace, an empty directory that becomes
    their root, a function that puts a process into the machine's control groups, and a descriptor of the network
    namespace with the machine's NICs (-1: none), which is asked by others for them."""

    users: int
    empty: Path
    enclose: Callable[[int], None] | None = None
    network: int = -1


class Firmware(Protocol):
    """A function that boots machines, by the contract of this module's docstring. `console` is the serial line."""

    def __call__(
        self, spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence
    ) -> Boot:
        """Boot the machine from the first of its devices that can be booted. Raises NotBootable."""
