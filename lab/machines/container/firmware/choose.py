"""The reader of images: it goes through the boot order, and says what the first device that boots starts.

All that it has are descriptors of disks, partitions and the medium: it runs in a fence of its own
(lab.machines.container.fence.reader), since what it reads may have been made to break it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, cast

import msgspec

from installer.common.iso9660 import NotIso9660
from lab.machines.container.firmware import disk, live, net
from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry, Room
from lab.machines.container.firmware.live import Medium
from lab.machines.container.firmware.messages import Chosen, Console, Held, Nothing
from lab.machines.container.firmware.partitions import read_table
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import MachineSpec

DRIVE = "sr0"
#: Fewer than the descriptors that a message carries (253): the media's indexes go with the initrds.
_MOST_IMAGES = 200
_MOST_ARGUMENTS = 1 << 18
_NAMES = {
    "bios": {"hd": "Hard Disk", "usb": "USB stick", "cdrom": "DVD/CD", "network": "ROM"},
    "uefi": {"hd": "Misc Device", "usb": "QEMU USB HARDDRIVE", "cdrom": "QEMU DVD-ROM", "network": "PXEv4"},
}


@dataclass(frozen=True)
class Devices:
    """Descriptors of what there is to boot from: disks and partitions by their names, and the medium or why it cannot
    be read ("": there is none); and whether there is a network."""

    blocks: Mapping[str, int]
    medium: int | str
    network: bool = False


def choose(spec: MachineSpec, devices: Devices, line: socket.socket) -> None:
    """Say at `line` what is started, or that nothing is (lab.machines.container.firmware.messages)."""
    screen = Screen(cast(BinaryIO, Console(line.send)))
    tried: list[str] = []
    try:
        for device in spec.order:
            try:
                chosen, images = _from(device, spec, devices, screen, line=line)
            except NoEntry as error:
                _failed(spec, device, str(error), screen)
                tried.append(f"{device}: {error}")
                continue
            screen.kernel(f"Linux version {os.uname().release} (the host's)")
            screen.kernel(f"Command line: {' '.join(chosen.arguments)}")
            socket.send_fds(line, [msgspec.json.encode(chosen)], images)
            return
    except BootStopped as error:
        screen.line(error.reason)
        line.send(msgspec.json.encode(Nothing(error.reason, stopped=True)))
        return
    screen.line("No bootable device." if spec.firmware == "bios" else "BdsDxe: No bootable option or device was found.")
    line.send(msgspec.json.encode(Nothing("\n".join(tried), stopped=False)))


def _failed(spec: MachineSpec, device: str, reason: str, screen: Screen) -> None:
    if spec.firmware == "bios":
        screen.line(f"Boot failed: {reason}\n")
    else:
        screen.line(f'BdsDxe: failed to load "UEFI {_NAMES["uefi"][device]}": Not Found ({reason})')


def _from(
    device: str, spec: MachineSpec, devices: Devices, screen: Screen, *, line: socket.socket
) -> tuple[Chosen, list[int]]:
    """Boot one device of the order. Raises NoEntry when the next one is to be tried, BootStopped."""
    name = _NAMES[spec.firmware][device]
    screen.line(f"Booting from {name}..." if spec.firmware == "bios" else f'BdsDxe: loading "UEFI {name}"')
    # As the kernel limits what it unpacks of them.
    room = Room(spec.memory_mib << 19)
    media: list[Held] = []
    indexes: list[int] = []
    if device == "hd":
        entry, images = _disk(spec, devices.blocks, room, line=line, screen=screen)
    elif device == "network":
        if not devices.network:
            raise NoEntry("there is no NIC")
        entry, images = net.entry(spec, net.Network(line), screen, room)
    else:
        medium = _stick(spec, devices.blocks) if device == "usb" else _medium(devices.medium)
        entry = live.entry(medium, spec.firmware)
        images = live.initrds(medium, entry, room)
        media.append(_held(medium, spec.stick if device == "usb" else DRIVE, indexes))
    # A system from the network or a stick may mount the medium in the drive.
    if device in ("usb", "network"):
        with contextlib.suppress(NoEntry):
            media.append(_held(_medium(devices.medium), DRIVE, indexes))
    chosen = Chosen(entry.arguments, tuple(media))
    images += indexes
    if len(images) > _MOST_IMAGES or sum(map(len, entry.arguments)) > _MOST_ARGUMENTS:
        raise BootStopped("error: out of memory: too many initrds, or too long a command line.")
    return chosen, images


def _held(medium: Medium, name: str, indexes: list[int]) -> Held:
    index = live.index(medium)
    indexes += [] if index is None else [index]
    return Held(name, medium.volume_id, index is not None)


def _stick(spec: MachineSpec, blocks: Mapping[str, int]) -> Medium:
    """Read a stick as a firmware starts it: an ISO that is a disk with a partition table too. Raises NoEntry."""
    with os.fdopen(blocks[spec.stick], "rb", closefd=False) as device:
        partitions = read_table(device)
    if partitions is None or not partitions.boot_code:
        raise NoEntry("not a bootable disk")
    try:
        return Medium(os.fdopen(blocks[spec.stick], "rb", closefd=False))
    except (NotIso9660, OSError) as error:
        raise NoEntry(f"not a live image: {error}") from error


def _medium(medium: int | str) -> Medium:
    if medium == "":
        raise NoEntry("Could not read from CDROM (code 0003)")
    if isinstance(medium, str):
        raise NoEntry(f"Could not read from CDROM (code 0004): {medium}")
    try:
        return Medium(os.fdopen(medium, "rb", closefd=False))
    except (NotIso9660, OSError) as error:
        raise NoEntry(f"Could not read from CDROM (code 0004): {error}") from error


def _disk(
    spec: MachineSpec, blocks: Mapping[str, int], room: Room, *, line: socket.socket, screen: Screen
) -> tuple[Entry, list[int]]:
    """Find what the first disk starts that starts anything. Raises NoEntry, BootStopped."""
    reasons = []
    for target in spec.bootable:
        try:
            partitions = disk.table(blocks[target], spec.firmware)
            parts = disk.slices(target, blocks, partitions)
            return disk.entry(parts, disk.mounter(line), room, save=disk.saver(line), screen=screen)
        except (NoEntry, OSError) as error:
            reasons.append(str(error))
    raise NoEntry("; ".join(dict.fromkeys(reasons)) or "not a bootable disk")
