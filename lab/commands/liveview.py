"""A compact view of a deployment on a terminal: a line a step, a line a machine, the last message, the time."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from drivers.console import strip_control

#: A host's stages (docs/reference/installer.md §5.6), in an order that every role's keeps.
STAGES = (
    "Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk",
    "Copying registry data to disk", "Waiting for control plane", "Waiting for controller", "Rebooting",
    "Waiting for ignition", "Configuring", "Joined", "Done",
)  # fmt: skip
_PHASE = re.compile(r"phase (?P<name>.+?)(?:: (?P<outcome>passed|failed) after (?P<seconds>[0-9.]+) s)?")
_LOGGED = re.compile(r"(?:time=\S+ )?level=(?P<level>\w+) msg=(?P<text>.*)")
_STAGE = re.compile(r"Host: (?P<host>\S+), reached installation stage (?P<stage>.*)")
LAST_WITH_HOSTS = "wait-for bootstrap-complete"
_BAR = 24
_MOST_EVENTS = 64 << 20
_QUIET = ("debug", "info", "trace")


class LiveView(logging.Handler):
    """The view for the length of a `with` block, fed by the log. Warnings and errors stay above it.

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
        self._guard = threading.Lock()
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

    def __exit__(self, *_: object) -> None:
        logging.getLogger().handlers = self._others
        self._last = ""
        self._live.__exit__(None, None, None)

    def emit(self, record: logging.LogRecord) -> None:
        """Take up a message: a step's begin or end, or the last that was heard."""
        text = strip_control(record.getMessage()).strip()
        logged = _LOGGED.fullmatch(text)
        level = logged["level"] if logged else record.levelname.lower()
        text = logged["text"].removeprefix('"').removesuffix('"').replace('\\"', '"') if logged else text
        if phase := _PHASE.fullmatch(text):
            self._take(phase)
        elif text:
            self._last = text
            if level not in _QUIET:
                self._console.print(Text(f"{level}: {text}", "red" if level in ("error", "fatal") else "yellow"))

    def _take(self, phase: re.Match[str]) -> None:
        now = time.monotonic()
        with self._guard:
            if phase["outcome"] is None:
                self._steps.append((phase["name"], now, None, True))
            for number, (name, begin, seconds, _) in enumerate(self._steps):
                if name == phase["name"] and seconds is None and phase["outcome"] is not None:
                    self._steps[number] = (name, begin, float(phase["seconds"]), phase["outcome"] == "passed")

    def _drawn(self) -> RenderableType:
        now = time.monotonic()
        total = f"{clock(now - self._began)}" + (f" (last time {clock(self._expected)})" if self._expected else "")
        parts: list[RenderableType] = [Text.assemble((self._title, "bold"), "  ", total)]
        with self._guard:
            steps = list(self._steps)
        for name, begin, seconds, passed in steps:
            mark, style = (
                ("✓", "green") if passed and seconds is not None else ("…", "cyan") if passed else ("✗", "red")
            )
            parts.append(
                Text.assemble((f" {mark} ", style), f"{name}  {clock(now - begin if seconds is None else seconds)}")
            )
        # After the bootstrap no service says any more how far a host is.
        over = any(name == LAST_WITH_HOSTS and seconds is not None for name, _, seconds, _ in steps)
        if not over and (stages := self._stages()):
            parts.append(self._hosts(stages))
        if self._last:
            last = Text(f"   {self._last}", "dim", no_wrap=True, overflow="ellipsis")
            parts.append(last)
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
