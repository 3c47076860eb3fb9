"""Power-on: the boot order, and from the first device that boots up to where the machine's own init begins."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from lab.machines.container.firmware import disk, firstboot, live
from lab.machines.container.firmware.early import Early
from lab.machines.container.firmware.entry import Entry, NoEntry
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.handover import hand_over
from lab.machines.container.firmware.initramfs import Initramfs, ProgramFailed, run
from lab.machines.container.firmware.iso9660 import Medium, NotIso
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import Boot, MachineSpec, NotBootable

#: The kernel's own environment for its init (Linux, init/main.c).
ENVIRONMENT = {"HOME": "/", "TERM": "linux"}
INIT = "/sbin/init"
_NAMES = {
    "bios": {"hd": "Hard Disk", "cdrom": "DVD/CD", "network": "ROM"},
    "uefi": {"hd": "Misc Device", "cdrom": "QEMU DVD-ROM", "network": "PXEv4"},
}


def boot(
    spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, netns: Path | None = None
) -> Boot:
    """Boot a machine up to its init; see lab.machines.container.spec for what is expected and left.

    Beside ``root``, a directory named like it with ``.firmware`` at its end holds what the root is made of; all of it
    is memory, and goes with the mount namespace.

    Raises:
        NotBootable: no device boots.
        BootStopped: one did, and its boot loader or its early boot stopped; the console has what that said.
    """
    screen = Screen(console)
    work = root.with_name(f"{root.name}.firmware")
    work.mkdir(parents=True, exist_ok=True)
    root.mkdir(parents=True, exist_ok=True)
    tried: list[str] = []
    with ExitStack() as hold:
        try:
            run("mount", "-t", "tmpfs", "-o", f"mode=700,size={spec.memory_mib}m", "firmware", str(work))
            for device in spec.order:
                try:
                    return _from(device, spec, devices, root, work, screen, netns, hold)
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
    device: str,
    spec: MachineSpec,
    devices: Mapping[str, Path],
    root: Path,
    work: Path,
    screen: Screen,
    netns: Path | None,
    hold: ExitStack,
) -> Boot:
    """Boot one device of the order. Raises NoEntry when the next one is to be tried."""
    name = _NAMES[spec.firmware][device]
    screen.line(f"Booting from {name}..." if spec.firmware == "bios" else f'BdsDxe: loading "UEFI {name}"')
    if device == "cdrom":
        with _medium(spec) as medium:
            entry = live.entry(medium, spec.firmware, screen)
            images = [medium.read(path) or b"" for path in entry.initrds]
            initramfs = _start(spec, entry, images, devices, work, screen, netns, hold)
            live.drive(medium, initramfs)
        Early(initramfs, screen).go()
        hand_over(initramfs, root)
    elif device == "hd":
        entry, parts, boot_part, images = _disk(spec, devices, work, screen, hold)
        initramfs = _start(spec, entry, images, devices, work, screen, netns, hold)
        disk.nodes(initramfs, parts)
        Early(initramfs, screen).go()
        hand_over(initramfs, root)
        firstboot.mount_boot(boot_part.node, root, initramfs.run)
    else:
        raise NoEntry("booting from the network is not supported")
    init = next((word[5:] for word in entry.arguments if word.startswith("init=")), INIT)
    return Boot(arguments=list(entry.arguments), init=[init, *entry.arguments], environment=dict(ENVIRONMENT))


def _medium(spec: MachineSpec) -> Medium:
    if spec.cdrom is None:
        raise NoEntry("Could not read from CDROM (code 0003)")
    try:
        return Medium(Path(spec.cdrom))
    except (NotIso, OSError) as error:
        raise NoEntry(f"Could not read from CDROM (code 0004): {error}") from error


def _disk(
    spec: MachineSpec, devices: Mapping[str, Path], work: Path, screen: Screen, hold: ExitStack
) -> tuple[Entry, list[disk.Slice], disk.Slice, list[bytes]]:
    """What the first disk starts that starts anything. Raises NoEntry."""
    reasons = []
    for target in spec.bootable:
        try:
            with ExitStack() as own:
                found = disk.table(devices[target], spec.firmware)
                parts = disk.slices(target, devices, found, work / "disks", own)
                entry, boot_part, images = disk.entry(parts, work / "loader", screen)
                hold.push(own.pop_all())
                return entry, parts, boot_part, images
        except (NoEntry, OSError) as error:
            reasons.append(str(error))
    raise NoEntry("; ".join(dict.fromkeys(reasons)) or "not a bootable disk")


def _start(
    spec: MachineSpec,
    entry: Entry,
    images: list[bytes],
    devices: Mapping[str, Path],
    work: Path,
    screen: Screen,
    netns: Path | None,
    hold: ExitStack,
) -> Initramfs:
    """The kernel starts: its command line on the console, its initramfs laid out with the machine's disks."""
    screen.kernel(f"Linux version {os.uname().release} (the host's)")
    screen.kernel(f"Command line: {' '.join(entry.arguments)}")
    initramfs = Initramfs(work, netns, spec.memory_mib, entry.arguments)
    hold.callback(initramfs.close)
    initramfs.unpack(images)
    initramfs.cards(nic.name for nic in spec.nics)
    initramfs.loop_nodes()
    for target in (drive.target for drive in spec.disks):
        status = devices[target].stat()
        if stat.S_ISBLK(status.st_mode):
            initramfs.node(target, status.st_rdev)
    return initramfs
