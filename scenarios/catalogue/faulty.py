"""The table of faults (faults/*.yaml): what fails when, in which installation, and what its outcome must be."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from drivers.errors import DriverError
from installer.common.formats import YamlError, yamltext
from lab.faults import Crash, Fault
from lab.faults.moments import Moment, Watched
from lab.topology import Bmc, MachineKind
from scenarios.catalogue.errors import TableError
from scenarios.catalogue.simulated import Simulated
from scenarios.testing.cluster import BOOTSTRAP_SECONDS, INSTALL_SECONDS, output_of

if TYPE_CHECKING:
    from lab.deploy import Deployment
    from lab.lab import Lab

#: One file for each subject.
TABLES = Path(__file__).with_name("faults")
Lane = Literal["swarm", "container", "vm"]
#: A row runs in labs of both kinds unless it says otherwise.
LABS: tuple[Lane, ...] = ("container", "vm")
#: How much longer an emulated host takes than a container until it can say what is wrong: 3 minutes to its login alone.
EMULATED = 3
_NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_ERROR = re.compile(r"^.*?level=(?:error|fatal) msg=(?P<message>.*)$", re.MULTILINE)


class Completes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster is installed, and takes at most `factor` times as long as undisturbed."""

    factor: Annotated[float, Meta(ge=1, le=100)] = 2.0


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`wait-for bootstrap-complete`, given `minutes`, ends with `code`, and its first error line names the cause: a
    regular expression on words of it. `host` is named in that line, unless it is empty. Where the bootstrap completes,
    it is `wait-for install-complete`, given as much. In VMs a row that containers have too is given `EMULATED` times as
    long.

    In labs the cause may be asked for elsewhere too, by expressions of their own, while the fault lasts: `page` in
    what the service's page shows, `console` in what the console of `host` has said (without one, of each host),
    `archive` in a file that `wait-for` has kept or else that `agent gather` brings."""

    cause: str
    host: str = ""
    page: str | None = None
    console: str | None = None
    archive: str | None = None
    code: Annotated[int, Meta(ge=1, le=255)] = 5
    minutes: Annotated[int, Meta(ge=1, le=240)] = 10

    def __post_init__(self) -> None:
        for field, pattern in {"cause": self.cause, **self.elsewhere}.items():
            try:
                names_nothing = re.search(pattern, "")
            except re.error as error:
                raise ValueError(f"{field}: {error}") from error
            if names_nothing:
                raise ValueError(f"{field} {pattern!r}: any line has it")

    @property
    def elsewhere(self) -> dict[str, str]:
        """Return the texts wanted of the page, the console and the archive, by field."""
        asked = {"page": self.page, "console": self.console, "archive": self.archive}
        return {field: pattern for field, pattern in asked.items() if pattern is not None}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row. `faults` begin together at `begin`, and end at `end` or with the installation. `why` is for readers.

    `lanes` are where it runs: in labs of containers or VMs, or as a swarm, the real service and agents over simulated
    hosts. `gate` rows run with every change. `vm` says why a container will not do. `bmc` is whose BMCs machines have:
    what one refuses ends the installation before it begins, with 1 as `node0-lab deploy` does. `void` is the daemon of
    the lab that its fault ends: that is told as the lab's own failure, and of the installation nothing is.
    """

    name: str
    scenario: str
    faults: tuple[Fault | Simulated, ...]
    begin: Moment
    why: str
    completes: Completes | None = None
    told: Told | None = None
    void: str = ""
    end: Moment | None = None
    lanes: tuple[Lane, ...] = LABS
    gate: bool = False
    vm: str = ""
    bmc: Bmc = "lab"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: want words of lower-case letters and digits joined by _")
        if [self.completes is None, self.told is None, not self.void].count(False) != 1:
            raise ValueError("want one of completes, told and void")
        if self.void and self.void not in [fault.service for fault in self.faults if isinstance(fault, Crash)]:
            raise ValueError(f"void: no fault ends {self.void}")
        if not self.lanes or len(set(self.lanes)) < len(self.lanes):
            raise ValueError("lanes: want at least one, each once")
        if not self.why.strip():
            raise ValueError("why: says nothing")
        if self.void and len(self.faults) > 1:
            raise ValueError("void: another fault would go unseen")
        if self.lanes != ("swarm",) and any(isinstance(fault, Simulated) for fault in self.faults):
            raise ValueError("lanes: only a swarm has simulated faults")
        if self.told and self.told.elsewhere and not set(self.lanes) & set(LABS):
            raise ValueError(f"{next(iter(self.told.elsewhere))}: only labs have it, and the row is of none")
        if bool(self.vm) != ("container" not in self.lanes and "vm" in self.lanes):
            raise ValueError("vm: says why there is the lane vm without container")

    @property
    def real(self) -> tuple[Fault, ...]:
        """The row's faults that a lab can have."""
        return tuple(fault for fault in self.faults if not isinstance(fault, Simulated))

    @property
    def id(self) -> str:
        """The scenario's id."""
        return f"{self.scenario}-{self.name}"

    def told_minutes(self, machine: MachineKind) -> int:
        """Return the minutes in which `wait-for` on such machines must say what is wrong; 0 for what completes."""
        longer = EMULATED if machine == "vm" and "container" in self.lanes else 1
        return self.told.minutes * longer if self.told else 0


def load(files: Mapping[str, str | bytes]) -> tuple[Row, ...]:
    """Return the rows of files, texts by their names. Raises TableError with all that is wrong, each with its file and
    row."""
    problems: list[str] = []
    rows: dict[str, Row] = {}
    for source, text in files.items():
        try:
            entries = yamltext.load(text, alone=True) or []
        except YamlError as error:
            problems.append(f"{source}: {' '.join(str(error).split())}")
            continue
        if not isinstance(entries, list):
            problems.append(f"{source}: want a list of rows")
            continue
        for number, entry in enumerate(entries):
            label = entry.get("name", number) if isinstance(entry, dict) else number
            try:
                row = msgspec.convert(entry, Row)
            except msgspec.ValidationError as error:
                problems.append(f"{source}: {label}: {error}")
                continue
            if row.id in rows:
                problems.append(f"{source}: {row.id}: is there twice")
            rows[row.id] = row
    if problems:
        raise TableError("\n".join(problems))
    return tuple(rows.values())


ROWS = load({path.name: path.read_bytes() for path in sorted(TABLES.glob("*.yaml"))})


@dataclass(frozen=True)
class Outcome:
    """An installation's outcome: `wait-for`'s exit code and output, seconds since power on, and where else a row's
    cause is missing, as lines."""

    code: int
    output: str
    seconds: float
    unsaid: tuple[str, ...] = ()

    @property
    def errors(self) -> list[str]:
        """The messages of its error lines, in order."""
        messages = [match["message"] for match in _ERROR.finditer(self.output)]
        return [message.strip('"').replace('\\"', '"') for message in messages]


class Disturbed(Watched, Protocol):
    """An installation that faults happen to."""

    @property
    def lab(self) -> Lab:
        """The lab that it runs in."""


@contextmanager
def disturbed(subject: Disturbed, row: Row, began: float, seconds: float) -> Iterator[Future[float | None]]:
    """Begin and end the row's faults while the block runs; the future has when they began, in seconds since `began`, or
    None where the block ended before."""
    over = threading.Event()

    def drive() -> float | None:
        if not row.begin.wait(subject, began, seconds, over):
            return None
        at = time.monotonic() - began
        begun = []
        try:
            with subject.lab.phase(f"fault {row.name}"):
                for fault in row.real:
                    fault.begin(subject.lab)
                    begun.append(fault)
                if row.end is not None:
                    row.end.wait(subject, time.monotonic(), seconds, over)
                else:
                    over.wait()
        finally:
            for fault in reversed(begun):
                fault.end(subject.lab)
        return at

    with ThreadPoolExecutor(1, "fault") as pool:
        future = pool.submit(drive)
        try:
            yield future
        finally:
            over.set()


def installed(deployment: Deployment, limit: float, *options: str) -> Outcome:
    """Boot and wait, for bootstrap with so many seconds and these options, then for the rest, with the same options. A
    BMC's refusal is all that comes of it, with 1 as `node0-lab deploy` ends."""
    began = time.monotonic()
    try:
        deployment.boot()
    except DriverError as error:
        return Outcome(1, f"level=fatal msg={error}", time.monotonic() - began)
    result = deployment.wait_for("bootstrap-complete", limit + 600, *options)
    if result.returncode == 0:
        result = deployment.wait_for("install-complete", INSTALL_SECONDS, *options)
    return Outcome(result.returncode, output_of(result), time.monotonic() - began)


def disturb(deployment: Deployment, row: Row, look: Callable[[Told], tuple[str, ...]] | None = None) -> Outcome:
    """Install with the row's faults, up to where `wait-for` ends. `look` then says where else the cause is missing, if
    `wait-for` has ended as the row is told; the faults end after it."""
    deployment.create_image()
    limit = 60 * row.told_minutes(deployment.topology.machine) if row.told else BOOTSTRAP_SECONDS
    options = [f"--timeout={limit}"] if row.told else []
    return disturb_while(deployment, row, limit, partial(installed, deployment, limit, *options), look=look)


def disturb_while(
    subject: Disturbed,
    row: Row,
    limit: float,
    install: Callable[[], Outcome],
    *,
    look: Callable[[Told], tuple[str, ...]] | None = None,
) -> Outcome:
    """Have `install` return how it ends with the row's faults, which begin and end within `limit` seconds; `look` as
    above."""
    with disturbed(subject, row, time.monotonic(), limit) as future:
        outcome = install()
        if look is not None and row.told and outcome.code == row.told.code:
            outcome = replace(outcome, unsaid=look(row.told))
    # An error of the fault itself is raised first: the installation did not cause it.
    at = future.result(60)
    assert at is not None, f"{row.name} did not begin: all was over after {outcome.seconds:.0f} s"
    return outcome
