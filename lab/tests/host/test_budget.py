import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import BudgetError
from lab.host import budget
from lab.host.budget import Amount, Ledger, capacity, need
from lab.host.identity import boot_id, start_time, this_process


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "budget.json", Amount(1000, 8, 8))


def test_what_is_taken_is_given_back(ledger):
    ledger.take("a", Amount(600), this_process(), 0)
    with pytest.raises(BudgetError, match=r"waits for memory: needs 500 MiB.*; free 400 MiB.*; held by a 600 MiB"):
        ledger.take("b", Amount(500), this_process(), 0)
    ledger.give_back("a")
    ledger.take("b", Amount(500), this_process(), 0)
    assert [e.lab for e in ledger.entries()] == ["b"]


def test_a_lab_that_shrinks_gives_back_memory_and_vcpus(ledger):
    ledger.take("a", Amount(600, 6, 4), this_process(), 0)
    ledger.take("b", Amount(100, 1, 1), this_process(), 0)
    ledger.shrink("a", Amount(400, 8, 2))
    assert [str(e.amount) for e in ledger.entries()] == [str(Amount(400, 6, 4)), str(Amount(100, 1, 1))]


def test_more_than_there_is_fails_at_once(ledger):
    with pytest.raises(BudgetError, match=r"has 1000 MiB .* for all labs: too little memory"):
        ledger.take("a", Amount(1001), this_process(), 3600)


def test_free_is_nothing_at_least(ledger, tmp_path):
    """A disk may have become fuller since."""
    ledger.take("a", Amount(600, 2, 4), this_process(), 0)
    smaller = Ledger(tmp_path / "budget.json", Amount(1000, 8, 2))
    assert str(smaller.free(smaller.entries())) == "400 MiB of memory, 6 vCPU, 0 GiB of disk"


def test_a_dead_owner_owns_nothing(ledger):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ledger.take("a", Amount(900), (child.pid, start_time(child.pid)), 0)
    assert ledger.try_take("b", Amount(900), this_process()) is not None
    child.communicate(b"\n")
    assert ledger.try_take("b", Amount(900), this_process()) is None


def test_a_reused_pid_is_another_owner(ledger):
    pid, started = this_process()
    ledger.take("a", Amount(900), (pid, started - 1), 0)
    assert ledger.entries() == []


def test_waiting_says_so_and_ends_when_memory_comes(ledger, caplog):
    ledger.take("a", Amount(900), this_process(), 0)
    threading.Timer(0.3, lambda: ledger.give_back("a")).start()
    ledger.take("b", Amount(900), this_process(), 30)
    assert "lab b waits for memory: needs 900 MiB" in caplog.text
    assert "; free 100 MiB" in caplog.text
    assert "; held by a 900 MiB (pid " in caplog.text


def test_handing_over_keeps_the_amount(ledger):
    ledger.take("a", Amount(900), this_process(), 0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ledger.hand_over("a", (child.pid, start_time(child.pid)))
    assert [(e.mib, e.pid) for e in ledger.entries()] == [(900, child.pid)]
    child.communicate(b"\n")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


@pytest.mark.parametrize("damaged", [b"{", b"[{]", b"\xff\xfe", b"nonsense"])
def test_a_damaged_ledger_is_put_aside_and_started_anew(path, caplog, damaged):
    path.write_bytes(damaged)
    ledger = Ledger(path, Amount(10, 8, 8))
    ledger.take("a", Amount(1), this_process(), 0)
    assert [(e.lab, e.mib, e.waiting) for e in ledger.entries()] == [("a", 1, False)]
    assert [entry["lab"] for entry in json.loads(path.read_text())] == ["a"]
    assert path.with_name("budget.json.damaged").read_bytes() == damaged
    assert "budget.json is damaged" in caplog.text
    with pytest.raises(BudgetError, match="free 9 MiB"):
        ledger.take("b", Amount(10), this_process(), 0)


def theirs(**more):
    pid, started = this_process()
    return {"lab": "theirs", "mib": 4, "pid": pid, "started": started, **more}


def test_a_process_killed_while_it_writes_loses_no_entry(path):
    """The new list goes over the old one, and then the file is cut: between the two, a rest of the old one is left."""
    path.write_text(json.dumps([theirs()]) + '"mib": 4, "pid": 1}]')
    ledger = Ledger(path, Amount(10, 8, 8))
    ledger.take("a", Amount(1), this_process(), 0)
    assert [e.lab for e in ledger.entries()] == ["theirs", "a"]
    assert len(json.loads(path.read_text())) == 2


def test_the_file_has_a_whole_list_at_each_moment(path, monkeypatch):
    ledger = Ledger(path, Amount(10, 8, 8))
    ledger.take("a", Amount(1), this_process(), 0)

    def killed(*_arguments):
        raise KeyboardInterrupt

    for call in ("pwrite", "ftruncate"):
        with monkeypatch.context() as patched:
            patched.setattr(budget.os, call, killed)
            with pytest.raises(KeyboardInterrupt):
                ledger.give_back("nobody")
        assert [e.lab for e in ledger.entries()] == ["a"]


@pytest.mark.parametrize(
    "foreign",
    [
        {"lab": "new", "memory": "4G", "lock": "/run/node0/new.lock"},
        {"lab": "new", "mib": 4, "pid": "x", "started": 1},
        {"lab": "new", "mib": -(10**9), "pid": 1, "started": 1},
        "a word",
        "\ud800",
        None,
    ],
)
def test_another_versions_entries_stay_as_they_are(path, foreign):
    path.write_text(json.dumps([theirs(gpu=1), foreign]))
    ledger = Ledger(path, Amount(10, 8, 8))
    ledger.take("a", Amount(1), this_process(), 0)
    ledger.give_back("a")
    entries = json.loads(path.read_text())
    assert foreign in entries
    assert theirs(gpu=1) in entries, "a field that this version does not know is lost"
    assert ledger.foreign() == 1
    assert ledger.free(ledger.entries()).mib == 6


def test_another_versions_ledger_is_not_overwritten(path):
    path.write_text('{"version": 9, "entries": []}')
    with pytest.raises(BudgetError, match="is another version's ledger: wait for its labs to end"):
        Ledger(path, Amount(10, 8, 8)).take("a", Amount(1), this_process(), 0)
    assert path.read_text() == '{"version": 9, "entries": []}'


def test_a_ledger_of_endless_depth_is_put_aside(path):
    path.write_text("[" * 200_000)
    assert Ledger(path, Amount(10, 8, 8)).entries() == []
    assert path.with_name(f"{path.name}.damaged").exists()


def test_an_entry_of_another_boot_is_nobodys(path):
    path.write_text(json.dumps([theirs(boot="before"), theirs(lab="mine", boot=boot_id()), theirs(lab="old")]))
    assert [e.lab for e in Ledger(path, Amount(10)).entries()] == ["mine", "old"]


def test_processes_never_take_more_than_there_is(tmp_path):
    code = (
        "import sys, pathlib, time\n"
        "from lab.host.budget import Amount, Ledger\nfrom lab.host.identity import this_process\n"
        "ledger = Ledger(pathlib.Path(sys.argv[1]), Amount(1000))\n"
        "print(ledger.try_take(sys.argv[2], Amount(300), this_process()) is None, flush=True)\ninput()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "budget.json"), f"lab{i}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(6)
    ]
    got = [child.stdout.readline().strip() for child in children if child.stdout]
    for child in children:
        child.communicate("\n")
    assert got.count("True") == 3, got


def test_overheads_are_counted():
    assert need(1, 4096, 2).mib > 4096
    assert need(1, 4096, 2, contained=True).mib < 3072
    assert need(5, 100, 10) - need(4, 100, 8) == need(1, 100, 2) - need(0, 100, 0)


def test_disk_counts_too(ledger):
    with pytest.raises(BudgetError, match=r"too little disk; free some, or point NODE0_STATE at another file system$"):
        ledger.take("a", Amount(1, 1, 9), this_process(), 3600)
    ledger.take("a", Amount(1, 4, 4), this_process(), 0)
    with pytest.raises(BudgetError, match="lab b waits for disk: "):
        ledger.take("b", Amount(1, 1, 6), this_process(), 0)


def test_a_lab_with_more_vcpus_than_there_are_runs_alone(ledger):
    ledger.take("small", Amount(1, 1), this_process(), 0)
    with pytest.raises(BudgetError, match="lab wide waits for vCPUs: "):
        ledger.take("wide", Amount(1, 9), this_process(), 0)
    ledger.give_back("small")
    ledger.take("wide", Amount(1, 9), this_process(), 0)
    with pytest.raises(BudgetError, match="lab small waits for vCPUs: "):
        ledger.take("small", Amount(1, 1), this_process(), 0)


def test_a_lab_that_waits_is_in_the_ledger_and_holds_nothing(ledger):
    ledger.take("a", Amount(900), this_process(), 0)
    assert ledger.try_take("big", Amount(500), this_process()) is not None
    assert [(e.lab, e.waiting) for e in ledger.entries()] == [("a", False), ("big", True)]
    assert ledger.free(ledger.entries()) == Amount(100, 8, 8)
    with pytest.raises(BudgetError):
        ledger.take("impatient", Amount(500), this_process(), 0)
    assert [e.lab for e in ledger.entries()] == ["a", "big"], "who gave up waits no longer"


def test_the_first_in_the_queue_has_the_first_choice(ledger):
    ledger.take("a", Amount(900), this_process(), 0)
    assert ledger.try_take("first", Amount(500), this_process()) is not None
    assert ledger.try_take("second", Amount(600), this_process()) is not None
    assert ledger.try_take("small", Amount(100), this_process()) is None, (
        "what does not do for the first is free for others"
    )
    ledger.give_back("small")
    ledger.give_back("a")
    assert ledger.try_take("second", Amount(600), this_process()) is not None
    assert ledger.try_take("first", Amount(500), this_process()) is None
    assert ledger.try_take("second", Amount(600), this_process()) is not None
    ledger.give_back("first")
    assert ledger.try_take("second", Amount(600), this_process()) is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 1200), st.integers(1, 10), st.booleans())))
def test_never_more_is_held_than_there_is(steps):
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "budget.json", Amount(1000, 8, 8))
        for lab, mib, vcpu, leave in steps:
            if leave:
                ledger.give_back(lab)
            elif not any(e.lab == lab and not e.waiting for e in ledger.entries()):
                ledger.try_take(lab, Amount(mib, vcpu), this_process())
            entries = ledger.entries()
            assert not Amount().short(ledger.free(entries))
            assert len({e.lab for e in entries}) == len(entries)


def test_capacity_is_the_machines_or_what_was_said(tmp_path, monkeypatch):
    labs = tmp_path / "labs"
    (labs / "x/disks").mkdir(parents=True)
    assert 0 < capacity(labs).mib < 1 << 30
    assert capacity(labs).vcpu > 0
    monkeypatch.setenv("NODE0_BUDGET_MIB", "5")
    monkeypatch.setenv("NODE0_BUDGET_VCPU", "6")
    assert capacity(labs) - Amount(0, 0, capacity(labs).disk_gib) == Amount(5, 6, 0)


def waiting(path, lab):
    """Return a lab's entry in the file."""
    [entry] = [item for item in json.loads(path.read_text()) if item["lab"] == lab]
    return entry


def test_a_lab_that_waits_with_a_smaller_budget_holds_up_nobody(path):
    """Processes may be told different budgets (NODE0_BUDGET_MIB): whether a lab fits is judged by its own."""
    large, small = Ledger(path, Amount(1000, 8, 8)), Ledger(path, Amount(500, 8, 8))
    large.take("a", Amount(300), this_process(), 0)
    assert small.try_take("first", Amount(400), this_process()) is not None
    assert large.try_take("second", Amount(400), this_process()) is None
    assert [(e.lab, e.waiting) for e in large.entries()] == [("a", False), ("first", True), ("second", False)]


def test_a_lab_that_waits_with_a_larger_budget_has_its_turn(path):
    large, small = Ledger(path, Amount(1000, 8, 8)), Ledger(path, Amount(500, 8, 8))
    large.take("a", Amount(900), this_process(), 0)
    assert large.try_take("first", Amount(700), this_process()) is not None
    large.give_back("a")
    assert small.try_take("second", Amount(100), this_process()) is not None, "the first's turn has come"
    assert large.try_take("first", Amount(700), this_process()) is None


def test_a_lab_that_no_longer_checks_holds_up_nobody_and_keeps_its_place(ledger, monkeypatch):
    ledger.take("a", Amount(900), this_process(), 0)
    assert ledger.try_take("first", Amount(500), this_process()) is not None
    ledger.give_back("a")
    assert ledger.try_take("second", Amount(600), this_process()) is not None, "it is the first's turn"
    clock = time.monotonic()
    monkeypatch.setattr(budget.time, "monotonic", lambda: clock + 31)
    assert ledger.try_take("second", Amount(600), this_process()) is None, "which has not looked for half a minute"
    assert ledger.try_take("first", Amount(500), this_process()) is not None
    ledger.give_back("second")
    assert ledger.try_take("third", Amount(600), this_process()) is not None, "and looks again, in its old place"
    assert ledger.try_take("first", Amount(500), this_process()) is None


def test_a_lab_of_an_older_version_is_judged_by_this_budget(path):
    path.write_text(json.dumps([theirs(waiting=True)]))
    assert Ledger(path, Amount(3, 8, 8)).try_take("a", Amount(3), this_process()) is None
    Ledger(path, Amount(3, 8, 8)).give_back("a")
    assert Ledger(path, Amount(10, 8, 8)).try_take("b", Amount(10), this_process()) is not None
    assert waiting(path, "theirs") == theirs(waiting=True)


def test_the_entry_of_a_lab_that_waits_has_its_budget_and_when_it_last_checked(path):
    ledger = Ledger(path, Amount(10, 8, 8))
    ledger.take("a", Amount(10), this_process(), 0)
    assert ledger.try_take("b", Amount(5), this_process()) is not None
    first = waiting(path, "b")
    assert first["budget"] == {"mib": 10, "vcpu": 8, "disk_gib": 8}
    assert ledger.try_take("c", Amount(5), this_process()) is not None
    assert ledger.try_take("b", Amount(5), this_process()) is not None
    assert waiting(path, "b")["looked"] > first["looked"]
    assert [e.lab for e in ledger.entries()] == ["a", "b", "c"], "checking again costs nobody its place"
