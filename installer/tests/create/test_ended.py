"""A command that is ended, or runs out of disk: all files of it are there, or none."""

import contextlib
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

from installer import signals
from installer.cli import main
from installer.create.outputs import Outputs
from installer.errors import EXIT_INTERRUPTED, StateError
from installer.files import Partial, hidden, leftovers, write_whole
from installer.testing.create.directory_kit import is_locked, of_one_run, snapshot
from installer.testing.create.image_kit import NEEDED

real = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
REPOSITORY = Path(__file__).parents[3]


# The command, which stops itself as soon as the ISO's copy is begun: seen from outside it may be over by then.
STOPS = """
import os, signal, sys
from installer.cli import main
from installer.files import Partial

begin = Partial.__init__

def begun(self, dest, *args):
    begin(self, dest, *args)
    if dest.suffix == ".iso":
        os.kill(os.getpid(), signal.SIGSTOP)

Partial.__init__ = begun
sys.exit(main())
"""


@contextlib.contextmanager
def stopped_in_the_midst(directory):
    """`create image`, stopped with the lock in hand and a copy that is not whole."""
    command = [sys.executable, "-c", STOPS, "agent", "create", "image", "--dir", str(directory)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        state, deadline = "", time.monotonic() + 60
        while state != "T":
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, f"it never stopped: its state is {state}"
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            time.sleep(0.01)
        assert is_locked(directory)
        assert leftovers(directory)
        yield process
    finally:
        process.kill()
        process.communicate()


@real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_a_signal_in_the_midst(directory, number, again):
    """Told to end with the lock in hand and the copy under way: the directory is as it was before."""
    if again:
        assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    before = snapshot(directory)
    with stopped_in_the_midst(directory) as process:
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == EXIT_INTERRUPTED, said
    assert said.splitlines()[-1] == f"level=error msg=interrupted by {number.name}"
    assert "Traceback" not in said
    assert snapshot(directory) == before
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    assert of_one_run(directory)


@real
def test_a_kill_in_the_midst(directory):
    """Nothing can be cleaned up then; the next command does, and what was not whole is nowhere at its name."""
    before = snapshot(directory)
    with stopped_in_the_midst(directory) as process:
        process.kill()
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
        (outputs.folder("e") / "f").write_text("f")
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
    """Ten seconds after the first signal the next one ends the process as ever."""
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
        outputs.folder("in")
    with pytest.raises(StateError, match="failed to write"), Outputs(tmp_path / "no") as outputs:
        outputs.folder("x")
    with Outputs(tmp_path) as outputs:  # never committed
        outputs.put("new/x", b"x")
        outputs.take(Partial(tmp_path / "y"))
    assert snapshot(tmp_path) == before
    with Outputs(tmp_path) as outputs:
        outputs.put("in", b"now an output")
        outputs.put("new/x", b"x", 0o644)
        (outputs.folder("gone") / "fresh").write_text("fresh")
        outputs.remove("in", "sub/in", "never/there")
        assert snapshot(tmp_path).items() >= before.items()
        outputs.commit()
    after = {name: value and value.decode() for name, (_, value) in snapshot(tmp_path).items()}
    assert after == {"in": "now an output", "new": None, "new/x": "x", "gone": None, "gone/fresh": "fresh", "dir": None}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "in").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new/x").stat().st_mode & 0o777 == 0o644


def test_partial(tmp_path):
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
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


# Full disks: a file system of a few kilobytes more each time.

FULL = """
set -eu
mount -t tmpfs -o size="$1"k,mode=0755 none "$2"
cp -a "$3"/. "$2"/
set +e
"$4" -m installer agent create "$5" --dir "$2" 2> "$6"/said
echo $? > "$6"/code
umask 022; rm -rf "$6"/after; cp -a "$2" "$6"/after
"""


@real
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.parametrize("target", ["image", "cluster-manifests", "certificates"])
def test_a_full_disk(directory, tmp_path, target):
    """Whatever does not fit any more, the error says it in a line, and the directory is as it was."""
    mounted, out = tmp_path / "mounted", tmp_path / "out"
    mounted.mkdir()
    out.mkdir()
    before = snapshot(directory)
    assert main(["agent", "create", target, "--dir", str(tmp_path / "warm")]) == 1  # there is no such directory
    kib, failed = 8, 0
    while True:
        command = ["unshare", "-m", "sh", "-c", FULL, "-", str(kib), str(mounted), str(directory)]
        done = subprocess.run([*command, sys.executable, target, str(out)], capture_output=True, text=True, timeout=60,
                              cwd=REPOSITORY)  # fmt: skip
        if done.returncode:  # not even the inputs fit
            kib *= 2
            continue
        said, code = (out / "said").read_text(), int((out / "code").read_text())
        assert "Traceback" not in said
        if code == 0:
            break
        failed += 1
        assert code == 1
        assert "No space left on device" in said.splitlines()[-1], said
        assert said.splitlines()[-1].startswith("level=fatal msg=")
        assert snapshot(out / "after") == before
        kib *= 2
    assert failed
    if target == "image":
        assert of_one_run(out / "after")


@real
def test_the_state_is_whole_json(directory):
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    assert json.loads((directory / ".openshift_install_state.json").read_text())["*agent.OptionalInstallConfig"]
