"""Full-screen pages on a terminal of 80 columns and 24 lines: text, fields, buttons; keyboard alone."""

from __future__ import annotations

import curses
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TICK_MS = 500
# Services and the kernel write on the same line: it is drawn anew so often (s).
_REDRAW_SECONDS = 15.0
_SEQUENCE_MS = 50
_SEQUENCES = {
    "[Z": curses.KEY_BTAB,
    **{
        f"{lead}{letter}": key
        for lead in "[O"
        for letter, key in zip("ABCD", (curses.KEY_UP, curses.KEY_DOWN, curses.KEY_RIGHT, curses.KEY_LEFT), strict=True)
    },
}
_KEYS = "Tab, arrows: move   Enter: choose   Esc: back   Ctrl-L: draw again"


@dataclass
class Field:
    """A field to type in; one with `choices` goes through them with Space, left and right."""

    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    hint: str = ""


Lines = Callable[[], Sequence[str]]


class Screen:
    """The terminal. `BACK` is what `ask` returns for Esc, `OVER` when the page has become pointless."""

    BACK, OVER = "", "\0"

    def __init__(self, window: curses.window) -> None:
        self._window = window
        window.timeout(_TICK_MS)
        window.keypad(True)
        curses.raw()
        curses.curs_set(0)
        self._drawn = time.monotonic()

    def busy(self, title: str, text: str) -> None:
        """Show what is being done, and return at once."""
        self._draw(title, [text], (), (), focus=-1)

    def tell(self, title: str, *texts: str, buttons: Sequence[str] = ("Back",)) -> str:
        """Show texts; returns the button that was chosen, or BACK."""
        return self.ask(title, lambda: texts, (), buttons)

    def ask(
        self,
        title: str,
        lines: Lines,
        fields: Sequence[Field],
        buttons: Sequence[str],
        *,
        over: Callable[[], bool] = lambda: False,
    ) -> str:
        """Show a page until a button is chosen, and return it; the fields have what was typed then.

        `lines` is asked twice a second; `over` tells that the page has become pointless.
        """
        focus = 0
        while not over():
            self._draw(title, lines(), fields, buttons, focus=focus)
            key = self._key()
            count = len(fields) + len(buttons)
            if key == "\x1b":
                return self.BACK
            if key == "\x0c":
                self._window.redrawwin()
            elif key in ("\t", curses.KEY_DOWN):
                focus = (focus + 1) % count
            elif key in (curses.KEY_BTAB, curses.KEY_UP):
                focus = (focus - 1) % count
            elif key in ("\n", "\r", curses.KEY_ENTER):
                if focus >= len(fields):
                    return buttons[focus - len(fields)]
                focus += 1
            elif focus < len(fields):
                _typed(fields[focus], key)
        return self.OVER

    def _key(self) -> str | int:
        key = self._typed()
        if key != "\x1b":
            return key
        # What the terminal's description does not know: a sequence of its own comes at once, a person does not.
        self._window.timeout(_SEQUENCE_MS)
        try:
            sequence = [self._typed()]
            while sequence[-1] and not (len(sequence) > 1 and str(sequence[-1]).isalpha()):
                sequence.append(self._typed())
        finally:
            self._window.timeout(_TICK_MS)
        if not sequence[0]:
            return key
        return _SEQUENCES.get("".join(map(str, sequence)), "")

    def _typed(self) -> str | int:
        try:
            return self._window.get_wch()
        except curses.error:  # nothing was typed
            return ""

    def _draw(
        self, title: str, lines: Sequence[str], fields: Sequence[Field], buttons: Sequence[str], *, focus: int
    ) -> None:
        window = self._window
        height, width = window.getmaxyx()
        window.erase()
        self._put(0, f" {title}".ljust(width - 1), curses.A_REVERSE)
        row = 2
        room = height - 2 - len(fields) - len(buttons) - bool(fields) - 2
        wrapped = [part for line in lines for part in (textwrap.wrap(line, width - 4, break_on_hyphens=False) or [""])]
        for text in wrapped[: max(room, 1)]:
            self._put(row, f"  {text}")
            row += 1
        row += 1
        label_width = max((len(field.label) for field in fields), default=0)
        for index, field in enumerate(fields):
            on = index == focus
            value = f"< {field.value} >" if field.choices else field.value + ("_" if on else "")
            shown = value[-(width - label_width - 8) :]
            self._put(row, f"  {field.label.ljust(label_width)}  ")
            box = max(0 if field.choices else min(30, width - label_width - 8), len(shown))
            column = label_width + 4
            self._put(row, shown.ljust(box), curses.A_REVERSE if on else curses.A_UNDERLINE, column)
            if field.hint:
                self._put(row, field.hint[: max(width - column - box - 4, 0)], 0, column + box + 2)
            row += 1
        row += bool(fields)
        for index, button in enumerate(buttons):
            on = index + len(fields) == focus
            self._put(row, f"  <{button}>", curses.A_REVERSE if on else 0)
            row += 1
        self._put(height - 1, f" {_KEYS}", curses.A_DIM)
        if time.monotonic() - self._drawn > _REDRAW_SECONDS:
            self._drawn = time.monotonic()
            window.redrawwin()
        window.refresh()

    def _put(self, row: int, text: str, attribute: int = 0, column: int = 0) -> None:
        height, width = self._window.getmaxyx()
        if row < height:
            self._window.addnstr(row, column, text, max(width - column - 1, 0), attribute)


def _typed(field: Field, key: str | int) -> None:
    """Change a field by a key."""
    if field.choices:
        if key in (" ", curses.KEY_RIGHT, curses.KEY_LEFT):
            step = -1 if key == curses.KEY_LEFT else 1
            field.value = field.choices[(field.choices.index(field.value) + step) % len(field.choices)]
    elif key in (curses.KEY_BACKSPACE, "\x7f", "\b"):
        field.value = field.value[:-1]
    elif key == "\x15":
        field.value = ""
    elif isinstance(key, str) and key.isprintable():
        field.value += key
