"""Runs mutants: each in a child forked from a process that has imported all third-party modules, a few at a time."""

from __future__ import annotations

import importlib
import os
import pickle
import random
import select
import signal
import sys
import tempfile
import threading
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.mutation import measure, sandbox
from ci.mutation.choose import Chooser
from ci.mutation.errors import Timeout
from ci.mutation.operators import Mutant, mutants, mutated
from ci.mutation.plan import Project

KILLED, TIMEOUT, SURVIVED, UNCOVERED = "killed", "timed out", "survived", "no test"
#: Time limit of a mutant: this factor times the duration of its tests without it, plus the given patience.
TIMES = 4.0


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of a mutant; ``tests`` ran against it, ``left`` more did not for want of budget."""

    mutant: Mutant
    fate: str
    tests: int
    left: int
    by: str = ""


def parallel(jobs: int, items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """``work`` on each item in forked processes; item and result (or the exception) in the order of their ends."""
    waiting = list(enumerate(items))[::-1]
    running: dict[int, tuple[int, int]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, item = waiting.pop()
                reader, writer = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(reader)
                    sandbox.die_with_parent()
                    try:
                        answer: Any = work(item)
                    except Exception as error:
                        answer = error
                    with os.fdopen(writer, "wb") as file:
                        pickle.dump(answer, file)
                    os._exit(0)
                os.close(writer)
                running[reader] = (pid, number)
            for reader in select.select(list(running), [], [])[0]:
                pid, number = running.pop(reader)
                with os.fdopen(reader, "rb") as file:
                    content = file.read()
                os.waitpid(pid, 0)
                yield items[number], pickle.loads(content) if content else OSError("the process was killed")
    finally:
        for reader, (pid, _) in running.items():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            os.close(reader)


def measured(
    project: Project, files: Sequence[str], jobs: int, say: Callable[[str], None]
) -> tuple[list[measure.Measured], int]:
    """Measurements of test files, from the cache where they hold; and how many were made."""
    measurements: list[measure.Measured] = []
    todo: list[tuple[str, Path]] = []
    for file in files:
        place, cached = measure.cached_measurement(project, file)
        if cached is not None:
            measurements.append(cached)
        else:
            todo.append((file, place))
    if todo:
        say(f"measuring which lines {len(todo)} test files run")
    with tempfile.TemporaryDirectory(prefix="node0-mutants-") as name:

        def work(item: tuple[str, Path]) -> measure.Measured:
            return measure.measure(project, item[0], Path(name, item[0].replace("/", "_")))

        for (file, place), answer in parallel(jobs, todo, work):
            if isinstance(answer, Exception):
                say(f"{file} is left out: {answer}")
                continue
            measure.keep(place, answer)
            measurements.append(answer)
            say(f"  {file}: {len(answer.seconds)} tests, {sum(answer.seconds.values()):.0f} s")
    for one in measurements:
        for test in one.unfit:
            say(f"not used, since it does not pass unmutated in the sandbox: {test}")
    return sorted(measurements, key=lambda one: one.file), len(todo)


def warm(names: Iterable[str]) -> None:
    """Import what the tests will import of others: done once here instead of in each child."""
    import hypothesis  # noqa: F401
    import pytest  # noqa: F401

    for name in names:
        # No more of hypothesis than that: its plugin minds what was done before it.
        if name not in sys.modules and not name.startswith(("_", "py.", "coverage", "hypothesis")):
            try:
                importlib.import_module(name)
            except Exception:  # what cannot be imported here, a child imports itself, or not
                continue
    if threading.active_count() > 1:
        raise RuntimeError(f"importing started threads: {threading.enumerate()}")


def sample(project: Project, paths: Sequence[str], size: int | None, seed: int) -> tuple[list[Mutant], int]:
    """Mutants to run, in the source's order, and how many there are in all."""
    everything = [one for path in paths for one in mutants(path, (project.root / path).read_text())]
    if size is None or size >= len(everything):
        return everything, len(everything)
    numbers = sorted(random.Random(seed).sample(range(len(everything)), size))
    return [everything[number] for number in numbers], len(everything)


def run_one(project: Project, mutant: Mutant, chooser: Chooser, budget: float, *, patience: float) -> Fate:
    """Run the tests of one mutant."""
    tests, left = chooser.tests(mutant, budget)
    if not tests:
        return Fate(mutant=mutant, fate=UNCOVERED, tests=0, left=0)
    text = mutated((project.root / mutant.path).read_text(), mutant.number)
    try:
        code, by = _run_tests(project, tests, chooser, patience, sources={mutant.path: text})
    except Timeout:
        return Fate(mutant=mutant, fate=TIMEOUT, tests=len(tests), left=left)
    # 5: no test was collected, so that nothing has failed either.
    return Fate(mutant=mutant, fate=SURVIVED if code in (0, 5) else KILLED, tests=len(tests), left=left, by=by)


def control(project: Project, chooser: Chooser) -> None:
    """Run the quickest test of each file as for a mutant, with no change: OSError unless all pass."""
    quickest: dict[str, str] = {}
    for test in sorted(chooser.seconds, key=lambda name: chooser.seconds[name]):
        quickest.setdefault(test.split("::")[0], test)
    code, by = _run_tests(project, list(quickest.values()), chooser, 60.0, sources={})
    if code != 0:
        raise OSError(f"without any mutant, the tests end with {code}: {by}")


def _run_tests(
    project: Project, tests: list[str], chooser: Chooser, patience: float, *, sources: dict[str, str]
) -> tuple[int, str]:
    """pytest's exit code and the test that failed, with some modules' sources changed. Raises Timeout, OSError."""
    seconds = TIMES * sum(chooser.seconds[test] for test in tests) + patience
    with tempfile.TemporaryDirectory(prefix="node0-mutant-") as name:
        scratch = Path(name)
        covers = measure.path_file(project, scratch)
        for number, (path, text) in enumerate(sources.items()):
            changed = scratch / f"{number}.py"
            changed.write_text(text)
            # Bytecode is found by a source's size and time: a time of its own keeps this one's apart.
            stamp = 1_000_000_000 + zlib.crc32(text.encode()) % 500_000_000
            os.utime(changed, (stamp, stamp))
            covers[project.root / path] = changed
        handle = os.open(scratch / "failed", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            code = sandbox.run(
                lambda: _tested(project, tests, handle),
                scratch / "output",
                seconds,
                covers,
                writable={".pycache": measure.cache_dir() / "pycache"},
                keep=[project.root],
            )
        finally:
            os.close(handle)
        if code == sandbox.BROKEN:
            raise OSError(f"the run of the tests broke: {(scratch / 'output').read_text()[-1000:]}")
        return code, (scratch / "failed").read_text()


def _tested(project: Project, tests: list[str], handle: int) -> int:
    import pytest

    measure.prepare(project)
    order = {test: number for number, test in enumerate(tests)}
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    functions = {test.split("[")[0] for test in tests}

    class Choice:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            missing = set(order) - {item.nodeid for item in items}
            # A mutant that changes the tests' own parameters: all of their functions are run.
            chosen = [i for i in items if i.nodeid in order or (missing and i.nodeid.split("[")[0] in functions)]
            place = {file: number for number, file in enumerate(files)}
            # A file's tests stay together, for the sake of its fixtures.
            chosen.sort(key=lambda i: (place[i.nodeid.split("::")[0]], order.get(i.nodeid, len(order))))
            items[:] = chosen

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.outcome == "failed":
                os.write(handle, report.nodeid.encode())

    try:
        return int(pytest.main([*measure.arguments(project), "-x", "--tb=no", *files], plugins=[Choice()]))
    except Exception:
        # What is left behind by a mutant (a socket, a thread) may be an error of pytest's own end.
        traceback.print_exc()
        return int(pytest.ExitCode.INTERNAL_ERROR)
