"""The first process of a lab's namespaces: its services by request, each in a process that has no other children."""

import subprocess
import sys
from pathlib import Path

import msgspec

from lab.supervisor import watch
from lab.supervisor.plan import Plan, Service

ROOT = Path(__file__).parents[3]
# Prints what comes of each request: its error, else whether the service's process is stopped (T), runs (S), or is not
# there (-), and of "status" the answer. A signal takes its time: each is given some until it is as the test says.
CHILD = """
import os
import sys
import time
from pathlib import Path
import msgspec
from lab.supervisor import init
from lab.supervisor.plan import Plan, Request

services = init.Services(msgspec.json.decode(sys.argv[1], type=Plan))
services.start_all()
def state():
    tasks = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in tasks]
    return "".join("T" if one == "T" else "S" for one in states) or "-"

for word in sys.argv[2:]:
    op, _, wanted = word.partition(" ")
    if op == "dies":
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        continue
    reply = services.do(Request(op, "one"))
    end = time.monotonic() + 5
    while not reply.error and state() != wanted and time.monotonic() < end:
        time.sleep(0.01)
    print(op, reply.error or state(), *([reply.running] if op == "status" else []))
services.do(Request("stop", "one"))
"""


def asked(
    state: Path, *operations: str, argv: tuple[str, ...] = ("sleep", "300"), by_request: bool = False
) -> list[str]:
    (state / "log").mkdir()
    service = Service(name="one", argv=argv, by_request=by_request)
    plan = Plan(id="x", state=str(state), bridges=(), mounts=(), services=(service,), owner=None)
    child = [sys.executable, "-c", CHILD, msgspec.json.encode(plan).decode(), *operations]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_a_service_that_hangs_does_so_too_when_it_is_started_anew(tmp_path):
    wanted = ["pause T", "stop -", "start T", "resume S", "pause T", "stop -", "resume -", "start S"]
    assert asked(tmp_path, *wanted) == wanted
    assert watch.noted(tmp_path) == []


def test_a_service_by_request_runs_when_it_is_asked_for(tmp_path):
    operations = ["status -", "start S", "start S", "status S", "stop -", "status -"]
    assert asked(tmp_path, *operations, by_request=True) == [
        "status - {}", "start S", "start S", "status S {'one': True}", "stop -", "status - {'one': False}",
    ]  # fmt: skip


def test_a_service_that_is_killed_on_request_is_noted_as_that(tmp_path):
    assert asked(tmp_path, "kill -", "kill", "pause", "start S") == [
        "kill -", "kill it does not run", "pause it does not run", "start S",
    ]  # fmt: skip
    [ended] = watch.noted(tmp_path)
    assert (ended.service, ended.code, ended.asked) == ("one", -9, True)


def test_a_service_that_dies_by_itself_is_not_noted_as_killed_on_request(tmp_path):
    assert asked(tmp_path, "dies", "kill", argv=("sh", "-c", "kill -9 $$")) == ["kill it does not run"]
    [ended] = watch.noted(tmp_path)
    assert (ended.code, ended.asked) == (-9, False)
