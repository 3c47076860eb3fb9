"""Several hosts: a scheduler and workers as processes of their own, one in another network; any of them is killed."""

import contextlib
import gc
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from ci.informer import running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.engine import tls
from ci.informer.engine.engine import Engine
from ci.informer.engine.evidence import fetch, pack, unpack
from ci.informer.errors import InformerError
from ci.informer.history import work
from ci.informer.history.store import History
from ci.informer.tests import kit
from lab.waiting import wait_until

PORT = 28786
LIMIT = 60.0
#: Bytes of a run's evidence: more than one call fetches.
EVIDENCE = 3 << 19


class Fleet:
    """The processes, each killed at the end if it still runs. `folder` is that of one test."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.keys = home, home, home / "keys"
        self.processes: dict[str, BaseProcess] = {}
        self.at_rest = False
        self.namespace = f"node0-engine-{os.getpid()}"
        tls.make(self.keys)
        (home / "program.py").write_text(kit.WAITING)
        for words in (
            f"netns add {self.namespace}",
            f"link add engine0 type veth peer name engine1 netns {self.namespace}",
            "addr add 10.213.77.1/24 dev engine0",
            "link set engine0 up",
            f"-n {self.namespace} addr add 10.213.77.2/24 dev engine1",
            f"-n {self.namespace} link set engine1 up",
            f"-n {self.namespace} link set lo up",
        ):
            subprocess.run(["ip", *words.split()], check=True)

    @property
    def address(self) -> str:
        return f"10.213.77.1:{PORT}"

    def start(self, name: str, *words: str, netns: bool = False) -> BaseProcess:
        namespace = Path("/run/netns", self.namespace) if netns else None
        arguments = [*words, "--tls", str(self.keys)], self.log_of(name), self.home / f"state-{name}", namespace
        self.processes[name] = process = kit.PROCESSES.Process(target=kit.run_node0_ci, args=arguments)
        process.start()
        return process

    def log_of(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def scheduler(self) -> None:
        self.start("scheduler", "scheduler", self.address)

    def begin(self, folder: Path) -> None:
        """A test's turn: all hosts are there, those too that another test has ended."""
        self.folder, self.at_rest = folder, False
        if "scheduler" not in self.processes:
            self.scheduler()
        for name, netns in (("a", False), ("b", False), ("c", True)):
            if name not in self.processes:
                self.start(name, "worker", self.address, "--name", name, "--memory", "6000", netns=netns)

    def end(self) -> None:
        """After a test that did not come to its end the next one gets hosts that know nothing of it."""
        self.go()
        if not self.at_rest:
            for name in [*self.processes]:
                self.kill(name)
            for state in self.home.glob("state-*"):
                shutil.rmtree(state)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.join(30)

    def close(self) -> None:
        for name in [*self.processes]:
            self.kill(name)
        subprocess.run(["ip", "link", "del", "engine0"], check=False)
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)

    def log(self, word: str = "") -> list[list[str]]:
        """What runs have noted, of one word."""
        with contextlib.suppress(FileNotFoundError):
            return [w for line in (self.folder / "log").read_text().splitlines() if (w := line.split())[0] == word]
        return []

    def until(self, word: str, count: int) -> None:
        wait_until(
            lambda: len(self.log(word)) >= count, LIMIT, f"{count} runs {word}", lambda: self.log(word), poll=0.05
        )

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    one = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def fleet(hosts, tmp_path):
    hosts.begin(tmp_path)
    yield hosts
    hosts.end()


class Collecting:
    """A collector in a thread."""

    def __init__(
        self, fleet: Fleet, rounds: int, name: str = "", history: str = "history.db", *, grace: float = 5
    ) -> None:
        self.history = fleet.folder / history
        self.logged: list[str] = []
        self.error: BaseException | None = None
        self._fleet, self._rounds, self._name, self._grace = fleet, rounds, name, grace
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        fleet = self._fleet
        try:
            with (
                History(self.history) as history,
                Engine(
                    self.logged.append,
                    address=f"tls://{fleet.address}",
                    security=tls.security(fleet.keys),
                    grace=self._grace,
                    patience=LIMIT,
                ) as engine,
            ):
                name = self._name or running.begin(history, plan(fleet, self._rounds), fleet.folder / "artifacts")
                list(running.carry_out(history, name, engine, self.logged.append))
        except BaseException as error:
            self.error = error

    def done(self) -> None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), self.logged
        if self.error is not None:
            raise self.error


def plan(fleet: Fleet, rounds: int) -> running.Plan:
    program = (sys.executable, str(fleet.home / "program.py"), str(fleet.folder), str(EVIDENCE))
    # A lab of one node, for which each host has room once.
    jobs = ("sno-ipv4-static-uefi@vm",)
    return running.Plan(payload="p", jobs=jobs, rounds=rounds, program=program, limit=100)


def rows(fleet: Fleet):
    with History(fleet.folder / "history.db") as history:
        assert work.open_plans(history) == []
        return history.runs()


def whole(fleet: Fleet, count: int, others: int = 0) -> None:
    """All runs are there once, with their evidence, and no run ended twice; others are in another history."""
    ended_rows = rows(fleet)
    assert [row.outcome for row in ended_rows] == [Outcome.PASSED] * count
    assert len({row.key for row in ended_rows}) == count
    for row in ended_rows:
        assert (Path(row.folder) / "sno-ipv4-static-uefi/big.bin").stat().st_size == EVIDENCE
    assert len(fleet.log("ended")) == count + others
    assert list(fleet.home.glob("state-*/units/*/*/result.json")) == []
    fleet.at_rest = True


def test_units_spread_over_hosts_and_evidence_comes_back(fleet):
    collecting = Collecting(fleet, 3)
    fleet.until("began", 3)
    fleet.go()
    collecting.done()
    whole(fleet, 3)
    assert {row.host for row in rows(fleet)} == {"a", "b", "c"}
    for name in ("scheduler", "a"):
        lines = fleet.log_of(name).read_text().splitlines()
        assert len(lines) == 1, lines  # where it is, and nothing of what Dask does meanwhile


def test_a_killed_worker_s_unit_runs_elsewhere(fleet):
    collecting = Collecting(fleet, 3)
    fleet.until("began", 3)
    fleet.kill("c")
    fleet.until("interrupted", 1)
    fleet.go()
    collecting.done()
    whole(fleet, 3)
    assert {row.host for row in rows(fleet)} == {"a", "b"}
    assert "host c is gone" in collecting.logged


def test_a_worker_that_is_told_to_end_ends_its_run(fleet):
    """It neither waits for it (a lab may take hours) nor leaves it to run twice."""
    collecting = Collecting(fleet, 3)
    fleet.until("began", 3)
    process = fleet.processes.pop("c")
    process.terminate()
    process.join(LIMIT)
    assert process.exitcode == 0
    assert len(fleet.log("interrupted")) == 1
    fleet.go()
    collecting.done()
    whole(fleet, 3)


def test_collectors_do_not_take_the_same_room(fleet):
    """Each worker has room for one run, and another collector has all three."""
    first = Collecting(fleet, 3)
    fleet.until("began", 3)
    second = Collecting(fleet, 1, history="other.db")
    message = "sno-ipv4-static-uefi@vm: waits; other collectors' runs have the hosts' room"
    wait_until(
        lambda: message in second.logged, LIMIT, "the second collector to wait", lambda: second.logged, poll=0.05
    )
    assert len(fleet.log("began")) == 3
    fleet.go()
    first.done()
    second.done()
    whole(fleet, 3, others=1)


def test_what_runs_outlives_the_scheduler(fleet):
    # No host is lost here, and on a busy machine one may take its time to come back.
    collecting = Collecting(fleet, 3, grace=LIMIT)
    fleet.until("began", 3)
    fleet.kill("scheduler")
    fleet.scheduler()
    fleet.go()
    collecting.done()
    whole(fleet, 3)
    assert len(fleet.log("began")) == 3
    assert fleet.log("interrupted") == []
    assert "Traceback" not in "".join(fleet.log_of(name).read_text() for name in "abc")


def test_what_runs_outlives_the_collector(fleet):
    with History(fleet.folder / "history.db") as history:
        name = running.begin(history, plan(fleet, 3), fleet.folder / "artifacts")
    resume = ("--history", str(fleet.folder / "history.db"), "resume", name, "--scheduler", fleet.address)
    fleet.start("collector", *resume)
    fleet.until("began", 3)
    fleet.kill("collector")
    again = fleet.start("collector", *resume)
    fleet.go()
    again.join(LIMIT)
    assert again.exitcode == 0, fleet.log_of("collector").read_text()
    whole(fleet, 3)
    assert len(fleet.log("began")) == 3


# Dask leaves a socket to the garbage collector where a handshake fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_keys_or_none_are_refused(fleet, tmp_path):
    """Whoever may call the scheduler may run programs on all hosts: keys of another authority do not do, nor none."""
    tls.make(tmp_path / "other")
    for security, scheme in ((tls.security(tmp_path / "other"), "tls"), (None, "tcp")):
        with pytest.raises(InformerError, match=r"does not answer|not of the same CA"):
            Engine(print, address=f"{scheme}://{fleet.address}", security=security, patience=3).__enter__()
    gc.collect()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "link"])
def test_a_host_s_archive_writes_nothing_outside_of_the_evidence(tmp_path, name):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        if name == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(member)
    archive.seek(0)
    (tmp_path / "here").mkdir()
    with pytest.raises(tarfile.TarError, match="is no file below the folder"):
        unpack(archive, tmp_path / "here")
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


@pytest.mark.parametrize("damage", [b"", random.Random(4).randbytes(9000)], ids=["cut", "overwritten"])
def test_a_host_s_damaged_archive_is_lost_evidence(tmp_path, damage):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        member = tarfile.TarInfo("x")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(random.Random(1).randbytes(member.size // 2).hex().encode()))
    data = whole.getvalue()[:30_000] + damage
    fetch(lambda offset: data[offset:], tmp_path, "blade")
    assert (tmp_path / "evidence-lost.txt").read_text() == "host blade did not give all of it\n"


def test_a_host_s_archive_does_not_fill_the_disk(tmp_path, monkeypatch):
    """Zeros pack to a thousandth, and so does a name of them."""
    monkeypatch.setattr("ci.informer.engine.evidence._Bounded.left", 1 << 20)
    for name in ("zeros", "x" * (4 << 20)):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.size = 4 << 20
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        archive.seek(0)
        with pytest.raises(tarfile.ReadError, match="larger than what is packed"):
            unpack(archive, tmp_path / "here")
    written = sum(path.stat().st_size for path in (tmp_path / "here").rglob("*") if path.is_file())
    assert written <= 1 << 20


def test_evidence_that_is_too_large_is_named(tmp_path):
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "small.txt").write_text("small")
    (folder / "large.txt").write_text("x" * 1000)
    pack(folder, tmp_path / "archive", most=500)
    with (tmp_path / "archive").open("rb") as file:
        unpack(file, tmp_path / "there")
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {
        "small.txt": "small",
        "left-out.txt": "large.txt: 1000 bytes\n",
    }


def test_keys_are_not_written_over(tmp_path):
    tls.make(tmp_path / "keys")
    assert (tmp_path / "keys" / tls.KEY).stat().st_mode & 0o777 == 0o600
    with pytest.raises(InformerError, match="exists already"):
        tls.make(tmp_path / "keys")


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("10.0.0.1:8786", "--tls: missing"),
        ("example.test:8786", "--tls: missing"),
        ("10.0.0.1", "must be HOST:PORT"),
        ("10.0.0.1:x", "must be HOST:PORT"),
        ("10.0.0.1:70000", "must be HOST:PORT"),
    ],
)
def test_invalid_addresses_are_refused(address, rule):
    with pytest.raises(InformerError, match=rule):
        tls.checked(address, None)
    assert tls.checked("127.0.0.1:1", None) == ("tcp://127.0.0.1:1", None)
