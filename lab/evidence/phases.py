"""Phases of a run with their durations, written to phases.json as they begin and end."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.cleanup import finish

log = logging.getLogger(__name__)

#: Ctrl-C, and signals that a program turns into one of these: they say nothing about what was being done.
INTERRUPTIONS = (KeyboardInterrupt, SystemExit)


class Phases:
    """A list of phases, which may nest. The file is rewritten whenever one begins or ends, for runs that are killed,
    once `ready` says that it may be.

    Threads may have phases of their own at the same time: each nests for itself.
    """

    def __init__(self, path: Path, ready: Callable[[], bool] = lambda: True) -> None:
        self._path, self._ready = path, ready
        self._entries: list[dict[str, Any]] = []
        self._depth = threading.local()
        self._lock = threading.Lock()
        self._origin = time.monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note when `name` begins, how long it takes (seconds), and whether it failed."""
        begin = time.monotonic()
        entry: dict[str, Any] = {
            "name": name,
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "at": round(begin - self._origin, 3),
            "depth": self._nesting(),
            "seconds": None,
            "outcome": "running",
        }
        with self._lock:
            self._entries.append(entry)
            self._depth.now = entry["depth"] + 1
            self.write()
        log.info("phase %s", name)
        try:
            yield
        except BaseException as error:
            entry["outcome"] = "interrupted" if isinstance(error, INTERRUPTIONS) else "failed"
            entry["error"] = str(error)[:500]
            finish(("note the end of the phase", lambda: self._end(entry, begin)), cause=error)
            raise
        entry["outcome"] = "passed"
        self._end(entry, begin)

    def _end(self, entry: dict[str, Any], begin: float) -> None:
        with self._lock:
            self._depth.now = entry["depth"]
            entry["seconds"] = round(time.monotonic() - begin, 3)
            self.write()
        log.info("phase %s: %s after %.1f s", entry["name"], entry["outcome"], entry["seconds"])

    def _nesting(self) -> int:
        return int(getattr(self._depth, "now", 0))

    def interrupted(self) -> None:
        """Note that the run was interrupted, if no phase has said so: it may come between two phases."""
        with self._lock:
            if not any(entry["outcome"] == "interrupted" for entry in self._entries):
                began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                at = round(time.monotonic() - self._origin, 3)
                nothing = {"depth": 0, "seconds": 0.0, "outcome": "interrupted", "error": ""}
                self._entries.append({"name": "interruption", "began": began, "at": at, **nothing})
                self.write()

    def seconds(self) -> dict[str, float]:
        """Durations of the phases that have ended, by name; the last one where a name occurs more than once."""
        return {e["name"]: e["seconds"] for e in self._entries if e["seconds"] is not None}

    def write(self) -> None:
        """Put what there is into the file, whole or not at all. Raises OSError."""
        if not self._ready():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(self._path.name + ".new")
        temporary.write_text(json.dumps(self._entries, indent=1) + "\n")
        temporary.replace(self._path)
