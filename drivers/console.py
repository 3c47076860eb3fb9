"""A serial line whose output a hypervisor appends to a file, with an optional UNIX socket to type on."""

from __future__ import annotations

import array
import fcntl
import re
import socket
import termios
import time
from collections.abc import Callable
from pathlib import Path

from drivers.errors import ConsoleTimeout, DriverError

_POLL_SECONDS = 0.1
_TAIL_LINES = 25
_SEND_SECONDS = 10.0
CHECK_SECONDS = 5.0


def _control(lead: str, other: str) -> re.Pattern[str]:
    """CSI and OSC sequences, other two-byte escapes, and the control characters that firmware menus and progress bars
    use, DEL and those of eight bits too. `lead` is what these begin with, `other` what is none of them."""
    return re.compile(
        rf"(?:\x1b\[|{lead}\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|{lead}\x9d){other}*(?:\x07|\x1b\\|{lead}\x9c)|"
        rf"\x1b[@-Z\\-_=>()][0-9AB]?|[\x00-\x08\x0b-\x1f\x7f]|{lead}[\x80-\x9f]"
    )


_CONTROL = _control("", r"[^\x07\x1b\x80-\x9f]")
# The same in UTF-8 whose bytes stand for characters.
_CONTROL_BYTES = _control(r"\xc2", r"(?:[^\x07\x1b\xc2]|\xc2[^\x80-\x9f])")

# What a healthy kernel never prints. A scenario that otherwise passed fails on these (as in kola's console checks).
KERNEL_TROUBLE = re.compile(
    r"kernel BUG at|BUG: (?:unable to handle|soft lockup|scheduling while atomic|Bad page|KASAN)|"
    r"Oops: |general protection fault|Kernel panic - not syncing|rcu_sched self-detected stall|"
    r"Out of memory: Killed process|EXT4-fs error|XFS.*[Cc]orruption|I/O error, dev"
)


def strip_control(text: str) -> str:
    """`text` without terminal control sequences and carriage returns."""
    return _CONTROL.sub("", text)


class FileConsole:
    """Implements drivers.protocols.Console on a growing file."""

    def __init__(
        self,
        log: Path,
        input_socket: Path | None = None,
        *,
        machine: str = "",
        still_possible: Callable[[], str | None] | None = None,
    ) -> None:
        """`still_possible` is called every few seconds of a wait: a reason that it returns ends the wait."""
        self.log = log
        self.input_socket = input_socket
        self._machine = machine
        self._still_possible = still_possible
        self._position = 0

    def raw(self) -> bytes:
        """Return all bytes so far."""
        return self.log.read_bytes() if self.log.exists() else b""

    def text(self) -> str:
        """Return all text so far, without control sequences."""
        return strip_control(self.raw().decode(errors="replace"))

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines."""
        return "\n".join(self.text().splitlines()[-lines:])

    def mark(self) -> None:
        """Skip the output so far: the next wait starts at its end."""
        self._position = self._size()

    def _size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Wait as the protocol says. The search goes on where the last match ended, so that waits can be written in
        order."""
        expression = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + timeout
        seen = -1
        next_check = time.monotonic() + CHECK_SECONDS
        while True:
            size = self._size()
            self._position = min(self._position, size)  # a full log is cut
            if size != seen:
                seen = size
                match = self._search(expression) if size else None
                if match is not None:
                    return match
            now = time.monotonic()
            if now > deadline:
                raise ConsoleTimeout(pattern, timeout, self.tail(), machine=self._machine)
            if self._still_possible is not None and now > next_check:
                next_check = now + CHECK_SECONDS
                reason = self._still_possible()
                if reason is not None and self._size() == seen:
                    raise ConsoleTimeout(pattern, timeout, self.tail(), machine=self._machine, why=reason)
            time.sleep(_POLL_SECONDS)

    def _search(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        with self.log.open("rb") as log:
            log.seek(self._position)
            # Latin-1 maps bytes one to one: offsets in this text are offsets in the file.
            raw = log.read().decode("latin-1")
        # Bytes that are not UTF-8 become surrogates, so that the length in bytes of the match can be computed.
        plain = _CONTROL_BYTES.sub("", raw).encode("latin-1").decode(errors="surrogateescape")
        match = wanted.search(plain)
        if match is not None:
            consumed = len(plain[: match.end()].encode(errors="surrogateescape"))
            self._position += _raw_end(raw, consumed)
        return match

    def trouble(self) -> list[str]:
        """Lines with errors of the kernel itself."""
        return [line for line in self.text().splitlines() if KERNEL_TROUBLE.search(line)]

    def send(self, data: str) -> None:
        """Type on the line."""
        if self.input_socket is None:
            raise DriverError("this console cannot be typed on", machine=self._machine)
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(str(self.input_socket))
            except OSError as error:
                raise DriverError(f"console socket: {error.strerror}", machine=self._machine) from error
            line.sendall(data.encode())
            # QEMU reads no more than the guest's UART has room for; what is unread when we close would be lost.
            deadline = time.monotonic() + _SEND_SECONDS
            while unread := _unread(line):
                if time.monotonic() > deadline:
                    raise DriverError(
                        f"the machine does not read its console: {unread} bytes left", machine=self._machine
                    )
                time.sleep(_POLL_SECONDS / 10)


def _raw_end(raw: str, count: int) -> int:
    """Return the offset in `raw` behind its first `count` characters, control sequences not counted."""
    if count == 0:
        return 0
    start = 0
    for control in [*_CONTROL_BYTES.finditer(raw), None]:
        end = control.start() if control else len(raw)
        if end - start >= count:
            return start + count
        count -= end - start
        start = control.end() if control else end
    return start


def _unread(line: socket.socket) -> int:
    """Count the bytes that the other end of a UNIX socket has not read yet (SIOCOUTQ, unix(7))."""
    count = array.array("i", [0])
    fcntl.ioctl(line, termios.TIOCOUTQ, count)
    return count[0]
