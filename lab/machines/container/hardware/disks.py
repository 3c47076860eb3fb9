"""A machine's disks and their partitions as loop devices of this boot."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import string
import struct
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from lab.buses import BUSES, ContainerDisk
from lab.errors import LabError
from lab.machines.container.fence import reader
from lab.machines.container.firmware.partitions import Partition, Table, read_table
from lab.machines.container.kernel.loops import Loop, attach, move
from lab.machines.container.spec import DiskSpec, Fence

T = TypeVar("T")
SECTOR = 512
_READ_SECONDS = 60.0
# The ASCII characters that udev leaves as they are in names in /dev.
_SIGNS = frozenset(f"{string.ascii_letters}{string.digits}#+-.:=@_")
# As many partitions as a GPT has, twice.
_MOST = 256


@dataclass(frozen=True, kw_only=True)
class Device:
    """A disk or partition as the machine sees it: its kernel name, the number of its device file, its size in bytes,
    the disk that it is on, names below /dev/disk, files of its directory in /sys, and its entry in udev's database."""

    name: str
    number: tuple[int, int]
    size: int
    parent: str = ""
    links: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    database: dict[str, str] = field(default_factory=dict)


def _attributes(name: str, number: tuple[int, int], size: int) -> dict[str, str]:
    return {
        "dev": "{}:{}".format(*number),
        "size": str(size // SECTOR),
        "ro": "0",
        "stat": " ".join(["0"] * 17),
        "alignment_offset": "0",
        "discard_alignment": "0",
        "uevent": "MAJOR={}\nMINOR={}\nDEVNAME={}".format(*number, name),
    }


def _of_the_bus(spec: DiskSpec) -> ContainerDisk:
    """Look up how disks of its bus appear in container machines. Raises LabError for other buses, which
    lab.host.unsupported reports earlier."""
    disk = BUSES[spec.bus].containers
    if isinstance(disk, str):
        raise LabError(f"{spec.bus}: {disk}")
    return disk


def _database(spec: DiskSpec) -> dict[str, str]:
    """Make the properties that udev's own rules find out of a disk."""
    bus = _of_the_bus(spec)
    name, vendor, short = spec.model or bus.model, spec.vendor or bus.vendor, spec.serial
    if bus.only_serial:
        return {"ID_SERIAL": short} if short else {}
    properties = {
        "DEVTYPE": "disk",
        "ID_TYPE": "disk",
        "ID_MODEL": name.replace(" ", "_"),
        "ID_MODEL_ENC": name.replace(" ", "\\x20"),
        "ID_SERIAL": "_".join(bus.id_serial.format(vendor=vendor, model=name, serial=short).split()),
        "ID_SERIAL_SHORT": short,
    }
    properties |= {"ID_BUS": bus.id_bus} if bus.id_bus else {}
    properties |= {"ID_SCSI_SERIAL": short} if bus.id_scsi_serial else {}
    properties |= {"ID_VENDOR": vendor.replace(" ", "_")} if bus.id_vendor else {}
    properties |= {"ID_WWN": spec.wwn, "ID_WWN_WITH_EXTENSION": spec.wwn} if spec.wwn else {}
    return properties


def _by_id(spec: DiskSpec) -> list[str]:
    """Make the disk's links in /dev/disk/by-id, as udev's rules do from its properties."""
    links = [f"by-id/{BUSES[spec.bus].by_id}-{_database(spec)['ID_SERIAL']}"] if spec.serial else []
    return [*links, f"by-id/wwn-{spec.wwn}"] if spec.wwn else links


def in_dev(name: str | bytes) -> str:
    """Escape a disk's name for /dev as udev does (systemd 252, src/shared/device-nodes.c): letters, digits, some signs
    and whole characters of UTF-8 stay, other bytes become \\xNN."""
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    return "".join(sign if _plain(sign) else _escaped(sign) for sign in text)


def _plain(sign: str) -> bool:
    return sign in _SIGNS if sign.isascii() else not "\ud800" <= sign <= "\udfff"


def _escaped(sign: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in sign.encode(errors="surrogateescape"))


def describe_disk(spec: DiskSpec, number: tuple[int, int], size: int) -> Device:
    """Describe a whole disk as the machine sees it; `size` in bytes. Raises LabError for a bus that containers do not
    have."""
    links = [f"by-path/{spec.target}", *_by_id(spec)]
    queue = {
        "rotational": str(int(spec.rotational)),
        "logical_block_size": "512",
        "physical_block_size": "512",
        "hw_sector_size": "512",
        "minimum_io_size": "512",
        "optimal_io_size": "0",
        "discard_granularity": "512",
        "discard_max_bytes": str(1 << 31),
        "discard_zeroes_data": "0",
        "scheduler": "[none]",
        "nr_requests": "256",
        "read_ahead_kb": "128",
        "write_same_max_bytes": "0",
        "zoned": "none",
        "dax": "0",
        "add_random": "0",
    }
    own = {"removable": "0", "range": "16", "ext_range": "256", "capability": "0", "serial": spec.serial}
    bus = _of_the_bus(spec)
    own |= {"device/model": spec.model or bus.model, "device/vendor": spec.vendor or bus.vendor}
    own |= {"device/serial": spec.serial}
    own |= {"device/wwid": spec.wwn} if spec.wwn else {}
    own |= {f"queue/{name}": value for name, value in queue.items()}
    own |= _attributes(spec.target, number, size)
    own["uevent"] += "\nDEVTYPE=disk"
    return Device(
        name=spec.target,
        number=number,
        size=size,
        links=tuple(links),
        attributes=own,
        database=_database(spec),
    )


def describe_partition(spec: DiskSpec, part: Partition, number: tuple[int, int]) -> Device:
    """Describe a partition of a disk as the machine sees it."""
    name = spec.partition(part.number)
    own = _attributes(name, number, part.size)
    own |= {"partition": str(part.number), "start": str(part.start // SECTOR)}
    own["uevent"] += f"\nDEVTYPE=partition\nPARTN={part.number}"
    links = [f"by-path/{spec.target}-part{part.number}", f"by-partuuid/{part.uuid}"]
    links += [f"{link}-part{part.number}" for link in _by_id(spec)]
    if part.name:
        links.append(f"by-partlabel/{in_dev(part.name)}")
    return Device(name=name, number=number, size=part.size, parent=spec.target, links=tuple(links), attributes=own)


def ext4_names(device: int) -> list[str]:
    """Make the links by UUID and label of an ext file system (its superblock: magic, UUID, name), if it is one."""
    block = os.pread(device, 1024, 1024)
    if block[56:58] != b"\x53\xef":
        return []
    label = block[120:136].split(b"\0", 1)[0]
    links = [f"by-uuid/{uuid.UUID(bytes=block[104:120])}"]
    return [*links, f"by-label/{in_dev(label)}"] if label else links


class Disk:
    """A disk, with the partitions of the last scan.

    The machine may keep a device open, or its node under another name. So the device of a removed partition stays this
    disk's until the machine is off, and serves the next new partition: freed, it would become somebody else's disk.
    """

    def __init__(self, spec: DiskSpec, fence: Fence) -> None:
        """Attach it; the machine's data on it is read behind `fence`. Raises OSError."""
        self.spec = spec
        self._fence = fence
        # A disk that can fail is a device (lab.machines.failing): through its page cache its errors would come late.
        self._direct = Path(spec.path).is_block_device()
        self._whole = attach(Path(spec.path), direct=self._direct)
        self._parts: list[tuple[Partition, Loop]] = []
        self._spare: list[Loop] = []
        self.rescan()

    @property
    def path(self) -> Path:
        """Its device file on the host."""
        return self._whole.path

    @property
    def number(self) -> tuple[int, int]:
        """Its device number."""
        return os.major(self._whole.rdev), os.minor(self._whole.rdev)

    def rescan(self) -> None:
        """Scan for partitions; those that have not moved stay the same devices."""
        os.fsync(self._whole.descriptor)
        with contextlib.ExitStack() as opened:
            table = self._table(_opened(self._whole, opened))
        current = list(table.partitions) if table else []
        old = {(part.number, part.start, part.size): loop for part, loop in self._parts}
        unmoved = {(p.number, p.start, p.size): old.pop((p.number, p.start, p.size), None) for p in current}
        self._spare += old.values()
        self._parts = [(p, loop) for p in current if (loop := unmoved[p.number, p.start, p.size]) is not None]
        held = {part.number for part, _ in self._parts}
        self._parts += [(part, self._device(part)) for part in current if part.number not in held]
        self._parts.sort(key=lambda pair: pair[0].number)

    def _device(self, part: Partition) -> Loop:
        for loop in self._spare:
            if move(loop, offset=part.start, size=part.size):
                self._spare.remove(loop)
                return loop
        if len(self._parts) + len(self._spare) >= _MOST:
            raise OSError(errno.EBUSY, f"{len(self._spare)} former partitions of {self.spec.target} are in use")
        return attach(Path(self.spec.path), offset=part.start, size=part.size, direct=self._direct)

    def devices(self) -> list[Device]:
        """Describe the disk and its partitions."""
        devices = [describe_disk(self.spec, self.number, _size(self._whole.descriptor))]
        with contextlib.ExitStack() as held:
            parts = [_opened(loop, held) for _, loop in self._parts]
            read = self._links(parts) if parts else []
        for (part, loop), links in zip(self._parts, read, strict=True):
            device = describe_partition(self.spec, part, (os.major(loop.rdev), os.minor(loop.rdev)))
            devices.append(replace(device, links=(*device.links, *links)))
        return devices

    def _table(self, disk: int) -> Table | None:
        """Read the partition table of an open disk; None when it cannot be read, too."""

        def read() -> list[Table]:
            with os.fdopen(disk, "rb") as file:
                return [table] if (table := read_table(file)) else []

        return next(iter(self._read(read, list[Table], [disk], [])), None)

    def _links(self, partitions: Sequence[int]) -> list[list[str]]:
        """Call `ext4_names` for each open partition; no links where that cannot be read."""

        def read() -> list[list[str]]:
            return [ext4_names(partition) for partition in partitions]

        links = self._read(read, list[list[str]], partitions, [])
        return links if len(links) == len(partitions) else [[] for _ in partitions]

    def _read(self, read: Callable[[], T], kind: type[T], descriptors: Iterable[int], otherwise: T) -> T:
        try:
            return reader.value(self._fence, read, kind, descriptors=descriptors, seconds=_READ_SECONDS)
        except reader.CannotRead as error:
            print(f"a disk cannot be read: {error}", file=sys.stderr, flush=True)
            return otherwise

    def names(self) -> dict[tuple[int, int], str]:
        """Name the disk and its partitions as the machine does, by their numbers."""
        by_number = {self.number: self.spec.target}
        for part, loop in self._parts:
            by_number[os.major(loop.rdev), os.minor(loop.rdev)] = self.spec.partition(part.number)
        return by_number

    def paths(self) -> dict[str, Path]:
        """List device files of the host by the machine's names."""
        return {name: Path(f"/dev/loop{minor}") for (_, minor), name in self.names().items()}

    def close(self) -> None:
        """Detach its devices."""
        for loop in (*(loop for _, loop in self._parts), *self._spare):
            loop.close()
        self._whole.close()


def _opened(loop: Loop, held: contextlib.ExitStack) -> int:
    """Open a disk, read-only."""
    descriptor = os.open(loop.path, os.O_RDONLY | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    return descriptor


def _size(descriptor: int) -> int:
    # BLKGETSIZE64, linux/fs.h
    return int(struct.unpack("=Q", fcntl.ioctl(descriptor, 0x80081272, bytes(8)))[0])
