"""Citations of docs/reference and links between pages that lead nowhere: `python -m ci.citations` prints them.

Checked are the sections in `installer.md §5.5, §5.7`, and target and anchor of each link in a page.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBER = r"\d+(?:\.\d+)*"
_CITED = re.compile(rf"(?<![\w:./-])(?:docs/)?(?:reference/)?([\w-]+\.md)((?:,? (?:and |to )?§{NUMBER})+)")
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


@functools.cache
def headings(page: Path) -> list[str]:
    """Return the titles of a page's headings; none of a page that is not there."""
    text = page.read_text() if page.is_file() else ""
    return re.findall(r"^#{1,6} +(.*?) *$", _FENCED.sub("", text), re.MULTILINE)


def anchor(title: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")


def problems(path: Path, text: str) -> Iterator[str]:
    """Yield what leads nowhere in a file of the repository."""
    for match in _CITED.finditer(text):
        titles = headings(ROOT / "docs/reference" / match[1])
        known = {found[1] for title in titles if (found := re.match(rf"({NUMBER})\.?\s", title))}
        yield from (f"{path}: {match[1]} has no §{part}" for part in re.findall(NUMBER, match[2]) if part not in known)
    for match in _LINK.finditer(_FENCED.sub("", text)) if path.suffix == ".md" else ():
        target = ROOT / path.parent / match[1] if match[1] else ROOT / path
        if "://" not in match[1] and not target.exists():
            yield f"{path}: there is no {match[1]}"
        elif match[2] and target.suffix == ".md" and match[2] not in map(anchor, headings(target)):
            yield f"{path}: {match[1]} has no heading #{match[2]}"


if __name__ == "__main__":
    names = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = [line for name in names.splitlines() for line in problems(Path(name), (ROOT / name).read_text())]
    sys.exit("\n".join(lines) or 0)
