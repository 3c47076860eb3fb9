"""Exceptions of ci/informer; each message is one line."""


class InformerError(Exception):
    """Bad input, or nothing to report: one line, naming file, field, value, rule."""


class HistoryError(InformerError):
    """The history's file cannot be read or written: it is locked, damaged, or its disk is full."""
