"""The size of this repository and the speed of its commands: at HEAD, and beside it at an earlier commit.

Both are unpacked from git into folders of their own. Lines, folders, cycles and citations are counted by the checks of
this checkout (ci.imports, ci.citations), whatever checks the commits have; the commands are timed in turn, with the
Python and the packages of this checkout.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci import citations, imports
from ci.bench.image import SMALL, measured, push_release, write_inputs
from ci.bench.measure import table
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import registry

#: Modules of a folder, its `__init__` aside: about a dozen.
DOZEN = 12
START_ROUNDS = 15
IMAGE_ROUNDS = 5
NODE0 = [sys.executable, "-c", "import sys; from installer.cli import main; sys.exit(main())"]
#: The test module whose citations are wrong on purpose, by its name: earlier commits have it in another folder.
MADE_UP = Path(citations.MADE_UP).name


@dataclass(frozen=True, kw_only=True)
class House:
    """What can be counted of a checkout. `folders`: modules by folder; `unresolved`: citations that lead nowhere."""

    code: int
    tests: int
    folders: dict[str, int]
    cycles: int
    unresolved: int
    cited: int

    def rows(self) -> list[tuple[str, str]]:
        """The counts, as rows of a table."""
        fullest = max(self.folders, key=lambda name: self.folders[name], default="")
        full = [name for name, count in self.folders.items() if count > DOZEN]
        return [
            ("lines of Python, tests aside", f"{self.code}"),
            ("lines of tests and kits", f"{self.tests}"),
            ("modules", f"{sum(self.folders.values())}"),
            ("modules in the fullest folder", f"{self.folders.get(fullest, 0)} ({fullest})"),
            (f"folders with more than {DOZEN} modules", f"{len(full)}"),
            ("import cycles", f"{self.cycles}"),
            ("citations that do not resolve", f"{self.unresolved} of {self.cited}"),
        ]


def unpack(commit: str, folder: Path, root: Path = imports.ROOT) -> Path:
    """The tree of a commit, in `folder`. SystemExit when git does not know it."""
    argv = ["git", "-C", str(root), "archive", "--format=tar", commit]
    completed = subprocess.run(argv, capture_output=True, check=False)
    if completed.returncode:
        raise SystemExit(f"--before {commit}: {completed.stderr.decode(errors='replace').strip()}")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=completed.stdout, check=True)
    return folder


def weigh(tree: Path) -> House:
    """Count what is in a checkout."""
    by_name = imports.modules(tree, imports.ROOMS)
    lines: Counter[bool] = Counter()
    folders: Counter[str] = Counter()
    for path in by_name.values():
        inside = path.relative_to(tree)
        lines[bool({"tests", "testing"} & set(inside.parts))] += len(path.read_text().splitlines())
        folders[str(inside.parent)] += path.name != "__init__.py"
    edges = imports.graph(by_name)
    cycles = imports.loops((edge.importer, edge.imported) for edge in edges if edge.kind == "now")
    problems, cited = citations.check(tree)
    unresolved = sum(Path(problem.split(":")[0]).name != MADE_UP for problem in problems)
    return House(
        code=lines[False],
        tests=lines[True],
        folders=dict(folders),
        cycles=len(cycles),
        unresolved=unresolved,
        cited=cited,
    )


def starts(trees: Sequence[Path]) -> list[float]:
    """Seconds of `node0 --help` of each checkout: medians of runs in turn."""
    taken: list[list[float]] = [[] for _ in trees]
    for _ in range(1 + START_ROUNDS):
        for seconds, tree in zip(taken, trees, strict=True):
            seconds.append(measured([*NODE0, "--help"], {}, tree)[0])
    return [statistics.median(seconds[1:]) for seconds in taken]  # the first compiles


def images(trees: Sequence[Path], work: Path) -> list[tuple[float, float]]:
    """Seconds, and CPU seconds, of `agent create image` of each checkout, with a base of next to nothing: medians of
    runs in turn. On a busy machine the second are the ones to compare."""
    taken: list[list[tuple[float, float]]] = [[] for _ in trees]
    with registry(work / "registry") as server:
        env = {
            "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": push_release(server),
            "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE": str(build(work / "base", "2023-07.x86_64", SMALL)),
        }
        for _ in range(1 + IMAGE_ROUNDS):
            for number, (seconds, tree) in enumerate(zip(taken, trees, strict=True)):
                write_inputs(work / "cluster", server)
                command = [*NODE0, "agent", "create", "image", "--dir", str(work / "cluster")]
                wall, _, cpu = measured(command, {**env, "XDG_CACHE_HOME": str(work / f"cache{number}")}, tree)
                seconds.append((wall, cpu))
    # the first fetches the payload
    return [(statistics.median(w for w, _ in one[1:]), statistics.median(c for _, c in one[1:])) for one in taken]


def beside(columns: Sequence[Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Rows of several tables with the same names as one, a column each."""
    widths = [max(len(figure) for _, figure in column) for column in columns]
    return [
        (rows[0][0], "  ".join(f"{figure:<{width}}" for (_, figure), width in zip(rows, widths, strict=True)).rstrip())
        for rows in zip(*columns, strict=True)
    ]


def run(before: str | None) -> None:
    """Print the table: of `before`, where there is one, and of HEAD. SystemExit when git does not know it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each command compiles all of its modules
    commits = [*([before] if before else []), "HEAD"]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        trees = [unpack(commit, work / f"tree{number}") for number, commit in enumerate(commits)]
        columns = [[("", commit), *weigh(tree).rows()] for commit, tree in zip(commits, trees, strict=True)]
        for column, start, (wall, cpu) in zip(columns, starts(trees), images(trees, work), strict=True):
            column.append((f"node0 --help, median of {START_ROUNDS}", f"{start:.3f} s"))
            column.append((f"create image, base of {SMALL // 10**6} MB, median of {IMAGE_ROUNDS}", f"{wall:.2f} s"))
            column.append(("create image, CPU of the same", f"{cpu:.2f} s"))
    table("the house", beside(columns))
