"""Everything that can go wrong with a lab, as one tree.

    LabError                  something about a lab, or in it, failed
    ├── LabBrokenError        the lab itself failed: tests that ran in it are void
    │   ├── PreflightError    this machine cannot run a lab; lists every reason
    │   ├── BudgetError       the machine's memory is taken by other labs, or too small for this one
    │   ├── LabStartError     the supervisor or one of its services did not come up
    │   ├── EvidenceError     evidence does not belong where it was told to go
    │   ├── DaemonEndedError  one of its daemons, or the whole lab, ended while in use
    │   └── LabGoneError      the lab's supervisor is no longer there
    ├── TopologyError         a topology is malformed; names the file and all fields that are wrong
    │   └── ConfigsError      a cluster's files are no lab's; names each file and field
    ├── SubjectError          a release or an installer cannot be used; names the option
    ├── UnknownLabError       no lab of that name is recorded
    ├── UnknownNodeError      the topology has no node of that name
    ├── CommandTimeoutError   a command inside the lab did not end before its deadline
    ├── InstallFailedError    the installer ended with an error
    └── WaitTimeout           a condition did not become true in time; says what was last seen
        └── NodeUnreachableError  a node did not answer over SSH in time

What one room alone raises is in that room's errors.py, made from LabError: BMCs, fields of
topologies, images.

LabBrokenError is how reports tell a broken lab from a broken test subject: a scenario that meets one is void, neither
passed nor failed.
"""

from __future__ import annotations

from collections.abc import Sequence


class LabError(Exception):
    """Something about a lab, or in it, failed."""


class LabBrokenError(LabError):
    """The lab itself failed, which says nothing about what was tested in it."""


class TopologyError(LabError):
    """A topology, or what one is derived from, is malformed; `lines` has one line for each thing that is wrong.

    `exit_code` is the command's: that of the installer where it refused its inputs.
    """

    def __init__(self, source: str, message: str | Sequence[str], exit_code: int = 1) -> None:
        messages = [message] if isinstance(message, str) else message
        self.lines = tuple(" ".join(line.split()) for line in messages)  # one line each, whatever a value holds
        self.source = source
        self.exit_code = exit_code
        self.message = "; ".join(self.lines)
        super().__init__("\n".join(f"{source}: {line}" for line in self.lines))


class ConfigsError(TopologyError):
    """A lab cannot be derived from a cluster's files; `problems` has a file and a line for each thing that is wrong."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__(problems[0][0], [line for _, line in problems])
        self.problems = tuple(zip((source for source, _ in problems), self.lines, strict=True))
        self.args = ("\n".join(f"{source}: {line}" for source, line in self.problems),)


class SubjectError(LabError):
    """A release or an installer that was asked for cannot be used; `source` is the option or image that is to blame."""

    def __init__(self, source: str, message: str) -> None:
        message = " ".join(message.split())  # one line, whatever a registry says
        super().__init__(f"{source}: {message}")
        self.source = source
        self.message = message


class PreflightError(LabBrokenError):
    """This machine cannot run a lab; `problems` has one line for each reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class BudgetError(LabBrokenError):
    """The lab cannot get the memory that it needs; both amounts in MiB."""

    def __init__(self, message: str, *, wanted_mib: int, capacity_mib: int) -> None:
        super().__init__(message)
        self.wanted_mib = wanted_mib
        self.capacity_mib = capacity_mib


class EvidenceError(LabBrokenError):
    """Evidence was told to go where something else is; names the folder and what to do."""


class LabStartError(LabBrokenError):
    """A service of the lab did not come up."""

    def __init__(self, message: str, *, service: str = "", tail: str = "") -> None:
        super().__init__(message if not tail else f"{message}\n{tail}")
        self.service = service
        self.tail = tail


class LabGoneError(LabBrokenError):
    """The supervisor of this lab has ended."""


class DaemonEndedError(LabBrokenError):
    """Daemons of a lab ended unexpectedly; `ended` has a line for each."""

    def __init__(self, lab: str, ended: Sequence[str], tail: str) -> None:
        super().__init__(f"lab {lab} itself failed: {'; '.join(ended)}; its last lines:\n{tail or '(none)'}")
        self.ended = tuple(ended)


class UnknownLabError(LabError):
    """No lab of that name is recorded on this machine."""


class UnknownNodeError(LabError):
    """The topology has no node of that name."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        super().__init__(f"no node {name!r} in this lab; it has {', '.join(names)}")


class CommandTimeoutError(LabError):
    """A command inside the lab did not end within `timeout` seconds, and was killed."""

    def __init__(self, argv: Sequence[str], timeout: float, tail: str) -> None:
        super().__init__(f"{argv[0]} did not end within {timeout:g} s; its last lines:\n{tail}")
        self.tail = tail


class InstallFailedError(LabError):
    """The installer ended with an error."""

    def __init__(self, what: str, code: int, tail: str) -> None:
        super().__init__(f"{what} ended with {code}:\n{tail}")


class SymptomsError(LabError):
    """A table of symptoms is malformed, or one of its expressions takes too long."""


class WaitTimeout(LabError):
    """A condition did not become true within `timeout` seconds."""

    def __init__(self, what: str, timeout: float, last_seen: str) -> None:
        super().__init__(f"{what}: not within {timeout:g} s; last seen: {last_seen}")
        self.last_seen = last_seen


class NodeUnreachableError(WaitTimeout):
    """A node did not answer over SSH in time."""


class ImageFetchError(LabError):
    """An image cannot be fetched. `status` is what a BMC answers then: 400 for the client's mistake, else 502."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
