"""Runs pytest over `scenarios/`, or with parts of it, in a forked process: most of a run that installs nothing is
importing."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from installer.testing.forked_kit import forked

ROOT = Path(__file__).parents[2]


def pytest_scenarios(*options: str) -> tuple[int, str]:
    """Exit code and output of a run with these options."""
    return pytest_in(ROOT, "scenarios/", *options)


def pytest_in(folder: Path, *options: str) -> tuple[int, str]:
    """Return the same for tests in another folder, whose conftest may import from scenarios/."""
    _load()
    return forked(functools.partial(_run, folder), ["-q", "-p", "no:cacheprovider", *options], seconds=120.0)


@functools.cache
def collected(*options: str) -> Sequence[str]:
    """Return the ids of the tests that these options select."""
    code, output = pytest_scenarios("--collect-only", *options)
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), output
    return [line for line in output.splitlines() if "::" in line]


@functools.cache
def _load() -> None:
    for path in sorted((ROOT / "scenarios").rglob("*.py")):
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))


def _run(folder: Path, arguments: Sequence[str]) -> int:
    os.chdir(folder)
    os.dup2(2, 1)
    return int(pytest.main(list(arguments)))
