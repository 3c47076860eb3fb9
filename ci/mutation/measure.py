"""Which test runs which line: each test file once under coverage, kept until what it ran, or a kit of it, changes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from ci.mutation import sandbox
from ci.mutation.errors import Timeout
from ci.mutation.plan import Project

VERSION = 4
SECONDS = 900.0
#: Coverage context of lines that belong to no single test: fixtures of a module, processes that tests started.
SHARED = "shared"
HOOK = f"""
import atexit, os, sys
if os.path.isdir("/tmp/.processes") and not hasattr(sys, "node0_measured"):
    import coverage
    sys.node0_measured = True
    _c = coverage.Coverage(data_file="/tmp/.processes/main", data_suffix=True, config_file=False,
                           source=[{{source!r}}], context={SHARED!r}, messages=False)
    _c._warn_no_data = False
    _c.set_option("run:sigterm", True)
    _c.start()
    def _save():
        _c.stop()
        _c.save()
    atexit.register(_save)
"""


@dataclass
class Measured:
    """The measurement of one test file: seconds by test, and by source file the lines that each test (or SHARED)
    ran."""

    file: str
    _: KW_ONLY
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    #: Tests that do not pass in the sandbox even without a mutation, and are not used.
    unfit: list[str] = field(default_factory=list)
    #: Third-party modules that the tests imported.
    imported: list[str] = field(default_factory=list)
    #: Digests of the source files that the tests ran.
    deps: dict[str, str] = field(default_factory=dict)


def cache_dir() -> Path:
    """Where measurements are kept: outside of the checkout."""
    base = Path(os.environ.get("NODE0_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "node0")
    path = base.expanduser() / "mutants"
    (path / "pycache").mkdir(parents=True, exist_ok=True)
    return path


def digest(path: Path) -> str:
    """A hash of a file's content; empty when there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _kits(project: Project) -> str:
    folder = project.root / project.tests
    files = [path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("test_")]
    files += [project.root / "conftest.py", project.root / "pyproject.toml"]
    return hashlib.sha256("".join(digest(path) for path in files).encode()).hexdigest()


def path_file(project: Project, scratch: Path) -> dict[Path, Path]:
    """Have every Python process of this environment find the project first, and measure itself when it is to.

    One of the environment's own .pth files is seen changed. Processes that tests start have environments of their own.
    """
    for site in (Path(entry) for entry in sys.path if entry.endswith("site-packages")):
        for path in sorted(site.glob("*.pth")):
            if "node0" in path.name:
                cover = scratch / "cover.pth"
                hook = HOOK.format(source=str(project.root / project.code))
                cover.write_text(
                    f"import sys; sys.path.insert(0, {str(project.root)!r})\n{path.read_text().rstrip()}\n"
                    f"import sys; exec({hook!r}, {{}})\n"
                )
                return {path: cover}
    return {}


def prepare(project: Project) -> None:
    """In a child that is about to run pytest: the project's modules come from its root, bytecode from the cache."""
    os.chdir(project.root)
    rooms = {path.name for path in project.root.iterdir() if path.is_dir()} | {"ci", "conftest"}
    for name in [name for name in sys.modules if name.split(".")[0] in rooms and name.split(".")[0] != "ci"]:
        del sys.modules[name]
    for name in [n for n in sys.modules if n == "ci" or (n.startswith("ci.") and not n.startswith("ci.mutation"))]:
        del sys.modules[name]
    sys.path[:] = [str(project.root), *(entry for entry in sys.path if entry not in ("", str(project.root)))]
    sys.pycache_prefix = "/tmp/.pycache"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = "/tmp/.hypothesis"
    os.environ["TMPDIR"] = "/tmp"


def arguments(project: Project) -> list[str]:
    """What every run of pytest is called with here."""
    from hypothesis import Phase, settings

    # No shrinking: that a test fails is enough. The same examples each time: a mutant's fate can be repeated.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", deadline=None, phases=phases, derandomize=True, database=None)
    common = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--hypothesis-profile=mutants"]
    return [*common, "--rootdir", str(project.root), "--assert=plain"]


def measure(project: Project, file: str, scratch: Path) -> Measured:
    """Run one test file under coverage. Raises OSError when it could not be run."""
    scratch.mkdir(parents=True, exist_ok=True)
    result = os.open(scratch / "result.json", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    covers = path_file(project, scratch)

    def action() -> int:
        prepare(project)
        os.mkdir("/tmp/.processes")
        measured = _traced(project, file)
        with os.fdopen(result, "w") as out:
            json.dump(measured.__dict__, out)
        return 0

    try:
        writable = {".pycache": cache_dir() / "pycache"}
        keep = [project.root]
        sandbox.run(action, scratch / "output", SECONDS, covers, writable=writable, keep=keep)
        text = (scratch / "result.json").read_text()
        if not text:
            raise OSError(f"{file} could not be measured: {(scratch / 'output').read_text()[-1500:]}")
        return Measured(**json.loads(text))
    except Timeout:
        raise OSError(f"{file} took longer than {SECONDS:.0f} s") from None
    finally:
        os.close(result)


def _traced(project: Project, file: str) -> Measured:
    import coverage
    import pytest

    before = set(sys.modules)
    source = str(project.root / project.code)
    tracer = coverage.Coverage(
        data_file="/tmp/.processes/main", config_file=False, source=[source], omit=["*/tests/*"], messages=False
    )
    measured = Measured(file)

    class Watch:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Any:
            tracer.switch_context(item.nodeid)
            try:
                return (yield)
            finally:
                tracer.switch_context(SHARED)

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
            if fixturedef.scope == "function":
                return (yield)
            tracer.switch_context(SHARED)
            try:
                return (yield)
            finally:
                tracer.switch_context(request._pyfuncitem.nodeid)

        def pytest_runtest_logreport(self, report: Any) -> None:
            measured.seconds[report.nodeid] = measured.seconds.get(report.nodeid, 0.0) + report.duration
            if report.outcome != "passed" and report.nodeid not in measured.unfit:
                measured.unfit.append(report.nodeid)

    tracer.start()
    code = pytest.main([*arguments(project), file], plugins=[Watch()])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise OSError(f"pytest ended with {code}")
    tracer.stop()
    tracer.save()
    tracer.combine(["/tmp/.processes"], keep=True)
    data = tracer.get_data()
    for name in data.measured_files():
        path = str(Path(name).relative_to(project.root))
        by_test: dict[str, list[int]] = {}
        for line, contexts in data.contexts_by_lineno(name).items():
            for context in contexts:
                if context:
                    by_test.setdefault(context, []).append(line)
        if by_test:
            measured.lines[path] = by_test
            measured.deps[path] = digest(project.root / path)
    for name in measured.unfit:
        measured.seconds.pop(name, None)
    ours = ("ci", "conftest", "installer", "lab", "drivers", "scenarios", project.code)
    measured.imported = sorted(n for n in set(sys.modules) - before if n.split(".")[0] not in ours)
    return measured


def cached_measurement(project: Project, file: str) -> tuple[Path, Measured | None]:
    """Where a file's measurement is kept, and the one that still holds, if any."""
    key = hashlib.sha256(f"{VERSION} {digest(project.root / file)} {_kits(project)}".encode()).hexdigest()[:32]
    place = cache_dir() / "lines" / f"{key}.json"
    if not place.is_file():
        return place, None
    cached = Measured(**json.loads(place.read_text()))
    current = all(digest(project.root / path) == digested for path, digested in cached.deps.items())
    return place, cached if current else None


def keep(place: Path, measured: Measured) -> None:
    """Keep a measurement for later runs."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(measured.__dict__))
    temporary.replace(place)
