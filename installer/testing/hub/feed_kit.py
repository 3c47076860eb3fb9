"""A service that is nothing but a feed, whose answers a test decides."""

from __future__ import annotations

import time

from installer.hub.service import Changes


class ScriptedService:
    """Gives these pages of changes, and raises these errors, one a poll; afterwards it stays silent."""

    def __init__(self, *answers: Changes | Exception) -> None:
        self._answers = list(answers)
        #: The marks that it was asked for changes after.
        self.marks: list[str] = []

    def changes(self, mark: str, seconds: float) -> Changes:
        """Answer a poll."""
        self.marks.append(mark)
        if not self._answers:
            time.sleep(min(seconds, 0.05))
            return Changes([], mark)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
