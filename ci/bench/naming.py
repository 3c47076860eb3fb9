"""The time, in real installs, from a fault to the first line that names it; and the hosts that are wrongly named.

Read from the evidence of runs of scenarios/test_faults.py: `phases.json` has when the fault began, `wait-for`'s log
each line with its second.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ci.bench.measure import table
from scenarios.catalogue.faulty import ROWS, Row
from scenarios.catalogue.ids import topology_of

_LINE = re.compile(r'^time="(?P<time>[^"]+)" level=(?P<level>\w+) msg="?(?P<message>.*?)"?$', re.MULTILINE)
#: Levels that a user takes for a complaint; info lines may have a cause's words for other reasons.
_COMPLAINTS = ("warning", "error", "fatal")
_COMPLAINT = "Cannot access Rendezvous Host"
_WITNESS = re.compile(r"as host \S+ sees")


@dataclass(frozen=True)
class Naming:
    """One run of a row whose fault is to be reported.

    `seconds` from the fault's begin to the first complaint that names its cause and its host, None where none does;
    `accused` are hosts that the first error line names and the row does not.
    """

    row: str
    seconds: float | None
    accused: tuple[str, ...]


def naming(row: Row, began: datetime, log: str) -> Naming:
    """Read how a run named its fault, which began at `began`, by the text of `.openshift_install.log`."""
    assert row.told is not None
    cause, first, seconds = re.compile(row.told.cause), None, None
    for match in _LINE.finditer(log):
        since = (datetime.fromisoformat(match["time"]) - began).total_seconds()
        # Both times are rounded to seconds, so the complaint may seem to be a second earlier.
        message = match["message"]
        if since < -1 or (match["level"] not in _COMPLAINTS and not message.startswith(_COMPLAINT)):
            continue
        if seconds is None and cause.search(message) and row.told.host in message:
            seconds = max(since, 0.0)
        if first is None and match["level"] in ("error", "fatal") and message != "Bootstrap failed to complete":
            first = message
    hosts = [node.name for node in topology_of(row.scenario).nodes]
    # A line may name the row's host, those that its faults are done to, and a witness ("as host X sees"); any other
    # host that it names is wrongly accused.
    concerned = {row.told.host} | {name for fault in row.faults for name in _nodes(fault)}
    blame = _WITNESS.sub("", first or "")
    accused = [host for host in hosts if host not in concerned and re.search(rf"\b{re.escape(host)}\b", blame)]
    return Naming(row.name, seconds, tuple(accused))


def _nodes(fault: object) -> tuple[str, ...]:
    return (*getattr(fault, "nodes", ()), getattr(fault, "node", ""))


def read(folders: Iterable[Path]) -> list[Naming]:
    """Each row's latest run in the evidence below the folders (`--artifacts` of pytest). Runs without a fault, and of
    rows that complete, are passed over."""
    # What a BMC refuses is reported before there is anything to wait for.
    rows = {row.id: row for row in ROWS if row.told is not None and row.bmc == "lab"}
    latest: dict[str, tuple[datetime, Naming]] = {}
    for phases in sorted(path for folder in folders for path in folder.rglob("phases.json")):
        row, log = rows.get(phases.parent.name), phases.parent / "installer/openshift_install.log"
        if row is None or not log.exists():
            continue
        for phase in json.loads(phases.read_text()):
            if phase["name"] != f"fault {row.name}":
                continue
            began = datetime.fromisoformat(phase["began"])
            if row.id not in latest or latest[row.id][0] < began:
                latest[row.id] = (began, naming(row, began, log.read_text()))
    return [row for _, row in latest.values()]


def run(folders: Sequence[Path]) -> None:
    """Print a row each, the median and the worst."""
    namings = sorted(read(folders), key=lambda naming: (naming.seconds is None, naming.seconds))
    rows = [(naming.row, "never" if naming.seconds is None else f"{naming.seconds:.0f} s") for naming in namings]
    table("from the fault to the first complaint that names it", rows)
    for naming in namings:
        if naming.accused:
            print(f"{naming.row}: its first error names {', '.join(naming.accused)} too")
    times = [naming.seconds for naming in namings if naming.seconds is not None]
    if times:
        print(f"\n{len(times)} of {len(namings)} named: P50 {statistics.median(times):.0f} s, max {max(times):.0f} s")
    print(f"named wrongly: {sum(bool(one.accused) for one in namings)}")
