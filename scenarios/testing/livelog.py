"""The log of a run while it is under way."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext

import pytest


class LiveLog(logging.Handler):
    """Print at once what a lab waits for and which parts of it fail, past pytest's capture and from xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(logging.WARNING)
        self._config = config

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(f"\n{self.format(record)}", file=sys.stderr, flush=True)
