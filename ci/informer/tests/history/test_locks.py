"""A history on a file system that has no locks."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ci.informer.errors import HistoryError
from ci.informer.history import files, schema
from ci.informer.history.store import History
from ci.informer.tests.kit import filled

ROOT = Path(__file__).parents[4]
#: What NFS answers where no daemon keeps its locks.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
int fcntl64(int file, int command, ...) {
    static int (*real)(int, int, ...);
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (command == F_SETLK || command == F_SETLKW) { errno = ENOLCK; return -1; }
    if (!real) real = (int (*)(int, int, ...)) dlsym(RTLD_NEXT, "fcntl64");
    return real(file, command, argument);
}
int fcntl(int file, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl64(file, command, argument);
}
int flock(int file, int operation) { errno = ENOLCK; return -1; }
"""
JUNIT = '<testsuite timestamp="2026-01-02T03:04:05Z"><testcase name="a"/></testsuite>'


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """Compile the library that takes locks away."""
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True)
    return folder / "shim.so"


@pytest.fixture
def node0_ci(tmp_path, shim):
    """`node0-ci` on a machine whose file systems have no locks."""

    def run(*words):
        argv = [sys.executable, "-m", "ci.informer.cli", "--history", str(tmp_path / "history.db"), *words]
        environment = {**os.environ, "LD_PRELOAD": str(shim)}
        return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["new", "was-elsewhere"])
def test_a_history_without_locks_is_used_with_a_warning(tmp_path, node0_ci, before):
    warning = "its file system has no locks; history.db.lock beside it stands for them: run one plan at a time"
    (tmp_path / "e2e.xml").write_text(JUNIT)
    if before:
        with History(tmp_path / "history.db") as history:
            filled(history, sno=["P"])
    loaded = node0_ci("load", str(tmp_path / "e2e.xml"), "--payload", "p", "--job", "e2e")
    assert (loaded.returncode, loaded.stderr) == (0, f"node0-ci: {tmp_path / 'history.db'}: {warning}\n")
    read = node0_ci("history")
    assert (read.returncode, len(read.stdout.splitlines())) == (0, 2 + before)
    assert not (tmp_path / "history.db.lock").exists()


@pytest.mark.slow
def test_a_plan_is_run_without_locks(tmp_path, node0_ci):
    (tmp_path / "program.py").write_text("raise SystemExit(1)")
    program = ("--program", sys.executable, str(tmp_path / "program.py"))
    done = node0_ci("run", "sno", "--artifacts", str(tmp_path / "out"), *program)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert "sno@vm: void" in done.stdout


def test_without_locks_a_folder_keeps_writers_apart_and_is_named_if_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "has_locks", lambda folder: False)
    monkeypatch.setattr(schema, "WAIT", 0.05)
    path = tmp_path / "history.db"
    with (
        History(path) as first,
        History(path) as second,
        first.writing(),
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        second.add([])
    (tmp_path / "history.db.lock").mkdir()
    with pytest.raises(HistoryError) as caught:
        History(path)
    assert str(caught.value) == (
        f"{path}: database is locked (by history.db.lock beside it: remove that, if no node0-ci runs)"
    )


def test_a_folder_has_locks_and_one_that_is_read_only_is_reported_elsewhere(tmp_path):
    assert files.has_locks(tmp_path)
    assert files.has_locks(tmp_path / "nowhere")
