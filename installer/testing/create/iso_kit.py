"""Live ISOs in every layout that CoreOS has had (reference/installer.md §3.4), made by xorriso."""

import base64
import functools
import json
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.common.iso9660 import SYSTEM_AREA, Extent, Iso
from installer.image.iso.overlay import Overlay

needs_xorriso = pytest.mark.skipif(shutil.which("xorriso") is None, reason="xorriso is not installed")

KARGS = "coreos.liveiso=vol-1 ignition.firstboot ignition.platform.id=metal"
AREA = 262144
_CHUNK = 1 << 26
SMALL = b'{"ignition":{"version":"3.2.0"}}'


def config_of(size: int) -> bytes:
    """Return an Ignition config of about `size` bytes that does not compress."""
    noise = base64.b64encode(random.Random(size).randbytes(size)).decode()
    return json.dumps({"ignition": {"version": "3.2.0"}, "noise": noise}).encode()


#: Larger than the embed area.
BIG = config_of(280_000)

# name: (what igninfo.json says, kargs areas: None, "header", or what each entry of kargs.json adds, header, Joliet)
LAYOUTS = {
    "2020-09": ("none", None, True, False),
    "2021-01": ("none", "header", True, False),
    "2021-12": ("none", "both", True, False),
    "2022-02": ("none", {}, False, True),
    "2023-03.x86_64": ({"file": "images/ignition.img"}, {}, False, False),
    "2023-03.s390x": ({"file": "images/cdboot.img", "offset": 132096, "length": AREA}, None, False, False),
    "2023-07.x86_64": ({"file": "images/ignition.img"}, {"pad": "#", "end": "\n"}, False, True),
    "2023-07.s390x": (
        {"file": "images/cdboot.img", "offset": 132096, "length": AREA},
        {"pad": "\0", "end": "\0"},
        False,
        False,
    ),
    "own-length": ({"file": "images/ignition.img", "offset": 4096, "length": AREA - 4096}, {}, False, True),
}


def place(iso: Iso, path: str) -> Extent:
    """Return the offset of a file in an ISO."""
    extent = iso.find(path)
    assert extent is not None
    return extent


def kargs_text(size: int, entry: dict[str, str]) -> str:
    """Return the first content of a kargs area of `size` bytes."""
    return (KARGS + entry.get("end", "\n")).ljust(size, entry.get("pad", "#"))


def build(tmp: Path, name: str, rootfs: int = 40_000, initrd: int = 3000) -> Path:
    """Return a live ISO of the layout `name` (LAYOUTS); sizes in bytes."""
    info, kargs, header, joliet = LAYOUTS[name]
    root = tmp / "root"
    for folder in ("images/pxeboot", "coreos", "EFI/redhat", "isolinux"):
        (root / folder).mkdir(parents=True)
    s390 = name.endswith("s390x")
    (root / "images/pxeboot/vmlinuz").write_bytes(b"kernel" * 1000)
    (root / "images/pxeboot/initrd.img").write_bytes((b"initrd" * 500).ljust(initrd, b"\0"))
    with (root / "images/pxeboot/rootfs.img").open("wb") as out:
        source = random.Random(1)
        for done in range(0, rootfs, _CHUNK):
            out.write(source.randbytes(min(_CHUNK, rootfs - done)))
    (root / "isolinux/zlast.c32").write_bytes(b"behind" * 100)
    size = 896 if s390 else 1139
    entry = kargs if isinstance(kargs, dict) else {}
    head = "menuentry { linux /images/pxeboot/vmlinuz "
    grub, isolinux = ((h + kargs_text(size, entry) + "\n}\n") for h in (head, "append x=1 "))
    (root / "EFI/redhat/grub.cfg").write_text(grub)
    (root / "isolinux/isolinux.cfg").write_text(isolinux)
    if s390:
        boot = bytearray(random.Random(2).randbytes(66688)) + kargs_text(size, entry).encode()
        boot = boot.ljust(132096, b"x") + bytes(AREA)
        (root / "images/cdboot.img").write_bytes(boot)
        (root / "images/initrd.addrsize").write_bytes(struct.pack(">QQ", 0x2000000, 3000))
        (root / "generic.ins").write_text("images/kernel.img 0\nimages/initrd.img 0x2\nimages/initrd.addrsize 0x1\n")
    else:
        (root / "images/ignition.img").write_bytes(bytes(AREA))
    if info != "none":
        (root / "coreos/igninfo.json").write_text(json.dumps(info))
    if isinstance(kargs, dict) or kargs == "both":
        files = [{"path": "images/cdboot.img", "offset": 66688, **entry}]
        if not s390:
            files = [
                {"path": "EFI/redhat/grub.cfg", "offset": len(head), **entry},
                {"path": "isolinux/isolinux.cfg", "offset": 11, **entry},
            ]
        (root / "coreos/kargs.json").write_text(json.dumps({"default": KARGS, "size": size, "files": files}))
    if header:
        (root / "isolinux/default.krg").write_text(kargs_text(size, entry))
    (root / "coreos/features.json").write_text('{"installer-config": true}')
    iso = tmp / "base.iso"
    flags = ["-J", "-R"] if joliet else ["-iso-level", "1"]
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-V", "vol-1", *flags, "-o", str(iso), str(root)]
    subprocess.run(command, check=True, capture_output=True)
    if header:
        data = bytearray(iso.read_bytes())
        with iso.open("rb") as file:
            overlay = Overlay(file).iso(iso)
            names = ("images/ignition.img", "isolinux/default.krg", "EFI/redhat/grub.cfg", "isolinux/isolinux.cfg")
            area, default, first, second = (place(overlay, name) for name in names)
        struct.pack_into("<8sQQ", data, SYSTEM_AREA - 24, b"coreiso+", area.offset, area.length)
        if kargs is not None:
            places = (default.offset, first.offset + len(head), second.offset + 11, 0, 0, 0, 0)
            struct.pack_into("<8s8Q", data, SYSTEM_AREA - 96, b"coreKarg", size, *places)
        iso.write_bytes(data)
    return iso


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Provide the live ISO of a layout, made when a test first asks for it."""
    return functools.cache(lambda name: build(tmp_path_factory.mktemp("iso"), name))
