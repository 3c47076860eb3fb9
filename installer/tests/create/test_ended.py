"""A command that is ended, or runs out of disk: all files of it are there, or none."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

# What the command imports when it is needed: here once, so that no run that is forked has to.
import installer.create.image  # noqa: F401
import installer.create.targets  # noqa: F401
from installer import signals
from installer.cli import main
from installer.create.outputs import Outputs
from installer.errors import EXIT_INTERRUPTED, StateError
from installer.files import Partial, hidden, leftovers, write_whole
from installer.testing.create.directory_kit import is_locked, of_one_run, snapshot
from installer.testing.create.image_kit import NEEDED
from installer.testing.forked_kit import Forked, forked

real = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
REPOSITORY = Path(__file__).parents[3]


def stopping(arguments):
    """Return the command, which stops itself as soon as the ISO's copy is begun: seen from outside it may be over by
    then."""
    begin = Partial.__init__

    def begun(self, dest, *args):
        begin(self, dest, *args)
        if dest.suffix == ".iso":
            os.kill(os.getpid(), signal.SIGSTOP)

    Partial.__init__ = begun  # type: ignore[method-assign]
    return main(arguments)


def ended_in_the_midst(directory, *numbers):
    """`create image`, stopped with the lock in hand and a copy that is not whole, and then sent these signals."""
    process = Forked(stopping, ["agent", "create", "image", "--dir", str(directory)])
    try:
        state, deadline = "", time.monotonic() + 60
        while state != "T":
            assert state != "Z", "it has ended"
            assert time.monotonic() < deadline, f"it never stopped: its state is {state}"
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            time.sleep(0.01)
        assert is_locked(directory)
        assert leftovers(directory)
    except BaseException:
        numbers = (signal.SIGKILL,)
        raise
    finally:
        for number in numbers:
            os.kill(process.pid, number)
        ended = process.wait()
    return ended


@real
@pytest.mark.parametrize(
    ("number", "again"),
    [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
    ids=["SIGINT-first", "SIGTERM-again", "SIGHUP-first"],
)
def test_a_signal_in_the_midst(directory, number, again):
    """Told to end with the lock in hand and the copy under way: the directory is as it was before."""
    if again:
        assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    before = snapshot(directory)
    code, stderr = ended_in_the_midst(directory, number, signal.SIGCONT)
    assert code == EXIT_INTERRUPTED, stderr
    assert stderr.splitlines()[-1] == f"level=error msg=interrupted by {number.name}"
    assert "Traceback" not in stderr
    assert snapshot(directory) == before
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    assert of_one_run(directory)


@real
def test_a_kill_in_the_midst(directory):
    """Nothing can be cleaned up then; the next command does, and what was not whole is nowhere at its name."""
    before = snapshot(directory)
    assert ended_in_the_midst(directory, signal.SIGKILL)[0] == -signal.SIGKILL
    after = snapshot(directory)
    left = {name for name in after if name.endswith(".partial")}
    assert left
    assert {name: value for name, value in after.items() if name not in left | {"auth"}} == before
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    assert of_one_run(directory)
    assert not list(directory.rglob("*.partial"))


def test_a_signal_waits_for_what_is_put_in_place(tmp_path, monkeypatch):
    """It comes while files are renamed: all are, and then the command ends."""
    place = Partial.commit

    def interrupted(self, dest=None):
        os.kill(os.getpid(), signal.SIGTERM)
        place(self, dest)

    monkeypatch.setattr(Partial, "commit", interrupted)
    with pytest.raises(signals.Ended, match="SIGTERM"), signals.ended_by_signals(), Outputs(tmp_path) as outputs:  # noqa: PT012
        for name in ("a", "b/c", "d"):
            outputs.put(name, name.encode())
        outputs.commit()
    assert {path.name for path in tmp_path.rglob("*")} == {"a", "b", "c", "d"}
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_before_takes_everything_back(tmp_path):
    (tmp_path / "d").write_text("old")
    with pytest.raises(signals.Ended, match="SIGINT"), signals.ended_by_signals(), Outputs(tmp_path) as outputs:  # noqa: PT012
        outputs.put("a", b"a")
        outputs.put("b/c", b"c")
        outputs.put("d", b"new")
        (outputs.folder("e", "*") / "f").write_text("f")
        os.kill(os.getpid(), signal.SIGINT)
        outputs.commit()
    assert snapshot(tmp_path) == {"d": ((tmp_path / "d").stat().st_mode, b"old")}


def test_signals():
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    with pytest.raises(signals.Ended, match="SIGTERM") as caught, signals.ended_by_signals():  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # while the first is cleaned up after
    assert str(caught.value) == "SIGTERM"
    assert isinstance(caught.value, KeyboardInterrupt)
    order = []
    with pytest.raises(signals.Ended), signals.ended_by_signals():  # noqa: PT012
        with signals.deferred(), signals.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            order.append("inner")
        order.append("never")
    assert order == ["inner"]
    with signals.deferred():  # outside of a command it is nothing
        pass
    done = []

    def elsewhere():
        with signals.ended_by_signals():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done == [signal.SIG_DFL]


def test_patience_with_a_clean_up_that_hangs():
    """The next signal ends the process at once when it comes ten seconds after the first."""
    code = (
        "import os, signal, time\nfrom installer import signals\nsignals._PATIENCE = 0.0\n"
        "with signals.ended_by_signals():\n  try:\n    os.kill(os.getpid(), signal.SIGTERM)\n  finally:\n"
        "    print('cleaning', flush=True); time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, cwd=REPOSITORY)
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "cleaning\n"


def test_outputs_all_or_none(tmp_path):
    (tmp_path / "in").write_text("input")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/in").write_text("input")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/old").write_text("old")
    (tmp_path / "dir").mkdir()
    before = snapshot(tmp_path)
    for name in ("dir", "in/x"):  # a folder where a file is to be, and a file where a folder is
        with pytest.raises(StateError, match=f"failed to write {tmp_path}/{name}: "), Outputs(tmp_path) as outputs:  # noqa: PT012
            outputs.put("new/x", b"x")
            outputs.put(name, b"x")
    with (
        pytest.raises(StateError, match=f"failed to write {tmp_path}/in: Not a directory"),
        Outputs(tmp_path) as outputs,
    ):
        outputs.folder("in", "*")
    with pytest.raises(StateError, match="failed to write"), Outputs(tmp_path / "no") as outputs:
        outputs.folder("x", "*")
    with Outputs(tmp_path) as outputs:  # never committed
        outputs.put("new/x", b"x")
        outputs.take(Partial(tmp_path / "y"))
    assert snapshot(tmp_path) == before
    with Outputs(tmp_path) as outputs:
        outputs.put("in", b"now an output")
        outputs.put("new/x", b"x", 0o644)
        (outputs.folder("gone", "*") / "fresh").write_text("fresh")
        outputs.remove("in", "sub/in", "never/there")
        assert snapshot(tmp_path).items() >= before.items()
        outputs.commit()
    after = {name: value and value.decode() for name, (_, value) in snapshot(tmp_path).items()}
    assert after == {"in": "now an output", "new": None, "new/x": "x", "gone": None, "gone/fresh": "fresh", "dir": None}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "in").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new/x").stat().st_mode & 0o777 == 0o644


def test_a_partial_file_is_committed_or_discarded(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    partial = Partial(path)
    partial.write(b"ne")
    partial.write(b"w")
    assert path.read_text() == "old"
    assert leftovers(tmp_path) == [partial.path]
    partial.commit()
    partial.discard()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert hidden(path) != hidden(path)
    assert hidden(path).parent == tmp_path
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")
    assert leftovers(tmp_path) == []
    assert leftovers(tmp_path / "no") == []
    discarded = Partial(tmp_path / "y")
    discarded.discard()
    discarded.discard()
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


# Full disks: a file system of a few kilobytes more each time.

CLONE_NEWNS = 0x00020000  # <linux/sched.h>
NO_ROOM = 99


def on_a_file_system_of(kib, directory, mounted, after):
    """Return the command with a copy of the directory on a small file system, which is copied in its turn in the
    end."""

    def run(arguments):
        assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
        options = f"size={kib}k,mode=0755"
        for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "-o", options, "none", str(mounted)]):
            subprocess.run(["mount", *words], check=True)
        try:
            shutil.copytree(directory, mounted, symlinks=True, dirs_exist_ok=True)
        except shutil.Error:
            return NO_ROOM
        code = main(arguments)
        shutil.copytree(mounted, after, symlinks=True)
        return code

    return run


@pytest.mark.slow
@real
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")
@pytest.mark.parametrize("target", ["image", "cluster-manifests", "certificates"])
def test_a_full_disk(directory, tmp_path, target):
    """Whatever does not fit any more, the error says it in a line, and the directory is as it was."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    before = snapshot(directory)
    kib, failed = 8, 0
    while True:
        after = tmp_path / f"after-{kib}"
        run = on_a_file_system_of(kib, directory, mounted, after)
        code, stderr = forked(run, ["agent", "create", target, "--dir", str(mounted)])
        if code == NO_ROOM:  # not even the inputs fit
            kib *= 2
            continue
        assert "Traceback" not in stderr
        if code == 0:
            break
        failed += 1
        assert code == 1, stderr
        assert "No space left on device" in stderr.splitlines()[-1], stderr
        assert stderr.splitlines()[-1].startswith("level=fatal msg=")
        assert snapshot(after) == before
        kib *= 2
    assert failed
    if target == "image":
        assert of_one_run(after)


@real
def test_the_state_is_whole_json(directory):
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    assert json.loads((directory / ".openshift_install_state.json").read_text())["*agent.OptionalInstallConfig"]
