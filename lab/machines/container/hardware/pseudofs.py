"""A machine's /dev with its own devices, and files over the host's /proc and /sys.

They lie in two file systems of the machine's: `dev` (devices open there and nowhere else) and `files`. Both belong to
the machine's root user, who writes into copies of what it may write.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Iterable
from pathlib import Path

from lab.machines.container.hardware.cables import port
from lab.machines.container.hardware.disks import Device
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import MachineSpec

_CHARACTER = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "fuse": (10, 229),
}
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
    "core": "/proc/kcore",
}
_SYSCTL = Path("/proc/sys")
# limits.h
_NAME_BYTES = 255
# Files of kernel.* that have a namespace of their own (ipc, uts, pid), or answer anew each time.
_NAMESPACED = ("hostname", "domainname", "sem", "sem_next_id", "ns_last_pid", "cap_last_cap")
_NAMESPACED_PREFIXES = ("shm", "msg")
_KEPT_OF_FS = ("binfmt_misc", "mqueue")
# SMBIOS (DSP0134): the entry point of version 3, and as much memory as a module's field of 16 bits takes.
_VENDOR, _PRODUCT = "node0", "Container machine"
_ENTRY = struct.Struct("<5sBBBBBBBIQ")
_MIB_PER_MODULE = 0x7FFE

# udev's database of the disks (/run/udev/data in the machine), which lsblk reads.
UDEV = "udev-data"


def make_dev(spec: MachineSpec, dev: Path, terminal: str) -> None:
    """Mount `dev` and make its nodes; `terminal` is the slave of the console's pseudo terminal."""
    dev.mkdir(parents=True, exist_ok=True)
    own = f"mode=755,uid={spec.uid_base},gid={spec.uid_base}"
    syscalls.mount("dev", str(dev), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, data=own)
    for name, (major, minor) in _CHARACTER.items():
        if name != "fuse" or Path("/dev/fuse").exists():
            _node(dev / name, 0o20666, os.makedev(major, minor), spec.uid_base)
    _node(dev / "kmsg", 0o20666, os.makedev(1, 3), spec.uid_base)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
        os.lchown(dev / name, spec.uid_base, spec.uid_base)
    for name in ("pts", "shm", "mqueue", "hugepages", "mapper"):
        _own_directory(dev / name, spec.uid_base)
    os.chown(terminal, spec.uid_base, spec.uid_base)
    for name in ("console", "ttyS0"):
        (dev / name).touch()
        syscalls.mount(terminal, str(dev / name), flags=syscalls.MS_BIND)


def _node(path: Path, mode: int, number: int, owner: int) -> None:
    os.mknod(path, mode, number)
    os.chmod(path, mode & 0o777)
    os.chown(path, owner, owner)


def _own_directory(path: Path, owner: int) -> None:
    path.mkdir(exist_ok=True)
    os.chown(path, owner, owner)


def show_devices(spec: MachineSpec, devices: Iterable[Device], dev: Path, files: Path) -> None:
    """Make the nodes and links in `dev` and the directories of /sys for these disks and partitions, and no others.

    A device without attributes is a node only."""
    devices = list(devices)

    def inside() -> None:
        # The machine may have put links there in the meantime: from here they lead to its own /dev only.
        os.chroot(dev)
        lay_out(spec.uid_base, devices, Path("/"))

    syscalls.by_a_child(inside)
    _describe(devices, files)


def is_link(link: str) -> bool:
    """Look whether it is a name in a directory of /dev/disk: disks may call themselves anything."""
    folder, _, name = link.partition("/")
    is_name = name not in ("", ".", "..") and not {"/", "\0"} & set(name) and len(os.fsencode(name)) <= _NAME_BYTES
    return folder.startswith("by-") and is_name


def lay_out(owner: int, devices: list[Device], dev: Path) -> None:
    """Make nodes and links in `dev`, of which nothing leads out, with this owner. Raises OSError."""
    names = {device.name for device in devices}
    for old in dev.iterdir():
        if old.is_block_device() and old.name not in names:
            old.unlink()
    if (dev / "disk").is_symlink():
        (dev / "disk").unlink()
    shutil.rmtree(dev / "disk", ignore_errors=True)
    for device in devices:
        path = dev / device.name
        number = os.makedev(*device.number)
        if path.is_symlink() or not path.exists() or path.stat().st_rdev != number:
            path.unlink(missing_ok=True)
            _node(path, 0o60660, number, owner)
        for link in filter(is_link, device.links):
            place = dev / "disk" / link
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.is_symlink():
                place.symlink_to(f"../../{device.name}")
                os.lchown(place, owner, owner)
    for top, _, _ in os.walk(dev / "disk"):
        os.chown(top, owner, owner)


def _describe(devices: list[Device], files: Path) -> None:
    block, numbers = files / "sys/devices-block", files / "sys/dev-block"
    links, database = (files / "sys/block", files / "sys/class-block"), files / UDEV
    for folder in (block, numbers, database, *links):
        folder.mkdir(parents=True, exist_ok=True)
        for child in folder.iterdir():
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    devices = [device for device in devices if device.attributes]
    for device in devices:
        own = f"{device.parent}/{device.name}" if device.parent else device.name
        for name, text in device.attributes.items():
            _write(block / own / name, f"{text}\n")
        for name in ("holders", *(() if device.parent else ("slaves",))):
            (block / own / name).mkdir(parents=True, exist_ok=True)
        (block / own / "subsystem").symlink_to(f"../../../../{'../' * bool(device.parent)}class/block")
        if device.database:
            _write(
                database / f"b{device.attributes['dev']}", "".join(f"E:{k}={v}\n" for k, v in device.database.items())
            )
        (numbers / device.attributes["dev"]).symlink_to(f"../../devices/virtual/block/{own}")
        (files / "sys/class-block" / device.name).symlink_to(f"../../devices/virtual/block/{own}")
        if not device.parent:
            (files / "sys/block" / device.name).symlink_to(f"../devices/virtual/block/{own}")
    lines = ["major minor  #blocks  name", ""]
    lines += [f"{d.number[0]:4d} {d.number[1]:8d} {d.size >> 10:10d} {d.name}" for d in devices]
    _write(files / "proc/partitions", "\n".join(lines) + "\n")


def _write(file: Path, text: str | bytes, owner: int | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    if owner is not None:
        os.chown(file, owner, owner)


def make_files(spec: MachineSpec, files: Path, arguments: list[str]) -> None:
    """Mount `files` and write the files that `put_over` needs."""
    files.mkdir(parents=True, exist_ok=True)
    syscalls.mount("files", str(files), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, data="mode=755")
    _write(files / "proc/cmdline", " ".join(arguments) + "\n")
    _write(files / "proc/meminfo", meminfo(spec.memory_mib, 0))
    _write(files / "proc/cpuinfo", cpuinfo(Path("/proc/cpuinfo").read_text(), spec.vcpus))
    _write(files / "proc/boot_id", f"{uuid.uuid4()}\n")
    for name in ("diskstats", "kcore", "keys", "timer_list", "sysrq-trigger", "kallsyms", "swaps"):
        _write(files / "proc" / name, "")
    for name, text in smbios_identity(spec).items():
        _write(files / "sys/class/dmi/id" / name, f"{text}\n")
    entry, tables = smbios_tables(spec)
    _write(files / "sys/firmware/dmi/tables/smbios_entry_point", entry)
    _write(files / "sys/firmware/dmi/tables/DMI", tables)
    if spec.firmware == "uefi":
        _write(files / "sys/firmware/efi/fw_platform_size", "64\n")
        (files / "sys/firmware/efi/efivars").mkdir()
    for host in Path("/sys/class").iterdir():
        (files / "sys/class" / host.name).mkdir(exist_ok=True)
    (files / "stash").mkdir()
    _copy_sysctls(files / "sysctl", spec.uid_base)


def show_nics(spec: MachineSpec, files: Path) -> None:
    """Make directories of the NICs for /sys/devices/virtual/net, in which they are devices of a bus, as hardware is.

    Their entries are only places for the kernel's own, which stay live (see `put_over`).
    """
    for nic in spec.nics:
        folder = files / "sys/net" / nic.name
        (files / "stash-net" / nic.name).mkdir(parents=True)
        for entry in (Path("/sys/class/net") / port(nic.mac)).iterdir():
            if entry.is_symlink():
                continue
            if entry.is_dir():
                (folder / entry.name).mkdir(parents=True, exist_ok=True)
            else:
                _write(folder / entry.name, "")
        vendor, device, driver = nic.shown
        for name, text in {"vendor": vendor, "device": device, "uevent": f"DRIVER={driver}"}.items():
            _write(folder / "device" / name, f"{text}\n")
        (folder / "subsystem").symlink_to("../../../../class/net")


def _put_nics_over(files: Path, root: Path) -> None:
    for folder in (files / "sys/net").glob("*"):
        place, stash = root / "sys/devices/virtual/net" / folder.name, files / "stash-net" / folder.name
        if not place.exists():
            continue
        syscalls.mount(str(place), str(stash), flags=syscalls.MS_BIND)
        syscalls.mount(str(folder), str(place), flags=syscalls.MS_BIND)
        for entry in stash.iterdir():
            if not entry.is_symlink() and (place / entry.name).exists():
                syscalls.mount(str(entry), str(place / entry.name), flags=syscalls.MS_BIND)


def _copy_sysctls(place: Path, owner: int) -> None:
    """Copy the sysctls that have no namespace: all of vm and fs, and the writable files of kernel."""
    for area in ("vm", "fs", "kernel"):
        for top, below, names in os.walk(_SYSCTL / area):
            relative = Path(top).relative_to(_SYSCTL)
            if str(relative) == "kernel":
                below[:] = [name for name in below if name == "keys"]
            elif str(relative) == "fs":
                below[:] = [name for name in below if name not in _KEPT_OF_FS]
            for name in names:
                if str(relative) == "kernel" and (name in _NAMESPACED or name.startswith(_NAMESPACED_PREFIXES)):
                    continue
                source = Path(top) / name
                try:
                    text = source.read_bytes() if source.stat().st_mode & 0o444 else b""
                except OSError:
                    text = b""
                copy = place / relative / name
                _write(copy, text, owner)
                copy.chmod(source.stat().st_mode & 0o777)
    for name in _KEPT_OF_FS:
        (place / "fs" / name).mkdir()
    for top, _, _ in os.walk(place):
        os.chown(top, owner, owner)


def put_over(files: Path, root: Path) -> None:
    """Bind these files over the /proc and /sys that are mounted in `root`; called in the machine's namespaces."""

    def bind(source: Path, target: str) -> None:
        place = root / target
        if place.exists():
            syscalls.mount(str(source), str(place), flags=syscalls.MS_BIND)

    for file in (files / "proc").iterdir():
        bind(file, "proc/sys/kernel/random/boot_id" if file.name == "boot_id" else f"proc/{file.name}")
    for area in ("vm", "fs"):
        bind(files / "sysctl" / area, f"proc/sys/{area}")
    for file in (files / "sysctl/kernel").iterdir():
        bind(file, f"proc/sys/kernel/{file.name}")
    syscalls.mount(str(root / "sys/class"), str(files / "stash"), flags=syscalls.MS_BIND)
    bind(files / "sys/class", "sys/class")
    for folder in (files / "stash").iterdir():
        if folder.name not in ("dmi", "block"):
            bind(folder, f"sys/class/{folder.name}")
    for name in ("class", "dev"):
        bind(files / f"sys/{name}-block", f"sys/{name}/block")
    bind(files / "sys/block", "sys/block")
    _put_nics_over(files, root)
    bind(files / "sys/devices-block", "sys/devices/virtual/block")
    bind(files / "sys/firmware", "sys/firmware")


def meminfo(memory_mib: int, used: int) -> str:
    """Write the /proc/meminfo of a machine of this size that uses so many bytes."""
    total = memory_mib << 10
    free = max(total - (used >> 10), 0)
    amounts = {"MemTotal": total, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0}
    amounts |= {"SwapCached": 0, "Active": 0, "Inactive": 0, "SwapTotal": 0, "SwapFree": 0, "Shmem": 0, "Slab": 0}
    return "".join(f"{name + ':':<15} {kib:>8} kB\n" for name, kib in amounts.items())


def cpuinfo(host: str, vcpus: int) -> str:
    """Reduce the host's /proc/cpuinfo to the machine's processors."""
    first = host.split("\n\n")[0]
    processors = []
    for number in range(vcpus):
        lines = []
        for line in first.splitlines():
            name = line.partition(":")[0].strip()
            counts = {"processor": number, "core id": number, "apicid": number, "initial apicid": number}
            counts |= {"siblings": vcpus, "cpu cores": vcpus}
            lines.append(f"{line.partition(':')[0]}: {counts[name]}" if name in counts else line)
        processors.append("\n".join(lines) + "\n")
    return "\n".join(processors) + "\n"


def smbios_identity(spec: MachineSpec) -> dict[str, str]:
    """Make the files of /sys/class/dmi/id."""
    return {
        "sys_vendor": _VENDOR,
        "product_name": _PRODUCT,
        "product_serial": spec.serial or spec.uuid,
        "product_uuid": spec.uuid,
        "board_serial": spec.serial or spec.uuid,
        "board_vendor": _VENDOR,
        "chassis_serial": spec.serial or spec.uuid,
        "chassis_asset_tag": spec.name,
        "bios_vendor": _VENDOR,
    }


def _structure(kind: int, handle: int, body: bytes, *strings: str) -> bytes:
    head = struct.pack("<BBH", kind, 4 + len(body), handle)
    return head + body + b"".join(text.encode() + b"\0" for text in strings) + (b"\0" if strings else b"\0\0")


def smbios_tables(spec: MachineSpec) -> tuple[bytes, bytes]:
    """Make the entry point and the structures: system (type 1), memory modules (type 17), end (type 127)."""
    system = struct.pack("<4B16sBBB", 1, 2, 0, 3, uuid.UUID(spec.uuid).bytes_le, 6, 0, 0)
    structures = _structure(1, 1, system, _VENDOR, _PRODUCT, spec.serial or spec.uuid)
    left, number = spec.memory_mib, 0
    while left > 0:
        size = min(left, _MIB_PER_MODULE)
        # Form factor DIMM (9), type RAM (7); unknown values are 0 or, for widths, 64 bits.
        module = struct.pack("<HHHHHBBBBBHHBBBBBI", 0, 0xFFFE, 64, 64, size, 9, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0)
        structures += _structure(17, 0x11 + number, module, f"DIMM {number}")
        left, number = left - size, number + 1
    structures += _structure(127, 0xFE, b"")
    entry = _ENTRY.pack(b"_SM3_", 0, _ENTRY.size, 3, 0, 0, 1, 0, len(structures), 0)
    checked = bytearray(entry)
    checked[5] = -sum(entry) & 0xFF
    return bytes(checked), structures
