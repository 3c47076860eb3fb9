"""ISO 9660 and embed areas: against images made by xorriso and headers made by hand."""

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.errors import IsoError, NotIso9660
from installer.image.iso.embed import embedded_ignition, ignition_patch, kargs_patches
from installer.image.iso.overlay import Overlay
from installer.testing.create.embed_kit import KARGS, make_iso

needs_xorriso = pytest.mark.skipif(shutil.which("xorriso") is None, reason="xorriso is not installed")


@needs_xorriso
@pytest.mark.parametrize("flags", [(), ("-J", "-R"), ("-iso-level", "3", "-full-iso9660-filenames")])
def test_embed_round_trip(tmp_path, flags):
    base = make_iso(tmp_path, igninfo={"file": "images/ignition.img"}, flags=flags)
    out = tmp_path / "out.iso"
    with base.open("rb") as file:
        iso = Iso(file, base)
        assert iso.volume_id.upper() == "VOL"
        assert embedded_ignition(iso) is None
        assert iso.file("many/entry-with-a-long-name-119.txt") in (b"119", None)
        config = b'{"ignition":{"version":"3.2.0"}}'
        patches = [ignition_patch(iso, config), *kargs_patches(iso, ("fips=1",))]
    with base.open("rb") as file:
        overlay = Overlay(file)
        overlay.apply(patches)
        assert overlay.in_place_possible
        overlay.save(out)
    with out.open("rb") as file:
        iso = Iso(file, out)
        area = kargs_area(iso)
        assert embedded_ignition(iso) == config
        assert current_kargs(iso, area) == KARGS + " fips=1"
        assert area.default == KARGS
    before, after = base.read_bytes(), bytearray(out.read_bytes())
    for patch in patches:
        after[patch.offset : patch.offset + len(patch.data)] = before[patch.offset : patch.offset + len(patch.data)]
    assert bytes(after) == before, "only the embed areas may differ from the base"
    assert out.stat().st_mode & 0o777 == 0o600


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=70000))
def test_garbage_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("iso") / "x.iso"
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(IsoError):
        Iso(file, path, NotIso9660)


@needs_xorriso
def test_corrupt_images_are_refused(tmp_path):
    base = make_iso(tmp_path, igninfo={"file": "images/ignition.img"})
    data = base.read_bytes()
    rng = random.Random(7)
    for _ in range(300):
        broken = bytearray(data[: rng.choice([len(data), rng.randrange(len(data))])])
        for _ in range(rng.randrange(1, 30)):
            broken[rng.randrange(min(len(broken), 0x20000))] = rng.randrange(256)
        (tmp_path / "broken.iso").write_bytes(broken)
        with (tmp_path / "broken.iso").open("rb") as file:
            try:
                iso = Iso(file, "broken.iso", NotIso9660)
                ignition_patch(iso, b"{}")
                kargs_patches(iso, ("a",))
            except IsoError:
                pass
