"""The first process of pacemaker's container: puts configuration in place, then runs corosync and pacemaker until one
of them ends or it is told to stop."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from installer.common.secretfiles import write_private
from lab.release.cluster.errors import ClusterError, WaitError
from lab.release.cluster.pods import pacemaker

log = logging.getLogger(__name__)

# The user of pacemaker's daemons and the group that they let in, as the image has them (components.py).
HACLUSTER = HACLIENT = 189
LIBRARY = Path("/var/lib/pacemaker")
#: The only way to what its daemons say: they have no standard error.
LOG = Path("/var/log/pacemaker/pacemaker.log")
COROSYNC_SECONDS = 60.0
STOP_SECONDS = 180.0
POLL = 0.5


def prepare(source: Path, root: Path = Path("/")) -> None:
    """Put the configuration where the daemons read it. A cluster that has begun keeps what it knows."""
    etc = root / "etc/corosync"
    etc.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "corosync.conf", etc / "corosync.conf")
    write_private(etc / "authkey", (source / "authkey").read_bytes())
    library = root / LIBRARY.relative_to("/")
    for folder in (library, *(library / name for name in ("blackbox", "cib", "cores", "pengine"))):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o750)
        os.chown(folder, HACLUSTER, HACLIENT)
    for name in ("run/crm", "var/lib/corosync", "var/log/cluster", str(LOG.parent.relative_to("/"))):
        (root / name).mkdir(parents=True, exist_ok=True)
        os.chown(root / name, HACLUSTER, HACLIENT)
    seed = library / "cib/cib.xml"
    if not seed.exists():
        write_private(seed, (source / "cib.xml").read_bytes())
        os.chown(seed, HACLUSTER, HACLIENT)


class Pair:
    """corosync, and pacemaker upon it."""

    def __init__(self) -> None:
        self._corosync: subprocess.Popen[bytes] | None = None
        self._pacemaker: subprocess.Popen[bytes] | None = None
        self._told = False

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Have pacemaker end what it runs; corosync follows."""
        self._told = True
        if self._pacemaker is not None and self._pacemaker.poll() is None:
            self._pacemaker.terminate()

    def run(self) -> int:
        """Both, until one ends; 0 when it was told to stop. Raises WaitError when corosync does not begin."""
        self._corosync = subprocess.Popen(["corosync", "-f"])
        try:
            self._await_corosync(self._corosync)
            if not self._told:
                self._pacemaker = subprocess.Popen(["pacemakerd", "-f"])
            while not self._told and self._corosync.poll() is None and self._alive():
                time.sleep(POLL)
            return 0 if self._told else 1
        finally:
            self._end()

    def _alive(self) -> bool:
        return self._pacemaker is not None and self._pacemaker.poll() is None

    def _await_corosync(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + COROSYNC_SECONDS
        while not self._told:
            completed = subprocess.run(
                ["corosync-cfgtool", "-s"], capture_output=True, text=True, timeout=30, check=False
            )
            if completed.returncode == 0:
                return
            seen = " ".join((completed.stderr or completed.stdout).split())
            if process.poll() is not None:
                raise WaitError("corosync", COROSYNC_SECONDS, f"it ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise WaitError("corosync", COROSYNC_SECONDS, seen)
            time.sleep(POLL)

    def _end(self) -> None:
        for process in (self._pacemaker, self._corosync):
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> int:
    """Entry point of the container."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    os.environ |= {"PCMK_logfile": str(LOG), "PCMK_logfacility": "none"}
    pair = Pair()
    signal.signal(signal.SIGTERM, pair.stop)
    try:
        prepare(Path(pacemaker.DIRECTORY))
        return pair.run()
    except (ClusterError, OSError) as error:
        log.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
