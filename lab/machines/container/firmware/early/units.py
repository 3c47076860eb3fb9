"""systemd's units as an initramfs has them: files, drop-ins, dependencies, conditions (systemd.unit(5), version 252).

No systemd runs in the initramfs here: it would wait for udev, which hears of no device in a container. What it would
start, and in which order, is read from the same files.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from lab.errors import LabError

SEARCH = (
    *("etc/systemd/system", "run/systemd/system", "run/systemd/generator.early", "run/systemd/generator"),
    *("usr/lib/systemd/system", "run/systemd/generator.late"),
)
_LISTS = ("Requires", "Wants", "BindsTo", "Requisite")


class BadUnits(LabError):
    """Units that cannot be brought into an order, or started here."""


@dataclass(frozen=True)
class Unit:
    """A unit: all assignments of its file and drop-ins, by section and key, in their order."""

    name: str
    settings: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    linked: tuple[str, ...] = ()

    def all(self, section: str, key: str) -> tuple[str, ...]:
        """Return values of a key, as they were assigned."""
        return self.settings.get((section, key), ())

    def last(self, section: str, key: str, default: str = "") -> str:
        """Return the value that counts for a key that takes one."""
        values = self.all(section, key)
        return values[-1] if values else default

    def names(self, *keys: str) -> tuple[str, ...]:
        """Return names of units in lists of the section Unit."""
        return tuple(name for key in keys for value in self.all("Unit", key) for name in value.split())

    @property
    def needs(self) -> tuple[str, ...]:
        """Units that it requires or wants, by its file or by links in its .requires and .wants directories."""
        return (*self.names(*_LISTS), *self.linked)

    @property
    def description(self) -> str:
        """Its name on the console."""
        return self.last("Unit", "Description") or self.name

    @property
    def fatal(self) -> bool:
        """Return whether its failure stops the boot."""
        return bool(self.names("OnFailure")) or self.name.endswith(".mount")


def parse(texts: Iterable[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Read the assignments of a unit's file and drop-ins; an empty value drops those before it (systemd.syntax(7))."""
    settings: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        section = ""
        for line in re.sub(r"\\\n", " ", text).splitlines():
            line = line.strip()
            if not line or line[0] in "#;":
                continue
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
                continue
            key, equals, value = line.partition("=")
            if equals and section:
                values = settings.setdefault((section, key.strip()), [])
                if value.strip():
                    values.append(value.strip())
                else:
                    values.clear()
    return {key: tuple(values) for key, values in settings.items()}


def load(root: Path, name: str) -> Unit | None:
    """Read a unit of the tree at ``root``; None when it has none of this name or it is masked."""
    directories = [root / directory for directory in SEARCH]
    file = next((d / name for d in directories if (d / name).is_symlink() or (d / name).exists()), None)
    linked = tuple(
        dict.fromkeys(
            os.path.basename(link)
            for directory in directories
            for kind in ("requires", "wants")
            for link in sorted(glob.glob(f"{glob.escape(str(directory / name))}.{kind}/*"))
        )
    )
    if file is None:
        return Unit(name, {}, linked) if linked else None
    if file.is_symlink() and os.readlink(file) == "/dev/null":
        return None
    drop_ins = sorted(
        (path for directory in directories for path in (directory / f"{name}.d").glob("*.conf")), key=lambda p: p.name
    )
    texts = [path.read_text() for path in (_inside(root, file), *drop_ins) if path.is_file()]
    return Unit(name, parse(texts), linked)


def _inside(root: Path, path: Path) -> Path:
    """Return the place where a link of the tree leads within the tree."""
    if not path.is_symlink():
        return path
    target = os.readlink(path)
    return root / target.lstrip("/") if target.startswith("/") else path.parent / target


def needed(root: Path, target: str, without: Iterable[str] = ()) -> dict[str, Unit]:
    """Return all units that a target brings along, itself among them; those of ``without`` bring nothing."""
    left = set(without)
    units: dict[str, Unit] = {}
    waiting = [target]
    while waiting:
        name = waiting.pop()
        if name in units or name in left:
            continue
        unit = load(root, name)
        if unit is not None:
            units[name] = unit
            waiting += reversed(unit.needs)
    return units


def ordered(units: Mapping[str, Unit]) -> list[Unit]:
    """Sort units in an order that keeps Before= and After=; a target comes after what it brings along.

    Raises BadUnits: they wait for each other.
    """
    after: dict[str, set[str]] = {name: set() for name in units}
    for name, unit in units.items():
        after[name] |= {other for other in unit.names("After") if other in units}
        for other in unit.names("Before"):
            if other in units:
                after[other].add(name)
    for name, unit in units.items():
        # Implicit (systemd.target(5)), unless the other way round was asked for.
        if name.endswith(".target") and unit.last("Unit", "DefaultDependencies", "yes") not in ("no", "false", "0"):
            after[name] |= {other for other in unit.needs if other in units and name not in after[other]}
    try:
        return [units[name] for name in TopologicalSorter(after).static_order()]
    except CycleError as error:
        raise BadUnits(f"units wait for each other: {' -> '.join(error.args[1])}") from None


def applies(unit: Unit, root: Path, arguments: Iterable[str]) -> bool:
    """Tell whether a unit's conditions hold, as far as units of an initramfs have any.

    Raises BadUnits: a condition that nobody thought of.
    """
    words = list(arguments)
    triggers, any_holds = False, False
    for (section, key), values in unit.settings.items():
        if section != "Unit" or not key.startswith(("Condition", "Assert")):
            continue
        for value in values:
            triggering = value.startswith("|")
            value = value.removeprefix("|")
            negated = value.startswith("!")
            holds = _holds(key.removeprefix("Condition").removeprefix("Assert"), value.removeprefix("!"), root, words)
            if holds is None:
                raise BadUnits(f"{unit.name}: {key}={value} is not known here")
            if triggering:
                triggers, any_holds = True, any_holds or holds != negated
            elif holds == negated:
                return False
    return any_holds or not triggers


def _holds(kind: str, value: str, root: Path, arguments: list[str]) -> bool | None:
    if kind == "KernelCommandLine":
        if "=" in value:
            return value in arguments
        return any(word == value or word.startswith(f"{value}=") for word in arguments)
    path = root / value.lstrip("/")
    if kind == "PathExists":
        return path.exists() or path.is_symlink()
    if kind == "PathExistsGlob":
        return bool(glob.glob(str(path)))
    if kind == "PathIsDirectory":
        return path.is_dir()
    if kind == "PathIsReadWrite":
        return path.exists() and not os.statvfs(path).f_flag & os.ST_RDONLY
    if kind == "DirectoryNotEmpty":
        return path.is_dir() and any(path.iterdir())
    if kind == "FileNotEmpty":
        return path.is_file() and path.stat().st_size > 0
    if kind == "FileIsExecutable":
        return path.is_file() and os.access(path, os.X_OK)
    return None


@dataclass(frozen=True)
class Command:
    """A line of ExecStart= or ExecStop=; ``lenient``: its failure is none."""

    words: tuple[str, ...]
    lenient: bool


def commands(unit: Unit, key: str, environment: Mapping[str, str]) -> list[Command]:
    """Return the commands of ExecStart= and the like, variables put in (systemd.service(5), "Command lines")."""
    lines = []
    for line in unit.all("Service", key):
        prefix = re.match(r"[-@:+!]*", line)
        signs = prefix[0] if prefix else ""
        words = shlex.split(line[len(signs) :])
        if "@" in signs:
            del words[1:2]
        expanded: list[str] = []
        for word in words:
            if re.fullmatch(r"\$\w+", word):
                expanded += environment.get(word[1:], "").split()
            else:
                expanded.append(re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match[1], ""), word))
        if expanded:
            lines.append(Command(tuple(expanded), "-" in signs))
    return lines


def environment(unit: Unit, root: Path) -> dict[str, str]:
    """Read Environment= and EnvironmentFile= of a service.

    Raises BadUnits: a file that must be there is not.
    """
    variables: dict[str, str] = {}
    for line in unit.all("Service", "Environment"):
        variables |= dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
    for value in unit.all("Service", "EnvironmentFile"):
        path = root / value.removeprefix("-").lstrip("/")
        if not path.is_file():
            if value.startswith("-"):
                continue
            raise BadUnits(f"{unit.name}: there is no {value}")
        for line in path.read_text().splitlines():
            key, equals, text = line.strip().partition("=")
            if equals and not key.startswith(("#", ";")):
                variables[key] = " ".join(shlex.split(text)) if text else ""
    return variables
