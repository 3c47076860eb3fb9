"""The two programs: openshift-install, whose answers are cached, and node0 in processes forked from this one."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path

from ci.bench.oracle.answers import Answer

HOME_VARIABLE = "ORACLE_HOME"
# A registry that does not answer (nobody listens on port 443): both programs make manifests without it.
RELEASE = f"127.0.0.1/ocp/release@sha256:{'1' * 64}"
MANIFESTS = ("agent", "create", "cluster-manifests")
TIMEOUT_S = 120
# Inputs that a process answers before another takes its place.
_PER_PROCESS = 200
_HINT = """{home}/openshift-install: no such program. This comparison, and nothing else, needs one that has `agent
create ignition-json`, with its `installer/data/data` beside it; ORACLE_HOME names another directory."""
# Stand-ins for programs that openshift-install runs. What nmstatectl's accepts is not compared (compare.comparable).
_STAND_INS = {
    "nmstatectl": r"""#!/bin/sh
printf -- '---\nNetworkManager:\n- - eth0.nmconnection\n  - |\n    [connection]\n    id=eth0\n'
""",
    "oc": f"""#!/bin/sh
case "$*" in
  *"release info"*--image-for=*) echo 127.0.0.1/ocp/part@sha256:{"2" * 64} ;;
  *"release info"*) echo multi ;;
  *) echo "not known: $*" >&2; exit 1 ;;
esac
""",
}


@dataclass(frozen=True)
class Edit:
    """A change of a file: `old` is replaced by `new`; without `old` the file is written, without both it is removed."""

    path: str
    old: bytes = b""
    new: bytes | None = None

    def make(self, directory: Path) -> None:
        """Make the change below `directory`."""
        path = directory / self.path
        if self.new is None:
            path.unlink(missing_ok=True)
        elif not self.old:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.new)
        elif path.exists():
            path.write_bytes(path.read_bytes().replace(self.old, self.new))


@dataclass(frozen=True)
class Input:
    """A name and the files of an asset directory, by relative path; `base`: whether other inputs are variants of it.

    `again`: edits before the command runs there a second time, whose answer is the one compared; None: it runs once.
    """

    name: str
    files: dict[str, bytes]
    base: bool = False
    again: tuple[Edit, ...] | None = None

    def put(self, directory: Path) -> None:
        """Write the files there."""
        for name, data in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def edit(self, directory: Path) -> None:
        """Make the edits before the second run."""
        for edit in self.again or ():
            edit.make(directory)


def collected(directory: Path) -> dict[str, str]:
    """All files there by relative path, but for the installers' own state and logs."""
    paths = (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".openshift_install"))
    return {str(path.relative_to(directory)): path.read_text(errors="replace") for path in sorted(paths)}


def oracle_home() -> Path:
    """$ORACLE_HOME, else ~/.cache/oracle. Raises SystemExit, saying what belongs there, where there is none."""
    home = Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".cache/oracle")
    if not os.access(home / "openshift-install", os.X_OK):
        raise SystemExit(_HINT.format(home=home))
    return home


class Oracle:
    """openshift-install. It is run only for inputs whose answer is not in the cache below `keep`."""

    def __init__(self, home: Path, keep: Path) -> None:
        self._program = home / "openshift-install"
        self._work = Path(tempfile.mkdtemp(prefix="oracle-"))
        for name, text in _STAND_INS.items():
            path = self._work / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        self._env = environment(f"{self._work / 'bin'}:/usr/bin:/bin", self._work, home / "installer/data/data")
        status = self._program.stat()
        self._version = f"{status.st_size} {status.st_mtime_ns} {RELEASE} {_STAND_INS}"
        keep.mkdir(parents=True, exist_ok=True)
        self._kept = keep / f"{hashlib.sha256(self._version.encode()).hexdigest()[:16]}.jsonl"

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._work)

    def answers(self, inputs: Sequence[Input], command: Sequence[str] = MANIFESTS) -> list[Answer]:
        """What it answers to each input, in their order."""
        by_key = self._cached_answers()
        keys = [self._key(one, command) for one in inputs]
        new = {key: one for key, one in zip(keys, inputs, strict=True) if key not in by_key}
        with ThreadPoolExecutor(os.cpu_count()) as pool, self._kept.open("a") as log:
            pending = pool.map(lambda one: self.ask(one, command), new.values())
            for key, answer in zip(new, progress(pending, len(new), "openshift-install"), strict=True):
                by_key[key] = answer
                log.write(json.dumps({"key": key, **asdict(answer)}) + "\n")
        return [by_key[key] for key in keys]

    def ask(self, one: Input, command: Sequence[str] = MANIFESTS) -> Answer:
        """Run it on one input."""
        directory = Path(tempfile.mkdtemp(dir=self._work))
        one.put(directory)
        argv = [str(self._program), *command, "--dir", str(directory)]
        try:
            if one.again is not None:
                subprocess.run(argv, env=self._env, capture_output=True, timeout=TIMEOUT_S, check=False)
                one.edit(directory)
            completed = subprocess.run(argv, env=self._env, capture_output=True, timeout=TIMEOUT_S, check=False)
            code, text = completed.returncode, completed.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, text = None, ""
        answer = Answer(code, text.replace(str(directory), "DIR"), collected(directory))
        shutil.rmtree(directory)
        return answer

    def _key(self, one: Input, command: Sequence[str]) -> str:
        files = [(name, hashlib.sha256(data).hexdigest()) for name, data in sorted(one.files.items())]
        again = () if one.again is None else (one.again,)
        return hashlib.sha256(repr((self._version, tuple(command), files, *again)).encode()).hexdigest()

    def _cached_answers(self) -> dict[str, Answer]:
        answers = {}
        for line in self._kept.read_text().splitlines() if self._kept.exists() else ():
            try:
                entry = json.loads(line)
            except ValueError:  # a run that was ended while it wrote
                continue
            key = entry.pop("key")
            answers[key] = Answer(**entry)
        return answers


def environment(path: str, home: Path, data: Path) -> dict[str, str]:
    """The environment of both programs."""
    return {
        "PATH": path,
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": RELEASE,
        "OPENSHIFT_INSTALL_SKIP_HOSTCRYPT_VALIDATION": "1",
        "OPENSHIFT_INSTALL_DATA": str(data),
    }


def node0_answers(inputs: Sequence[Input], ask: Callable[[Input], Answer] | None = None) -> list[Answer]:
    """What node0 answers to each input, in their order: as its command does, in processes forked from one that has
    imported it, since starting Python anew takes longer than the work. `ask` runs one input; by default it makes its
    manifests."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        context = multiprocessing.get_context("fork")
        env = environment("/usr/bin:/bin", work, work)
        with context.Pool(os.cpu_count(), _prepare, (env,), maxtasksperchild=_PER_PROCESS) as pool:
            pending = pool.imap(ask or create_manifests, inputs)
            return list(progress(pending, len(inputs), "node0"))


def _prepare(env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGALRM, _too_long)
    # Output is caught by descriptor: the streams have to write to 1 and 2, whatever pytest has put in their place.
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, closefd=False) for stream in (1, 2))


def _too_long(*_: object) -> None:
    raise TimeoutError(f"no answer within {TIMEOUT_S} s")


def create_manifests(one: Input) -> Answer:
    """Run `node0 agent create cluster-manifests` in this process, which is a forked one."""
    (node0,) = entry_points(group="console_scripts", name="node0")
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as output:
        directory = Path(name)
        one.put(directory)
        streams = [os.dup(stream) for stream in (1, 2)]
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        signal.alarm(TIMEOUT_S)
        code: int | None
        try:
            command = [*MANIFESTS, "--dir", name]
            if one.again is not None:
                node0.load()(command)
                one.edit(directory)
                sys.stderr.flush()
                output.truncate(0)
                os.lseek(output.fileno(), 0, os.SEEK_SET)
            code = node0.load()(command)
        except TimeoutError:
            code = None
        finally:
            signal.alarm(0)
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, saved in zip((1, 2), streams, strict=True):
                os.dup2(saved, stream)
                os.close(saved)
        output.seek(0)
        text = output.read().decode(errors="replace")
        return Answer(code, text.replace(name, "DIR"), collected(directory))


def progress(answers: Iterable[Answer], count: int, who: str) -> Iterator[Answer]:
    """Pass answers on, and say now and then how many there are."""
    for number, answer in enumerate(answers, 1):
        if number % 250 == 0 or number == count:
            print(f"{who}: {number} of {count}", file=sys.stderr, flush=True)
        yield answer
