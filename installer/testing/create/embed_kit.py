"""A live ISO with all that a config is embedded into."""

import json
import subprocess
from pathlib import Path
from typing import Any

KARGS = "coreos.liveiso=vol ignition.firstboot"


def make_iso(
    tmp: Path, *, igninfo: dict[str, Any] | None, kargs: bool = True, area: int = 262144, flags: tuple[str, ...] = ()
) -> Path:
    """Return a live ISO with an embed area of `area` bytes; its igninfo.json and kargs areas as asked for."""
    root = tmp / "root"
    for name in ("images/pxeboot", "coreos", "EFI/fedora", "isolinux", "many"):
        (root / name).mkdir(parents=True)
    for index in range(120):  # a directory that spans sectors
        (root / "many" / f"entry-with-a-long-name-{index:03}.txt").write_text(str(index))
    (root / "images/pxeboot/vmlinuz").write_bytes(b"kernel")
    if area:
        (root / "images/ignition.img").write_bytes(bytes(area))
    if igninfo is not None:
        (root / "coreos/igninfo.json").write_text(json.dumps(igninfo))
    if kargs:
        files = []
        for path, head in (("EFI/fedora/grub.cfg", "menuentry { linux "), ("isolinux/isolinux.cfg", "append x=1 ")):
            (root / path).write_text(head + (KARGS + "\n").ljust(600, "#") + "\n}\n")
            files.append({"path": path, "offset": len(head)})
        (root / "coreos/kargs.json").write_text(json.dumps({"default": KARGS, "size": 600, "files": files}))
    iso = tmp / "base.iso"
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-V", "vol", *flags, "-o", str(iso), str(root)]
    subprocess.run(command, check=True, capture_output=True)
    return iso
