"""Time-stamps serial logs, and keeps them to a size: `python -m lab.daemons.consoleclock DIRECTORY`.

QEMU writes the raw bytes to NAME.log; this writes NAME.timed.log, each line prefixed with the time at which it was seen
(UTC). The raw log stays authoritative: nothing is lost if this process is late or dead. QEMU would write for ever, and
opens its log for appending (libvirt: `append="on"`), so what is beyond the limit is cut off behind its back. Runs until
it is killed.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path

_POLL_SECONDS = 0.2
# A time is longer than many a line: without a limit a machine that prints line ends alone makes 14 bytes of each.
MOST_BYTES = 64 << 20
# For a raw log that stays, as that of a container machine, which ends its own (lab.machines.container.hardware.line).
# It is cut when it has that much more.
RAW_BYTES, MORE_BYTES = 64 << 20, 1 << 20
_FULL = b"node0: this log is full; the raw one may go on\n"
_RAW_FULL = b"\r\nnode0: this log is full; what follows goes to who is connected only\r\n"
_SUFFIX = ".timed.log"


class Stamper:
    """Follows one log."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._target = source.with_name(source.name.removesuffix(".log") + _SUFFIX)
        self._offset = 0
        self._rest = b""
        self._left = MOST_BYTES

    def step(self, now: datetime.datetime) -> int:
        """Copy the whole lines that have come since the last step, stamped; returns how many."""
        with open(self._source, "rb") as source:
            source.seek(self._offset)
            # What comes after is cut off, and is not followed.
            data = source.read(max(0, RAW_BYTES - self._offset))
            if os.fstat(source.fileno()).st_size > RAW_BYTES + MORE_BYTES:
                self._cut()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._left > 0:
            stamp = now.strftime("%H:%M:%S.%f")[:-3].encode()
            with open(self._target, "ab") as target:
                for line in lines:
                    self._left -= target.write(b"%s %s\n" % (stamp, line.rstrip(b"\r")))
                    if self._left <= 0:
                        target.write(_FULL)
                        break
        return len(lines)

    def _cut(self) -> None:
        """Cut the raw log off. Its writer appends, so it grows on from there."""
        with open(self._source, "ab") as source:
            source.truncate(RAW_BYTES)
            source.write(_RAW_FULL)


def main(directory: Path) -> None:
    """Stamp every log of the directory for ever, including logs that appear later."""
    stampers: dict[Path, Stamper] = {}
    while True:
        for path in directory.glob("*.log"):
            if not path.name.endswith(_SUFFIX):
                stampers.setdefault(path, Stamper(path)).step(datetime.datetime.now(datetime.UTC))
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
