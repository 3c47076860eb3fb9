"""The command that makes a run again, with all that its plan was given."""

from __future__ import annotations

import shlex
from contextlib import suppress

import msgspec

from ci.informer.history import work
from ci.informer.history.artifacts import MACHINES
from ci.informer.history.model import LIMIT, SCENARIO
from ci.informer.history.store import History, Row


class _Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a unit (ci.informer.engine.unit) that is said to `node0-ci run`."""

    payload: str
    limit: float = LIMIT
    kvm: bool = False
    arguments: tuple[str, ...] = ()


def _exists(scenario: str) -> bool:
    """Tell whether there is a scenario of this name, or a row of faults, which is called by its scenario and a word."""
    from scenarios.catalogue.ids import topology_of  # half of the start of any command

    for name in (scenario, scenario.rpartition("-")[0]):
        with suppress(ValueError):
            topology_of(name)
            return True
    return False


def command(history: History, row: Row) -> str:
    """Write the command that repeats a run of ours, for a shell; others are run by whoever ran them.

    A run that was loaded says its command itself. Older artefacts do not: the command has the scenario alone, where the
    job is one.
    """
    scenario, _, machines = row.job.partition("@")
    text = work.unit(history, row.key.removeprefix("run "))
    if text is None and row.command:
        return row.command
    if machines not in MACHINES or not SCENARIO.fullmatch(scenario) or (text is None and not _exists(scenario)):
        return f"(run {row.job} again where it ran)"
    words = ["node0-ci", "run", scenario, "--machines", machines]
    if text is not None:
        unit = msgspec.json.decode(text, type=_Unit)
        words += [f"--payload={unit.payload}", *unit.arguments]
        words += ["--minutes", f"{unit.limit / 60:g}"] if unit.limit != LIMIT else []
        words += ["--kvm"] if unit.kvm else []
    return shlex.join(words)
