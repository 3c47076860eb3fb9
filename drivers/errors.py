"""The errors of drivers, as one tree.

DriverError              the machine, or the way to it, failed
├── ConnectionFailedError  the hypervisor or the BMC cannot be reached, or refuses access
├── NotFoundError          there is no such machine, device or medium
├── PowerError             the requested power state was not reached
├── MediaError             a medium was not inserted or ejected, whatever the answer said
├── BootError              the requested boot device was not set
├── ScreenshotError        no screenshot could be taken
├── BrowserError           a browser did not answer, refused, or has ended
└── ConsoleTimeout         the expected text did not appear on the serial line
"""

from __future__ import annotations


class DriverError(Exception):
    """The machine, or the way to it, failed; `machine` names it when it is known."""

    def __init__(self, message: str, *, machine: str = "") -> None:
        super().__init__(f"{machine}: {message}" if machine else message)
        self.machine = machine


class ConnectionFailedError(DriverError):
    """The hypervisor or BMC cannot be reached or refuses access."""


class NotFoundError(DriverError):
    """There is no such machine, device or medium."""


class PowerError(DriverError):
    """The requested power state was not reached."""


class MediaError(DriverError):
    """A medium was not inserted or ejected."""


class BootError(DriverError):
    """The boot device was not set."""


class ScreenshotError(DriverError):
    """No screenshot could be taken."""


class BrowserError(DriverError):
    """A browser did not answer, refused, or has ended."""


class ConsoleTimeout(DriverError):
    """The expected text did not appear on the serial line; `tail` holds its last lines."""

    def __init__(self, pattern: str, timeout: float, tail: str, *, machine: str = "", why: str = "") -> None:
        reason = why or f"not within {timeout:g} s"
        super().__init__(f"console said nothing like {pattern!r}: {reason}; its last lines:\n{tail}", machine=machine)
        self.pattern = pattern
        self.timeout = timeout
        self.tail = tail
