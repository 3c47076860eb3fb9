"""GRUB's boot code as it is put into the disk image, and the partitions."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from lab.release.os.customise import DATA
from lab.release.os.media import disk
from lab.release.os.media.liveboot import LayoutError


def test_boot_code_is_told_where_the_core_lies():
    record, core = disk.bios_boot_code(b"\x52\xe8" + bytes(2000), bytes(range(256)) * 2, 2048)
    assert len(record) == 440  # the disk's signature and table behind it stay
    assert struct.unpack_from("<Q", record, 0x5C) == (2048,)
    assert record[0x66:0x68] == b"\x90\x90"
    assert struct.unpack_from("<Q", core, 0x1F4) == (2049,)
    assert len(core) == 2002


def test_core_shorter_than_a_sector():
    with pytest.raises(LayoutError, match="shorter than a sector"):
        disk.bios_boot_code(b"x", bytes(512), 1)


def test_partitions_follow_each_other_without_overlap():
    parts = (disk.BIOS_BOOT, disk.ESP, disk.BOOT)
    for part, following in pairwise(parts):
        assert part.start + part.size == following.start
    assert disk.BOOT.start + disk.BOOT.size == disk.ROOT_START


def test_installed_system_names_its_root_and_uses_cgroup_v1():
    grub = (DATA / "boot" / "grub.cfg").read_text()
    assert " root=${node0_root} rw boot=${node0_boot} " in grub
    assert "systemd.unified_cgroup_hierarchy=0" in disk.DISK_KARGS.split()
    assert "coreos.liveiso" not in disk.DISK_KARGS
