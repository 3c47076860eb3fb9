import subprocess
import sys
import threading
import time

import pytest

from lab.budget import Ledger, need_mib
from lab.errors import BudgetError
from lab.processes import me, start_time


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "budget.json", 1000)


def test_what_is_taken_is_given_back(ledger):
    ledger.take("a", 600, me(), 0)
    with pytest.raises(BudgetError, match=r"needs 500 MiB, free 400 MiB; held by a 600 MiB"):
        ledger.take("b", 500, me(), 0)
    ledger.give_back("a")
    ledger.take("b", 500, me(), 0)
    assert [e.lab for e in ledger.entries()] == ["b"]


def test_more_than_there_is_fails_at_once(ledger):
    with pytest.raises(BudgetError, match="has 1000 MiB for labs in all"):
        ledger.take("a", 1001, me(), 3600)


def test_a_dead_owner_owns_nothing(ledger):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ledger.take("a", 900, (child.pid, start_time(child.pid)), 0)
    assert ledger.try_take("b", 900, me()) is not None
    child.communicate(b"\n")
    assert ledger.try_take("b", 900, me()) is None


def test_a_reused_pid_is_another_owner(ledger):
    pid, started = me()
    ledger.take("a", 900, (pid, started - 1), 0)
    assert ledger.entries() == []


def test_waiting_says_so_and_ends_when_memory_comes(ledger, caplog):
    ledger.take("a", 900, me(), 0)
    threading.Timer(0.3, lambda: ledger.give_back("a")).start()
    ledger.take("b", 900, me(), 30)
    assert "lab b waits for memory: needs 900 MiB, free 100 MiB; held by a 900 MiB" in caplog.text


def test_handing_over_keeps_the_amount(ledger):
    ledger.take("a", 900, me(), 0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ledger.hand_over("a", (child.pid, start_time(child.pid)))
    assert [(e.mib, e.pid) for e in ledger.entries()] == [(900, child.pid)]
    child.communicate(b"\n")


def test_a_damaged_ledger_is_started_anew(tmp_path):
    (tmp_path / "budget.json").write_text("{")
    Ledger(tmp_path / "budget.json", 10).take("a", 1, me(), 0)


def test_processes_never_take_more_than_there_is(tmp_path):
    code = (
        "import sys, pathlib, time\n"
        "from lab.budget import Ledger\nfrom lab.processes import me\n"
        "ledger = Ledger(pathlib.Path(sys.argv[1]), 1000)\n"
        "print(ledger.try_take(sys.argv[2], 300, me()) is None, flush=True)\ninput()\n"
    )
    begin = time.monotonic()
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
    assert time.monotonic() - begin < 30


def test_overheads_are_counted():
    assert need_mib(1, 4096) > 4096
    assert need_mib(5, 100) - need_mib(4, 100) == need_mib(1, 100) - need_mib(0, 100)
