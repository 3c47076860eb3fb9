"""GRUB's scripts, as far as the machine OS's configuration uses their language: values, tests, files that are sourced,
and the environment block, which is read and written (GRUB's manual, "Writing your own configuration file").

GRUB itself, which reads the same files, is proven in virtual machines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lab.errors import LabError

#: GRUB's grub-core/commands/loadenv.c: the size of the block and its first line.
BLOCK_BYTES = 1024
_SIGNATURE = "# GRUB Environment Block\n"
_TOKEN = re.compile(r'#[^\n]*|"(?P<quoted>[^"]*)"|(?P<end>[;\n])|(?P<blank>[ \t]+)|(?P<bare>[^\s;"]+)')
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_MOST_SOURCED = 8


class NotUnderstood(LabError):
    """A script uses what is not known here; `str()` names it."""


def words(text: str, values: dict[str, str]) -> Iterator[list[str]]:
    """Yield a script's commands, each when the ones before it have had their effect on ``values``.

    As in GRUB, a variable outside of quotes gives as many words as its value has."""
    command: list[str] = []
    word: str | None = None

    def value(match: re.Match[str]) -> str:
        return values.get(match[1] or match[2], "")

    for token in _TOKEN.finditer(f"{text}\n"):
        if token["quoted"] is not None:
            word = (word or "") + _VARIABLE.sub(value, token["quoted"])
        elif token["bare"] is not None:
            first, *more = _VARIABLE.sub(value, token["bare"]).split() or [""]
            word = (word or "") + first
            for later in more:
                command.append(word)
                word = later
            if not word:
                word = None
        else:
            if word is not None:
                command.append(word)
            word = None
            if token["end"] and command:
                yield command
                command = []


def read_block(block: str) -> dict[str, str]:
    """Return the variables of an environment block."""
    lines = (line.partition("=") for line in block.splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in lines if equals}


def block(values: dict[str, str]) -> bytes:
    """Return an environment block. Raises NotUnderstood when the values do not fit into it."""
    text = (_SIGNATURE + "".join(f"{name}={value}\n" for name, value in values.items())).encode()
    if len(text) > BLOCK_BYTES:
        raise NotUnderstood("environment block too small")
    return text.ljust(BLOCK_BYTES, b"#")


class Script:
    """A run of scripts: `values` of variables, the `linux` command's words, the `initrds`.

    ``read`` returns a file's text or None; ``save`` writes an environment block in place of a file's content."""

    def __init__(self, read: Callable[[str], str | None], save: Callable[[str, bytes], None]) -> None:
        self._read, self._save = read, save
        self.values: dict[str, str] = {}
        self.linux: list[str] = []
        self.initrds: list[str] = []
        self._sourced = 0

    def run(self, text: str) -> None:
        """Run a script. Raises NotUnderstood."""
        # Of each `if` that is open: its branch runs, and none of its branches has run yet.
        open_ifs: list[tuple[bool, bool]] = []
        for command in words(text, self.values):
            while command and command[0] in ("if", "elif", "else", "then", "fi"):
                keyword, *command = command
                if keyword == "then":
                    continue
                runs = all(branch for branch, _ in open_ifs[: None if keyword == "if" else -1])
                if keyword != "if" and not open_ifs:
                    raise NotUnderstood(keyword)
                waits = open_ifs.pop()[1] if keyword != "if" else True
                if keyword == "fi":
                    continue
                holds = runs and waits and (keyword == "else" or self._holds(command))
                open_ifs.append((holds, waits and not holds))
                if keyword != "else":
                    command = []
            if command and all(branch for branch, _ in open_ifs):
                self._do(*command)

    def _holds(self, test: list[str]) -> bool:
        match test:
            case ["[", "-f", path, "]"]:
                return self._read(path) is not None
            case ["[", "-n", *value, "]"]:
                return any(value)
            case ["[", left, "=", right, "]"]:
                return left == right
        raise NotUnderstood(" ".join(test))

    def _do(self, name: str, *arguments: str) -> None:
        match name, arguments:
            case "set", [assignment] if "=" in assignment:
                variable, _, value = assignment.partition("=")
                self.values[variable] = value
            case "source", [path]:
                self._sourced += 1
                if self._sourced > _MOST_SOURCED:
                    raise NotUnderstood(f"source {path}")
                self.run(self._read(path) or "")
            case "load_env", ["-f", path]:
                self.values |= read_block(self._read(path) or "")
            case "save_env", ["-f", path, *names]:
                changed = {key: self.values[key] for key in names if key in self.values}
                self._save(path, block(read_block(self._read(path) or "") | changed))
            case "linux", [_, *_]:
                self.linux = list(arguments)
            case "initrd", [_, *_]:
                self.initrds = list(arguments)
            case "boot", []:
                pass
            case _:
                raise NotUnderstood(name)
