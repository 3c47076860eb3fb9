"""The repository's Markdown pages: headings, anchors, and what is numbered below a heading."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

#: Number of a section, as headings begin with it and citations name it.
NUMBER = r"\d+(?:\.\d+)*"
_HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")


@dataclass
class Page:
    """A Markdown page's headings, and the numbers of rows and list items below each numbered one."""

    path: Path
    sections: dict[str, set[str]] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


def unfenced(text: str) -> str:
    """The page with fenced code blocks emptied, line for line."""
    lines, fence = [], ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence or mark:
            lines.append("")
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1] == fence:
                fence = ""
        else:
            lines.append(line)
    return "\n".join(lines)


def slug(title: str) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def parse_page(path: Path, text: str) -> Page:
    """Headings of a page, its anchors, and what is numbered in tables and lists."""
    page, rows = Page(path), set[str]()
    for line in unfenced(text).splitlines():
        if heading := _HEADING.fullmatch(line):
            title, rows = heading[2], set()
            page.titles.append(title)
            anchor, count = slug(title), 0
            while anchor in page.anchors:
                count += 1
                anchor = f"{slug(title)}-{count}"
            page.anchors.add(anchor)
            if number := re.match(rf"({NUMBER})\.?\s", title):
                rows = page.sections.setdefault(number[1], set())
        elif row := re.match(r"\| *(\d+[a-z']?) *\||(\d+)\. ", line):
            rows.add(row[1] or row[2])
    return page


class Library:
    """The pages of the repository, by path below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
        self.pages = {str(path.relative_to(root)): parse_page(path, path.read_text()) for path in paths}

    def page(self, name: str) -> Page | None:
        """The page of a citation: `installer.md`, `reference/installer.md`, `docs/nmstate.md`, `design.md`."""
        paths = ("docs/reference/" + name, "docs/" + name, name)
        return next((self.pages[path] for path in paths if path in self.pages), None)
