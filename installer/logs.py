"""Log lines as OpenShift's installer prints them: logrus text when piped, coloured levels on a terminal."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import re
import stat
import sys
import threading
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import IO

from installer.common.redact import redact
from installer.errors import StateError

FILE = ".openshift_install.log"
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    # The other names of logrus' levels.
    "trace": logging.DEBUG,
    "warning": logging.WARNING,
    "fatal": logging.CRITICAL,
    "panic": logging.CRITICAL,
}
_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "fatal",
}
_COLOURS = {"debug": 37, "info": 36, "warning": 33, "error": 31, "fatal": 31}
# logrus quotes a value unless it is made of these alone.
_PLAIN = re.compile(r"[A-Za-z0-9\-._/@^+]+")


def _message(record: logging.LogRecord) -> str:
    """Return the message without secrets; whole where the record is marked as one for the screen (the kubeadmin
    password)."""
    text = record.getMessage()
    return text if getattr(record, "secret", False) else redact(text)


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class Piped(logging.Formatter):
    """`level=info msg=...`, as openshift-install prints to a pipe; for the log file with `time=` and quotes.

    On the pipe messages are not quoted (its formatter sets DisableQuote), so the rest of the line is the message.
    """

    def __init__(self, *, with_time: bool = False) -> None:
        super().__init__()
        self._with_time = with_time

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        message = _message(record)
        text = _quoted(message) if self._with_time else " ".join(message.split("\n"))
        parts = [f"level={_NAMES.get(record.levelno, 'info')}", f"msg={text}"]
        if self._with_time:
            now = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
            parts.insert(0, f'time="{now:%Y-%m-%dT%H:%M:%SZ}"')
        return " ".join(parts)


class Terminal(logging.Formatter):
    """`INFO message`, the level in colour."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the level's name, then the message."""
        name = _NAMES.get(record.levelno, "info")
        return f"\x1b[{_COLOURS[name]}m{name.upper()}\x1b[0m {_message(record)}"


class Plain(logging.Formatter):
    """Lines of a program on a host, for the journal, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging does it, without secrets."""
        return redact(super().format(record))


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error or kind(), trace)
    elif not issubclass(kind, SystemExit):
        logging.critical("not expected", exc_info=(kind, error or kind(), trace))


def to_journal(form: str, level: int = logging.INFO) -> None:
    """Send everything from ``level`` on to stderr, each line in ``form``."""
    logging.basicConfig(level=level, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Plain(form))
    # Uncaught exceptions are logged too, without secrets: an exception's text may quote what it failed with.
    sys.excepthook = _uncaught
    threading.excepthook = lambda what: _uncaught(what.exc_type, what.exc_value, what.exc_traceback)


class LogFile(logging.FileHandler):
    """The log in the asset directory. A full disk is reported by the command's own failing write."""

    def _open(self) -> TextIOWrapper:
        """Without waiting for a pipe's reader. Raises OSError for what is neither a file nor /dev/null's like."""
        from installer.common.inputs import check_kind  # only who keeps a log needs it

        with contextlib.suppress(FileNotFoundError):
            check_kind(self.baseFilename, os.stat(self.baseFilename), allowed=(stat.S_IFCHR,))
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            check_kind(self.baseFilename, os.fstat(fd), allowed=(stat.S_IFCHR,))
            os.set_blocking(fd, True)
            return open(fd, "a", encoding=self.encoding, errors=self.errors)
        except BaseException:
            os.close(fd)
            raise

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose the line: the traceback that logging would print tells a user nothing."""

    def close(self) -> None:
        """Drop the records that are still held, too."""
        with contextlib.suppress(OSError):
            super().close()


def set_up(level: str, directory: Path | None, stream: IO[str] | None = None) -> None:
    """Send the `installer` loggers to stderr from `level` on, and everything to DIR/.openshift_install.log.

    Raises StateError when that cannot be opened; stderr is set up then.
    """
    stream = stream or sys.stderr
    root = logging.getLogger("installer")
    root.setLevel(logging.DEBUG)
    root.propagate = False
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    console = logging.StreamHandler(stream)
    console.setLevel(LEVELS[level])
    console.setFormatter(Terminal() if stream.isatty() else Piped())
    root.addHandler(console)
    if directory is not None:
        try:
            file = LogFile(directory / FILE, encoding="utf-8")
        except OSError as error:
            raise StateError(f"failed to open log file {directory / FILE}: {error.strerror or error}") from error
        file.setFormatter(Piped(with_time=True))
        # The kubeadmin password is for the screen: nothing that is kept may hold it.
        file.addFilter(lambda record: not getattr(record, "secret", False))
        root.addHandler(file)
