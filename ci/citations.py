"""Citations in code and docs, and whether what they name is there; `python -m ci.citations` prints those that are not.

CONTRIBUTING.md has the convention: `installer.md §5.5` is a section of docs/reference/installer.md; a § without a page
is one of the page that the paragraph named last, else of the room's page (ROOM_PAGES); `rule 12` is a row of the table
of rules; row, step and number follow the section that has them (`cluster.md §2.2 step 18b`);
`design.md, decision 1` and `feasibility.md, "Registry"` name a heading. After a standard's name (RFC 9110 §14.2) a §
is the standard's.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.pages import NUMBER, Library, Page, unfenced
from ci.syntax import nodes

ROOT = Path(__file__).parents[1]
SEARCHED = ("installer", "drivers", "lab", "scenarios", "ci", "docs")
#: The page of a § without a page, by the beginning of the citing file's path; the longest one counts.
ROOM_PAGES = {
    "drivers/": "lab.md",
    "installer/": "installer.md",
    "installer/network/": "nmstate.md",
    "installer/release/": "cluster.md",
    "installer/tests/network": "nmstate.md",
    "lab/": "lab.md",
    "lab/release/": "cluster.md",
}
RULES = ("installer.md", "1.2")
#: Files with citations that are wrong on purpose.
MADE_UP = "ci/tests/house/test_citations.py"

_LIST = r"\d+(?: to \d+)?(?:(?:, and|,| and) \d+(?: to \d+)?)*"
_TOKEN = re.compile(
    rf"""
    (?P<standard>\bRFC[ ]\d+|\bECMA-\d+|\bUEFI[ ][\d.]+|\bEl[ ]Torito|\bPNG[ ]specification|\bISO[ ]\d+)
    | (?P<page>(?<![\w:./-])(?:[\w.-]+/)*[\w-]+\.md)\b (?:,\s"(?P<heading>[^"]+)")?
    | (?P<foreign>:[\w./-]+\.md)\b
    | §\s?(?P<section>{NUMBER}) (?:(?:\sto\s§?|[-–]§?)(?P<last>{NUMBER}))?
        (?:,?\s(?P<inside>row|step|no\.|rule)\s(?P<row>\d+[a-z']?))?
    | \b[Rr]ules?\s(?P<rules>{_LIST})\b(?!-|\.\w)
    | \brow\s(?P<bare_row>\d+)\b
    | \bdecision\s(?P<decision>\d+)\b
    """,
    re.VERBOSE,
)
#: Each citation has one of these; most files have none and need not be parsed.
_HINT = re.compile(r"§|\.md\b|\b[Rr]ules?\b|\brow\b|\bdecision\b")
#: Strings are matched so that a "#" in them is not taken for a comment. (The module tokenize takes 16 times as long.)
_STRING_OR_COMMENT = re.compile(
    r"""
    "{3} (?:[^\\]|\\.)*? "{3} | '{3} (?:[^\\]|\\.)*? '{3}
    | " (?:[^"\\\n]|\\.)* " | ' (?:[^'\\\n]|\\.)* '
    | \#[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A paragraph that may cite: a comment, a part of a docstring or page. `line` is that of its first line."""

    path: str
    line: int
    text: str

    def line_of(self, offset: int) -> int:
        """The file's line that has the character at `offset`."""
        return self.line + self.text.count("\n", 0, offset)


def room_page(path: str) -> str | None:
    """The page that a § without a page belongs to in this file."""
    if path.startswith("docs/reference/"):
        return path
    fitting = [prefix for prefix in ROOM_PAGES if path.startswith(prefix)]
    return ROOM_PAGES[max(fitting, key=len)] if fitting else None


def _paragraphs(path: str, line: int, text: str) -> Iterator[Block]:
    start = 0
    lines = text.split("\n")
    for number, content in enumerate([*lines, ""]):
        alone = content.lstrip().startswith("|")  # a table's row is a paragraph of its own
        if content.strip() and not alone:
            continue
        if number > start:
            yield Block(path, line + start, "\n".join(lines[start:number]))
        if alone:
            yield Block(path, line + number, content)
        start = number + 1


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment of a Python file that can be parsed, "#" included."""
    line, at = 1, 0
    for token in _STRING_OR_COMMENT.finditer(source):
        if token[0].startswith("#"):
            line += source.count("\n", at, token.start())
            at = token.start()
            yield line, token[0]


@functools.cache
def python_blocks(path: str, source: str) -> tuple[Block, ...]:
    """Comments, docstrings by paragraphs, and other strings that have a § in them."""
    return tuple(_python_blocks(path, source))


def _python_blocks(path: str, source: str) -> Iterator[Block]:
    lines = source.splitlines()
    statements = {id(node.value) for node in nodes(source, ast.Expr)}
    seen = set()
    for node in nodes(source, ast.Constant):
        if not isinstance(node.value, str):
            continue
        span = slice(node.lineno - 1, node.end_lineno)  # parts of an f-string have the whole one's place
        if (span.start, span.stop) not in seen and (id(node) in statements or "§" in node.value):
            seen.add((span.start, span.stop))
            yield from _paragraphs(path, node.lineno, "\n".join(lines[span]))
    comment: list[str] = []
    first = 0
    for number, text in comments(source):
        if comment and (number != first + len(comment) or not lines[number - 1].lstrip().startswith("#")):
            yield Block(path, first, "\n".join(comment))
            comment = []
        first = first if comment else number
        comment.append(text.lstrip("#:"))
    if comment:
        yield Block(path, first, "\n".join(comment))


def other_blocks(path: str, text: str) -> Iterator[Block]:
    """Comments of shell, units, TOML, C and the like, and lines with a § in them."""
    kept_lines = []
    for line in text.splitlines():
        comment = re.search(r"(?:^|\s)(?:#|//|/\*|;)(?!!)(.*)$", line)
        kept_lines.append(comment[1] if comment else line if "§" in line else "")
    yield from _paragraphs(path, 1, "\n".join(kept_lines))


def blocks(path: str, text: str) -> Iterable[Block]:
    """The paragraphs of a file that may have citations."""
    if path.endswith(".md"):
        return _paragraphs(path, 1, unfenced(text))
    return python_blocks(path, text) if path.endswith(".py") else other_blocks(path, text)


def _numbers(listed: str) -> Iterator[str]:
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", listed):
        yield from (str(number) for number in range(int(first), int(last or first) + 1))


def _between(first: str, last: str | None) -> list[str]:
    """Sections of a range: 2.7 to 2.9 is 2.7, 2.8, 2.9. Raises ValueError for one that crosses levels or is empty."""
    if last is None:
        return [first]
    above, _, start = first.rpartition(".")
    same, _, end = last.rpartition(".")
    if above != same or int(end) <= int(start):
        raise ValueError(f"§{first} to §{last} is no range")
    return [f"{above}.{n}" if above else str(n) for n in range(int(start), int(end) + 1)]


@dataclass(frozen=True)
class _Sayer:
    """Says what is wrong with a citation of one line."""

    problems: list[tuple[int, str]]
    line: int

    def __call__(self, why: str) -> None:
        self.problems.append((self.line, why))


class Checker:
    """Looks each citation of a file up. `checked` counts them, so that a test sees that there are any."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.checked = 0

    def file(self, path: str, text: str) -> list[str]:
        """What does not resolve, each as `path:line: why`, in the order of lines."""
        if not path.endswith(".md") and not _HINT.search(text):
            return []
        problems: list[tuple[int, str]] = []
        last_page: str | None = None  # the page that the file named last, before this paragraph
        for block in sorted(blocks(path, text), key=lambda block: block.line):
            if path.endswith(".md"):
                problems += self._links(block)
            last_page = self._block(block, last_page, problems)
        return [f"{path}:{line}: {why}" for line, why in sorted(problems)]

    def _links(self, block: Block) -> Iterator[tuple[int, str]]:
        for link in _LINK.finditer(block.text):
            target, _, anchor = link["target"].partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            self.checked += 1
            citing_file = self.library.root / block.path
            file = (citing_file.parent / target).resolve() if target else citing_file.resolve()
            line = block.line_of(link.start())
            if not file.exists():
                yield line, f"link to {link['target']}: no such file"
            elif anchor:
                page = self.library.pages.get(str(file.relative_to(self.library.root.resolve())))
                if page is None or anchor not in page.anchors:
                    yield line, f"link to {link['target']}: no such heading"

    def _block(self, block: Block, last_page: str | None, problems: list[tuple[int, str]]) -> str | None:
        """Checks a paragraph's citations; returns the page that the file named last."""
        named: str | None = None  # the page that this paragraph named last; "" for somebody else's
        section: tuple[Page, str] | None = None
        text = _LINK.sub(lambda link: f"[{link['text']}]{' ' * (len(link['target']) + 2)}", block.text)
        for token in _TOKEN.finditer(text):
            say = _Sayer(problems, block.line_of(token.start()))
            if token["standard"] or token["foreign"]:
                named, section = "", None
            elif token["page"]:
                named, section = token["page"] if self._page(token, block.path, say) else "", None
                last_page = named or last_page
            elif token["section"] and named != "":
                home = room_page(block.path)
                if named is None and home and last_page and self.library.page(last_page) is not self.library.page(home):
                    say(f"§{token['section']}: of {home} or of {last_page}, named before?")
                else:
                    section = self._section(token, named or home, say)
            elif token["rules"]:
                self._rules(token["rules"], say)
            elif token["bare_row"]:
                self.checked += 1
                if section is None or token["bare_row"] not in section[0].sections[section[1]]:
                    say(f"row {token['bare_row']}: of which section?")
            elif token["decision"]:
                self.checked += 1
                design = self.library.page("design.md")
                if design is None or not any(t.startswith(f"Decision {token['decision']}:") for t in design.titles):
                    say(f"decision {token['decision']}: not in design.md")
        return None if block.path.startswith("docs/reference/") else last_page

    def _page(self, token: re.Match[str], path: str, say: _Sayer) -> bool:
        """Whether the page is one of ours; other projects' are named in the reference only."""
        name = token["page"]
        page = self.library.page(name)
        if page is None:
            if not path.startswith("docs/reference/"):
                say(f"{name}: no such page")
            return False
        self.checked += 1
        if (title := token["heading"]) and title not in page.titles:
            say(f'{name}: no heading "{title}"')
        return True

    def _rules(self, listed: str, say: _Sayer) -> None:
        page = self.library.page(RULES[0])
        for number in _numbers(listed):
            self.checked += 1
            if page is None or number not in page.sections.get(RULES[1], set()):
                say(f"rule {number}: not in {RULES[0]} §{RULES[1]}")

    def _section(self, token: re.Match[str], name: str | None, say: _Sayer) -> tuple[Page, str] | None:
        self.checked += 1
        page = self.library.page(name) if name else None
        if page is None:
            say(f"§{token['section']}: of which page?")
            return None
        try:
            wanted = _between(token["section"], token["last"])
        except ValueError as error:
            say(str(error))
            return None
        if missing := [number for number in wanted if number not in page.sections]:
            say(f"{page.path.name} has no §{', §'.join(missing)}")
            return None
        if token["row"] and token["row"] not in page.sections[wanted[-1]]:
            say(f"{page.path.name} §{wanted[-1]} has no {token['inside']} {token['row']}")
        return page, wanted[-1]


def files(root: Path) -> Iterator[tuple[str, str]]:
    """Path below the root and text of every file that may cite; what is not text is left out."""
    paths: Iterable[Path] = [
        *(path for path in root.iterdir() if path.is_file()),
        *(path for room in SEARCHED for path in (root / room).rglob("*") if path.is_file()),
    ]
    for path in sorted(paths):
        name = str(path.relative_to(root))
        if "__pycache__" in name or name in (MADE_UP, "LICENSE"):
            continue
        try:
            yield name, path.read_text()
        except UnicodeDecodeError:
            continue


def check(root: Path = ROOT) -> tuple[list[str], int]:
    """Every citation that does not resolve, as `path:line: why`, and how many were looked at."""
    checker = Checker(Library(root))
    problems = [problem for path, text in files(root) for problem in checker.file(path, text)]
    return problems, checker.checked


def main() -> int:
    """Print what does not resolve; 1 when there is any."""
    problems, count = check()
    print("\n".join([*problems, f"{count} citations, {len(problems)} do not resolve"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
