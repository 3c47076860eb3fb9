"""Areas of the live ISO that are rewritten in place: they are where the JSON files say, and nothing moves with them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.os.media import liveboot
from lab.release.os.media.liveboot import LayoutError

words = st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20), max_size=20)


@given(words)
def test_area_keeps_its_size_and_gives_the_text_back(arguments):
    text = " ".join(arguments)
    area = liveboot.kargs_area(text)
    assert len(area) == liveboot.KARGS_AREA_BYTES
    content, _, padding = area.decode().partition(liveboot.KARGS_END)
    assert content == text.strip()
    assert set(padding) <= {liveboot.KARGS_PAD}


def test_area_too_small():
    with pytest.raises(LayoutError, match="do not fit"):
        liveboot.kargs_area("x" * liveboot.KARGS_AREA_BYTES)
    assert len(liveboot.kargs_area("x" * (liveboot.KARGS_AREA_BYTES - 1))) == liveboot.KARGS_AREA_BYTES


def test_kargs_json_points_at_the_areas():
    kargs = liveboot.live_kargs("node0-test")
    files = liveboot.boot_files(kargs)
    facts = json.loads(liveboot.kargs_json(kargs, files))
    assert facts["default"] == kargs
    assert facts["size"] <= 2048  # what coreos-installer accepts
    assert len(facts["default"]) < facts["size"]
    assert [area["path"] for area in facts["files"]] == ["EFI/redhat/grub.cfg", "isolinux/isolinux.cfg"]
    for area, file in zip(facts["files"], files, strict=True):
        content = file.content[area["offset"] : area["offset"] + facts["size"]]
        text, _, padding = content.decode().partition(area["end"])
        assert text == kargs
        assert padding == area["pad"] * len(padding)


@pytest.mark.parametrize("file", liveboot.boot_files("a b=c"), ids=lambda file: file.path)
def test_a_comment_closes_each_area(file):
    """openshift-install writes its arguments over the end of line before this comment (assisted-image-service)."""
    match = re.search(rb"(\n#*)# COREOS_KARG_EMBED_AREA", file.content)
    assert match is not None
    more = b" fips=1\n"
    content = bytearray(file.content)
    content[match.start() : match.start() + len(more)] = more
    (line,) = [line for line in content.decode().splitlines() if "a b=c" in line]
    assert line.endswith(" a b=c fips=1")
    rest = content[match.start() + len(more) : match.end()].decode()
    assert set(rest.removesuffix(" COREOS_KARG_EMBED_AREA")) == {"#"}  # one comment, to both boot loaders


def test_boot_files_load_the_embed_area_after_the_initramfs():
    grub, isolinux = liveboot.boot_files(liveboot.live_kargs("v"))
    assert b"initrd /images/pxeboot/initrd.img /images/ignition.img\n" in grub.content
    assert b"initrd=/images/pxeboot/initrd.img,/images/ignition.img coreos.liveiso=v " in isolinux.content
    # Both end the area with an end of line: what follows is not part of a comment.
    assert grub.content.endswith(
        b"# COREOS_KARG_EMBED_AREA\n    initrd /images/pxeboot/initrd.img /images/ignition.img\n}\n"
    )


def test_igninfo_names_the_file():
    assert json.loads(liveboot.igninfo_json()) == {"file": "images/ignition.img"}
    assert liveboot.IGNITION_AREA_BYTES == 256 * 1024


def test_live_arguments_have_no_root():
    """is-live-image and the generator tell the live system by that."""
    words = liveboot.live_kargs("v").split()
    assert not [word for word in words if word.startswith("root=")]
    assert "ignition.firstboot" in words
    assert words[words.index("console=ttyS0,115200n8") + 1 :].count("console=tty0") == 0
