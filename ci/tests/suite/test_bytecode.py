"""Bytecode is shared by checkouts: compiled once for all, and never taken for another source's."""

import os
import subprocess
import sys

import pytest

from ci.bytecode import share
from installer.testing.service.rendezvous_kit import bare_environment

_TIME = 1_700_000_000  # the same for all files, so that only their content differs


PACKAGES = "lab", ".venv/lib/python3/site-packages/other"


def _write(package, value):
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"VALUE = {value}\n")
    os.utime(package / "__init__.py", (_TIME, _TIME))


def _checkout(folder, value):
    for package in PACKAGES:
        _write(folder / package, value)
    return folder


@pytest.fixture(autouse=True)
def prefix(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))


def _imported(checkout, package="lab"):
    """VALUE of a package, imported by a new process, and whether the process compiled the package."""
    folder = checkout / package
    command = [sys.executable, "-S", "-v", "-c", f"import {folder.name} as it; print(it.VALUE)"]
    env = {"PYTHONPYCACHEPREFIX": sys.pycache_prefix}
    completed = subprocess.run(
        command, cwd=folder.parent, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return int(completed.stdout), f"# code object from {folder}/__init__.py\n" in completed.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_a_new_checkout_compiles_nothing_that_another_has_compiled(tmp_path, package):
    first, second = _checkout(tmp_path / "a", 1), _checkout(tmp_path / "b/deeper", 1)
    os.utime(second / package / "__init__.py")  # a checkout's files are as old as itself
    for checkout in (first, second):
        share(checkout)
    assert _imported(first, package) == (1, True)
    assert _imported(second, package) == (1, False)


def test_another_content_is_compiled_again(tmp_path):
    first, second = _checkout(tmp_path / "a", 1), _checkout(tmp_path / "b", 2)
    for checkout in (first, second):
        share(checkout)
    assert [_imported(checkout)[0] for checkout in (first, second, first)] == [1, 2, 1]


def test_bytecode_that_is_valid_by_time_is_replaced(tmp_path):
    first, second = _checkout(tmp_path / "a", 1), _checkout(tmp_path / "b", 2)
    share(first)
    for value, checkout in enumerate((first, second), 1):
        _write(checkout / "lab/added", value)
    assert _imported(first, "lab/added") == (1, True)  # not there when bytecode was shared: by its time
    share(second)
    assert _imported(second, "lab/added") == (2, True)


def test_a_checkouts_own_bytecode_is_replaced(tmp_path):
    first, second = _checkout(tmp_path / "a", 1), _checkout(tmp_path / "b", 1)
    assert _imported(first) == (1, True)
    for checkout in (first, second):
        share(checkout)
    assert [_imported(checkout)[1] for checkout in (first, second)] == [True, False]


def test_a_second_run_keeps_what_there_is(tmp_path):
    checkout = _checkout(tmp_path / "a", 1)
    for compiled in (True, False):
        share(checkout)
        assert _imported(checkout) == (1, compiled)


def test_a_service_that_a_test_starts_keeps_its_bytecode_there(monkeypatch):
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", sys.pycache_prefix)
    assert bare_environment()["PYTHONPYCACHEPREFIX"] == sys.pycache_prefix
