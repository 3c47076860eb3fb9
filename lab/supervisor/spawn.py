"""A lab's supervisor (lab.supervisor) from its starter's side: start it, wait for it, end it or let it go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from lab.errors import LabStartError
from lab.layout import Layout
from lab.supervisor.plan import Event

_STOP_SECONDS = 60.0
_TAIL = 2000


class Supervisor:
    """The process. `alive` is the descriptor of the lab's lock, which the supervisor inherits."""

    def __init__(self, layout: Layout, alive: int) -> None:
        self._log = layout.log / "supervisor.log"
        self._reader, writer = os.pipe()
        try:
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "lab.supervisor", str(layout.root), str(writer), str(alive)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writer, alive),
                    start_new_session=True,
                    env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])},
                )
        except BaseException:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)

    @property
    def pid(self) -> int:
        """Its process, as this machine sees it."""
        return self._process.pid

    def up(self) -> tuple[int, dict[str, float]]:
        """Wait until it reports, once; the pid of the namespaces' first process, and how long each service took in
        seconds. Raises LabStartError."""
        init = 0
        seconds: dict[str, float] = {}
        # Every service has a deadline of its own, and a supervisor that fails closes the pipe.
        with os.fdopen(self._reader) as reports:
            for line in reports:
                event = msgspec.json.decode(line, type=Event)
                if event.event == "forked":
                    init = event.pid
                elif event.event == "failed":
                    raise LabStartError(event.message, service=event.service, tail=event.tail)
                else:
                    seconds = event.seconds
                if init and seconds:
                    return init, seconds
        tail = self._log.read_text(errors="replace")[-_TAIL:]
        raise LabStartError("the supervisor ended before the lab was up", service="supervisor", tail=tail)

    def let_go(self) -> None:
        """Let it outlive this process."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)
        # Popen would warn (ResourceWarning) of a process that nobody has waited for.
        self._process.returncode = 0

    def end(self) -> None:
        """End it, and with it the lab."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # The first process inside dies with it (PR_SET_PDEATHSIG), and everything else with that one.
            self._process.kill()
            self._process.wait()
