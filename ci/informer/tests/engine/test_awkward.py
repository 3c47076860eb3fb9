"""Awkward moments: a collector that is killed between two steps, disks that are full, folders of somebody else."""

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
from distributed import Client, LocalCluster, Worker

from ci.informer import running
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.cli import main
from ci.informer.engine import host, tls
from ci.informer.engine.announce import GIB, MIB, RELEASE, VCPU, VERSION, announced, version
from ci.informer.engine.engine import Engine
from ci.informer.engine.unit import Attempt, Result, Unit, ready
from ci.informer.errors import InformerError
from ci.informer.history.store import History
from ci.informer.tests.kit import WAITING, artefacts, make_keys, runs_of
from lab.evidence.folder import MARK, put_mark
from lab.host.budget import Amount
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


@pytest.fixture
def scheduler(tmp_path):
    """Provide the address of a scheduler with one host, both in this process, spoken to by TCP."""
    dask.config.set(host.SETTINGS)
    with LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        threads_per_worker=8,
        resources=announced(),
        memory_limit=0,
        local_directory=str(tmp_path / "dask"),
        dashboard_address=host.LOOPBACK,
        worker_dashboard_address=host.LOOPBACK,
        silence_logs=50,
    ) as scheduler:
        yield scheduler.scheduler_address


@contextmanager
def in_a_thread(function):
    """Its result, in a list, once the block has ended."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    yield results
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_invalid_run_that_comes_again_leaves_the_others_alone(tmp_path, program, scheduler):
    plan = running.Plan(payload="p", jobs=("slow@vm", "broken@vm"), program=program, limit=100)
    with History(tmp_path / "history.db") as history, Engine(print, address=scheduler, patience=LIMIT) as engine:
        rows = running.run(history, plan, tmp_path / "artifacts", engine, say=print)
    ended = sorted((row.job, row.outcome.value) for row in rows)
    assert ended == [("broken@vm", "passed"), ("broken@vm", "void"), ("slow@vm", "passed")]
    assert sorted(noted(tmp_path)) == [*["began broken"] * 2, "began slow", "ended broken", "ended slow"]


def test_a_collector_that_is_killed_before_it_writes_gets_the_same_run_again(tmp_path, program, scheduler):
    (tmp_path / "go").touch()
    asked = unit(program, folder=str(tmp_path / "shared"))
    for kept in (True, False):
        with Engine(print, address=scheduler, patience=LIMIT) as engine:
            engine.submit([asked])
            _, result = engine.ended()
            assert result.run.outcome is Outcome.PASSED
            assert sorted(path.name for path in Path(result.run.folder).iterdir()) == [MARK, "pytest.log", "slow"]
            if not kept:
                engine.recorded(KEY)
        with Client(scheduler) as client:
            assert client.list_datasets() == ((KEY,) if kept else ())
    assert noted(tmp_path) == ["began slow", "ended slow"]


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
                client, _ = self._server.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [client, other]
                for source, sink in ((client, other), (other, client)):
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


# Dask leaves a socket to the garbage collector where it is closed while it reconnects.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_collector_whose_connection_breaks_ends_nothing(tmp_path, program, scheduler):
    """The scheduler and its host are well: only the way there broke, and the collector comes again."""
    lines: list[str] = []
    with (
        closing(Relay(int(scheduler.rpartition(":")[2]))) as relay,
        Engine(lines.append, address=f"tcp://127.0.0.1:{relay.port}", patience=LIMIT) as engine,
    ):
        engine.submit([unit(program, folder=str(tmp_path / "shared"))])
        with in_a_thread(engine.ended) as results:
            until(tmp_path, "began slow")
            relay.cut()
            wait_until(lambda: "slow@vm: was sent already" in lines, LIMIT, "to go on", lambda: lines, poll=0.05)
            (tmp_path / "go").touch()
    [(_, result)] = results
    assert result.run.outcome is Outcome.PASSED
    assert noted(tmp_path) == ["began slow", "ended slow"]
    gc.collect()


def performed(address, asked):
    with Client(address) as client:
        text = client.submit(host.perform, msgspec.json.encode(asked), True, pure=False).result(timeout=LIMIT)
    return msgspec.json.decode(text, type=Result).run


def test_a_shared_folder_that_takes_nothing_makes_its_run_invalid(small_disk, program, scheduler):
    """One host of many: the plan goes on."""
    asked = unit(program, "large", folder=str(small_disk / "shared"))
    ready(Path(asked.folder), asked.key)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    run = performed(scheduler, asked)
    assert run.outcome is Outcome.VOID
    assert run.void.startswith("host 0: ")
    assert "Read-only file system" in run.void


def test_a_host_that_does_not_share_the_folder_is_reported_before_it_runs(tmp_path, program, scheduler):
    folder = tmp_path / "shared"
    assert performed(scheduler, unit(program, folder=str(folder))).void == (
        f"host 0: {folder}: is not what the collector has there: hosts share the folder of --artifacts"
    )
    assert noted(tmp_path) == []
    assert not folder.exists()


HAS = {VERSION + version(): 1, MIB: 4000, VCPU: 2, GIB: 50, "KVM": 1}


@contextmanager
def cluster_of(*hosts):
    """Provide an engine whose hosts announce these; none has done anything yet."""
    dask.config.set(host.SETTINGS)
    lines: list[str] = []
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=host.LOOPBACK
    ) as cluster:
        cluster.worker_spec = {
            name: {"cls": Worker, "options": {"resources": has, "nthreads": 9, "dashboard_address": host.LOOPBACK}}
            for name, has in hosts
        }
        cluster.sync(cluster._correct_state)
        with Client(cluster) as client:
            client.wait_for_workers(len(hosts), timeout=LIMIT)
        with Engine(lines.append, address=cluster.scheduler_address, patience=LIMIT) as engine:
            yield engine, lines


def test_a_run_goes_where_its_release_is(tmp_path, program):
    """Else to the host with the most room, as one of the lab release does; copying it takes minutes."""
    (tmp_path / "go").touch()
    sizes = {"a": (4000, {}), "b": (20000, {}), "c": (9000, {RELEASE + "sha256:1": 1})}
    hosts = [(name, {**HAS, MIB: mib, VCPU: 9, GIB: 900, **more}) for name, (mib, more) in sizes.items()]
    with cluster_of(*hosts) as (engine, lines):
        for number, digest in enumerate(("", "sha256:1", "sha256:2", "sha256:2", "", "sha256:1", "sha256:1")):
            key = f"0123abcd/slow@vm/{number}.0"
            folder = str(tmp_path / str(number))
            needs = Amount(3000, 1, 10)
            engine.submit([unit(program, key=key, folder=folder, digest=digest, needs=needs)])
        assert {engine.ended()[1].run.outcome for _ in range(7)} == {Outcome.PASSED}
    # sha256:2 is copied to b; c has room for three.
    sent = [line.rpartition(" ")[2] for line in lines if ": to " in line]
    assert sent == ["b", "c", "b", "b", "b", "c", "c"]


def test_hosts_of_another_version_alone_are_reported_before_anything_runs(tmp_path, program):
    other = {**HAS, VERSION + "0.0-of-yesterday": 1}
    del other[VERSION + version()]
    why = f"its code is of version 0.0-of-yesterday, this is {version()}: update it"
    with cluster_of(("a", other)) as (engine, lines):
        engine.submit([unit(program, folder=str(tmp_path / "shared"))])
        with pytest.raises(InformerError) as caught:
            engine.ended()
    assert str(caught.value) == f"scenario: 'slow': no host can run it: a: {why}"
    assert f"host a gets no units: {why}" in lines
    assert noted(tmp_path) == []


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
def test_a_busy_port_is_reported_in_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["scheduler", address]) == 2
    assert "Address already in use" in capsys.readouterr().err.splitlines()[-1]
    gc.collect()


@pytest.mark.parametrize("name", [tls.CERTIFICATE, tls.KEY])
@pytest.mark.parametrize(("content", "message"), [("junk", "no certificate with its key"), (None, "No such file")])
def test_keys_that_are_broken_are_reported_at_once(tmp_path, name, content, message):
    make_keys(tmp_path / "keys")
    (tmp_path / "keys" / name).write_text(content) if content else (tmp_path / "keys" / name).unlink()
    with pytest.raises(InformerError, match=rf"--tls: .*: {message}"):
        tls.checked("10.0.0.1:1", tmp_path / "keys")


def test_jobs_with_invalid_runs_only_are_not_compared(node0_ci, tmp_path, capsys):
    """Nothing is known of it, and it is no question among those that p is corrected for."""
    with History(tmp_path / "history.db") as history:
        history.add([*runs_of("a@vm", ["PPP"], "p"), *runs_of("b@vm", ["PPP"], "p")])
        history.add([*runs_of("a@vm", ["", "FFF"], "q"), *runs_of("b@vm", ["", "VVV"], "q")])
    assert node0_ci("compare", "p", "q") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "of 1 " in head
    assert rows[1].endswith("invalid runs only")
    assert "0.050" in rows[0]
