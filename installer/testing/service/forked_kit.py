"""A service in a process that is forked from the test's: most of its start is an interpreter's.

For tests of what a service answers and keeps. How it is started and ends by itself is a matter of
`rendezvous_kit.running`: here nothing is tidied up after its main function, and no thread is waited for.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from installer.rendezvous import __main__ as program
from installer.testing.service.rendezvous_kit import Running, wait_for


def process(main: Callable[[], int], **options: Any) -> subprocess.Popen[Any]:
    """`main` in a process of its own, which has none of this one's files; `options` are Popen's."""

    def child() -> None:
        # Popen, too, waits for an end of a file here: until a program is run in the child.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 - until its end
        code = 1
        try:
            code = main()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

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


@contextmanager
def forked(directory: Path, **env: str) -> Iterator[Running]:
    """A service for the length of the block; `env` is added to its environment."""
    service = Forked(directory, **env)
    service.start()
    try:
        yield service
    finally:
        service.stop()
