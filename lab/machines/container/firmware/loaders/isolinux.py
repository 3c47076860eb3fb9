"""isolinux.cfg as isolinux reads it (syslinux, doc/syslinux.txt): the default label's kernel, initrds and arguments."""

from __future__ import annotations

from dataclasses import dataclass

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.loaders.entry import Entry, Read

CONFIGS = ("isolinux/isolinux.cfg", "boot/isolinux/isolinux.cfg", "isolinux.cfg")


@dataclass
class _Label:
    name: str
    kernel: str = ""
    append: str | None = None
    initrd: str = ""


def boot(read: Read, path: str) -> Entry:
    """The entry that is started when nobody presses a key. Raises BootStopped."""
    raw = read(path)
    if raw is None:
        raise BootStopped("ERROR: No configuration file found")
    return parse(raw.decode(errors="replace"))


def parse(text: str) -> Entry:
    """The default entry of a configuration. Raises BootStopped."""
    labels: list[_Label] = []
    default = chosen = common = ""
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        key, value = key.lower(), value.strip()
        label = labels[-1] if labels else None
        if key == "default" and label is None:
            default = value
        elif key == "label":
            labels.append(_Label(value))
        elif key == "append" and label is None:
            common = value
        elif label is None:
            continue
        elif key in ("kernel", "linux"):
            label.kernel = value
        elif key == "append":
            label.append = "" if value == "-" else value
        elif key == "initrd":
            label.initrd = value
        elif key == "menu" and value.lower() == "default":
            chosen = label.name
    name = chosen or default.split(" ")[0]
    chosen_label = next((label for label in labels if label.name == name), None)
    # A menu as the default ("vesamenu.c32") starts its first entry when it names none.
    if chosen_label is None and default.endswith(".c32") and labels:
        chosen_label = labels[0]
    if chosen_label is None or not chosen_label.kernel:
        raise BootStopped(f"Could not find kernel image: {name or 'linux'}")
    words = (common if chosen_label.append is None else chosen_label.append).split()
    initrds = chosen_label.initrd
    for word in words:
        if word.startswith("initrd="):
            initrds = word.removeprefix("initrd=")
    if chosen_label.initrd:
        words = [f"initrd={chosen_label.initrd}", *words]
    return Entry(
        chosen_label.kernel,
        (f"BOOT_IMAGE={chosen_label.kernel}", *words),
        tuple(path for path in initrds.split(",") if path),
    )
