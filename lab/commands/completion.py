"""Completion in the shell with names of what exists now: labs, machines, NICs, faults."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

from installer.common.commandline import actions, complete
from lab.errors import LabError
from lab.faults import active
from lab.host import records

Chosen = Callable[[str | None], records.Record]
# Daemons of each lab; some have a proxy, a load balancer or vendors' BMCs besides.
_SERVICES = ("dnsmasq", "registry", "chronyd", "bmc", "http")
# Short names of the lab's DNS. Where nothing is offered, the shell offers the files of its directory.
_DNS_NAMES = ("api", "api-int", "registry")


def offer(parser: argparse.ArgumentParser, chosen: Chosen) -> None:
    """Print completions and exit if the shell asks for them; else do nothing. `chosen` finds a command's lab."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    for action in actions(parser):
        if (find := _NAMES.get(action.dest)) is not None and not action.choices:
            action.completer = _completer(find, chosen)  # type: ignore[attr-defined]
    complete(parser)


def _labs(_lab: records.Record | None) -> Sequence[str]:
    return [record.id for record in records.all_labs() if record.runs]


def _nodes(lab: records.Record | None) -> Sequence[str]:
    return [spec.name for spec in lab.topology.nodes] if lab else ()


def _nics(lab: records.Record | None) -> Sequence[str]:
    return sorted({nic.name for spec in lab.topology.nodes for nic in spec.all_nics}) if lab else ()


def _images(lab: records.Record | None) -> Sequence[str]:
    return sorted(lab.components) if lab else ()


def _faults(lab: records.Record | None) -> Sequence[str]:
    return [str(fault.number) for fault in active.lasting(lab.root)] if lab else ()


#: The names that an option may have, by what the parser calls it.
_NAMES: dict[str, Callable[[records.Record | None], Sequence[str]]] = {
    "lab": _labs,
    "node": _nodes,
    "nodes": _nodes,
    "nic": _nics,
    "image": _images,
    "name": lambda _lab: _DNS_NAMES,
    "number": _faults,
    "service": lambda _lab: _SERVICES,
}


def _completer(find: Callable[[records.Record | None], Sequence[str]], chosen: Chosen) -> Callable[..., Sequence[str]]:
    def names(parsed_args: argparse.Namespace, **_: Any) -> Sequence[str]:
        try:
            lab = chosen(getattr(parsed_args, "lab", None))
        except LabError:
            # None runs, or several do, or no such one.
            lab = None
        try:
            return find(lab)
        except (LabError, OSError):
            return ()

    return names
