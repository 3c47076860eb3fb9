"""Partition tables as sfdisk writes them, and as nobody should."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.machines.container.firmware.partitions import BIOS_BOOT, ESP, SECTOR, Partition, read_table

MIB = 1 << 20
SIZE = 8 * MIB
SCRIPT = """label: gpt
start=1MiB, size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios-boot
start=2MiB, size=1MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp
start=3MiB, size=4MiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=bÖot, uuid=11111111-2222-4333-8444-5555555555AB
"""


def disk(path: Path, script: str, size: int = SIZE) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    subprocess.run(["sfdisk", "-q", str(path)], input=script.encode(), check=True, timeout=30)
    return path


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return disk(tmp_path_factory.mktemp("gpt") / "disk", SCRIPT).read_bytes()


def test_a_gpt_as_sfdisk_writes_it(tmp_path: Path) -> None:
    table = read_table(disk(tmp_path / "disk", SCRIPT))
    assert table is not None
    assert table.kind == "gpt"
    assert not table.boot_code
    assert [(p.number, p.start // MIB, p.size // MIB, p.name) for p in table.partitions] == [
        (1, 1, 1, "bios-boot"),
        (2, 2, 1, "esp"),
        (3, 3, 4, "bÖot"),
    ]
    assert table.partitions[2].uuid == "11111111-2222-4333-8444-5555555555ab"
    assert table.of_kind(ESP) is table.partitions[1]
    assert table.of_kind(BIOS_BOOT) is table.partitions[0]
    assert table.of_kind("none") is None


def test_a_master_boot_record(tmp_path: Path) -> None:
    path = disk(tmp_path / "disk", "label: dos\nlabel-id: 0x1f7d43ea\nstart=1MiB, size=2MiB, type=ef\nstart=4MiB\n")
    table = read_table(path)
    assert table is not None
    assert table.kind == "dos"
    assert table.partitions[0] == Partition(1, MIB, 2 * MIB, "0xef", uuid="1f7d43ea-01")
    assert table.partitions[1].uuid == "1f7d43ea-02"


def test_boot_code_is_seen(gpt: bytes) -> None:
    table = read_table(io.BytesIO(b"\xeb\x63" + gpt[2:]))
    assert table is not None
    assert table.boot_code


def test_the_second_table_counts_when_the_first_is_broken(gpt: bytes) -> None:
    broken = gpt[: SECTOR + 60] + b"\xff" + gpt[SECTOR + 61 :]
    first, second = read_table(io.BytesIO(gpt)), read_table(io.BytesIO(broken))
    assert first is not None
    assert second is not None
    assert first.partitions == second.partitions
    both = broken[: -SECTOR + 20] + b"\xff" + broken[-SECTOR + 21 :]
    assert read_table(io.BytesIO(both)) is None


@pytest.mark.parametrize("content", [b"", bytes(100), bytes(1 << 20)])
def test_no_table(content: bytes) -> None:
    assert read_table(io.BytesIO(content)) is None


def test_a_disk_whose_first_block_was_not_written_has_no_table(gpt: bytes) -> None:
    """coreos-installer writes the first MiB last."""
    assert read_table(io.BytesIO(bytes(MIB) + gpt[MIB:])) is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_table_leads_out_of_the_disk(gpt: bytes, data: st.DataObject) -> None:
    """Whatever is broken, what is said lies within the disk, and nothing is raised."""
    raw = bytearray(gpt[: 40 * SECTOR])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    size = data.draw(st.sampled_from([40 * SECTOR, 41 * SECTOR, SIZE]))
    table = read_table(io.BytesIO(bytes(raw).ljust(size, b"\0")))
    for partition in table.partitions if table else ():
        assert partition.size > 0
        assert partition.start >= 0
        assert partition.start + partition.size <= size
