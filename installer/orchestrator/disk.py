"""The disk: wiping what other systems left, and writing the image with coreos-installer (installer.md §7.1)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from installer.common.formats import jsontext
from installer.hostsys import commands
from installer.hostsys.errors import CommandError
from installer.hostsys.system import PATH, HostSystem
from installer.orchestrator.errors import StageError

log = logging.getLogger("assisted-installer")
PERCENT = re.compile(r"\((\d{1,3})%\)")
TRIES = 3
# Far beyond the service's limit for this stage, so that nothing waits for ever.
WRITE_TIMEOUT = 2 * 3600.0
# Removing old signatures takes long on a disk of many terabytes, or on an array that is being rebuilt.
CLEAN_TIMEOUT = 600.0
STEP = 5


def resolve(host: HostSystem, device: str) -> str:
    """Return the device itself where ``device`` is a link of udev's to it; ``device`` as it is when that is not known.

    coreos-installer does not find the busy partitions of a disk that it is given by a link (its issue 512).
    """
    try:
        return host.run("realpath", "--canonicalize-existing", device).strip() or device
    except CommandError as error:
        log.warning("%s; going on with %s", error, device)
        return device


def quick_format(host: HostSystem, device: str) -> None:
    """Remove signatures so that nothing boots from the disk. Raises CommandError."""
    host.run("wipefs", "--all", "--force", device, timeout=CLEAN_TIMEOUT)
    host.run("dd", "if=/dev/zero", f"of={device}", "bs=512", "count=1", "oflag=direct", timeout=CLEAN_TIMEOUT)


def _groups(listed: str) -> dict[str, tuple[str, list[str]]]:
    """Name and physical volumes of each volume group by its UUID, out of pvs' pv_name, vg_uuid and vg_name."""
    groups: dict[str, tuple[str, list[str]]] = {}
    for line in listed.splitlines():
        match line.split():
            case [volume, uuid, name]:
                groups.setdefault(uuid, (name, []))[1].append(volume)
    return groups


def clean(host: HostSystem, device: str) -> list[str]:
    """Remove volume groups, RAID members and signatures from the install disk. Returns what failed, as texts.

    A volume group that is on other disks as well is removed from all of them, as by assisted-installer's cleanup.
    """
    problems: list[str] = []

    def attempt(*args: str) -> str:
        try:
            return host.run(*args, timeout=CLEAN_TIMEOUT)
        except CommandError as error:
            problems.append(str(error))
            return ""

    try:
        tree = host.run_json("lsblk", "-J", "-p", "-o", "NAME,TYPE,FSTYPE", device, timeout=CLEAN_TIMEOUT) or {}
    except CommandError as error:
        return [str(error)]
    nodes = list(tree.get("blockdevices") or [])
    for node in nodes:
        nodes += node.get("children") or []
    kinds = {str(node.get("fstype") or "") for node in nodes}
    if "LVM2_member" in kinds:
        members = {str(node["name"]) for node in nodes if node.get("fstype") == "LVM2_member"}
        for uuid, (name, volumes) in _groups(attempt("pvs", "--noheadings", "-o", "pv_name,vg_uuid,vg_name")).items():
            if members.isdisjoint(volumes):
                continue
            elsewhere = [volume for volume in volumes if volume not in members]
            if elsewhere:
                log.warning(
                    "volume group %s is removed as a whole, so its data is lost on %s too", name, ", ".join(elsewhere)
                )
            # By its UUID: a group of another disk may have the same name.
            attempt("vgremove", "--select", f"vg_uuid={uuid}", "-y", "--force")
        for member in sorted(members):
            attempt("pvremove", member, "-y", "-ff")
    arrays = {str(node["name"]) for node in nodes if str(node.get("type", "")).startswith("raid")}
    for array in sorted(arrays):
        attempt("mdadm", "--stop", array)
    for node in nodes:
        if node.get("fstype") == "linux_raid_member":
            attempt("mdadm", "--zero-superblock", str(node["name"]))
    attempt("wipefs", "--all", "--force", device)
    return problems


class Percentages:
    """Turns coreos-installer's progress into reports: at least 5 apart, and always at 100."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._last = 0

    def feed(self, text: str) -> None:
        """One line of progress such as ``Read disk 27.0 MiB/157.0 MiB (17%)``."""
        for match in PERCENT.finditer(text):
            value = min(int(match[1]), 100)
            if value >= self._last + STEP or (value == 100 and self._last < 100):
                self._last = value
                self._report(f"{value}%")


def installer_command(ignition: str, device: str, extra: Sequence[str]) -> list[str]:
    """coreos-installer's command line."""
    return ["coreos-installer", "install", "--insecure", "-i", ignition, *extra, device]


class _Output:
    """Takes coreos-installer's output apart: progress is reported, the last of the other lines are kept.

    Progress comes with carriage returns on a terminal, with newlines otherwise.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._percentages = Percentages(report)
        self._pending = b""
        self.tail: list[str] = []

    def feed(self, chunk: bytes) -> None:
        """More output."""
        *lines, self._pending = re.split(rb"[\r\n]", self._pending + chunk)
        for line in lines:
            text = line.decode(errors="replace").strip()
            self._percentages.feed(text)
            if text and not PERCENT.search(text):
                self.tail = [*self.tail[-9:], text]


def _once(host: HostSystem, command: Sequence[str], report: Callable[[str], None]) -> tuple[int | None, str]:
    words = _Output(report)
    environment = {**os.environ, "PATH": PATH, "LC_ALL": "C.UTF-8"}
    done = commands.run(host.command(command), WRITE_TIMEOUT, env=environment, merged=True, feed=words.feed)
    words.feed(b"\n")
    return done.code, " | ".join([*words.tail, done.why] if done.why else words.tail)


def write_image(
    host: HostSystem, ignition: Path, device: str, extra: Sequence[str], *, report: Callable[[str], None]
) -> None:
    """Write the machine OS with its ignition; up to three tries. ``ignition``: the host's path. Raises StageError."""
    command = installer_command(str(ignition), device, extra)
    last_line = ""
    for _ in range(TRIES):
        try:
            code, last_line = _once(host, command, report)
        except OSError as error:
            raise StageError("coreos-installer", str(error)) from None
        if code == 0:
            return
        last_line = last_line if code is None else f"exit code {code}: {last_line}"
    raise StageError(f"failed to write image to disk {device} in {TRIES} tries", last_line)


def parse_args(text: str) -> list[str]:
    """--installer-args: a JSON list of strings. Raises StageError."""
    if not text:
        return []
    try:
        value = jsontext.loads(text)
    except ValueError as error:
        raise StageError("--installer-args", f"not JSON: {error}") from None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise StageError("--installer-args", "must be a JSON list of strings")
    return value
