"""Parts that the tests of one scenario share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Generic, TypeVar

from scenarios.testing.cluster import Installation, Stopped
from scenarios.testing.service import Discovered

T = TypeVar("T", Installation, Stopped, Discovered)


class Shared(Generic[T]):
    """The subject that the tests of one scenario share, or why there is none; `close` ends its lab."""

    def __init__(self, scenario_id: str, make: Callable[[ExitStack], T]) -> None:
        self.scenario_id = scenario_id
        self._subject: T | None = None
        self._failure: Exception | None = None
        # An interruption ends the lab, so that its evidence is there before the run's pages are written.
        with ExitStack() as labs:
            try:
                self._subject = make(labs)
            except Exception as error:
                self._failure = error
            self._lab = labs.pop_all()

    def get(self, scenario_id: str) -> T:
        """Return the subject. Raises for each test the error with which making it failed."""
        assert self.scenario_id == scenario_id, "tests of two scenarios are mixed"
        if self._subject is None:
            raise self._failure or AssertionError("it has been closed")
        return self._subject

    def close(self) -> None:
        """Collect evidence and end the lab, or keep it."""
        self._subject = None
        self._lab.close()
