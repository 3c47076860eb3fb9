"""The command that makes a run again, with all that its plan was given."""

from __future__ import annotations

import shlex

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


def command(history: History, row: Row) -> str:
    """Write the command that repeats a run of ours, for a shell; others are run by whoever ran them.

    What a run that was loaded was given is not known: its command says the scenario alone.
    """
    scenario, _, machines = row.job.partition("@")
    if machines not in MACHINES or not SCENARIO.fullmatch(scenario):
        return f"(run {row.job} again where it ran)"
    words = ["node0-ci", "run", scenario, "--machines", machines]
    text = work.unit(history, row.key.removeprefix("run "))
    if text is not None:
        unit = msgspec.json.decode(text, type=_Unit)
        words += [f"--payload={unit.payload}", *unit.arguments]
        words += ["--minutes", f"{unit.limit / 60:g}"] if unit.limit != LIMIT else []
        words += ["--kvm"] if unit.kvm else []
    return shlex.join(words)
