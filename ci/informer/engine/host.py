"""A host of the engine: it runs units in labs of its own and keeps what came of each until that has been fetched.

What is here runs in the host's process, called by the engine through Dask.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from ci.informer.engine.evidence import pack
from ci.informer.engine.unit import Attempt, Result, Unit, void
from ci.informer.errors import InformerError
from lab.errors import LabError
from lab.evidence.folder import mark_of, put_mark
from lab.host.budget import Amount

#: Units that one host may have at a time; memory and processors set the limit long before.
MOST_UNITS = 64
#: Bytes of an archive that one call fetches.
CHUNK = 1 << 20
#: Seconds that results wait to be fetched.
_KEPT = 7 * 86400.0
#: Names of units' folders: plan, job, number.
_UNIT = re.compile(r"[0-9a-f]{8}~[^~]+~[^~]+")
_MARK = "unit"
_RESULT, _ARCHIVE, _EVIDENCE = "result.json", "evidence.tar.gz", "evidence"


class Host:
    """The units of one host. `spool` has a folder a unit: its result, and its evidence.

    `room` is what all of its units together may take at a time; without it whoever sends units limits them.
    """

    def __init__(self, name: str, spool: Path, room: Amount | None = None) -> None:
        self.name, self._spool, self._room = name, spool, room
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Attempt, Future[bytes]]] = {}
        # Its threads last as long as the process, so that a unit's process ends with this one and not with a thread.
        self._threads = ThreadPoolExecutor(MOST_UNITS, "unit")
        spool.mkdir(parents=True, exist_ok=True)
        for old in self._folders():
            # Units that the previous worker had not finished ended with it.
            if not (old / _RESULT).exists() or time.time() - (old / _RESULT).stat().st_mtime > _KEPT:
                shutil.rmtree(old, ignore_errors=True)

    def _folder(self, key: str) -> Path:
        """The folder of a unit. Raises InformerError for a key that is none: it comes from elsewhere."""
        name = key.replace("/", "~")
        if not _UNIT.fullmatch(name):
            raise InformerError(f"unit: {key!r}: must be PLAN/JOB/NUMBER")
        return self._spool / name

    def _folders(self) -> list[Path]:
        """The folders of units: whatever else lies in the spool is somebody else's."""
        return [one for one in self._spool.iterdir() if _UNIT.fullmatch(one.name) and _is_unit(one)]

    def perform(self, text: bytes) -> bytes:
        """Run a unit and return its result, both as JSON; one that runs already is waited for, not run again.

        Collectors do not know what others are about to send: a unit for which there is no room comes back at once.
        """
        unit = msgspec.json.decode(text, type=Unit)
        folder = self._folder(unit.key)
        with self._lock:
            if os.path.lexists(folder) and not _is_unit(folder) and unit.key not in self._running:
                why = f"{folder}: is no unit's folder of ours, and would become one: move it away"
                return msgspec.json.encode(Result(error=why, host=self.name))
            if (done := folder / _RESULT).exists():
                return done.read_bytes()
            if unit.key not in self._running:
                if self._running and self._room is not None and self._short(unit.needs):
                    return msgspec.json.encode(Result(full=True, host=self.name))
                attempt = Attempt(unit, Path(unit.folder) if unit.folder else folder / _EVIDENCE)
                self._running[unit.key] = attempt, self._threads.submit(self._perform, attempt)
            _, result = self._running[unit.key]
        return result.result()

    def _short(self, needs: Amount) -> bool:
        """Whether there is no room for a unit with these needs beside those that run."""
        assert self._room is not None
        # One that wants more processors than there are takes all of them.
        most = self._room.vcpu
        wanted, *others = (
            msgspec.structs.replace(one, vcpu=min(one.vcpu, most))
            for one in (needs, *(attempt.unit.needs for attempt, _ in self._running.values()))
        )
        return bool(wanted.short(self._room - sum(others, Amount())))

    def taken(self) -> dict[str, tuple[int, int, int]]:
        """What each unit that runs here takes, whoever sent it: MiB, vCPUs, GiB of disk."""
        with self._lock:
            needs = {key: attempt.unit.needs for key, (attempt, _) in self._running.items()}
        return {key: (one.mib, one.vcpu, one.disk_gib) for key, one in needs.items()}

    def _perform(self, attempt: Attempt) -> bytes:
        key = attempt.unit.key
        folder = self._folder(key)
        try:
            try:
                put_mark(folder, _MARK)
                result = Result(run=attempt.run(), host=self.name)
            except InformerError as error:
                result = Result(error=str(error), host=self.name)
            except (LabError, OSError) as error:
                if attempt.unit.folder:
                    result = Result(error=str(error), host=self.name)
                else:  # one host of many, whose disk may be full: the others go on
                    result = Result(run=void(attempt.unit, f"host {self.name}: {error}"), host=self.name)
            text = msgspec.json.encode(result)
            # Where the disk is full the result is returned all the same; its evidence is said to be lost.
            with suppress(OSError):
                if not attempt.unit.folder and attempt.folder.is_dir():
                    pack(attempt.folder, folder / _ARCHIVE)
            with suppress(OSError):
                temporary = folder / f".{_RESULT}"
                temporary.write_bytes(text)
                temporary.replace(folder / _RESULT)
            return text
        finally:
            with self._lock:
                del self._running[key]

    @property
    def running(self) -> list[str]:
        """The units that run here."""
        with self._lock:
            return sorted(self._running)

    def units_here(self) -> dict[str, bool]:
        """The units that run here, or whose results are still here: whether the result is."""
        with self._lock:
            folders = {folder.name.replace("~", "/"): (folder / _RESULT).exists() for folder in self._folders()}
            return {**dict.fromkeys(self._running, False), **folders}

    def chunk(self, key: str, offset: int) -> bytes:
        """A part of the archive of a unit's evidence from a byte on; nothing beyond its end."""
        try:
            with (self._folder(key) / _ARCHIVE).open("rb") as file:
                file.seek(offset)
                return file.read(CHUNK)
        except FileNotFoundError:
            return b""

    def drop(self, key: str) -> None:
        """Forget a unit; one that still runs is ended first."""
        with self._lock:
            running = self._running.get(key)
        if running is not None:
            attempt, result = running
            attempt.stop()
            with suppress(Exception):  # its result is not wanted any more
                result.result()
        if _is_unit(folder := self._folder(key)):
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End what runs, in good order and all at once: it comes again elsewhere, so that nothing is kept of it."""
        with self._lock:
            ending = [threading.Thread(target=self.drop, args=(key,), daemon=True) for key in self._running]
        for one in ending:
            one.start()
        for one in ending:
            one.join()


def _is_unit(folder: Path) -> bool:
    """Whether a folder is a unit's, as a host made it."""
    return not folder.is_symlink() and mark_of(folder) == _MARK


#: The Host object of this process; set once, before its worker takes calls.
_here: list[Host] = []


def become(host: Host) -> None:
    """Make this process a host."""
    _here[:] = [host]


# What the engine calls, by reference: the worker imports it from its own checkout.
def perform(text: bytes) -> bytes:
    """`Host.perform` of the process that this is called in."""
    return _here[0].perform(text)


def units_here() -> dict[str, bool]:
    """`Host.units_here` of the process that this is called in."""
    return _here[0].units_here()


def taken() -> dict[str, tuple[int, int, int]]:
    """`Host.taken` of the process that this is called in."""
    return _here[0].taken()


def chunk(key: str, offset: int) -> bytes:
    """`Host.chunk` of the process that this is called in."""
    return _here[0].chunk(key, offset)


def drop(key: str) -> None:
    """`Host.drop` of the process that this is called in; does not wait for a unit to end."""
    threading.Thread(target=_here[0].drop, args=(key,), daemon=True).start()


def dropped(key: str) -> None:
    """As `drop`, but waits until the unit has ended."""
    _here[0].drop(key)
