"""Numbers as people give them, on command lines and in the environment: ASCII digits, finite, and within limits."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from installer.common.redact import shortened

# Python would read digits of every script, underscores, nan and inf as well.
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_REAL = re.compile(r"[-+]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][-+]?[0-9]{1,3})?")
_SHOWN = 40

DAY = 86400.0


def whole(text: str, least: int, most: int) -> int:
    """Parse a whole number from `least` to `most`. Raises ValueError, which names the limits."""
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or not least <= value <= most:
        raise ValueError(f"must be a whole number from {least} to {most}, not {_quoted(text)}")
    return value


def real(text: str, least: float, most: float, unit: str = "") -> float:
    """Parse a number from `least` to `most`; `unit`, in the plural, is for messages. Raises ValueError."""
    value = float(text) if _REAL.fullmatch(text) else None
    if value is None or not least <= value <= most:
        quantity = f"number of {unit}" if unit else "number"
        raise ValueError(f"must be a {quantity} from {least:.16g} to {most:.16g}, not {_quoted(text)}")
    return value


def whole_type(least: int, most: int) -> Callable[[str], int]:
    """Return `whole` as a type for argparse."""

    def read(text: str) -> int:
        try:
            return whole(text, least, most)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def real_type(least: float, most: float, unit: str = "") -> Callable[[str], float]:
    """Return `real` as a type for argparse."""

    def read(text: str) -> float:
        try:
            return real(text, least, most, unit)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _quoted(text: str) -> str:
    return repr(shortened(text, _SHOWN))
