"""A run of the suite in a lab: ginkgo and its processes in the lab's network, watched line by line."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from lab.conformance import images, results
from lab.conformance.errors import ConformanceError
from lab.conformance.results import Result
from lab.conformance.suite import Plan, Programs, event_of
from lab.host.namespaces import enter_argv
from lab.host.process import clean_environment, end_group
from lab.lab import Lab
from lab.waiting import wait_until

#: Processes side by side: the specs wait most of their time.
PARALLEL = 8
MINUTES = 120
#: Seconds in which the suite's processes may clean up when they are ended early.
_GRACE = 30.0
_CLEANING_SECONDS = 60
#: A revision of the static pods takes three nodes 200 s.
SETTLE_SECONDS = 600.0
_TAIL = 20
#: The name of the suite and of its outermost container.
BEFORE = "Kubernetes e2e suite [Top Level] "
_PROCESS = re.compile(r"\[(\d+)\] (.*)")
_RUN_ID = re.compile(r'Starting e2e run "([0-9a-f-]{36})"')
#: What ends a process of the suite at once, such as a kubeconfig that it cannot read (klog's form).
_FATAL = re.compile(r"F\d{4} [\d:.]+ +\d+ \S+\] (.*)")
_FAIL = re.compile(r"\bFAIL: (.*)")
Tell = Callable[[str], None]


@dataclass
class Progress:
    """The output of a run's processes so far: `tell` gets a line for each spec that ends, and failures at once.

    The number of each spec counts on from `done`, of `total`.
    """

    total: int
    tell: Tell
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    run_ids: set[str] = field(default_factory=set)
    fatal: str = ""
    # What is known of processes that are killed, and write no results: without durations.
    ended: dict[str, Result] = field(default_factory=dict)
    # By process, the spec's text that is being read, from its end until its reason has been told.
    _failing: dict[str, list[str]] = field(default_factory=dict)

    def feed(self, line: str) -> None:
        """Take a line of ginkgo's stream, which begins with the number of the process that wrote it."""
        match = _PROCESS.match(line)
        process, text = match.groups() if match else ("", line)
        if event := event_of(text):
            name, passed = event
            self.done += 1
            self.ended[name] = Result(name, "passed" if passed else "failed")
            self._failing.pop(process, None)
            if not passed:
                self._failing[process] = []
            seconds = time.monotonic() - self.began
            clock = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
            self.tell(f"[{clock}] {self.done}/{self.total} {'passed' if passed else 'FAILED'} {name}")
        elif found := _FATAL.match(text):
            self.fatal = found[1]
        elif process in self._failing:
            self._read_reason(process, text)
        elif found := _RUN_ID.search(text):
            self.run_ids.add(found[1])

    def _read_reason(self, process: str, text: str) -> None:
        """Take a line that a process wrote after a spec had failed: between FAIL and a blank line is the reason."""
        reason = self._failing[process]
        if not reason and (why := _FAIL.search(text)):
            reason.append(why[1])
        elif reason and text.strip():
            reason.append(text)
        elif reason:
            self.tell(f"        {results.gist(chr(10).join(reason))}")
            del self._failing[process]


@dataclass(frozen=True)
class Cluster:
    """A lab's cluster that the suite is run against: its kubeconfig, and how many of the lab's machines are nodes."""

    lab: Lab
    kubeconfig: Path

    @property
    def nodes(self) -> int:
        """The number of the cluster's nodes."""
        return len(self.lab.topology.nodes)


@dataclass(frozen=True)
class Ran:
    """A run that has ended: results of all of its plan, when it began, and how long it took in seconds."""

    results: Sequence[Result]
    began: datetime
    seconds: float

    @property
    def ok(self) -> bool:
        """Return whether all that was to be run has passed."""
        return results.ok(self.results)

    @property
    def line(self) -> str:
        """The summary."""
        return results.line(self.results, self.seconds)


@contextmanager
def alone(root: Path, folder: Path) -> Iterator[None]:
    """Keep the lab at ``root`` to this run, whose results go to ``folder``, while the context lasts: two would delete
    and count each other's namespaces. Raises ConformanceError, which names the run that has it."""
    with (root / "conformance.run").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConformanceError(f"lab {root.name} has a conformance run already: {file.read()}") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {datetime.now():%H:%M:%S}, results go to {folder}")
        file.flush()
        yield


def focus_of(names: Sequence[str]) -> str:
    """Return the regular expression (Go's) that fits just these specs, after what ginkgo puts before all names."""
    return f"^{re.escape(BEFORE)}(?:{'|'.join(map(re.escape, names))})$"


def arguments(programs: Programs, cluster: Cluster, names: Sequence[str], *, parallel: int, report: Path) -> list[str]:
    """Return the command that runs these specs, `parallel` at a time; the processes' JUnit files go to `report`."""
    return [
        str(programs.ginkgo),
        f"-nodes={parallel}",
        # The processes' own lines, as they come, also with one process.
        "-stream",
        "-noColor",
        # Nothing but the deadline of this run ends it.
        "-timeout=24h",
        f"-focus={focus_of(names)}",
        str(programs.e2e),
        "--",
        "--provider=skeleton",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--kubectl-path={programs.kubectl}",
        f"--num-nodes={cluster.nodes}",
        "--non-blocking-taints=node-role.kubernetes.io/master,node-role.kubernetes.io/arbiter",
        "--disable-log-dump",
        "--dump-logs-on-failure=false",
        "--container-runtime=remote",
        "--node-schedulable-timeout=2m",
        "--system-pods-startup-timeout=2m",
        "--system-daemonsets-startup-timeout=1m",
        f"--report-dir={report}",
        f"--e2e-output-dir={report}",
    ]


def settle(programs: Programs, cluster: Cluster, tell: Tell) -> None:
    """Wait until all cluster operators are available and progress no more: specs take an API server that starts anew,
    or a node that is about to reboot, for a fault. Raises WaitTimeout, which names the operators."""
    words = ["get", "clusteroperators", "-o", "json", f"--kubeconfig={cluster.kubeconfig}", "--request-timeout=10s"]
    argv = enter_argv(cluster.lab.init, [str(programs.kubectl), *words])
    waited_for: list[str] = []

    def settled() -> bool:
        done = subprocess.run(argv, env=clean_environment(), timeout=30, check=True, capture_output=True)
        operators = json.loads(done.stdout)["items"]
        states = {
            operator["metadata"]["name"]: {c["type"]: c["status"] for c in operator["status"].get("conditions") or []}
            for operator in operators
        }
        wanted = {"Available": "True", "Progressing": "False"}
        names = [name for name, own in states.items() if any(own.get(kind) != state for kind, state in wanted.items())]
        if names and names != waited_for:
            tell(f"waiting for cluster operators to be available and done with progressing: {', '.join(names)}")
        waited_for[:] = names
        return bool(operators) and not names

    wait_until(settled, SETTLE_SECONDS, "cluster operators to be settled", lambda: ", ".join(waited_for))


def run(
    programs: Programs, cluster: Cluster, plan: Plan, *, folder: Path, parallel: int = PARALLEL,
    minutes: float = MINUTES, tell: Tell,
) -> Ran:  # fmt: skip
    """Run a plan's specs, those that may run beside others first, for `minutes` at most; write junit.xml.

    `folder` is to be empty or not to exist; the suite's whole output goes into it too. `tell` gets the progress. The
    cluster's test namespaces are removed where the run did not end by itself. Raises KeyboardInterrupt after an
    interrupted run has been cleaned up and its results are written; WaitTimeout when the cluster does not settle.
    """
    settle(programs, cluster, tell)
    folder.mkdir(parents=True, exist_ok=True)
    repos = folder / "repositories.yaml"
    repos.write_text(images.repo_list(cluster.lab.layout.registry))
    began, start = datetime.now(UTC), time.monotonic()
    deadline = start + 60 * minutes
    progress = Progress(len(plan.specs), tell)
    why_not = ""
    interrupted: KeyboardInterrupt | None = None
    for phase, names, processes in (("parallel", plan.parallel, parallel), ("serial", plan.serial, 1)):
        if not names or why_not:
            continue
        tell(f"{len(names)} specs, {processes} at a time" if processes > 1 else f"{len(names)} specs, one by one")
        report = folder / phase
        report.mkdir()
        argv = arguments(programs, cluster, names, parallel=min(processes, len(names)), report=report)
        try:
            why_not = _run(cluster, argv, progress, log=folder / f"{phase}.log", deadline=deadline, repos=repos)
        except KeyboardInterrupt as error:
            why_not, interrupted = f"the run was interrupted after {progress.done} of {progress.total} specs", error
        if why_not:
            tell(why_not)
            _clean_up(programs, cluster, progress.run_ids)
    found = {**progress.ended, **results.read(folder.glob("*/junit_*.xml"))}
    reason = why_not or progress.fatal or f"ginkgo did not come to it; see the logs in {folder}"
    ended = results.complete(plan.specs, plan.left_out, found, reason)
    ran = Ran(ended, began, time.monotonic() - start)
    facts = {"kubernetes": programs.version, "lab": cluster.lab.id, "nodes": str(cluster.nodes)}
    content = results.junit(ended, began=began, seconds=ran.seconds, facts=facts)
    (folder / "junit.xml").write_bytes(content)
    if interrupted:
        raise interrupted
    return ran


def _run(cluster: Cluster, argv: Sequence[str], progress: Progress, *, log: Path, deadline: float, repos: Path) -> str:
    """Run one command of ginkgo up to a moment of the monotonic clock; return why it did not come to its end."""
    environment: Mapping[str, str] = clean_environment({"KUBE_TEST_REPO_LIST": str(repos)})
    late, closed = threading.Event(), threading.Event()
    with (
        log.open("w", errors="replace") as sink,
        subprocess.Popen(
            enter_argv(cluster.lab.init, list(argv), cwd=str(log.parent)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=environment, start_new_session=True,
        ) as process,
    ):  # fmt: skip

        def end() -> None:
            # Upon TERM the suite's processes remove what their specs have made. nsenter, which leads them, is gone at
            # once, so their output says when they are.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                if not closed.wait(_GRACE):
                    os.killpg(process.pid, signal.SIGKILL)

        def stop() -> None:
            late.set()
            end()

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), stop)
        timer.daemon = True
        timer.start()
        assert process.stdout is not None
        try:
            _follow(process.stdout, sink, progress)
            process.wait()
        except KeyboardInterrupt:
            timer.cancel()
            threading.Thread(target=end, daemon=True).start()
            _follow(process.stdout, sink, progress)
            raise
        finally:
            timer.cancel()
            closed.set()
            end_group(process, 1.0)
    if late.is_set():
        return f"the time for the run was over after {progress.done} of {progress.total} specs"
    # 1: a spec failed. Everything else is ginkgo's own end.
    if process.returncode not in (0, 1):
        return f"ginkgo ended with {process.returncode}: {' | '.join(log.read_text().splitlines()[-_TAIL:])}"
    return ""


def _follow(stream: IO[str], sink: IO[str], progress: Progress) -> None:
    """Take lines until there are no more."""
    for line in stream:
        sink.write(line)
        progress.feed(line.rstrip("\n"))


def _clean_up(programs: Programs, cluster: Cluster, run_ids: set[str]) -> None:
    """Remove the namespaces of runs that were cut short: nothing else does."""
    if not run_ids:
        return
    label = f"e2e-run in ({', '.join(sorted(run_ids))})"
    words = ["delete", "namespaces", "-l", label, "--wait=false", f"--kubeconfig={cluster.kubeconfig}"]
    argv = enter_argv(cluster.lab.init, [str(programs.kubectl), *words])
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, env=clean_environment(), timeout=_CLEANING_SECONDS, check=False, capture_output=True)
