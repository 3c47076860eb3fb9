"""Numbers that people enter: ASCII digits, finite, and within limits (the installer has its own module)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

# int() and float() also accept digits of every script, underscores, nan and inf.
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_REAL = re.compile(r"[-+]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][-+]?[0-9]{1,3})?")
_SHOWN = 40

DAY = 86400.0
MEMORY_MIB = 1 << 24  # of one machine, or of all: 16 TiB


def whole(text: str, least: int, most: int) -> int:
    """Parse a whole number from `least` to `most`. Raises ValueError, which names the limits."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    if number is None or not least <= number <= most:
        raise ValueError(f"must be a whole number from {least} to {most}, not {_quoted(text)}")
    return number


def real(text: str, least: float, most: float, unit: str = "") -> float:
    """Parse a number from `least` to `most`; `unit`, in the plural, is for messages. Raises ValueError."""
    number = float(text) if _REAL.fullmatch(text) else None
    if number is None or not least <= number <= most:
        what = f"number of {unit}" if unit else "number"
        raise ValueError(f"must be a {what} from {least:.16g} to {most:.16g}, not {_quoted(text)}")
    return number


def whole_type(least: int, most: int) -> Callable[[str], int]:
    """`whole` as a type for argparse."""

    def read(text: str) -> int:
        try:
            return whole(text, least, most)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def real_type(least: float, most: float, unit: str = "") -> Callable[[str], float]:
    """`real` as a type for argparse."""

    def read(text: str) -> float:
        try:
            return real(text, least, most, unit)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")


# Options that several commands have: seconds to wait for memory, and the memory of one guest in MiB.
WAIT, MEMORY, VCPU = real_type(0, 7 * DAY, "seconds"), whole_type(256, MEMORY_MIB), whole_type(1, 64)
