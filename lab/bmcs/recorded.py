"""A recorded Redfish tree as a BMC: a directory of index.json files (DMTF's mockup format, DSP2043), made a profile.

What the tree says of ids, drives and boot targets becomes the profile; its documents are shown as they are, but for
the machine's real state. `injections.yaml` beside them has faults (lab.bmcs.injections).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from installer.common.formats import yamltext
from lab.bmcs.profile import Boot, Drive, Media, Profile, Rule, profile, profiles
from lab.errors import LabError

ROOT = "/redfish/v1"
INJECTIONS = "injections.yaml"
#: Bytes of a document: more is none that a BMC has.
_LARGEST = 16 << 20
#: What a boot target of a BMC is in the emulator; others are taken, and nothing boots from them.
_TARGETS: Mapping[str, str] = {"Pxe": "Pxe", "Hdd": "Hdd", "Cd": "Cd", "UsbCd": "Cd"}
#: Properties of a system, of a BMC and of a drive that change while the machine runs: the machine's own count.
_LIVE: Mapping[str, tuple[str, ...]] = {
    "ComputerSystem": ("PowerState", "Boot", "Actions", "VirtualMedia", "UUID", "Links"),
    "Manager": ("VirtualMedia", "Links", "ServiceEntryPointUUID"),
    "VirtualMedia": ("Image", "ImageName", "Inserted", "ConnectedVia", "WriteProtected", "Actions"),
}
#: Services of the BMC that are real, and what it has of the lab's machines.
_OWN = ("SessionService", "AccountService", "TaskService")


class RecordingError(LabError, ValueError):
    """A directory that is no recording of a BMC with one system at least."""


class Recording:
    """The documents of a tree, by path. Raises RecordingError with all that is wrong with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # With or without the two folders that all paths begin with: the mockup server takes both.
        root = directory / ROOT[1:]
        top = root if (root / "index.json").is_file() else directory
        self._documents: dict[str, dict[str, Any]] = {}
        problems: list[str] = []
        for file in sorted(top.rglob("index.json")):
            place = file.parent.relative_to(top).as_posix()
            # A recording from elsewhere must not show this machine's files.
            if not file.is_file() or not file.resolve().is_relative_to(top.resolve()):
                problems.append(f"{file}: is no file of the recording")
                continue
            try:
                if file.stat().st_size > _LARGEST:
                    raise ValueError(f"is larger than {_LARGEST} bytes")
                body = json.loads(file.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                problems.append(f"{file}: {error}")
                continue
            if isinstance(body, dict):
                body.pop("@Redfish.Copyright", None)
                self._documents[ROOT if place == "." else f"{ROOT}/{place}"] = body
            else:
                problems.append(f"{file}: must be a JSON object")
        if ROOT not in self._documents:
            problems.append(f"{directory}: has no index.json, nor redfish/v1/index.json")
        elif not self._members(f"{ROOT}/Systems"):
            problems.append(f"{directory}: Systems has no member that is recorded")
        if problems:
            raise RecordingError("; ".join(problems))

    def document(self, path: str) -> dict[str, Any] | None:
        """Return a copy of what was recorded at a path; None for nothing."""
        body = self._documents.get(path)
        return None if body is None else dict(body)

    def _members(self, path: str) -> list[str]:
        listed = _list(self._documents.get(path, {}).get("Members"))
        links = [str(item.get("@odata.id", "")).rstrip("/") for item in listed if isinstance(item, dict)]
        return [link for link in links if link in self._documents and link.rpartition("/")[0] == path]

    def profile(self) -> Profile:
        """Return the profile that the tree's documents describe."""
        system = self._members(f"{ROOT}/Systems")[0]
        managers = self._members(f"{ROOT}/Managers")
        manager = managers[0] if managers else f"{ROOT}/Managers/BMC"
        body = self._documents[system]
        tag = next((str(item["@odata.etag"]) for item in self._documents.values() if item.get("@odata.etag")), "")
        return Profile(
            title=f"recorded in {self.directory}",
            manufacturer=str(body.get("Manufacturer") or ""),
            system=system.rpartition("/")[2],
            manager=manager.rpartition("/")[2],
            etag=('W/"{}"' if tag.startswith("W/") else '"{}"') if tag else "",
            media=self._media(system, manager),
            boot=self._boot(body),
            recording=str(self.directory),
        )

    def _media(self, system: str, manager: str) -> Media:
        for at, owner in (("system", system), ("manager", manager)):
            drives = tuple(self._drive(path) for path in self._members(f"{owner}/VirtualMedia"))
            if drives:
                return msgspec.convert({"at": at, "drives": drives}, Media)
        return Media(at="none")

    def _drive(self, path: str) -> Drive:
        body = self._documents[path]
        acts = "#VirtualMedia.InsertMedia" in _object(body.get("Actions"))
        return Drive(
            id=path.rpartition("/")[2],
            types=tuple(str(kind) for kind in _list(body.get("MediaTypes"))),
            how="action" if acts else "local",
        )

    @staticmethod
    def _boot(system: Mapping[str, Any]) -> Boot:
        listed = _object(system.get("Boot")).get("BootSourceOverrideTarget@Redfish.AllowableValues")
        names = [str(name) for name in _list(listed) or ("Pxe", "Hdd", "Cd") if name != "None"]
        # The first that means a device is the one that has it: others of the same are for show.
        targets, taken = {}, set[str]()
        for name in sorted(names, key=lambda name: name != _TARGETS.get(name)):
            device = _TARGETS.get(name, "")
            targets[name] = "" if device in taken else device
            taken.add(device)
        return Boot(targets={name: targets[name] for name in names})

    def rules(self) -> tuple[Rule, ...]:
        """Return the faults that are injected. Raises RecordingError."""
        file = self.directory / INJECTIONS
        if not os.path.lexists(file):
            return ()
        if not file.is_file():
            raise RecordingError(f"{file}: is no file")
        try:
            return msgspec.convert(yamltext.load(file.read_bytes()), tuple[Rule, ...])
        except (OSError, ValueError) as error:
            raise RecordingError(f"{file}: {error}") from None

    def dressed(self, path: str, live: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the document at a path: the recorded one with the machine's own state; None when there is none."""
        recorded = self.document(path)
        if recorded is None or live is None:
            return live if recorded is None else recorded
        if any(path.startswith(f"{ROOT}/{name}") for name in _OWN):
            return live
        kind = str(live.get("@odata.type", "")).split(".")[0].strip("#")
        if path == ROOT:
            return {**live, **recorded, **{name: live[name] for name in ("Links", *_OWN) if name in live}}
        if kind.endswith("Collection"):
            return live
        for name in _LIVE.get(kind, ()):
            if name not in live:
                continue
            old, new = recorded.get(name), live[name]
            # What a BMC has besides, such as an OEM's actions, stays in sight.
            recorded[name] = {**old, **new} if isinstance(old, dict) and isinstance(new, dict) else new
        return recorded


def _object(value: Any) -> dict[str, Any]:
    """Return an object of a document; what a BMC has in its place is none."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    """Return a list of a document; what a BMC has in its place is empty."""
    return value if isinstance(value, list) else []


@cache
def recording(directory: str) -> Recording:
    """Return the recording in a directory. Raises RecordingError."""
    return Recording(Path(directory))


def profile_of(name: str) -> Profile:
    """Return the profile of that name, or of the recording in the directory of that path. Raises RecordingError."""
    return recording(name).profile() if "/" in name else profile(name)


def problem(name: str) -> str:
    """Say why there is no such BMC; empty when there is."""
    if "/" not in name:
        return "" if name in profiles() else f"{name!r} is not one of {', '.join(profiles())}, nor a path"
    if not name.startswith("/"):
        # The lab's processes have another working directory.
        return f"{name!r} is not an absolute path"
    try:
        recording(name).rules()
    except RecordingError as error:
        return str(error)
    return ""
