"""Mutation testing itself: which changes are made, and that each fate is told from the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci.mutation.operators import mutants, mutated
from ci.mutation.plan import Project

ROOT = Path(__file__).parents[2]


def changed(source: str) -> set[str]:
    return {mutated(source, one.number) for one in mutants("x.py", source)}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a == b", {"a != b"}),
        ("a is not b", {"a is b"}),
        ("a is None", {"a is not None"}),
        ("a and b", {"a or b", "a", "b"}),
        ("not a", {"a"}),
        ("a + 1", {"a - 1", "a + 2", "a + 0"}),
        ("a = 'x'", {"a = 'XXxXX'"}),
        ("a = True", {"a = False"}),
        ("a = None", {"a = 1"}),
        ("a.b = c", {"pass"}),
        ("a(b=c)", {"a()", "pass"}),
        ("a += b", {"a -= b", "pass"}),
        ("if a:\n    pass", {"if not a:\n    pass"}),
        ("if not a:\n    pass", {"if a:\n    pass"}),
        ("x = [a for a in b if c]", {"x = [a for a in b]"}),
        ("f(f'{a}/b')", {"f(f'{a}XX/bXX')", "pass"}),
        (
            "def f(a=1):\n    return a",
            {"def f(a=2):\n    return a", "def f(a=0):\n    return a"} | {"def f(a=1):\n    return None"},
        ),
        ("def f():\n    raise E", {"def f():\n    pass"}),
        ("for a in b:\n    continue", {"for a in b:\n    break"}),
        (
            "try:\n    pass\nexcept (A, B):\n    pass",
            {"try:\n    pass\nexcept (B,):\n    pass", "try:\n    pass\nexcept (A,):\n    pass"},
        ),
        ("try:\n    pass\nexcept A:\n    pass", {"try:\n    pass\nexcept ():\n    pass"}),
        ("with suppress(A):\n    pass", {"with suppress():\n    pass"}),
    ],
)
def test_changes(source, wanted):
    assert changed(source) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "'''Docstring.'''",
        "import a",
        "def f(a: 'T') -> 'U':\n    ...".replace("...", "'''Doc.'''"),
        "log = logging.getLogger('x')",
        "log.info('text %s', 1)",
        "if TYPE_CHECKING:\n    a = 1",
        "if __name__ == '__main__':\n    main()",
        "__all__ = ['a']",
        "class A:\n\n    def __repr__(self):\n        return 'a'",
        "@dataclass(frozen=True)\nclass A(B, frozen=True):\n    '''Doc.'''",
    ],
)
def test_what_is_not_changed(source):
    assert changed(source) == set()


def test_the_wording_of_errors_is_not_changed_but_whether_they_are_raised_is():
    assert changed("raise KeyError('wording', f'{a} wording')") == {"pass"}


def test_every_mutant_of_our_own_code_compiles_and_differs():
    path = ROOT / "installer/orchestrator/kube.py"
    source = path.read_text()
    texts = [mutated(source, one.number) for one in mutants("kube.py", source)]
    assert len(set(texts)) == len(texts) > 100
    for text in texts[::7]:
        compile(text, "kube.py", "exec")


def test_tests_are_found_through_kits_and_strings(tmp_path):
    write(tmp_path, "installer/orchestrator/deep.py", "A = 1\n")
    write(tmp_path, "installer/orchestrator/__main__.py", "import installer.orchestrator.deep\n")
    write(tmp_path, "installer/tests/kit.py", "from installer.orchestrator import deep\n")
    write(tmp_path, "installer/tests/test_kit.py", "from installer.tests.kit import deep\n")
    write(tmp_path, "installer/tests/test_program.py", "ARGS = ['-m', 'installer.orchestrator']\n")
    write(tmp_path, "installer/tests/test_other.py", "import json\n")
    files = Project(tmp_path).test_files(["installer/orchestrator/deep.py"])
    assert files == ["installer/tests/test_kit.py", "installer/tests/test_program.py"]


MODULE = '''
"""A module."""
import sys

LIMIT = 3


def tested(number):
    return number < LIMIT


def untested(text):
    return text + "!"


def endless(number, wait):
    while number > 0:
        wait()
        number -= 1


if __name__ == "__main__":
    sys.exit(0)
'''
PROGRAM = '''
"""A program."""
import sys
sys.exit(7)
'''
TESTS = """
import subprocess, sys, time
from pathlib import Path
from installer.orchestrator import module

ROOT = Path(__file__).parents[2]

def test_limit():
    assert [module.tested(n) for n in (2, 3)] == [True, False]

def test_end():
    module.endless(3, lambda: time.sleep(0.01))  # or whoever runs into the time limit keeps a processor busy

def test_program(tmp_path):
    argv = [sys.executable, "-m", "installer.orchestrator.program"]
    assert subprocess.run(argv, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path).returncode == 7

def test_red_from_the_start():
    assert module.untested("a") == ""
"""


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_each_fate_in_a_project_of_its_own(tmp_path):
    project, cache = tmp_path / "project", tmp_path / "cache"
    for name in ("installer/__init__.py", "installer/orchestrator/__init__.py", "installer/tests/__init__.py"):
        write(project, name, "")
    write(project, "installer/orchestrator/module.py", MODULE)
    write(project, "installer/orchestrator/program.py", PROGRAM)
    write(project, "installer/tests/test_module.py", TESTS)
    write(project, "pyproject.toml", "[tool.pytest.ini_options]\n")
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    argv = [sys.executable, "-m", "ci.bench", "mutants", "--root", str(project), "--package", "orchestrator"]
    completed = subprocess.run(
        [*argv, "--sample", "0", "--list-survivors", "--patience", "3"],
        cwd=ROOT,
        env={**os.environ, "NODE0_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before
    out = completed.stdout.splitlines()
    alive = {" ".join(line.split()) for line in out if ".py:" in line}
    # A test that is red from the start proves nothing.
    assert {line for line in alive if line.startswith("no test")} == {
        "no test installer/orchestrator/module.py:13: `return text + '!'` -> return None",
        "no test installer/orchestrator/module.py:13: Add -> Sub",
        "no test installer/orchestrator/module.py:13: '!' -> 'XX!XX'",
    }
    # Nobody looks at where the loop ends; what the program in a process of its own does is looked at.
    assert alive - {line for line in alive if line.startswith("no test")} == {
        "survived installer/orchestrator/module.py:17: 0 -> 1",
        "survived installer/orchestrator/module.py:17: 0 -> -1",
        "survived installer/orchestrator/module.py:17: Gt -> GtE",
        "survived installer/orchestrator/module.py:17: Gt -> LtE",
        "survived installer/orchestrator/module.py:18: removed `wait()`",
        "survived installer/orchestrator/module.py:19: 1 -> 2",
    }
    row = next(line.split() for line in out if line.split()[:1] == ["orchestrator"])
    mutants_, killed, timed_out, survived, uncovered = map(int, row[1:6])
    assert (mutants_, uncovered) == (killed + timed_out + survived + uncovered, 3)
    assert timed_out >= 1
    assert out[-1] == f"killed {killed + timed_out} of {mutants_} ({round(100 * (killed + timed_out) / mutants_)} %)"
    assert (
        "does not pass unmutated in the sandbox: installer/tests/test_module.py::test_red_from_the_start"
        in completed.stderr
    )
