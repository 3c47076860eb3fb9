"""One command at a time writes into an asset directory, and the second one's error names the first."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import installer.create.image  # noqa: F401 - what the command imports when it is needed: here, before it is forked
from installer import dirlock
from installer.cli import main
from installer.dirlock import locked
from installer.errors import DirectoryBusy, StateError
from installer.testing.create.directory_kit import NODE0, is_locked, of_one_run
from installer.testing.create.image_kit import NEEDED
from installer.testing.forked_kit import Forked, forked

REPOSITORY = Path(__file__).parents[2]
real = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
TARGETS = (
    "image", "agent-config-template", "cluster-manifests", "pxe-files", "config-image", "unconfigured-ignition",
    "certificates",
)  # fmt: skip
# Takes the lock, says so, and keeps it until it is killed or its input ends.
HOLDER = """
import pathlib, sys
from installer.dirlock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("have it", flush=True)
    sys.stdin.read()
"""


def holder(folder):
    process = started(HOLDER, folder)
    assert process.stdout.readline() == "have it\n"
    return process


def started(code, folder):
    """Return a Python with the standard library and this checkout alone, which takes half as long to start."""
    command = [sys.executable, "-S", "-c", code, str(folder)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(process):
    process.kill()
    process.communicate()


@real
def test_two_creates_in_one_directory(directory):
    """However they meet: the outputs are one command's, and the other's error says why."""
    runs = [Forked(main, ["agent", "create", "image", "--dir", str(directory)]) for _ in range(6)]
    results = [run.wait(120) for run in runs]
    assert min(code for code, _ in results) == 0
    for code, text in results:
        if code:
            assert code == 1
            assert re.search(r"level=fatal msg=directory \S+ is in use by process \d+ \(.*\): try again", text)
            assert len([line for line in text.splitlines() if "level=fatal" in line or "level=error" in line]) == 1
    assert of_one_run(directory)
    assert not list(directory.glob(".*partial"))


@pytest.mark.slow
@real
def test_the_second_names_the_first(directory):
    """The first is stopped in its midst, so the second surely comes while it works."""
    command = [*NODE0, "agent", "create", "image", "--dir", str(directory)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not is_locked(directory):
        assert first.poll() is None, f"it ended before it had the lock: {first.communicate()[1]}"
        assert time.monotonic() < deadline, "it has not locked the directory"
    first.send_signal(signal.SIGSTOP)
    before = sorted(path.name for path in directory.iterdir())
    code, second = forked(main, command[len(NODE0) :])
    assert sorted(path.name for path in directory.iterdir()) == before
    first.send_signal(signal.SIGCONT)
    text = first.communicate(timeout=120)[1]
    assert first.returncode == 0, text
    assert code == 1
    assert re.search(rf"in use by process {first.pid} \(.*create image.*\): try again", second)
    assert of_one_run(directory)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_turned_away(tmp_path, capsys, target):
    process = holder(tmp_path)
    try:
        assert main(["agent", "create", target, "--dir", str(tmp_path)]) == 1
    finally:
        end(process)
    assert f"directory {tmp_path} is in use by process {process.pid} ({sys.executable} -S -c" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [".openshift_install.log"]


def test_a_service_in_the_same_directory(tmp_path, capsys):
    process = holder(tmp_path)
    try:
        assert main(["service", "--dir", str(tmp_path), "--listen", "127.0.0.1:1"]) == 1
    finally:
        end(process)
    assert f"is in use by process {process.pid}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_dead_process_holds_nothing(tmp_path):
    process = holder(tmp_path)
    with pytest.raises(DirectoryBusy), locked(tmp_path):
        pass
    end(process)
    with locked(tmp_path) as sure:
        assert sure
    assert not list(tmp_path.iterdir())


def test_other_paths_to_it_are_the_same_lock(tmp_path, monkeypatch):
    folder, link = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.chdir(folder)
    for first, other in (
        (link, folder),
        (folder, link),
        (folder / ".." / "a", link),
        (link, folder.relative_to(folder)),
    ):
        with locked(first), pytest.raises(DirectoryBusy), locked(other):
            pass
    with locked(folder), locked(tmp_path):
        pass  # another directory


def test_a_command_that_waits_gets_the_lock(tmp_path):
    process = holder(tmp_path)
    waiting = started(HOLDER.replace("argv[1])", "argv[1]), 60"), tmp_path)
    assert waiting.poll() is None
    end(process)
    assert waiting.stdout.readline() == "have it\n"
    end(waiting)


def test_a_command_that_waits_gives_up(tmp_path):
    begin = time.monotonic()
    with locked(tmp_path), pytest.raises(DirectoryBusy), locked(tmp_path, 0.3):
        pass
    assert time.monotonic() - begin >= 0.3


def test_a_directory_for_reading_only(tmp_path):
    """It can be locked like any other; the failing write reports what cannot be written."""
    tmp_path.chmod(0o555)
    with locked(tmp_path) as sure, pytest.raises(DirectoryBusy), locked(tmp_path):
        pass
    assert sure


def test_a_path_that_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path / "file", "Not a directory"), (tmp_path / "no", "No such file or directory")):
        with pytest.raises(StateError, match=f"{path}: cannot be opened: {why}"), locked(path):
            pass


@pytest.mark.parametrize("number", sorted(dirlock.NO_LOCKS))
def test_a_file_system_that_cannot_lock_directories(tmp_path, monkeypatch, number):
    """NFS says EBADF for a directory; the log file is locked there."""
    flock = fcntl.flock

    def nfs(fd, flags):
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(number, os.strerror(number))
        flock(fd, flags)

    monkeypatch.setattr(dirlock.fcntl, "flock", nfs)
    with locked(tmp_path) as sure:
        assert sure
        assert [path.name for path in tmp_path.iterdir()] == [".openshift_install.log"]
        with pytest.raises(DirectoryBusy, match=f"in use by process {os.getpid()} "), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_a_file_system_that_cannot_lock_at_all(tmp_path, monkeypatch, caplog):
    def never(fd, flags):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(dirlock.fcntl, "flock", never)
    with locked(tmp_path) as sure:
        assert not sure
    assert f"{tmp_path} cannot be locked: take care" in caplog.text


def test_other_errors_of_locking_are_told(tmp_path, monkeypatch):
    def broken(fd, flags):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(dirlock.fcntl, "flock", broken)
    with pytest.raises(StateError, match="cannot be locked: Input/output error"), locked(tmp_path):
        pass


def test_leftovers_go_and_nothing_else(tmp_path):
    """Only what has the form of our hidden names; with the lock held nobody else can be writing it."""
    (tmp_path / "auth").mkdir()
    ours = [".agent.x86_64.iso.12-0.partial", "auth/.kubeconfig.7-3.partial", ".boot-artifacts.5-1.partial"]
    users = ["agent.iso.12-0.partial", ".mine.partial", ".x.12.partial", ".x.12-a.partial", "auth/kubeconfig"]
    for name in ours + users:
        (tmp_path / name).write_text("x")
    (tmp_path / ".boot-artifacts.5-2.partial").mkdir()
    (tmp_path / ".boot-artifacts.5-2.partial/x").write_text("x")
    assert main(["agent", "create", "agent-config-template", "--dir", str(tmp_path)]) == 0
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*users, "agent-config.yaml", ".openshift_install.log"}
