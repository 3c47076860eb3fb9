"""The rate of the time stamp counter, for guests: measured, kept for one boot, and handed to both boots."""

import re
from pathlib import Path

import pytest

from lab.release.os import clock
from lab.release.os.media import disk, liveboot
from lab.release.stage.store import Store


def test_the_rate_is_measured_the_same_each_time():
    rates = [clock.measure_khz(0.05) for _ in range(5)]
    assert min(rates) > 500_000
    assert max(rates) - min(rates) < min(rates) / 100, "kernels refine what is within 1 %"


def test_it_is_measured_once_a_boot(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.root.mkdir()
    (store.root / "tsc-of-an-earlier-boot").write_text("1000")
    measured = iter([2_596_000, 9_999_000])
    monkeypatch.setattr(clock, "measure_khz", lambda: next(measured))
    assert [clock.tsc_khz(store) for _ in range(3)] == [2_596_000] * 3
    assert not (store.root / "tsc-of-an-earlier-boot").exists()


def test_a_machine_without_the_counter_says_nothing():
    assert clock.kargs(0) == ""
    assert clock.kargs(2_596_000) == "tsc_early_khz=2596000"


@pytest.fixture
def placed(tmp_path, monkeypatch):
    """Lay out the ISO as its builder does, without the programs that make an image of it."""
    kept: dict[str, str] = {}

    def run(command, **_):
        tree = Path(command[-1])
        kept.update({str(p.relative_to(tree)): p.read_text(errors="replace") for p in tree.rglob("*.cfg")})

    monkeypatch.setattr(liveboot.progress, "run", run)
    monkeypatch.setattr(liveboot.progress, "need", lambda program, package: program)
    monkeypatch.setattr(liveboot.efi, "make_esp", lambda *_: None)
    kernel, initramfs, rootfs = (tmp_path / name for name in ("kernel", "initramfs", "rootfs"))
    for part in (kernel, initramfs, rootfs, tmp_path / "isolinux.bin", tmp_path / "ldlinux.c32"):
        part.write_bytes(b"")
    monkeypatch.setattr(liveboot, "ISOLINUX", tmp_path / "isolinux.bin")
    monkeypatch.setattr(liveboot, "LDLINUX", tmp_path / "ldlinux.c32")
    liveboot.build_iso(
        Store(tmp_path),
        "v",
        kernel=kernel,
        initramfs=initramfs,
        rootfs=rootfs,
        out=tmp_path / "out.iso",
        more_kargs="tsc_early_khz=2596000",
    )
    return kept


def test_both_boot_loaders_of_the_iso_pass_it_on(placed):
    # GRUB's first configuration on a CD only leads to the other.
    assert len(placed) == 3
    for text in (text for name, text in placed.items() if name != "boot/grub/grub.cfg"):
        line = next(line for line in text.splitlines() if "coreos.liveiso=v" in line)
        assert re.search(r" tsc_early_khz=2596000$", line)
        assert liveboot.EMULATION_KARGS in line


def test_the_installed_system_passes_it_on(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_mke2fs", lambda *_, **_more: None)
    for name in ("kernel", "initramfs"):
        (tmp_path / name).write_bytes(b"")
    kargs = f"{disk.DISK_KARGS} tsc_early_khz=2596000"
    disk.boot_filesystem(
        Store(tmp_path), tmp_path, tmp_path / "kernel", tmp_path / "initramfs", image=tmp_path / "img", kargs=kargs
    )
    assert f'set node0_kargs="{kargs}"' in (tmp_path / "boot/grub/grub.cfg").read_text()
