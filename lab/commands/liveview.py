"""A compact view of a lab's work on a terminal: a line a step, a line a machine, what is awaited, the time."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from drivers.console import strip_control
from lab.topology import Topology

#: A host's stages (docs/reference/installer.md §5.6), in an order that every role's keeps.
STAGES = (
    "Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk",
    "Copying registry data to disk", "Waiting for control plane", "Waiting for controller", "Rebooting",
    "Waiting for ignition", "Configuring", "Joined", "Done",
)  # fmt: skip
#: Steps that may take longer than somebody waits in silence, and what they wait for.
AWAITED = {
    "wait for the machine": "memory, processors and disk that other labs hold",
    "lab up": "the lab's DNS, registry, BMCs and machines",
    "create image": "the installer makes what the machines boot",
    "insert media": "BMCs fetch the image",
    "power on": "BMCs switch the machines on",
    "load config images": "machines start their live system, and read the config image",
    "wait-for bootstrap-complete": "hosts boot, register, are checked and install; the first control plane comes up",
    "wait-for install-complete": "the last host joins; cluster operators come up, and stop progressing",
    "collect the evidence": "logs, screens and journals of the machines",
}
_PHASE = re.compile(r"phase (?P<name>.+?)(?:: (?P<outcome>passed|failed|interrupted) after (?P<seconds>[0-9.]+) s)?")
_LOGGED = re.compile(r"(?:time=\S+ )?level=(?P<level>\w+) msg=(?P<text>.*)")
_STAGE = re.compile(r"Host: (?P<host>\S+), reached installation stage (?P<stage>.*)")
# Messages after which what an installer warned of before holds no more: of all, or of one host or validation.
_PROGRESS = re.compile(
    r"Cluster is ready for install|Successfully registered .*|.*reached installation stage .*"
    r"|Bootstrap (Kube API Initialized|is complete)"
)
_MENDED = re.compile(
    r"Host (?P<host>\S+?):? (updated status from \S+ to (known|preparing)|validation: ).*"
    r"|.*(?P<validation>[Vv]alidation '.+') is now fixed"
)
# States, which others follow: they are shown while they hold, and stay when the work fails.
_STATE = re.compile(
    r"(?P<topic>(Cluster|Host \S+) validation\b[^0-9]*|Host \S+: updated status|Cannot access Rendezvous Host).*"
)
# The lab itself names the release: no news.
_OWN_DOING = "Found override for release image"
# Their warnings are news in a log: what is waited for, again and again, and what the commands print themselves.
_STATUS = ("lab.host.budget", "lab.lab")
LAST_WITH_HOSTS = "wait-for bootstrap-complete"
#: The step before the time begins that is held against the last one's.
QUEUED = "wait for the machine"
_BAR = 24
_MOST_EVENTS = 64 << 20
_QUIET = ("debug", "info", "trace")
#: A warning that still holds after so many seconds stays on the terminal.
LASTS_SECONDS = 20.0
_MOST_PENDING = 4
_SILENT_SECONDS = 10


class _Warning(NamedTuple):
    at: float
    text: str
    level: str


class LiveView(logging.Handler):
    """The view for the length of a `with` block, fed by the log. Errors and the lab's own warnings stay above it at
    once, the installer's once they have lasted.

    `expected` is how long such an installation took last time (s), `machines` are the names to show, and `events` is
    the file in which the installer keeps what the service reports.
    """

    def __init__(self, title: str, expected: float | None, *, console: Console | None = None) -> None:
        super().__init__()
        self.machines: Sequence[str] = ()
        self.events: Path | None = None
        self._title, self._expected = title, expected
        self._console = console or Console(stderr=True, highlight=False)
        self._began = time.monotonic()
        self._steps: list[tuple[str, float, float | None, bool]] = []  # name, begin, seconds, passed
        self._last = ""
        self._heard = self._began
        self._pending: list[_Warning] = []
        # A signal's handler logs too, whatever this thread was at.
        self._guard = threading.RLock()
        self._others: list[logging.Handler] = []
        self._live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=2,
            # Else the console, which is stderr's, would have what is printed to a file.
            redirect_stdout=sys.stdout.isatty(),
        )

    def __enter__(self) -> LiveView:
        root = logging.getLogger()
        self._others, root.handlers = root.handlers, [self]
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().handlers = self._others
        if error is not None:
            self._stay(self._lasting(0.0))
        self._pending, self._last = [], ""
        self._live.__exit__(None, None, None)

    def emit(self, record: logging.LogRecord) -> None:
        """Take up a message: a step's begin or end, a warning, or the last that was heard."""
        text = strip_control(record.getMessage()).strip()
        logged = _LOGGED.fullmatch(text)
        level = logged["level"] if logged else record.levelname.lower()
        text = logged["text"].removeprefix('"').removesuffix('"').replace('\\"', '"') if logged else text
        if phase := _PHASE.fullmatch(text):
            if phase["outcome"] in ("failed", "interrupted"):
                self._stay(self._lasting(0.0))
            self._take(phase)
        elif not text or text.startswith(_OWN_DOING):
            return
        elif logged and (level == "warning" or text.startswith("Cannot access")):
            self._warn(_Warning(time.monotonic(), text, "warning"))
        elif level in _QUIET or record.name in _STATUS:
            self._hear(text)
        else:
            self._stay([_Warning(record.created, text, level)])
        self._stay(self._lasting(LASTS_SECONDS))

    def _warn(self, warning: _Warning) -> None:
        """Show a warning, in the place of an older one on the same state."""
        state = _STATE.match(warning.text)
        with self._guard:
            if state:
                self._pending = [other for other in self._pending if not other.text.startswith(state["topic"])]
            self._pending.append(warning)

    def _hear(self, text: str) -> None:
        mended = _MENDED.fullmatch(text)
        with self._guard:
            self._last, self._heard = text, time.monotonic()
            if _PROGRESS.fullmatch(text):
                self._pending = []
            elif mended and (about := mended["validation"] or mended["host"]):
                self._pending = [warning for warning in self._pending if about not in warning.text]

    def _lasting(self, seconds: float) -> list[_Warning]:
        """Return and forget the warnings that have held so long; without `seconds`, all."""
        latest = time.monotonic() - seconds
        with self._guard:
            lasting = [
                warning
                for warning in self._pending
                if not seconds or (warning.at <= latest and not _STATE.match(warning.text))
            ]
            self._pending = [warning for warning in self._pending if warning not in lasting]
        return lasting

    def _stay(self, warnings: Sequence[_Warning]) -> None:
        for warning in warnings:
            self._console.print(_coloured(warning))

    def _take(self, phase: re.Match[str]) -> None:
        now = time.monotonic()
        with self._guard:
            self._last, self._heard = "", now
            if phase["outcome"] is None:
                self._steps.append((phase["name"], now, None, True))
            elif phase["outcome"] == "passed":
                self._pending = []
                if phase["name"] == QUEUED:
                    self._began = now
            for number, (name, begin, seconds, _) in enumerate(self._steps):
                if name == phase["name"] and seconds is None and phase["outcome"] is not None:
                    self._steps[number] = (name, begin, float(phase["seconds"]), phase["outcome"] == "passed")

    def _drawn(self) -> RenderableType:
        now = time.monotonic()
        total = f"{clock(now - self._began)}" + (f" (last time {clock(self._expected)})" if self._expected else "")
        parts: list[RenderableType] = [Text.assemble((self._title, "bold"), "  ", total)]
        with self._guard:
            steps, last, heard = list(self._steps), self._last, self._heard
            # What is no mere state is seen best, at the end.
            pending = sorted(self._pending, key=lambda warning: not _STATE.match(warning.text))[-_MOST_PENDING:]
        for name, begin, seconds, passed in steps:
            mark, style = (
                ("✓", "green") if passed and seconds is not None else ("…", "cyan") if passed else ("✗", "red")
            )
            awaited = f"  {AWAITED[name]}" if seconds is None and name in AWAITED else ""
            parts.append(
                Text.assemble(
                    (f" {mark} ", style),
                    f"{name}  {clock(now - begin if seconds is None else seconds)}",
                    (awaited, "dim"),
                    no_wrap=True,
                    overflow="ellipsis",
                )
            )
        # After the bootstrap no service says any more how far a host is.
        over = any(name == LAST_WITH_HOSTS and seconds is not None for name, _, seconds, _ in steps)
        if not over and (stages := self._stages()):
            parts.append(self._hosts(stages))
        parts += [Padding(_coloured(warning), (0, 0, 0, 3)) for warning in pending]
        if last:
            ago = f" ({now - heard:.0f} s ago)" if now - heard >= _SILENT_SECONDS else ""
            parts.append(Text.assemble((f"  {ago} {last}", "dim"), no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _hosts(self, stages: dict[str, str]) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for name in dict.fromkeys([*self.machines, *stages]):
            stage = stages.get(name, "")
            words = stage.partition(":")[0]
            done = STAGES.index(words) + 1 if words in STAGES else 0
            table.add_row(
                Text(f"   {name}"),
                ProgressBar(total=len(STAGES), completed=done, width=_BAR),
                Text(stage, no_wrap=True),
            )
        return table

    def _stages(self) -> dict[str, str]:
        """Return each host's last stage in the order of their first ones; empty before there are any."""
        try:
            if self.events is None or self.events.stat().st_size > _MOST_EVENTS:
                return {}
            events = json.loads(self.events.read_bytes())
        except (OSError, ValueError):
            return {}
        texts = (
            [str(event.get("message")) for event in events if isinstance(event, dict)]
            if isinstance(events, list)
            else []
        )
        found = (_STAGE.fullmatch(strip_control(text)) for text in texts)
        return {match["host"]: match["stage"] for match in found if match}


def _coloured(warning: _Warning) -> Text:
    return Text(f"{warning.level}: {warning.text}", "yellow" if warning.level == "warning" else "red")


def of(topology: Topology, expected: float | None, *, verbose: bool) -> AbstractContextManager[LiveView | None]:
    """Return the view of work on a lab where stderr is a terminal that can show it, and no log is asked for; elsewhere
    a context that shows nothing."""
    if verbose or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext()
    count = len(topology.nodes)
    logging.getLogger().setLevel(logging.INFO)
    return LiveView(f"{topology.name}: {count} {topology.machine}{'s' * (count > 1)}", expected)


def clock(seconds: float) -> str:
    """Return minutes and seconds, as 3:07."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def last_time(file: Path, kind: str) -> float | None:
    """Return how long (s) the last installation of a kind took; None when none is known."""
    known = _durations(file).get(kind)
    return float(known) if isinstance(known, (int, float)) else None


def note_time(file: Path, kind: str, seconds: float) -> None:
    """Keep how long an installation of a kind took. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{threading.get_native_id()}")
    new.write_text(json.dumps({**_durations(file), kind: round(seconds, 1)}, indent=1))
    new.replace(file)


def _durations(file: Path) -> dict[str, object]:
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
