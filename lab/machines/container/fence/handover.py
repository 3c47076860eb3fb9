"""The root file system that a firmware mounted, handed to a machine with the machine's owners.

Owners are shifted by the mounts, not on the file systems: every mount is cloned and mapped by the machine's user
namespace (mount_setattr(2), MOUNT_ATTR_IDMAP). Overlays cannot be mapped (Linux 6.18), their layers can: they are
mounted again over mapped layers. Device files on any of these file systems open nothing (nodev).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab.machines.container.kernel import syscalls

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True)
class Mounted:
    """A line of mountinfo (proc(5)): its number and that of what it is mounted on, where, of what kind, with which
    options of the file system."""

    number: int
    parent: int
    target: str
    kind: str
    read_only: bool
    options: dict[str, str]


def mountinfo(pid: int | str) -> str:
    """A process's list of mounts: names are bytes, and may hold what ends lines elsewhere."""
    return os.fsdecode(Path(f"/proc/{pid}/mountinfo").read_bytes())


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def devices(text: str) -> set[tuple[int, int]]:
    """The device numbers of all mounts that a mountinfo lists."""
    pairs = (line.split(" ")[2].partition(":") for line in _lines(text))
    return {(int(major), int(minor)) for major, _, minor in pairs}


def has_flag(text: str, number: int, flag: str) -> bool:
    """Whether the mount of this number has a flag of its own, such as "nodev", by a mountinfo."""
    lines = (line.split(" ") for line in _lines(text))
    return any(words[0] == str(number) and flag in words[5].split(",") for words in lines)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def mounts(text: str) -> list[Mounted]:
    """The mounts that a mountinfo lists, in its order, which means nothing (since Linux 6.8 it is by number)."""
    mounted = []
    for line in _lines(text):
        own, _, rest = line.partition(" - ")
        number, parent, _, _, target, flags = own.split(" ")[:6]
        kind, _, options = rest.split(" ")[:3]
        pairs = (option.partition("=") for option in options.split(","))
        named = {_plain(name): _plain(value) for name, _, value in pairs}
        mounted.append(
            Mounted(
                number=int(number),
                parent=int(parent),
                target=_plain(target),
                kind=kind,
                read_only="ro" in flags.split(","),
                options=named,
            )
        )
    return mounted


def kinds(text: str) -> dict[str, str]:
    """The kinds of file systems that a mountinfo lists, by their device numbers ("0:25")."""
    return {line.split(" ")[2]: line.partition(" - ")[2].split(" ")[0] for line in _lines(text)}


def seen(all_mounts: list[Mounted], root: str) -> list[Mounted]:
    """The mounts that are seen at and below `root`, each after what it is mounted on. Raises ValueError without one at
    `root`."""
    below: dict[int, list[Mounted]] = {}
    for mount in all_mounts:
        below.setdefault(mount.parent, []).append(mount)

    def top(mount: Mounted) -> Mounted:
        """What covers a mount's own root."""
        over = next((m for m in below.get(mount.number, []) if m.target == mount.target and m is not mount), None)
        return top(over) if over else mount

    def walk(mount: Mounted) -> list[Mounted]:
        children = (top(m) for m in below.get(mount.number, []) if m.target != mount.target)
        return [mount, *(each for child in children for each in walk(child))]

    numbers = {m.number for m in all_mounts if m.target == root}
    lowest = [m for m in all_mounts if m.target == root and m.parent not in numbers]
    if not lowest:
        raise ValueError(f"{root} is no mount point")
    return walk(top(lowest[-1]))


def hand_over(root: Path, place: Path, users: int, owner: int, *, layers: Path) -> None:
    """Mount at `place`, an empty directory, what is mounted at and below `root`, and nothing at `root` any more.

    `users` is a descriptor of the machine's user namespace, whose root is `owner`; `layers` an empty directory for the
    mapped layers of overlays. Raises OSError; ValueError when nothing is mounted at `root`.
    """
    parts = seen(mounts(mountinfo("self")), str(root))
    trees = [(part, None if part.kind == "overlay" else _mapped(part.target, users, part.read_only)) for part in parts]
    while os.path.ismount(root):
        # Recursively, with all that is mounted below.
        syscalls.umount(str(root))
    for number, (part, tree) in enumerate(trees):
        target = str(place) + part.target[len(str(root)) :]
        if tree is None:
            _overlay(part, target, users, owner, place=layers / str(number))
        else:
            syscalls.attach(tree, target)
            os.close(tree)


def _mapped(path: str, users: int, read_only: bool) -> int:
    tree = syscalls.open_tree(path)
    attributes = syscalls.MOUNT_ATTR_NODEV | (syscalls.MOUNT_ATTR_RDONLY if read_only else 0)
    syscalls.set_attributes(tree, attributes, users=users)
    return tree


def _overlay(part: Mounted, target: str, users: int, owner: int, *, place: Path) -> None:
    def layer(path: str, name: str) -> str:
        folder = place / name
        folder.mkdir(parents=True)
        tree = _mapped(path, users, read_only=False)
        syscalls.attach(tree, str(folder))
        os.close(tree)
        return str(folder)

    lower = [layer(path, f"lower{index}") for index, path in enumerate(part.options["lowerdir"].split(":")) if path]
    options = f"lowerdir={':'.join(lower)}"
    if "upperdir" in part.options:
        upper, work = part.options["upperdir"], part.options["workdir"]
        # Both must be on one mount.
        shared = os.path.commonpath([upper, work])
        mapped = layer(shared, "upper")
        options += f",upperdir={mapped}{upper[len(shared) :]},workdir={mapped}{work[len(shared) :]}"
    flags = syscalls.MS_NODEV | (syscalls.MS_RDONLY if part.read_only else 0)
    # An overlay accesses its layers as the user that mounted it, which the mapping of the layers must contain.
    with syscalls.file_owner(owner):
        syscalls.mount("root", target, "overlay", flags, data=options)
