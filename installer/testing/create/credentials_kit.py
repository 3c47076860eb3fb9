"""Parts shared by runs of `node0` in a test's process: keys take 0.26 s of processor time a set, the parser 7 ms."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import pytest

from installer import cli
from installer.credentials import background

P = ParamSpec("P")
T = TypeVar("T")
#: So many runs in a row have secrets of their own.
RUNS = 4


class InTurn(Generic[P, T]):
    """A function whose first `RUNS` results for the same arguments are given again in their order."""

    def __init__(self, function: Callable[P, T]) -> None:
        self._function = function
        self._process = os.getpid()
        self._calls: dict[object, itertools.count[int]] = {}
        self._results: dict[tuple[object, int], T] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Without a lock: a process that is forked from a test would wait for ever for one that a thread has."""
        key = (args, tuple(kwargs.items()))
        number = next(self._calls.setdefault(key, itertools.count()))
        if os.getpid() != self._process:
            number -= 1  # what a forked process makes is lost with it: it gets what the test's process had last
        turn = (key, number % RUNS)
        if turn not in self._results:
            self._results[turn] = self._function(*args, **kwargs)
        return self._results[turn]


def keep(patch: pytest.MonkeyPatch) -> None:
    """Signers and passwords of this process are made `RUNS` times at most, the command line's parser once."""
    for name in ("authority", "password_and_hash"):
        patch.setattr(background, name, InTurn(getattr(background, name)))
    patch.setattr(cli, "parser", functools.cache(cli.parser))
