"""A container machine's firmware: what an emulated PC's firmware, boot loader and initramfs do, up to its own init."""

from lab.machines.container.firmware.boot import boot
from lab.machines.container.firmware.early.stage import Stage
from lab.machines.container.firmware.entry import BootStopped

__all__ = ["BootStopped", "Stage", "boot"]
