"""Embed areas by their bytes: the places, to the last byte of each, and the growth of an image for one."""

from __future__ import annotations

import io
import json
import os
import struct

import pytest

from installer.common import cpio, kargareas
from installer.common.iso9660 import SECTOR, SYSTEM_AREA, Extent, Iso
from installer.errors import EmbedTooBig, NoEmbedArea, NotIso9660
from installer.image.iso import embed, grow
from installer.image.iso.embed import Patch
from installer.image.iso.overlay import Overlay
from installer.testing.create.iso_bytes_kit import FIRST, KARGS, both, image, live, opened, whole


def test_the_area_by_its_description():
    assert embed.ignition_area(opened(live(info={"file": "ign.img"}))) == Extent(
        "IGN.IMG;1", FIRST + SECTOR, 4096, False
    )
    inside = {"file": "ign.img", "offset": 100, "length": 3996}
    assert embed.ignition_area(opened(live(info=inside))) == Extent("IGN.IMG;1", FIRST + SECTOR + 100, 3996, False)
    rest = {"file": "ign.img", "offset": 100}
    assert embed.ignition_area(opened(live(info=rest))).length == 3996
    for wrong, expected in (
        ({"file": "ign.img", "offset": 100, "length": 3997}, "beyond the end of ign.img"),
        ({"file": "ign.img", "offset": -1, "length": 1}, "beyond the end of ign.img"),
        ({"file": "ign.img", "offset": 4096}, "the Ignition embed area lies outside the image"),
        ({"file": "ign.img", "length": -1}, "lies outside the image"),
        ({"file": "no.img"}, "names no.img, which is not in the image"),
        ({}, "names no file, which is not in the image"),
        ({"file": "coreos"}, "names coreos, which is not"),
        ({"file": "ign.img", "offset": [1]}, "does not have the form"),
        ({"file": "ign.img", "length": float("inf")}, "does not have the form"),
    ):
        with pytest.raises(NotIso9660, match=expected):
            embed.ignition_area(opened(live(info=wrong)))


def test_the_area_by_the_header_of_2020():
    plain = image({"A;1": bytes(4096)})
    with pytest.raises(NoEmbedArea, match="this is not a CoreOS live ISO"):
        embed.ignition_area(opened(plain))
    for offset, length, fine in (
        (FIRST, 4096, True),
        (len(plain) - 1, 1, True),
        (len(plain) - 1, 2, False),
        (0, 0, False),
    ):
        struct.pack_into("<8sQQ", plain, SYSTEM_AREA - 24, b"coreiso+", offset, length)
        if fine:
            area = embed.ignition_area(opened(plain))
            assert (area.offset, area.length) == (offset, length)
        else:
            with pytest.raises(NotIso9660, match="lies outside the image"):
                embed.ignition_area(opened(plain))


def test_what_is_embedded_fills_the_area_exactly():
    data = live(info={"file": "ign.img"})
    config = b'{"ignition":{}}'
    patch = embed.ignition_patch(opened(data), config)
    packed = cpio.compress(cpio.pack({"config.ign": config}))
    assert patch == Patch(FIRST + SECTOR, packed + bytes(4096 - len(packed)))
    assert embed.embedded_ignition(opened(data)) is None
    data[patch.offset : patch.offset + 4096] = patch.data
    assert embed.embedded_ignition(opened(data)) == config
    # To the last byte, and not one more.
    noise = os.urandom(3000)
    size = len(cpio.compress(cpio.pack({"config.ign": noise}), 1))
    fits = live(info={"file": "ign.img", "length": size})
    assert len(embed.ignition_patch(opened(fits), noise).data) == size
    with pytest.raises(EmbedTooBig, match=f"needs {size} bytes, its embed area has {size - 1}$") as caught:
        embed.ignition_patch(opened(live(info={"file": "ign.img", "length": size - 1})), noise)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


def test_kernel_arguments_by_their_description():
    entry = {"path": "k.cfg", "offset": 4}
    kargs = {"default": f" {KARGS} ", "size": 20, "files": [entry, {**entry, "pad": "*", "end": "E"}]}
    area = kargareas.kargs_area(opened(live(kargs=kargs)))
    assert area.areas == (Extent("K.CFG;1", FIRST + 4, 20, False),) * 2
    assert (area.default, area.pad, area.ends) == (KARGS, "*", ("\n", "E"))
    bare = kargareas.kargs_area(opened(live(kargs={"size": 20, "files": [{"path": "k.cfg"}]})))
    assert (bare.areas[0], bare.default, bare.pad, bare.ends) == (Extent("K.CFG;1", FIRST, 20, False), "", "#", ("\n",))
    single = {**kargs, "files": [entry]}
    iso = opened(live(kargs=single))
    assert kargareas.current_kargs(iso, kargareas.kargs_area(iso)) == KARGS
    assert embed.kargs_patches(iso, ()) == []
    assert embed.kargs_patches(iso, ("c",)) == [Patch(FIRST + 4, b"a=1 b c\n############")]
    assert embed.kargs_patches(iso, lambda text: text.upper()) == [Patch(FIRST + 4, b"A=1 B\n##############")]
    # To the last byte, and not one more.
    assert embed.kargs_patches(iso, lambda _: "x" * 19) == [Patch(FIRST + 4, b"x" * 19 + b"\n")]
    with pytest.raises(EmbedTooBig, match="the kernel command line needs 21 bytes, its embed area has 20"):
        embed.kargs_patches(iso, lambda _: "x" * 20)
    for wrong, expected in (
        ({**single, "size": 2049}, "kernel argument areas of 2049 bytes for a default of 5|outside"),
        ({**single, "size": 5}, "kernel argument areas of 5 bytes for a default of 5"),
        ({**single, "size": 0}, "the kernel argument area lies outside the image"),
        ({**single, "files": [{"path": "no"}]}, "names no, which is not in the image"),
        ({**single, "files": [{"path": "coreos"}]}, "names coreos, which is not"),
        ({**single, "files": [{**entry, "pad": "##"}]}, "does not have the form"),
    ):
        with pytest.raises(NotIso9660, match=expected):
            kargareas.kargs_area(opened(live(kargs=wrong) + bytes(4096)))
    assert kargareas.kargs_area(opened(live(kargs={**single, "size": 6}))).areas[0].length == 6
    assert kargareas.kargs_area(opened(live(kargs={**single, "size": 2048}) + bytes(4096))).areas[0].length == 2048
    assert kargareas.kargs_area(opened(live(kargs={**single, "files": []}))) is None


def test_kernel_argument_areas_that_differ():
    text = "head" + "a b\n####" + "a c\n####"
    kargs = {"default": "a b", "size": 8, "files": [{"path": "k.cfg", "offset": 4}, {"path": "k.cfg", "offset": 12}]}
    iso = opened(live(kargs=kargs, text=text))
    with pytest.raises(NotIso9660, match="the kernel argument areas differ from each other"):
        kargareas.current_kargs(iso, kargareas.kargs_area(iso))


def test_kernel_arguments_by_the_header_of_2021():
    plain = image({"A;1": (KARGS + "\n").ljust(2048, "#").encode() * 2})
    assert kargareas.kargs_area(opened(plain)) is None
    with pytest.raises(NoEmbedArea, match=r"no kernel argument areas, so x y cannot be added$"):
        embed.kargs_patches(opened(plain), ("x", "y"))
    with pytest.raises(NoEmbedArea, match=r"no kernel argument areas, so they cannot be changed$"):
        embed.kargs_patches(opened(plain), str)

    def header(size: int, *offsets: int) -> Iso:
        struct.pack_into("<8s8Q", plain, SYSTEM_AREA - 96, b"coreKarg", size, *(*offsets, *[0] * 7)[:7])
        return opened(plain)

    area = kargareas.kargs_area(header(2048, FIRST, FIRST, FIRST + 2048))
    assert [(extent.offset, extent.length) for extent in area.areas] == [(FIRST, 2048), (FIRST + 2048, 2048)]
    assert (area.default, area.pad, area.ends) == (KARGS, "#", ("\n", "\n"))
    assert len(kargareas.kargs_area(header(2048, *[FIRST] * 7)).areas) == 6
    assert kargareas.kargs_area(header(2048, FIRST)) is None
    with pytest.raises(NotIso9660, match="kernel argument areas of 2049 bytes: more than 2048"):
        kargareas.kargs_area(header(2049, FIRST, FIRST))
    with pytest.raises(NotIso9660, match="the kernel argument area lies outside the image"):
        kargareas.kargs_area(header(100, FIRST, len(plain) - 99))
    assert kargareas.kargs_area(header(100, FIRST, len(plain) - 100)).areas[0].length == 100


@pytest.mark.parametrize("content", [b"[]", b"x", b"[" * 100_000])
def test_descriptions_that_are_no_json_objects(content):
    data = live(info={"file": "x" * 200_000})
    at = bytes(data).index(b'{"file": "xxx')
    data[at : at + len(content)] = content
    if content != b"[" * 100_000:
        data[at + len(content) : at + 200_012] = b" " * (200_012 - len(content))
    with pytest.raises(NotIso9660, match=r"igninfo\.json is not (JSON|a JSON object)"):
        embed.ignition_area(opened(data))


# Growing


@pytest.mark.parametrize(("area", "content", "length"), [
    (100, 75, 100), (100, 76, 125), (100, 100, 125), (100, 101, 150), (100, 0, 100), (101, 75, 101), (101, 76, 104),
    (4, 3, 4), (4, 4, 5), (4, 5, 6), (1, 0, 1), (1, 1, 2), (262144, 196608, 262144), (262144, 196609, 327680),
])  # fmt: skip
def test_new_lengths(area, content, length):
    assert grow.grown_length(area, content) == length


def grown(content: bytes) -> Overlay:
    overlay = Overlay(io.BytesIO(bytes(live(info={"file": "ign.img"}))))
    assert grow.embed_ignition(overlay, "x.iso", content)
    return overlay


def test_growth_and_its_record_by_their_bytes():
    base = bytes(live(info={"file": "ign.img"}))
    noise = os.urandom(5000)
    packed = cpio.compress(cpio.pack({"config.ign": noise}))
    overlay = grown(noise)
    data = whole(overlay)
    iso = opened(data)
    length = grow.grown_length(4096, len(packed))
    # The file is after the old end, at a sector, longer, with the config and zeros in it.
    assert len(base) % SECTOR == 0
    assert embed.ignition_area(iso) == Extent("IGN.IMG;1", len(base), length, False)
    assert data[len(base) : len(base) + length] == packed + bytes(length - len(packed))
    # The undo record is at the very end: magic, length of its text, the old size.
    magic, undo, before = struct.unpack("<16sQQ", data[-32:])
    assert (magic, before) == (b"node0-undo-v1\0\0\0", len(base))
    assert len(data) % SECTOR == 0
    assert json.loads(data[-32 - undo : -32])
    assert data[SYSTEM_AREA + 80 : SYSTEM_AREA + 88] == both(len(data) // SECTOR)
    assert grow.undo_growth(overlay, "x.iso")
    assert whole(overlay) == base
    assert not grow.undo_growth(overlay, "x.iso")
    # What fits with a quarter to spare does not grow.
    small = Overlay(io.BytesIO(base))
    assert not grow.embed_ignition(small, "x.iso", b"{}")
    assert small.size == len(base)


def test_records_of_growth_that_do_not_match_the_image():
    data = whole(grown(os.urandom(5000)))
    magic, undo, before = struct.unpack("<16sQQ", data[-32:])

    def refused(footer: bytes, text: bytes | None = None) -> bool:
        changed = data[:-32] if text is None else data[: -32 - undo] + text.ljust(undo)
        try:
            grow.undo_growth(Overlay(io.BytesIO(changed + footer)), "x.iso")
        except NotIso9660 as error:
            return "the record of how the image grew is damaged" in str(error)
        return False

    form = struct.Struct("<16sQQ")
    assert not refused(form.pack(magic, undo, before))
    assert refused(form.pack(magic, undo - 1, before))
    room = len(data) - 32 - undo
    assert refused(form.pack(magic, undo, room + 1))
    assert refused(form.pack(magic, 1 << 40, before))
    assert refused(form.pack(magic, undo, 100))  # what it would put back lies after that
    for text in (
        b"{",
        b"[[1]]",
        b'[["x","eA=="]]',
        b'[[-1,"eA=="]]',
        b"7",
        f'[[{before},"eA=="]]'.encode(),
        b"[" * undo,
    ):
        assert refused(form.pack(magic, undo, before), text), text
    assert not refused(form.pack(magic, undo, before), f'[[{before - 1},"eA=="]]'.encode())
    assert not refused(form.pack(b"x" * 16, undo, before))
    assert not grow.undo_growth(Overlay(io.BytesIO(b"x" * 31)), "x")
    assert not grow.undo_growth(Overlay(io.BytesIO(b"x" * 32)), "x")


def test_the_next_place():
    for size, place in ((0, 0), (1, SECTOR), (SECTOR, SECTOR), (SECTOR + 1, 2 * SECTOR)):
        assert grow.new_place(Overlay(io.BytesIO(bytes(size)))) == place
