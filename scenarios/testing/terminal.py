"""The screen of a machine's serial console, as a terminal emulator draws it, and keys typed on it."""

from __future__ import annotations

import pyte

from drivers.console import FileConsole
from lab.waiting import wait_until

KEYS = {"enter": "\r", "tab": "\t", "back-tab": "\x1b[Z", "escape": "\x1b", "redraw": "\x0c", "clear": "\x15"}
_PRESS_SECONDS = 20
# More moves than a page has places.
_MOVES = 40


class Terminal:
    """A terminal of 80 columns and 24 lines on a machine's serial line."""

    def __init__(self, console: FileConsole) -> None:
        self._console = console
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self._read = 0

    def text(self) -> str:
        """Return what is on the screen now."""
        raw = self._console.raw()
        self._stream.feed(raw[self._read :])
        self._read = len(raw)
        return "\n".join(line.rstrip() for line in self._screen.display)

    def shows(self, *texts: str) -> bool:
        """Tell whether all of these are on the screen; line breaks and indentation count as a blank."""
        flat = " ".join(self.text().split())
        return all(text in flat for text in texts)

    def until(self, *texts: str, seconds: float) -> None:
        """Wait until all of these are on the screen. Raises WaitTimeout with the screen."""
        wait_until(lambda: self.shows(*texts), seconds, f"the console to show {' and '.join(texts)}", self.text)

    def press(self, *keys: str) -> None:
        """Press keys by name."""
        for key in keys:
            self._console.send(KEYS[key])

    def _focused(self) -> str:
        """Return the text of the line that has the focus: it is shown in reverse video, below the title."""
        self.text()
        for row in range(1, self._screen.lines):
            cells = self._screen.buffer[row]
            if any(cells[column].reverse for column in range(self._screen.columns)):
                return self._screen.display[row].strip()
        return ""

    def go_to(self, label: str) -> None:
        """Move to the field or button whose line begins so."""
        for _ in range(_MOVES):
            before = self._focused()
            if before.lstrip("<").startswith(label):
                return
            self.press("tab")
            self._until_changed(before, "the focus to move")
        raise AssertionError(f"no place {label!r} on this page:\n{self.text()}")

    def _until_changed(self, before: str, what: str) -> None:
        wait_until(lambda: self._focused() != before, _PRESS_SECONDS, what, self.text)

    def choose(self, button: str) -> None:
        """Press a button."""
        self.go_to(button)
        self.press("enter")

    def fill(self, field: str, text: str) -> None:
        """Type into an empty field."""
        self.go_to(field)
        self._console.send(f"{KEYS['clear']}{text}")
        wait_until(lambda: text[-12:] in self._focused(), _PRESS_SECONDS, f"{field} to have {text}", self.text)

    def switch(self, field: str, choice: str) -> None:
        """Go through a field's choices to this one."""
        self.go_to(field)
        for _ in range(_MOVES):
            before = self._focused()
            if f"< {choice} >" in before:
                return
            self._console.send(" ")
            self._until_changed(before, "another choice")
        raise AssertionError(f"{field} has no choice {choice}:\n{self.text()}")
