"""Problems of an nmstate document: every one is kept, and all of them are reported together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from installer.errors import NetworkConfigError


@dataclass(frozen=True, order=True)
class Problem:
    """One field that cannot be turned into keyfiles: where it is, what it holds, and the rule that it breaks."""

    path: str
    value: str
    rule: str

    def __str__(self) -> str:
        where = self.path or "document"
        return f"{where}: {self.rule} (got {self.value})" if self.value else f"{where}: {self.rule}"


class InvalidNetworkConfig(NetworkConfigError):
    """The document is refused; `problems` holds every reason, in document order and without repeats."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        first = self.problems[0]
        text = "; ".join(str(problem) for problem in self.problems)
        super().__init__(first.path if len(self.problems) == 1 else "", text)
        self.args = (text,)


class UnreadableDocument(NetworkConfigError):
    """The text is not YAML, or not a YAML mapping, so there are no fields to judge yet."""
