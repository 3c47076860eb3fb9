"""Histories for tests, and processes of `node0-ci`."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from ci.informer import cli
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Attempt, Run, Step
from ci.informer.history.store import History
from lab.host.namespaces import CLONE_NEWNET, setns

FIRST = date(2026, 1, 1)
LETTERS = {"P": Outcome.PASSED, "F": Outcome.FAILED, "V": Outcome.VOID}


def runs_of(job: str, nights: Sequence[str], payload: str = "p{day:03}", seconds: float = 600.0) -> Iterator[Run]:
    """Run of a job, a text a night: `PPPF` are four runs, `V` is void."""
    for day, letters in enumerate(nights):
        for place, letter in enumerate(letters):
            name = payload.format(day=day)
            failed = letter == "F"
            message = f"TimeoutError: the API of {job} did not answer after {1800 + day} s" if failed else ""
            yield Run(
                job=job,
                payload=name,
                key=f"{job} {name} {day} {place}",
                began=f"{FIRST + timedelta(days=day)}T{place % 24:02}:00:00Z",
                seconds=seconds + place,
                attempts=[
                    Attempt("test_nodes", Outcome.PASSED, 1.0),
                    Attempt("test_api", LETTERS[letter], 2.0, message),
                ],
                steps=[
                    Step("boot", 0.0, 60.0, Outcome.PASSED),
                    Step("install", 60.0, seconds - 60, LETTERS[letter], depth=0, error=message),
                ],
                evidence={"wait-for": f"level=error msg={message}"} if failed else {},
                void="dnsmasq has ended with 1" if letter == "V" else "",
            )


def artefacts(folder: Path, *phases: Mapping[str, object], tests: Sequence[Mapping[str, object]] = ()) -> None:
    """Write what a scenario leaves in its folder: phases and tests, of which each has the usual fields and these."""
    folder.mkdir(parents=True, exist_ok=True)
    phase = {"name": "install", "began": f"{FIRST}T00:00:00Z", "at": 0, "depth": 0, "seconds": 5.0, "outcome": "passed"}
    (folder / "phases.json").write_text(json.dumps([{**phase, **fields} for fields in phases]))
    test = {"name": "t", "outcome": "passed", "seconds": 1}
    (folder / "tests.json").write_text(json.dumps([{**test, **fields} for fields in tests]))
    (folder / "missing.txt").touch()


def filled(history: History, **jobs: Sequence[str]) -> None:
    """Fill a history with these jobs (`_` in a name becomes `-`)."""
    history.add(run for job, nights in jobs.items() for run in runs_of(f"{job.replace('_', '-')}@vm", nights))


#: In pytest's place: leaves artefacts as scenarios do. The script has the outcomes, one run's after the other.
PROGRAM = """
import json, pathlib, sys, time
root = pathlib.Path(next(w for w in sys.argv if w.startswith("--artifacts=")).partition("=")[2])
scenario = sys.argv[sys.argv.index("-k") + 1].strip("[]")
script = pathlib.Path(sys.argv[1])
word, *rest = script.read_text().split()
script.write_text(" ".join(rest))
if word == "nothing":
    sys.exit("cannot import name x")
if word == "none":
    sys.exit(5)
stuck, late = word == "stuck", word in ("late", "stuck")
if late:
    word = "passed"
folder = root / scenario
folder.mkdir()
outcome = "passed" if word == "killed" else word
phase = {"name": "install", "began": "2026-01-01T00:00:00Z", "at": 0, "depth": 0, "seconds": 5.0, "outcome": "passed"}
if stuck:
    phase = {"name": "install", "began": "2026-01-01T00:00:00Z", "at": 0, "depth": 0, "outcome": "running"}
(folder / "phases.json").write_text(json.dumps([phase]))
if stuck:
    (folder / "commands").mkdir()
    said = "Still waiting for the cluster to initialize: Working towards 4.18.0: 56 of 57 done, waiting on console"
    (folder / "commands/003-wait-for-install-complete.log").write_text(f"$ node0 x\\nlevel=debug msg={said}\\n")
tests = [] if stuck else [{"name": "t", "outcome": outcome, "seconds": 1, "message": word}]
(folder / "tests.json").write_text(json.dumps(tests))
if late:
    time.sleep(60)
sys.exit(-9 if word == "killed" else word != "passed")
"""

#: In pytest's place: notes in a folder that it began, waits for `go` there (or to be interrupted), and leaves so many
#: bytes of evidence. The first run of `broken` leaves nothing, and its second gives `go`; `large` does not wait.
WAITING = """
import json, os, pathlib, signal, sys, time
root = pathlib.Path(next(w for w in sys.argv if w.startswith("--artifacts=")).partition("=")[2])
notes, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
scenario = sys.argv[sys.argv.index("-k") + 1].strip("[]")
def note(word):
    with (notes / "log").open("a") as log:
        log.write(f"{word} {scenario}\\n")
def interrupted(*_):
    note("interrupted")
    sys.exit(2)
ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
signal.signal(signal.SIGINT, interrupted)
note("sigint-is-ignored" if ignored else "began")
if scenario == "broken":
    if not (notes / "tried").exists():
        (notes / "tried").touch()
        sys.exit(1)
    (notes / "go").touch()
deadline = time.monotonic() + 100
while scenario != "large" and not (notes / "go").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
folder = root / scenario
folder.mkdir()
phase = {"name": "install", "began": "2026-01-01T00:00:00Z", "at": 0, "depth": 0, "seconds": 5.0, "outcome": "passed"}
(folder / "phases.json").write_text(json.dumps([phase]))
(folder / "tests.json").write_text(json.dumps([{"name": "t", "outcome": "passed", "seconds": 1}]))
(folder / "big.bin").write_bytes(os.urandom(size))
note("ended")
"""

#: Most of what a process of Dask's takes until it is ready is its imports: these are forked from one that has them.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "ci.informer.engine.engine"])


def make_keys(folder: Path) -> None:
    """Make a key as docs/informer.md says."""
    folder.mkdir()
    words = "openssl req -x509 -newkey ed25519 -nodes -days 365 -subj /CN=node0-ci -keyout key.pem -out cert.pem"
    subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)


def run_node0_ci(words: Sequence[str], log: Path, state: Path, namespace: Path | None) -> None:
    """Run a command in this process, which ends with it: with this log and state directory, in a network namespace."""
    if namespace:
        with namespace.open() as file:
            setns(file.fileno(), CLONE_NEWNET)
    os.environ["NODE0_STATE"] = str(state)
    with log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    sys.exit(cli.main(words))
