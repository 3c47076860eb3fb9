"""All of it in one call: an nmstate document in, NetworkManager keyfiles or a list of problems out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from installer.network.document import read_document
from installer.network.errors import InvalidNetworkConfig, Problem
from installer.network.keyfile import render
from installer.network.profiles.place import place
from installer.network.profiles.plan import Plan, make_plan
from installer.network.profiles.sections import Sections, interface_profiles
from installer.network.reading.dns import Extra
from installer.network.reading.model import Document
from installer.network.reading.reader import Problems
from installer.network.reading.values import describe

# An interface in a problem's path; the list itself where it is none.
_INTERFACE = re.compile(r"interfaces(\[\d+\])?")
SUFFIX = ".nmconnection"


def planned(config: Any, macs: Mapping[str, str] | None = None) -> tuple[Document, Plan, Extra]:
    """Return what a document says, and what comes of it; one that is None is empty. Raises InvalidNetworkConfig.

    `macs`: the addresses of the host's NICs by their names in the document, as far as they are known.
    """
    problems = Problems()
    document = read_document({} if config is None else config, problems)
    unread = _unread(config, problems.all)
    read = len(problems.all)
    plan, extra = place(document, make_plan(document, problems, macs), problems)
    if problems.all:
        further = (problem for problem in problems.all[read:] if not _follows(problem, unread))
        raise InvalidNetworkConfig([*problems.all[:read], *further])
    return document, plan, extra


def profiles(plan: Plan, extra: Extra) -> list[tuple[str, Sections]]:
    """(profile id, sections) of every profile, in upstream's order."""
    return [profile for interface in plan.ordered() for profile in interface_profiles(interface, plan, extra)]


def _unread(config: Any, problems: Sequence[Problem]) -> dict[str, str]:
    """Return the interfaces that could not be read, by their paths: their names as problems show them, empty if
    unknown."""
    found = {match[0]: "" for problem in problems if (match := _INTERFACE.match(problem.path))}
    entries = config.get("interfaces") if isinstance(config, Mapping) else None
    for path in found:
        index = path.removeprefix("interfaces").strip("[]")
        entry = entries[int(index)] if index and isinstance(entries, list | tuple) else None
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name and not any(problem.path == f"{path}.name" for problem in problems):
            found[path] = describe(name)
    return found


def _follows(problem: Problem, unread: Mapping[str, str]) -> bool:
    """Return whether a problem of how parts fit together may stem from an interface that could not be read."""
    if any(problem.path.startswith(path) for path in unread if path != "interfaces"):
        return True
    # The problem is that an interface lacks something, or that none has it.
    return bool(unread) and (not problem.value or problem.value in unread.values() or "" in unread.values())


def keyfiles(config: Mapping[str, Any]) -> dict[str, str]:
    """File name (ending in .nmconnection) to keyfile text, as `nmstatectl gc` makes them (reference/nmstate.md).

    `config` is an nmstate document as parsed from YAML. Raises InvalidNetworkConfig, which carries every problem of
    the document, each with the field's path, its value, and the rule. An empty document gives no files.
    """
    _, plan, extra = planned(config)
    return {f"{name}{SUFFIX}": render(sections) for name, sections in profiles(plan, extra)}
