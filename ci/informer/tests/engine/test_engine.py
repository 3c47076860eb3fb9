"""Several hosts: a scheduler and workers as processes of their own, one in another network; any of them is killed."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from distributed import Client

from ci.informer import running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.engine import tls
from ci.informer.engine.engine import Engine
from ci.informer.engine.host import Say
from ci.informer.errors import InformerError
from ci.informer.history import work
from ci.informer.history.store import History
from ci.informer.tests import kit
from lab.waiting import wait_until

PORT = 28786
LIMIT = 60.0
#: Bytes of a run's evidence.
EVIDENCE = 3 << 10


class Fleet:
    """The processes, each killed at the end if it still runs. `folder` is that of one test."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.keys = home, home, home / "keys"
        self.processes: dict[str, BaseProcess] = {}
        self.at_rest = False
        self.namespace = f"node0-engine-{os.getpid()}"
        kit.make_keys(self.keys)
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
        """Begin a test's turn: all hosts are there, those too that another test has ended."""
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
        """List what runs have noted of one kind."""
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
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def fleet(hosts, tmp_path):
    hosts.begin(tmp_path)
    yield hosts
    hosts.end()


class Collecting:
    """A collector in a thread."""

    def __init__(self, fleet: Fleet, rounds: int, history: str = "history.db") -> None:
        self.history = fleet.folder / history
        self.logged: list[str] = []
        self.error: BaseException | None = None
        self._fleet, self._rounds = fleet, rounds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        fleet = self._fleet
        try:
            with (
                History(self.history) as history,
                engine(fleet.address, fleet.keys, self.logged.append, LIMIT) as hosts,
            ):
                running.run(
                    history, plan(fleet, self._rounds), fleet.folder / "artifacts", hosts, say=self.logged.append
                )
        except BaseException as error:
            self.error = error

    def done(self) -> None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), self.logged
        if self.error is not None:
            raise self.error


def engine(address: str, keys: Path | None, say: Say, patience: float) -> Engine:
    url, security = tls.checked(address, keys)
    return Engine(say, address=url, security=security, patience=patience)


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
    with Client(f"tls://{fleet.address}", security=tls.checked(fleet.address, fleet.keys)[1]) as client:
        assert client.list_datasets() == (), "results that nobody waits for"
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
    hosts = fleet.start("hosts", "hosts", fleet.address)
    hosts.join(LIMIT)
    assert [line.split()[:2] for line in fleet.log_of("hosts").read_text().splitlines()][1:] == [
        [name, "6000"] for name in "abc"
    ]


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


def test_a_worker_that_is_reported_to_end_ends_its_run(fleet):
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
    wait_until(lambda: len(second.logged) == 3, LIMIT, "the second to know the hosts", lambda: second.logged, poll=0.05)
    fleet.go()
    first.done()
    second.done()
    assert second.logged[3].endswith((": to a", ": to b", ": to c"))
    whole(fleet, 3, others=1)


def test_a_scheduler_that_is_killed_ends_what_runs_and_it_comes_again(fleet):
    """Hosts cannot be asked what they have any more: nothing runs twice at a time."""
    collecting = Collecting(fleet, 3)
    fleet.until("began", 3)
    fleet.kill("scheduler")
    fleet.until("interrupted", 3)
    fleet.scheduler()
    fleet.until("began", 6)
    fleet.go()
    collecting.done()
    whole(fleet, 3)
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
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_another_key_or_none_is_refused(fleet, tmp_path):
    """Whoever may call the scheduler may run programs on all hosts."""
    kit.make_keys(tmp_path / "other")
    _, other = tls.checked(fleet.address, tmp_path / "other")
    for security, scheme in ((other, "tls"), (None, "tcp")):
        with pytest.raises(InformerError, match=r"does not answer|not that of --tls"):
            Engine(print, address=f"{scheme}://{fleet.address}", security=security, patience=3).__enter__()
    fleet.keys, keys = tmp_path / "other", fleet.keys
    worker = fleet.start("d", "worker", fleet.address, "--name", "d")
    fleet.keys = keys
    worker.join(LIMIT)
    assert worker.exitcode == 2
    line = f"node0-ci: address: tls://{fleet.address}: its key is not that of --tls\n"
    assert fleet.log_of("d").read_text() == line
    gc.collect()


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
