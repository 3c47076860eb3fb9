"""Awkward moments: who is killed between two steps, disks that are full, spools with something else in them."""

import gc
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import dask
import msgspec
import pytest
from distributed import LocalCluster
from filelock import FileLock

from ci.informer import running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.cli import main
from ci.informer.engine import host, serving, tls
from ci.informer.engine.announce import GIB, MIB, VCPU, amount, announced
from ci.informer.engine.engine import Engine
from ci.informer.engine.unit import Attempt, Result, Unit
from ci.informer.errors import InformerError
from ci.informer.history.store import History
from ci.informer.tests.kit import WAITING, artefacts, runs_of
from lab.evidence.folder import MARK, put_mark
from lab.waiting import wait_until

LIMIT = 60.0
KEY = "0123abcd/slow@vm/0.0"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(WAITING)
    return sys.executable, str(tmp_path / "program.py"), str(tmp_path), str(300 << 10)


def unit(program, scenario="slow", **other):
    fields = {"key": f"0123abcd/{scenario}@vm/0.0", "payload": "p", "scenario": scenario, "limit": 100.0}
    return Unit(**{**fields, "program": program, **other})


def noted(tmp_path):
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def until(tmp_path, line):
    wait_until(lambda: line in noted(tmp_path), LIMIT, f"a run notes {line!r}", lambda: noted(tmp_path), poll=0.05)


def units_in(spool):
    return [path.name for path in spool.iterdir()]


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler with one host, both in this process, spoken to by TCP."""
    dask.config.set(serving.SETTINGS)
    host.become(host.Host("a", tmp_path / "spool"))
    with LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        threads_per_worker=8,
        resources=announced(),
        memory_limit=0,
        local_directory=str(tmp_path / "dask"),
        dashboard_address=serving.LOOPBACK,
        worker_dashboard_address=serving.LOOPBACK,
        silence_logs=50,
    ) as one:
        yield one.scheduler_address


@contextmanager
def in_a_thread(function):
    """Its result, in a list, once the block has ended."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    yield results
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_void_run_that_comes_again_leaves_the_others_alone(tmp_path, program, scheduler):
    plan = running.Plan(payload="p", jobs=("slow@vm", "broken@vm"), program=program, limit=100)
    with History(tmp_path / "history.db") as history, Engine(print, address=scheduler, patience=LIMIT) as engine:
        rows = running.run(history, plan, tmp_path / "artifacts", engine, say=print)
    ended = sorted((row.job, row.outcome.value) for row in rows)
    assert ended == [("broken@vm", "passed"), ("broken@vm", "void"), ("slow@vm", "passed")]
    assert sorted(noted(tmp_path)) == [*["began broken"] * 2, "began slow", "ended broken", "ended slow"]


def test_a_collector_that_is_killed_before_it_writes_gets_the_same_run_again(tmp_path, program, scheduler):
    (tmp_path / "go").touch()
    spool = tmp_path / "spool"
    for _ in range(2):
        with Engine(print, address=scheduler, patience=LIMIT) as engine:
            engine.submit([unit(program)])
            _, result = engine.ended(lambda _: tmp_path / "there")
            assert result.run.outcome is Outcome.PASSED
    assert noted(tmp_path) == ["began slow", "ended slow"]
    # Killed after it wrote: the next one tells the host.
    assert units_in(spool) == [KEY.replace("/", "~")]
    with Engine(print, address=scheduler, patience=LIMIT) as engine:
        engine.recorded(KEY)
        engine.submit([])
        wait_until(lambda: not units_in(spool), LIMIT, "the host forgets it", lambda: units_in(spool), poll=0.05)


class Relay:
    """Passes bytes between whoever connects to `port` and another port, until it breaks all connections."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._start(self._accept)

    def _start(self, function, *args) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._server.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [one, other]
                for source, sink in ((one, other), (other, one)):
                    self._start(self._pass, source, sink)

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with source:
            with suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
            with suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Break what is connected now; who comes again is served."""
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(LIMIT)
        self._server.close()


def test_a_collector_whose_connection_breaks_ends_nothing(tmp_path, program, scheduler):
    """The scheduler and its host are well: only the way there broke, and the collector comes again."""
    lines: list[str] = []
    with (
        closing(Relay(int(scheduler.rpartition(":")[2]))) as relay,
        Engine(lines.append, address=f"tcp://127.0.0.1:{relay.port}", patience=LIMIT) as engine,
    ):
        engine.submit([unit(program)])
        with in_a_thread(lambda: engine.ended(lambda _: tmp_path / "there")) as results:
            until(tmp_path, "began slow")
            relay.cut()
            wait_until(lambda: "slow@vm: 0 has it still" in lines, LIMIT, "to go on", lambda: lines, poll=0.05)
            (tmp_path / "go").touch()
    [(_, result)] = results
    assert result.run.outcome is Outcome.PASSED
    assert noted(tmp_path) == ["began slow", "ended slow"]


def test_other_folders_in_a_spool_are_left_alone(tmp_path, program):
    spool = tmp_path / "spool"
    theirs = [".ssh", "0123abcd~slow@vm~1.0", "photos"]
    for name in theirs:
        (spool / name).mkdir(parents=True)
    put_mark(spool / KEY.replace("/", "~"), "unit")
    one = host.Host("a", spool)
    assert one.units_here() == {}
    result = msgspec.json.decode(one.perform(packed(program, "0123abcd/slow@vm/1.0")), type=Result)
    assert "slow@vm~1.0: is no unit's folder of ours" in result.error
    one.drop("0123abcd/slow@vm/1.0")
    assert sorted(units_in(spool)) == theirs


@pytest.mark.parametrize("key", ["", ".", "..", "../spool", "/etc", "0123abcd/..", "photos"])
def test_a_key_that_names_no_unit_removes_and_reads_nothing(tmp_path, program, key):
    """It comes from a collector."""
    (tmp_path / "spool/photos").mkdir(parents=True)
    one = host.Host("a", tmp_path / "spool")
    for ask in (one.drop, lambda key: one.chunk(key, 0), lambda key: one.perform(packed(program, key))):
        with pytest.raises(InformerError, match="must be PLAN/JOB/NUMBER"):
            ask(key)
    assert (tmp_path / "spool/photos").is_dir()


def packed(program, key):
    return msgspec.json.encode(unit(program, key=key))


def test_two_workers_do_not_share_a_spool(tmp_path):
    """The second would remove what the first is in the midst of."""
    spool = tmp_path / "spool"
    (spool / "0123abcd~slow@vm~0.0").mkdir(parents=True)
    with FileLock(tmp_path / "spool.lock"), pytest.raises(InformerError, match="another worker of this machine"):
        serving.worker("tcp://127.0.0.1:1", None, "a", {}, spool=spool, say=print)
    assert units_in(spool) == ["0123abcd~slow@vm~0.0"]


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b"])
def test_a_host_s_name_is_no_path(name, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["worker", "127.0.0.1:1", "--name", name])
    assert "must be a name without '/'" in capsys.readouterr().err


def test_a_host_that_closes_ends_what_runs_and_keeps_nothing_of_it(tmp_path, program):
    one = host.Host("a", tmp_path / "spool")
    with in_a_thread(lambda: one.perform(msgspec.json.encode(unit(program)))):
        until(tmp_path, "began slow")
        one.close()
    assert noted(tmp_path) == ["began slow", "interrupted slow"]
    assert one.units_here() == {}


def test_a_host_takes_no_more_than_it_has_room_for(tmp_path, program):
    """Two collectors may send at the same moment, as neither knows what the other is about to do."""
    one = host.Host("a", tmp_path / "spool", amount({MIB: 1000, VCPU: 2, GIB: 10}))
    needs = amount({MIB: 600, VCPU: 4, GIB: 1})
    first, second = (
        msgspec.json.encode(unit(program, key=f"0123abcd/slow@vm/{number}.0", needs=needs)) for number in range(2)
    )
    thread = threading.Thread(target=one.perform, args=(first,), daemon=True)
    thread.start()
    wait_until(lambda: one.taken() == {"0123abcd/slow@vm/0.0": (600, 4, 1)}, LIMIT, "it to run", one.taken, poll=0.05)
    assert msgspec.json.decode(one.perform(second), type=Result) == Result(full=True, host="a")
    (tmp_path / "go").touch()
    thread.join(LIMIT)
    assert msgspec.json.decode(one.perform(second), type=Result).run.outcome is Outcome.PASSED


def test_a_result_outlives_a_full_disk(small_disk, program):
    one = host.Host("a", small_disk / "spool")
    result = msgspec.json.decode(one.perform(msgspec.json.encode(unit(program, "large"))), type=Result)
    assert result.run.outcome is Outcome.PASSED


def test_a_host_whose_disk_takes_nothing_makes_its_run_void(small_disk, program):
    """One of many: its plan goes on."""
    one = host.Host("a", small_disk / "spool")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    run = msgspec.json.decode(one.perform(msgspec.json.encode(unit(program))), type=Result).run
    assert run.outcome is Outcome.VOID
    assert "host a: " in run.void


def test_what_a_killed_attempt_left_is_not_taken_for_this_one_s(tmp_path, program):
    folder = tmp_path / "evidence"
    put_mark(folder, "run 0123abcd/broken@vm/0.0")
    artefacts(folder / "broken", {"outcome": "failed"}, tests=[{"outcome": "failed"}])
    run = Attempt(unit(program, "broken"), folder).run()
    assert run.void == "pytest ended with 1 and left no artefacts"
    assert sorted(path.name for path in folder.iterdir()) == [MARK, "pytest.log"]
    assert run.mark == "run 0123abcd/broken@vm/0.0"


@pytest.mark.parametrize("mark", ["", "run of another unit", "link"])
def test_what_another_left_is_not_removed(tmp_path, program, mark):
    folder = tmp_path / "evidence"
    artefacts(tmp_path / "theirs", {})
    if mark == "link":
        folder.symlink_to("theirs")
    else:
        (tmp_path / "theirs").rename(folder)
        if mark:
            put_mark(folder, mark)
    with pytest.raises(InformerError, match="evidence: "):
        Attempt(unit(program, "broken"), folder).run()
    assert (folder / "phases.json").exists()


def test_runs_handle_sigint_even_if_their_parent_ignores_it(tmp_path, program):
    """A shell starts what it puts into the background with SIGINT ignored; labs end in good order by it."""
    (tmp_path / "go").touch()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = Attempt(unit(program), tmp_path / "evidence").run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert noted(tmp_path) == ["began slow", "ended slow"]
    assert Path(run.folder) == tmp_path / "evidence", "pytest.log goes with the rest of it"


# Dask leaves a socket to the garbage collector where it cannot bind it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_busy_port_is_told_in_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["scheduler", address]) == 2
    assert "Address already in use" in capsys.readouterr().err.splitlines()[-1]
    gc.collect()


@pytest.mark.parametrize("name", [tls.CA, tls.CERTIFICATE, tls.KEY])
def test_keys_that_are_broken_are_told_at_once(tmp_path, name):
    tls.make(tmp_path / "keys")
    (tmp_path / "keys" / name).write_text("junk")
    with pytest.raises(InformerError, match=rf"{name}.*: no certificate"):
        tls.security(tmp_path / "keys")


def test_jobs_with_void_runs_only_are_not_compared(node0_ci, tmp_path, capsys):
    """Nothing is known of it, and it is no question among those that p is corrected for."""
    with History(tmp_path / "history.db") as history:
        history.add([*runs_of("a@vm", ["PPP"], "p"), *runs_of("b@vm", ["PPP"], "p")])
        history.add([*runs_of("a@vm", ["", "FFF"], "q"), *runs_of("b@vm", ["", "VVV"], "q")])
    assert node0_ci("compare", "p", "q") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "of 1 " in head
    assert rows[1].endswith("void runs only")
    assert "0.050" in rows[0]
