"""iPXE's scripts (ipxe.org/scripting): what `kernel`, `initrd` and `boot` come to.

Commands that a boot script of the field has: `kernel`, `initrd`, `imgfetch`, `boot`, `chain`, `set`, `isset`, `iseq`,
`echo`, `goto` and labels, `dhcp`, `imgfree`, `exit`, joined by `||` and `&&`. A command that fails ends its script.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from urllib.parse import urljoin

from lab.machines.container.firmware.errors import NoEntry

MAGIC = "#!ipxe"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# A script that runs in a circle ends.
_MOST_COMMANDS = 10_000
_MOST_CHAINED = 16
_IGNORED = ("dhcp", "ifopen", "ifclose", "ifconf", "ifstat", "sleep", "prompt", "console", "cpuid", "sync")
# Options that take a value.
_VALUED = ("-n", "--name", "-t", "--timeout")


@dataclass(frozen=True)
class NetEntry:
    """A kernel to start: URLs of it and its initrds, arguments as the kernel gets them."""

    kernel: str
    arguments: tuple[str, ...]
    initrds: tuple[str, ...]


class _Started(Exception):
    """`boot` was reached."""


class _Endless(NoEntry):
    """The scripts never end; `||` does not catch this."""


class _Left(Exception):
    """`exit` was reached."""


@dataclass
class Ipxe:
    """One run. `fetch` gives the text of a further script; `say` writes on the console."""

    fetch: Callable[[str], str]
    say: Callable[[str], None]
    variables: dict[str, str] = field(default_factory=dict)
    _: KW_ONLY
    _kernel: str = ""
    _arguments: tuple[str, ...] = ()
    _initrds: list[str] = field(default_factory=list)
    _commands: int = 0
    _depth: int = 0
    _why: str = ""

    def boot(self, url: str) -> NetEntry:
        """What the script at a URL starts. Raises NoEntry when it starts nothing, or fails."""
        try:
            self._script(url)
        except _Started:
            return NetEntry(self._kernel, self._arguments, tuple(self._initrds))
        except _Left:
            raise NoEntry("the iPXE script ended with exit") from None
        raise NoEntry(f"the iPXE script {url} boots nothing")

    def _script(self, url: str) -> None:
        self._depth += 1
        if self._depth > _MOST_CHAINED:
            raise _Endless("iPXE scripts chain each other without end")
        lines = self.fetch(url).splitlines()
        if not lines or lines[0].split() != [MAGIC]:
            raise NoEntry(f"{url} is no iPXE script: its first line is not {MAGIC}")
        labels = {line.strip()[1:].split()[0]: n for n, line in enumerate(lines) if re.match(r"\s*:\w", line)}
        at = 1
        while at < len(lines):
            self._commands += 1
            if self._commands > _MOST_COMMANDS:
                raise _Endless(f"the iPXE script {url} has no end")
            target = self._line(lines[at], url)
            if target is not None and target not in labels:
                raise NoEntry(f"{url}: no label {target}")
            at = labels[target] if target is not None else at + 1
        self._depth -= 1

    def _line(self, line: str, base: str) -> str | None:
        """Run one line; the label that it jumps to. Raises NoEntry when it fails."""
        text = line.strip()
        if not text or text[0] in "#:":
            return None
        good, join = True, "&&"
        for part in re.split(r"\s(\|\||&&)(?:\s|$)", f"{text} "):
            if part in ("||", "&&"):
                join = part
                continue
            words = _VARIABLE.sub(lambda match: self.variables.get(match[1], ""), part).split()
            if good != (join == "&&"):
                continue
            if words[:1] == ["goto"] and words[1:]:
                return words[1]
            # Nothing behind `||` is a success (ipxe.org/scripting).
            good = self._command(words, base) if words else True
        if not good:
            raise NoEntry(f"{base}: {text}: failed{f' ({self._why})' if self._why else ''}")
        return None

    def _chain(self, url: str) -> bool:
        depth, self._why = self._depth, ""
        try:
            self._script(url)
        except _Endless:
            raise
        except NoEntry as error:
            self._depth, self._why = depth, str(error)
            self.say(self._why)
            return False
        return True

    def _command(self, words: list[str], base: str) -> bool:
        name, rest = words[0], _positional(words[1:])
        if name in ("kernel", "imgselect", "imgload") and rest:
            self._kernel, self._arguments = urljoin(base, rest[0]), tuple(rest[1:])
        elif name in ("initrd", "module", "imgfetch") and rest:
            self._initrds.append(urljoin(base, rest[0]))
        elif name == "imgfree":
            self._kernel, self._arguments, self._initrds = "", (), []
        elif name in ("boot", "imgexec"):
            if rest and "/" in rest[0]:
                self._kernel, self._arguments = urljoin(base, rest[0]), tuple(rest[1:])
            if not self._kernel:
                self.say("No image to boot (https://ipxe.org/err)")
                return False
            raise _Started
        elif name == "chain" and rest:
            return self._chain(urljoin(base, rest[0]))
        elif name in ("set", "clear") and rest:
            self.variables[rest[0]] = " ".join(rest[1:]) if name == "set" else ""
        elif name == "isset":
            return bool(rest)
        elif name == "iseq":
            return len(rest) == 2 and rest[0] == rest[1]
        elif name == "echo":
            self.say(" ".join(rest))
        elif name in ("exit", "reboot", "poweroff"):
            raise _Left
        elif name not in _IGNORED:
            self.say(f"{name}: command not found")
            return False
        return True


def _positional(words: list[str]) -> list[str]:
    """A command's words without the options at its start."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUED else 1
    return words[at:]
