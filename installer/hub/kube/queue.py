"""A queue of keys: each is worked on by one thread at a time, and waits longer the more often it has failed."""

from __future__ import annotations

import heapq
import random
import threading
import time

from installer.hub.kube.kinds import Key

FIRST_RETRY, LAST_RETRY = 0.5, 300.0


class KeyedQueue:
    """Keys that are to be looked at, now or later. A key that comes while it is worked on is worked on once more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: dict[Key, None] = {}  # in the order in which they came
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return len(self._ready) + len(self._working)

    def add(self, key: Key) -> None:
        """Have the key looked at as soon as a thread is free."""
        with self._changed:
            if key in self._working:
                self._again.add(key)
            elif key not in self._ready:
                self._ready[key] = None
                self._due.pop(key, None)
                self._changed.notify()

    def take(self) -> Key | None:
        """Wait for a key and take it; None when the queue is closed. Each is given back by ``done`` or ``failed``."""
        with self._changed:
            while not self._closed:
                wait = self._move_due()
                if self._ready:
                    key = next(iter(self._ready))
                    del self._ready[key]
                    self._working.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: Key, after: float | None = None) -> None:
        """Give a key back; ``after``: seconds until it is looked at again, in place of an earlier time."""
        with self._changed:
            self._failures.pop(key, None)
            self._give_back(key, after)

    def failed(self, key: Key, least: float = 0.0) -> float:
        """Give a key back that is tried again later; returns in how many seconds, at least ``least``."""
        with self._changed:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            # A little by chance, so that what failed together is not tried together.
            wait = min(FIRST_RETRY * 2.0 ** min(count - 1, 20), LAST_RETRY) * random.uniform(0.8, 1.2)
            after = max(wait, least)
            self._give_back(key, after)
            return after

    def close(self) -> None:
        """Have all threads stop waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _give_back(self, key: Key, after: float | None) -> None:
        self._working.discard(key)
        self._due.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self._ready[key] = None
        elif after is not None:
            self._due[key] = time.monotonic() + after
            heapq.heappush(self._heap, (self._due[key], key))
        self._changed.notify()

    def _move_due(self) -> float | None:
        """Move keys whose time has come to the ready ones; seconds until the next, None if none waits."""
        now = time.monotonic()
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due:  # looked at meanwhile
                heapq.heappop(self._heap)
            elif due <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self._ready[key] = None
            else:
                return due - now
        return None
