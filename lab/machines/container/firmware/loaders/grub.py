"""grub.cfg as GRUB reads it, as far as systems that start by themselves need (GRUB manual 2.06, "Writing full
configuration files directly"): words and quotes, variables, if, menuentry, configfile and source, linux and initrd.

Commands that only look nice or find devices are passed over; of an unknown one GRUB says so and goes on, and so does
this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.loaders.entry import Entry, Read

CONFIGS = (
    *("EFI/redhat/grub.cfg", "EFI/fedora/grub.cfg", "EFI/centos/grub.cfg", "EFI/debian/grub.cfg"),
    *("EFI/BOOT/grub.cfg", "boot/grub/grub.cfg"),
)
_LINUX = ("linux", "linuxefi", "linux16")
_INITRD = ("initrd", "initrdefi", "initrd16")
_IGNORED = (
    *("insmod", "search", "load_video", "terminal_input", "terminal_output", "serial", "export", "set_root", "true"),
    *("background_image", "gfxpayload", "loadfont", "clear", "sleep", "smbios", "load_env", "save_env", "blscfg"),
)
_NAME = re.compile(r"\$(?:\{([A-Za-z0-9_?]+)\}|([A-Za-z0-9_?]+))")
_TO_QUOTE = re.compile(r'(?:[^"\\]+|\\.?)*', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\$\n])')
_FILES_MAX = 32


@dataclass
class _Word:
    """A word before its variables are put in: pieces of text, each with whether it stood in quotes, and in which."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces) if all(not quote for _, quote in self.pieces) else ""


#: End of a command, or a brace that stands alone.
_Token = _Word | str


def _tokens(text: str) -> Iterator[_Token]:
    """Words, and ";" (also for the end of a line), "{" and "}"."""
    word: _Word | None = None
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in " \t\r\n;" or (sign in "{}" and word is None) or (sign == "#" and word is None):
            if word is not None:
                yield word
                word = None
            if sign == "#":
                line_end = text.find("\n", at)
                at = line_end if line_end >= 0 else len(text)
                continue
            if sign in "\n;":
                yield ";"
            elif sign in "{}":
                yield sign
            at += 1
            continue
        word = word or _Word()
        if sign == "'":
            end = text.find("'", at + 1)
            end = len(text) if end < 0 else end
            word.pieces.append((text[at + 1 : end], "'"))
            at = end + 1
        elif sign == '"':
            piece, at = _double(text, at + 1)
            word.pieces.append((piece, '"'))
        elif sign == "\\":
            if text[at + 1 : at + 2] != "\n":
                word.pieces.append((text[at + 1 : at + 2], "'"))
            at += 2
        elif text.startswith("${", at) and (end := text.find("}", at) + 1):
            word.pieces.append((text[at:end], ""))
            at = end
        else:
            word.pieces.append((sign, ""))
            at += 1
    if word is not None:
        yield word


def _double(text: str, at: int) -> tuple[str, int]:
    """What stands in double quotes, backslashes before the signs that mean something there taken off."""
    quoted = next(_TO_QUOTE.finditer(text, at))  # it matches everywhere, if only nothing
    return _ESCAPED.sub(lambda sign: sign[1].strip("\n"), quoted[0]), quoted.end() + 1


@dataclass
class _Menu:
    title: str
    ident: str
    body: list[_Token]


class _Started(Exception):
    """The command ``boot`` was reached."""


class Grub:
    """One run of GRUB: its variables, its menu, and what linux and initrd chose."""

    def __init__(self, read: Read, say: Callable[[str], None] = lambda text: None) -> None:
        self._read, self._say = read, say
        self._variables: dict[str, str] = {"root": "hd0", "prefix": "/boot/grub", "grub_platform": "efi", "?": "0"}
        self._menu: list[_Menu] = []
        self._kernel = ""
        self._arguments: tuple[str, ...] = ()
        self._initrds: tuple[str, ...] = ()
        self._files = 0

    def boot(self, path: str) -> Entry:
        """What is started when nobody presses a key, from the configuration at ``path``. Raises BootStopped."""
        try:
            if not self._source(path):
                raise BootStopped(f"error: file `{path}' not found.")
            entry = self._default()
            if entry is not None:
                self._run(entry.body)
        except _Started:
            pass
        if not self._kernel:
            raise BootStopped("error: you need to load the kernel first.")
        return Entry(self._kernel, (f"BOOT_IMAGE={self._kernel}", *self._arguments), self._initrds)

    def _default(self) -> _Menu | None:
        """The menu's entry by number, title or id, which the variable ``default`` names; else its first."""
        wanted = self._variables.get("default", "0")
        if wanted.isdecimal() and int(wanted) < len(self._menu):
            return self._menu[int(wanted)]
        named = (menu for menu in self._menu if wanted in (menu.title, menu.ident))
        return next(named, self._menu[0] if self._menu else None)

    def _source(self, path: str) -> bool:
        raw = self._read(self._path(path))
        self._files += 1
        if raw is None or self._files > _FILES_MAX:
            return False
        self._run(list(_tokens(raw.decode(errors="replace"))))
        return True

    def _run(self, tokens: list[_Token]) -> None:
        at = 0
        while at < len(tokens):
            if isinstance(tokens[at], str):
                at += 1
                continue
            command, at = _command(tokens, at)
            name = command[0].plain if isinstance(command[0], _Word) else ""
            if name == "if":
                body, at = _until_fi(tokens, at - len(command))
                self._if(body)
            elif name in ("menuentry", "submenu", "function"):
                body, at = _braces(tokens, at)
                if name == "menuentry":
                    self._add(self._words(command[1:]), body)
            else:
                self._variables["?"] = "0" if self._do(self._words(command)) else "1"

    def _add(self, words: list[str], body: list[_Token]) -> None:
        ident = words[words.index("--id") + 1] if "--id" in words[:-1] else ""
        self._menu.append(_Menu(words[0] if words else "", ident, body))

    def _if(self, body: list[_Token]) -> None:
        """``if A; then B; elif C; then D; else E; fi``, from "if" to before "fi"."""
        branches: list[tuple[str, list[_Token]]] = []
        depth = 0
        for token in body:
            word = token.plain if isinstance(token, _Word) else ""
            depth += (word == "if") - (word == "fi")
            if word in ("if", "then", "elif", "else") and depth == 1 and (word != "if" or not branches):
                branches.append((word, []))
            else:
                branches[-1][1].append(token)
        true = False
        for word, tokens in branches:
            if word in ("if", "elif"):
                self._run(tokens)
                true = self._variables["?"] == "0"
            elif word == "else" or true:
                self._run(tokens)
                return

    def _words(self, words: list[_Token]) -> list[str]:
        return [text for word in words if isinstance(word, _Word) for text in self._expand(word)]

    def _expand(self, word: _Word) -> list[str]:
        """A word with its variables' values; those outside of quotes may make several words of it, or none."""
        words = [""]
        quoted = False
        unquoted = ""

        def flush() -> None:
            nonlocal unquoted
            at = 0
            for name in _NAME.finditer(unquoted):
                words[-1] += unquoted[at : name.start()]
                value = self._variables.get(name[1] or name[2], "")
                parts = value.split()
                if parts:
                    if value[0].isspace() and words[-1]:
                        words.append("")
                    words[-1] += parts[0]
                    words.extend(parts[1:])
                    if value[-1].isspace():
                        words.append("")
                at = name.end()
            words[-1] += unquoted[at:]
            unquoted = ""

        for text, quote in word.pieces:
            if not quote:
                unquoted += text
                continue
            flush()
            quoted = True
            words[-1] += text if quote == "'" else _NAME.sub(self._value_of, text)
        flush()
        return [text for text in words if text or (quoted and len(words) == 1)]

    def _value_of(self, reference: re.Match[str]) -> str:
        return self._variables.get(reference[1] or reference[2], "")

    def _do(self, words: list[str]) -> bool:
        """Run a command; whether it succeeded."""
        if not words:
            return True
        name, rest = words[0], words[1:]
        if name == "set":
            for word in rest[:1]:
                key, _, value = word.partition("=")
                self._variables[key] = value
        elif re.fullmatch(r"[A-Za-z_]\w*=.*", name, re.DOTALL):
            key, _, value = name.partition("=")
            self._variables[key] = value
        elif name == "unset":
            for word in rest:
                self._variables.pop(word, None)
        elif name in _LINUX and rest:
            self._kernel, self._arguments = self._path(rest[0]), tuple(_loader_word(word) for word in rest[1:])
            if self._read(self._kernel) is None:
                self._say(f"error: file `{self._kernel}' not found.")
                self._kernel = ""
                return False
        elif name in _INITRD:
            self._initrds = tuple(self._path(word) for word in rest)
        elif name in ("[", "test"):
            return self._test([word for word in rest if word != "]"])
        elif name in ("source", "configfile", ".") and rest:
            return self._source(rest[0])
        elif name == "echo":
            self._say(" ".join(word for word in rest if not word.startswith("-")))
        elif name == "boot":
            raise _Started
        elif name == "false":
            return False
        elif name not in _IGNORED:
            self._say(f"error: can't find command `{name}'.")
            return False
        return True

    def _test(self, words: list[str]) -> bool:
        if words[:1] == ["!"]:
            return not self._test(words[1:])
        if len(words) == 2 and words[0] in ("-f", "-e", "-s"):
            content = self._read(self._path(words[1]))
            return content is not None and (words[0] != "-s" or bool(content))
        if len(words) == 2 and words[0] in ("-n", "-z"):
            return bool(words[1]) == (words[0] == "-n")
        if len(words) == 3 and words[1] in ("=", "==", "!="):
            return (words[0] == words[2]) == (words[1] != "!=")
        return len(words) == 1 and bool(words[0])

    def _path(self, path: str) -> str:
        """A path without its device, which is the one that GRUB came from."""
        return re.sub(r"^\([^)]*\)", "", path)


def _loader_word(word: str) -> str:
    """An argument as GRUB gives it to the kernel (grub_create_loader_cmdline): quoted again when it has spaces."""
    escaped = re.sub(r"([\\'\"])", r"\\\1", word)
    return f'"{escaped}"' if " " in word else escaped


def _command(tokens: list[_Token], at: int) -> tuple[list[_Token], int]:
    """The words from ``at`` to the command's end or a brace, and where they end."""
    end = at
    while end < len(tokens) and isinstance(tokens[end], _Word):
        end += 1
    return tokens[at:end], end


def _braces(tokens: list[_Token], at: int) -> tuple[list[_Token], int]:
    """What stands between braces, from the first one after ``at``; the rest, when they are not closed."""
    while at < len(tokens) and tokens[at] != "{":
        at += 1
    depth, start = 0, at + 1
    while at < len(tokens):
        depth += (tokens[at] == "{") - (tokens[at] == "}")
        if not depth:
            return tokens[start:at], at + 1
        at += 1
    return tokens[start:], at


def _until_fi(tokens: list[_Token], at: int) -> tuple[list[_Token], int]:
    depth, start = 0, at
    while at < len(tokens):
        token = tokens[at]
        word = token.plain if isinstance(token, _Word) else ""
        depth += (word == "if") - (word == "fi")
        if not depth:
            return tokens[start:at], at + 1
        at += 1
    return tokens[start:], at
