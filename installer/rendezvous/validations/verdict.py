"""The result of a validation, and how the API shows the verdicts of a host or a cluster."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from installer.assisted.enums import GOOD, Result, ValidationCategory
from installer.rendezvous.store.documents import Entry, Info


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A check's result, and one sentence that tells it to the user."""

    result: Result
    message: str

    @property
    def is_good(self) -> bool:
        """Return whether it is no obstacle to the installation."""
        return self.result in GOOD


# By the validation's id.
Verdicts = Mapping[str, Verdict]


def success(message: str) -> Verdict:
    """Return the verdict that all is as it should be."""
    return Verdict(Result.SUCCESS, message)


def failure(message: str) -> Verdict:
    """Return the verdict that something is wrong."""
    return Verdict(Result.FAILURE, message)


def pending(message: str) -> Verdict:
    """Return the verdict that it is not known yet."""
    return Verdict(Result.PENDING, message)


def error(message: str) -> Verdict:
    """Return the verdict that it cannot be known whether something is wrong."""
    return Verdict(Result.ERROR, message)


# For what does not concern this host or cluster: it counts as good, and is not shown.
SUPPRESSED = Verdict(Result.SUPPRESSED, "")


def as_info(verdicts: Verdicts, categories: Mapping[str, ValidationCategory]) -> Info:
    """Group the verdicts that are to be shown by category, in the order of the ids in ``categories``."""
    info: Info = {}
    for name, category in categories.items():
        verdict = verdicts.get(name)
        if verdict is not None and verdict.result is not Result.SUPPRESSED:
            info.setdefault(category, []).append(Entry(name, verdict.result, verdict.message))
    return info


def overridden(name: str, verdict: Verdict, skipped: frozenset[str], never: frozenset[str]) -> Verdict:
    """Return a failing or open verdict that the user chose to ignore is ``disabled``; some cannot be ignored.

    `skipped`: ids that the user ignores, or ``all``. `never`: ids that nobody can ignore.
    """
    if not skipped or verdict.is_good or name in never or not skipped & {name, "all"}:
        return verdict
    return Verdict(Result.DISABLED, f"Ignored by the user: {verdict.message}")
