"""Recent refusals: the same request is refused again for a while, with the same reason and without a look."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from installer.assisted.errors import BadRequest

# How long a refusal holds (s), doubled each time, and at most.
FIRST, LONGEST = 10.0, 300.0
REMEMBERED = 256


class Refusals:
    """Refusals by subject and secret. Thread-safe: of those who ask for the same one looks and the others wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        # (reason, until when, how long it held) by key, the oldest first.
        self._known: dict[str, tuple[str, float, float]] = {}

    @contextmanager
    def turn(self, subject: str, secret: str) -> Iterator[Callable[[str], None]]:
        """Provide a function that notes why it was refused; without a call of it the refusal is forgotten.

        Raises BadRequest while an earlier refusal holds.
        """
        key = hashlib.sha256(f"{subject}\0{secret}".encode()).hexdigest()
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
            if len(self._turns) > REMEMBERED:
                del self._turns[next(iter(self._turns))]
        with turn:
            before = self._known.get(key)
            if before is not None and self._clock() < before[1]:
                raise BadRequest(before[0])
            self._known.pop(key, None)

            def note(reason: str) -> None:
                seconds = min(2 * before[2], LONGEST) if before else FIRST
                self._known[key] = (reason, self._clock() + seconds, seconds)
                if len(self._known) > REMEMBERED:
                    self._known.pop(next(iter(self._known)), None)

            yield note
