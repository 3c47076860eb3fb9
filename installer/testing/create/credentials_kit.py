"""Keys for runs of `agent create` in the test's process: a fresh set takes 0.26 s of processor time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import pytest

from installer.credentials import background

P = ParamSpec("P")
T = TypeVar("T")
#: So many runs in a row have secrets of their own.
RUNS = 4


class InTurn(Generic[P, T]):
    """A function whose first `RUNS` results for the same arguments are given again in their order."""

    def __init__(self, function: Callable[P, T]) -> None:
        self._function = function
        self._calls: dict[object, itertools.count[int]] = {}
        self._results: dict[tuple[object, int], T] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Without a lock: a process that is forked from a test would wait for ever for one that a thread has."""
        key = (args, tuple(kwargs.items()))
        turn = (key, next(self._calls.setdefault(key, itertools.count())) % RUNS)
        if turn not in self._results:
            self._results[turn] = self._function(*args, **kwargs)
        return self._results[turn]


def keep(patch: pytest.MonkeyPatch) -> None:
    """Signers and passwords of this process are made `RUNS` times at most."""
    for name in ("signer", "password_and_hash"):
        patch.setattr(background, name, InTurn(getattr(background, name)))
