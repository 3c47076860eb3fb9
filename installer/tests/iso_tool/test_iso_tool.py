"""`node0 iso` on every layout that CoreOS live ISOs have had (reference/installer.md §3.4), made here by xorriso."""

import functools
import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from installer import cli
from installer.common import cpio
from installer.common.iso9660 import SECTOR, SYSTEM_AREA
from installer.common.kargareas import current_kargs, kargs_area
from installer.errors import ConfigError, EmbedTooBig, IsoError
from installer.image.artifacts import LiveChanges, prepare_iso, write_pxe
from installer.image.iso.embed import embedded_ignition, ignition_area
from installer.image.iso.grow import embed_ignition, reset_image
from installer.image.iso.minimal import make_minimal
from installer.image.iso.overlay import Overlay
from installer.testing.create import iso_kit
from installer.testing.create.iso_kit import BIG, KARGS, LAYOUTS, SMALL, config_of, needs_xorriso, place

pytestmark = needs_xorriso
bases = iso_kit.bases


@pytest.fixture(scope="module", autouse=True)
def compressed_once():
    """Compress a large config once: it comes out the same each time, and takes longer than all else in here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpio, "compress", functools.cache(cpio.compress))
        yield


def node0(*args):
    return cli.main(["iso", *map(str, args)])


def test_a_url_that_cannot_be_used_changes_nothing(bases):
    with bases("2023-07.x86_64").open("rb") as file:
        overlay = Overlay(file)
        for url in ("ftp://h.example/r", "http://h.example/a b", ""):
            with pytest.raises(ConfigError):
                make_minimal(overlay, "x", url)
        assert overlay.size == overlay.base_size
        assert overlay.in_place_possible


def test_no_output_takes_the_place_of_the_image_or_of_another(bases, tmp_path, capfd):
    iso, link, out = tmp_path / "base.iso", tmp_path / "link.iso", tmp_path / "out.iso"
    shutil.copyfile(bases("2023-07.x86_64"), iso)
    link.symlink_to(iso)
    before = iso.read_bytes()
    small = ("minimal", "--rootfs-url", "http://h.example/r")
    for args, expected in (
        ((*small, "--rootfs", iso, "-o", out, iso), "--rootfs"),
        ((*small, "--rootfs", link, "-o", out, iso), "--rootfs"),
        ((*small, "-o", iso, iso), "--output"),
        ((*small, "--rootfs", out, "-o", tmp_path / "." / "out.iso", iso), "is where --output is written to"),
        (("extract", "-o", iso, link, "/images/pxeboot/vmlinuz"), "cannot replace the image"),
    ):
        assert node0(*args) == 1
        assert expected in capfd.readouterr().err
        assert iso.read_bytes() == before
        assert not out.exists()
    assert node0(*small, "--rootfs", "/dev/null", "-o", "/dev/null", iso) == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("big", [False, True], ids=["fits", "grows"])
def test_personalise_show_and_reset_to_the_original_bytes(bases, name, big, tmp_path, capfdbinary):
    base, out, ign = bases(name), tmp_path / "out.iso", tmp_path / "config.ign"
    config = BIG if big else SMALL
    ign.write_bytes(config)
    code = node0("embed", "--ignition", ign, "-o", out, base)
    if big and name.endswith("s390x"):
        # The area is in the boot image: it would grow where nothing is loaded from.
        assert code == 1
        assert b"its embed area has 262144" in capfdbinary.readouterr().err
        assert not out.exists()
        return
    assert code == 0
    assert (out.stat().st_size > base.stat().st_size) == big
    if LAYOUTS[name][1] is not None:
        assert node0("kargs", "--append", "fips=1", "--append", "console=ttyS0", out) == 0
    capfdbinary.readouterr()
    assert node0("show", "--ignition", out) == 0
    assert capfdbinary.readouterr().out == config
    assert node0("show", "--json", out) == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert shown["volumeID"].lower().replace("_", "-") == "vol-1"
    assert shown["grown"] is big
    assert shown["ignition"]["config"] == len(config)
    if LAYOUTS[name][1] is not None:
        assert shown["kargs"]["current"] == f"{KARGS} fips=1 console=ttyS0"
        assert shown["kargs"]["default"] == KARGS
    assert node0("show", out) == 0
    # A stream gives the same as a file, and in place the same as both.
    assert node0("reset", "-o", tmp_path / "again.iso", out) == 0
    assert node0("reset", out) == 0
    assert out.read_bytes() == base.read_bytes()
    assert (tmp_path / "again.iso").read_bytes() == base.read_bytes()


@pytest.mark.parametrize("name", ["2022-02", "own-length", "2021-12"])
def test_a_grown_image_is_what_others_read(bases, name, tmp_path):
    base, out = bases(name), tmp_path / "out.iso"
    with base.open("rb") as file:
        overlay = Overlay(file)
        assert embed_ignition(overlay, base, BIG)
        assert embedded_ignition(overlay.iso(out)) == BIG
        overlay.save(out)
    with out.open("rb") as file:
        iso = Overlay(file).iso(out)
        area = ignition_area(iso)
        file_length = place(iso, "images/ignition.img").length
    extract = ["xorriso", "-osirrox", "on", "-indev", str(out), "-extract"]
    for path in ("/images", "/coreos"):
        subprocess.run([*extract, path, str(tmp_path / path[1:].lower())], check=True, capture_output=True)
    image = next(path for path in (tmp_path / "images").iterdir() if path.name.lower() == "ignition.img")
    data = image.read_bytes()
    assert len(data) == file_length == (area.length + 4096 if name == "own-length" else area.length)
    assert out.read_bytes().endswith(struct.pack("<Q", base.stat().st_size))
    assert data[:4096] == bytes(4096) or name != "own-length"
    if LAYOUTS[name][2]:
        assert struct.unpack_from("<QQ", out.read_bytes(), SYSTEM_AREA - 16) == (area.offset, area.length)


def test_growing_twice_and_shrinking_back(bases, tmp_path):
    base, out = bases("2023-07.x86_64"), tmp_path / "out.iso"
    shutil.copyfile(base, out)
    for size in (300_000, 600_000, 10, 900_000):
        with out.open("rb") as file:
            overlay = Overlay(file)
            embed_ignition(overlay, out, config_of(size))
            overlay.save_in_place(out)
        with out.open("rb") as file:
            assert embedded_ignition(Overlay(file).iso(out)) == config_of(size)
    assert node0("reset", out) == 0
    assert out.read_bytes() == base.read_bytes()


def test_stream_to_standard_output(bases, tmp_path):
    base, ign = bases("2023-07.x86_64"), tmp_path / "c.ign"
    ign.write_bytes(BIG)
    command = [sys.executable, "-m", "installer", "iso", "embed", "--ignition", "-", "-o", "-", str(base)]
    piped = subprocess.run(command, input=BIG, capture_output=True, check=True)
    assert node0("embed", "--ignition", ign, "-o", tmp_path / "file.iso", base) == 0
    assert piped.stdout == (tmp_path / "file.iso").read_bytes()
    assert piped.stderr == b""


def test_a_reader_that_leaves(bases):
    base = bases("2023-07.x86_64")
    command = [sys.executable, "-m", "installer", "iso", "reset", "-o", "-", str(base)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_extract(bases, tmp_path, capfdbinary):
    base = bases("2023-07.x86_64")
    assert node0("extract", base, "/images/pxeboot/vmlinuz") == 0
    assert capfdbinary.readouterr().out == b"kernel" * 1000
    assert node0("extract", "-o", tmp_path / "rootfs", base, "images/pxeboot/rootfs.img") == 0
    assert (tmp_path / "rootfs").read_bytes() == random.Random(1).randbytes(40_000)
    assert node0("extract", base, "/") == 0
    assert capfdbinary.readouterr().out == b"coreos/\nEFI/\nimages/\nisolinux/\n"
    assert node0("extract", base, "absent") == 1
    assert b"has no file absent" in capfdbinary.readouterr().err


def test_kargs(bases, tmp_path, capfdbinary):
    base, out = bases("2022-02"), tmp_path / "out.iso"
    assert node0("kargs", base) == 0
    assert capfdbinary.readouterr().out.decode() == KARGS + "\n"
    assert node0("kargs", "--append", "a=1", "--delete", "ignition.firstboot", "-o", out, base) == 0
    assert node0("kargs", out) == 0
    assert capfdbinary.readouterr().out.decode() == f"{KARGS} a=1\n".replace("ignition.firstboot ", "")
    assert node0("kargs", "--delete", "nothere", out) == 1
    assert node0("kargs", "--append", "x" * 1200, out) == 1
    assert b"the kernel command line needs" in capfdbinary.readouterr().err
    assert node0("kargs", bases("2020-09")) == 1
    assert b"no kernel argument areas" in capfdbinary.readouterr().err
    assert node0("kargs", "--default", "-o", tmp_path / "d.iso", out) == 0
    assert (tmp_path / "d.iso").read_bytes() == base.read_bytes()


def test_errors_are_one_line_and_nothing_is_written(bases, tmp_path, capfdbinary):
    base, ign, out = bases("2022-02"), tmp_path / "c.ign", tmp_path / "out.iso"
    ign.write_bytes(SMALL)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "file.txt").write_text("x")
    other = tmp_path / "other.iso"
    subprocess.run(
        ["xorriso", "-as", "mkisofs", "-quiet", "-o", str(other), str(plain)], check=True, capture_output=True
    )
    cases = [
        (("embed", "--ignition", ign, "-o", out, other), b"not a CoreOS live ISO"),
        (("embed", "--ignition", ign, "-o", out, ign), b"not an ISO 9660 image"),
        (("embed", "--ignition", tmp_path / "no", "-o", out, base), b"cannot be read"),
        (("embed", "--ignition", base, "-o", out, base), b"is not an Ignition config"),
        (("embed", "--ignition", ign, "-o", tmp_path / "no/out.iso", base), b"cannot write the image"),
        (("show", tmp_path / "absent"), b"cannot be opened"),
        (("show", "--ignition", base), b"carries no Ignition config"),
        (("reset", other), b"not a CoreOS live ISO"),
        (("minimal", "--rootfs-url", "http://x/$y", "-o", out, base), b"invalid rootfs URL"),
    ]
    for args, text in cases:
        assert node0(*args) == 1
        err = capfdbinary.readouterr().err
        assert text in err
        assert err.count(b"\n") == 1
        assert not out.exists()
    assert node0("embed", "--ignition", ign, "-o", out, base) == 0
    assert node0("embed", "--ignition", ign, out) == 1
    assert b"--force" in capfdbinary.readouterr().err
    assert node0("embed", "--force", "--ignition", ign, out) == 0


def test_damaged_images_are_refused_or_served(bases, tmp_path):
    data = bases("2023-07.x86_64").read_bytes()
    rng = random.Random(5)
    path = tmp_path / "broken.iso"
    for _ in range(60):
        broken = bytearray(data[: rng.choice([len(data), rng.randrange(len(data))])])
        for _ in range(rng.randrange(1, 30)):
            broken[rng.randrange(min(len(broken), 0x18000))] = rng.randrange(256)
        path.write_bytes(broken)
        for args in (("show",), ("reset", "-o", tmp_path / "o"), ("kargs", "--append", "a", "-o", tmp_path / "o")):
            assert node0(*args, path) in (0, 1)
        with path.open("rb") as file:
            try:
                overlay = Overlay(file)
                embed_ignition(overlay, path, BIG)
                reset_image(overlay, path)
            except (IsoError, ValueError):
                pass


def test_features_of_another_form_are_passed_over(bases, tmp_path, capfd):
    iso = tmp_path / "x.iso"
    iso.write_bytes(
        bases("2023-07.x86_64").read_bytes().replace(b'{"installer-config": true}', b'["installer-config", 1]   ')
    )
    assert node0("show", iso) == 0
    assert "features" not in capfd.readouterr().out


def test_an_image_gives_the_terminal_no_commands(bases, tmp_path, capfd):
    """Its name, its features and its kernel arguments may hold anything."""
    iso = tmp_path / "x.iso"
    data = bases("2023-07.x86_64").read_bytes()
    at = 16 * 2048 + 40  # the primary volume descriptor's volume id
    feature = data.replace(b'{"installer-config": true}', '{"\x9b2Jconfig": true}'.encode().ljust(26))
    assert feature != data
    iso.write_bytes(feature[:at] + b"\x1b[2Jname".ljust(32) + feature[at + 32 :])
    assert node0("show", iso) == 0
    out = capfd.readouterr().out
    assert "\N{REPLACEMENT CHARACTER}[2Jname" in out
    assert not {"\x1b", "\x9b"} & set(out)


@pytest.mark.parametrize("name", ["2022-02", "2023-07.x86_64", "2021-12"])
def test_minimal(bases, name, tmp_path):
    base, out, rootfs = bases(name), tmp_path / "min.iso", tmp_path / "rootfs.img"
    url = "http://192.168.111.1:8080/agent.x86_64-rootfs.img"
    assert node0("minimal", "--rootfs-url", url, "--rootfs", rootfs, "-o", out, base) == 0
    assert rootfs.read_bytes() == random.Random(1).randbytes(40_000)
    assert base.stat().st_size - out.stat().st_size == (40_000 + SECTOR - 1) // SECTOR * SECTOR
    with base.open("rb") as first, out.open("rb") as second:
        full, small = Overlay(first).iso(base), Overlay(second).iso(out)
        assert small.find("images/pxeboot/rootfs.img") is None
        for path in (
            "images/pxeboot/vmlinuz",
            "images/pxeboot/initrd.img",
            "isolinux/zlast.c32",
            "images/ignition.img",
        ):
            assert small.file(path) == full.file(path)
        area = kargs_area(small)
        assert area is not None
        text = current_kargs(small, area)
        assert text == f'ignition.firstboot ignition.platform.id=metal coreos.live.rootfs_url="{url}"'
        assert area.default == text
    assert node0("minimal", "--rootfs-url", url, "-o", tmp_path / "x", out) == 1
    listing = subprocess.run(["xorriso", "-indev", str(out), "-find"], capture_output=True, check=True, text=True)
    assert "rootfs" not in listing.stdout.lower()


def test_too_big_without_a_place_to_grow(bases, tmp_path):
    with pytest.raises(EmbedTooBig, match=r"has 262144; a hint$"):
        prepare_iso(bases("2023-03.s390x"), tmp_path / "out.iso", LiveChanges(BIG, hint="; a hint"))


def test_pxe_files_of_s390x(bases, tmp_path):
    base = bases("2023-07.s390x")
    arguments = write_pxe(base, tmp_path, "s390x", LiveChanges(SMALL, ("fips=1",)))
    assert arguments == KARGS.partition(" ")[2] + " fips=1"
    prefix = "agent.s390x"
    initrd = (tmp_path / f"{prefix}-initrd.img").read_bytes()
    assert (tmp_path / f"{prefix}-initrd.addrsize").read_bytes() == struct.pack(">QQ", 0x2000000, len(initrd))
    assert (tmp_path / f"{prefix}-generic.ins").read_text().split()[::2] == [
        f"images/{prefix}-vmlinuz",
        f"images/{prefix}-initrd.img",
        f"images/{prefix}-initrd.addrsize",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{prefix}-{name}" for name in ("generic.ins", "initrd.addrsize", "initrd.img", "rootfs.img", "vmlinuz")
    ]
