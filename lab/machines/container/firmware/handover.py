"""The end of an early boot: what lies at the initramfs' /sysroot becomes the machine's root, /run goes with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.initramfs import Initramfs, run

_OCTAL = re.compile(r"\\([0-7]{3})")
_LAYERS = ("lowerdir", "upperdir", "workdir")


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo (proc(5)): where, its file system's type, and that one's options."""

    place: Path
    kind: str
    options: str


def mounts_below(place: Path, text: str) -> list[Mount]:
    """The mounts at and below a place, in the order in which they were made."""
    found = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, last = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(last) < 3:
            continue
        where = Path(_unescape(fields[4]))
        if where == place or where.is_relative_to(place):
            found.append(Mount(where, last[0], last[2]))
    return found


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda code: chr(int(code[1], 8)), text)


def layers(options: str) -> dict[str, str]:
    """lowerdir, upperdir and workdir of an overlay; lower directories are joined by colons as in the mount's option."""
    found: dict[str, str] = {}
    for option in options.split(","):
        key, _, value = option.partition("=")
        key = key.removesuffix("+")
        if key in _LAYERS:
            found[key] = f"{found[key]}:{_unescape(value)}" if key in found else _unescape(value)
    return found


def hand_over(initramfs: Initramfs, root: Path) -> None:
    """Put the new root at ``root``, with the initramfs' /run in it, and free the rest of the initramfs.

    An overlay is mounted once more, its layers named by paths that mean the same outside of the initramfs.

    Raises:
        BootStopped: the early boot mounted nothing there.
    """
    sysroot = initramfs.tree / "sysroot"
    found = mounts_below(sysroot, Path("/proc/self/mountinfo").read_text())
    if not found or found[0].place != sysroot:
        raise BootStopped(
            "Failed to switch root: Specified switch root path '/sysroot' does not seem to be an OS tree."
        )
    if found[0].kind == "overlay":
        aside = []
        for number, mount in enumerate(found[1:]):
            place = initramfs.work / "aside" / str(number)
            place.mkdir(parents=True)
            run("mount", "--move", str(mount.place), str(place))
            aside.append((place, mount.place.relative_to(sysroot)))
        run("umount", str(sysroot))
        initramfs.take_run()
        options = ",".join(
            f"{key}={':'.join(_outside(initramfs, path) for path in value.split(':'))}"
            for key, value in layers(found[0].options).items()
        )
        run("mount", "-t", "overlay", "-o", options, "overlay", str(root))
        for place, where in aside:
            # Anew, so that a list of mounts, which is by age, has it behind the root.
            run("mount", "--bind", str(place), str(root / where))
            run("umount", str(place))
    else:
        run("mount", "--move", str(sysroot), str(root))
        initramfs.take_run()
    (root / "run").mkdir(exist_ok=True)
    run("mount", "--rbind", str(initramfs.run), str(root / "run"))


def _outside(initramfs: Initramfs, path: str) -> str:
    """A path of the initramfs as this namespace has it; /run outlives the rest."""
    base = initramfs.run.parent if path.startswith("/run/") else initramfs.tree
    return f"{base}{path}"
