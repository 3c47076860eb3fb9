"""What goes wrong in informers and is told in one line."""

from ci.errors import CiError


class InformerError(CiError):
    """Bad input, or nothing to say: one line, naming file, field, value, rule."""


class HistoryError(InformerError):
    """The history's file cannot be read or written: it is locked, damaged, or its disk is full."""
