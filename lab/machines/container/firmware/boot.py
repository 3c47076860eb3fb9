"""Power-on: the boot order, and what the boot loader of the first device that boots hands over to a kernel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from lab.machines.container.firmware import disk, live, net
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.formats.iso9660 import Medium, NotIso
from lab.machines.container.firmware.formats.partitions import read_table
from lab.machines.container.firmware.loaders.entry import Entry, NoEntry, Room
from lab.machines.container.firmware.programs import ProgramFailed, run
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import Boot, Drive, Early, MachineSpec, NotBootable

#: The kernel's own environment for its init (Linux, init/main.c).
ENVIRONMENT = {"HOME": "/", "TERM": "linux"}
INIT = "/sbin/init"
#: What runs the image's initramfs, within the machine.
STAGE = "lab.machines.container.firmware.early.stage:Stage"
_NAMES = {
    "bios": {"hd": "Hard Disk", "usb": "USB stick", "cdrom": "DVD/CD", "network": "ROM"},
    "uefi": {"hd": "Misc Device", "usb": "QEMU USB HARDDRIVE", "cdrom": "QEMU DVD-ROM", "network": "PXEv4"},
}


def boot(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, network: int = -1) -> Boot:
    """Read what a machine boots, up to where its kernel would start; see lab.machines.container.spec.

    Nothing of the image runs here. ``root`` stays empty; a directory named like it with ``.firmware`` at its end is for
    this boot's own files, which go with the mount namespace. Without ``network`` the machine has no card.

    Raises:
        NotBootable: no device boots.
        BootStopped: one did, and its boot loader stopped; the console has what that said.
    """
    screen = Screen(console)
    work = root.with_name(f"{root.name}.firmware")
    work.mkdir(parents=True, exist_ok=True)
    tried: list[str] = []
    try:
        run("mount", "-t", "tmpfs", "-o", f"mode=700,size={spec.memory_mib}m", "firmware", str(work))
        for device in spec.order:
            try:
                return _from(device, spec, devices, work, screen, network)
            except NoEntry as error:
                _failed(spec, device, str(error), screen)
                tried.append(f"{device}: {error}")
    except ProgramFailed as error:
        screen.line(str(error))
        raise BootStopped(str(error)) from error
    except BootStopped as error:
        screen.line(error.reason)
        raise
    screen.line("No bootable device." if spec.firmware == "bios" else "BdsDxe: No bootable option or device was found.")
    raise NotBootable("\n".join(tried))


def _failed(spec: MachineSpec, device: str, reason: str, screen: Screen) -> None:
    if spec.firmware == "bios":
        screen.line(f"Boot failed: {reason}\n")
    else:
        screen.line(f'BdsDxe: failed to load "UEFI {_NAMES["uefi"][device]}": Not Found ({reason})')


def _from(
    device: str, spec: MachineSpec, devices: Mapping[str, Path], work: Path, screen: Screen, network: int
) -> Boot:
    """Boot one device of the order. Raises NoEntry when the next one is to be tried."""
    name = _NAMES[spec.firmware][device]
    screen.line(f"Booting from {name}..." if spec.firmware == "bios" else f'BdsDxe: loading "UEFI {name}"')
    # As the kernel limits what it unpacks of them.
    room = Room(spec.memory_mib << 19)
    drives: list[Drive] = []
    if device == "hd":
        entry, images = _disk(spec, devices, work, screen, room)
    elif device == "network":
        if network < 0:
            raise NoEntry("there is no network card")
        entry, images = net.entry(spec, network, work, screen, room)
    else:
        with _stick(spec, devices) if device == "usb" else _medium(spec) as medium:
            entry = live.entry(medium, spec.firmware, screen, room)
            images = live.initrds(medium, entry, room)
            if device == "usb":
                drives.append(live.drive(medium, work, spec.stick, devices[spec.stick]))
            else:
                drives.append(live.drive(medium, work))
    # What came over the network or from a stick may want what is in the drive.
    if device in ("usb", "network") and spec.cdrom is not None:
        with contextlib.suppress(NoEntry), _medium(spec) as medium:
            drives.append(live.drive(medium, work))
    screen.kernel(f"Linux version {os.uname().release} (the host's)")
    screen.kernel(f"Command line: {' '.join(entry.arguments)}")
    init = next((word[5:] for word in entry.arguments if word.startswith("init=")), INIT)
    return Boot(
        arguments=list(entry.arguments),
        init=[init, *entry.arguments],
        environment=dict(ENVIRONMENT),
        early=Early(stage=STAGE, images=tuple(images), drives=tuple(drives)),
    )


def _medium(spec: MachineSpec) -> Medium:
    if spec.cdrom is None:
        raise NoEntry("Could not read from CDROM (code 0003)")
    try:
        return Medium(Path(spec.cdrom))
    except (NotIso, OSError) as error:
        raise NoEntry(f"Could not read from CDROM (code 0004): {error}") from error


def _stick(spec: MachineSpec, devices: Mapping[str, Path]) -> Medium:
    """What a firmware starts of a stick: an ISO that is a disk with a partition table too. Raises NoEntry."""
    device = devices[spec.stick]
    found = read_table(device)
    if found is None or not found.boot_code:
        raise NoEntry("not a bootable disk")
    try:
        return Medium(device)
    except (NotIso, OSError) as error:
        raise NoEntry(f"not a live image: {error}") from error


def _disk(
    spec: MachineSpec, devices: Mapping[str, Path], work: Path, screen: Screen, room: Room
) -> tuple[Entry, list[bytes]]:
    """What the first disk starts that starts anything. Raises NoEntry."""
    reasons = []
    for target in spec.bootable:
        try:
            found = disk.table(devices[target], spec.firmware)
            return disk.entry(disk.slices(target, devices, found), work / "loader", screen, room)
        except (NoEntry, OSError) as error:
            reasons.append(str(error))
    raise NoEntry("; ".join(dict.fromkeys(reasons)) or "not a bootable disk")
