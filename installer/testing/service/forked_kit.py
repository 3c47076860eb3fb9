"""A service in a process that is forked from the test's: most of its start is an interpreter's.

For tests of what a service answers and keeps. How it is started and ends by itself is a matter of
`rendezvous_kit.running`: here nothing is tidied up after its main function, and no thread is waited for.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from installer.rendezvous import __main__ as program
from installer.testing.forked_kit import end_with
from installer.testing.service.rendezvous_kit import Running, started, wait_for


def process(main: Callable[[], int], **options: Any) -> subprocess.Popen[Any]:
    """Run `main` in a process of its own, which has none of this one's files; `options` are Popen's."""

    def child() -> None:
        # Popen, too, waits for an end of a file here: until a program is run in the child.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        end_with(main)

    # `preexec_fn` does not return, so no program of any name is run.
    return subprocess.Popen(["forked"], preexec_fn=child, **options)


class Forked(Running):
    """A service in a process that is forked from this one."""

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with (self.directory / "service.log").open("ab") as log:
            self.process = process(self._serve, cwd=self.directory, stderr=log)
        wait_for("service to be ready", self._ready)

    def _serve(self) -> int:
        os.environ.clear()
        os.environ.update(self.env)
        logging.getLogger().handlers.clear()
        return program.main([])


def forked(directory: Path, **env: str) -> AbstractContextManager[Running]:
    """Return a service for the length of the block; `env` is added to its environment."""
    return started(Forked(directory, **env))
