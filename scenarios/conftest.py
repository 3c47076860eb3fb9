"""Fixtures and options of scenarios."""

from __future__ import annotations

import logging
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from lab import topology as shapes
from lab.cleanup import afterwards
from lab.deploy import Deployment
from lab.errors import EvidenceError, LabBrokenError, SubjectError
from lab.evidence import report as pages
from lab.evidence.folder import check_below
from lab.host import budget
from lab.host.paths import cache_dir, labs_dir
from lab.inputs.configs import write_configs
from lab.lab import Lab
from lab.subject import Subject
from lab.subject.options import OPTIONS, Chosen, add_options, choose, stated
from lab.supervisor.plan import Ended
from lab.supervisor.watch import described
from lab.upi import UserProvisioned
from scenarios.catalogue.fromfile import file_topology, of_topology
from scenarios.catalogue.ids import SHAPES, edit_cluster_install, edit_configs, further_files, topology_of, words_of
from scenarios.catalogue.matrix import row_of
from scenarios.catalogue.scheduling import Durations, ScenarioScheduling, reorder, unit_of
from scenarios.testing.cluster import INSTALL_SECONDS, Installation, Stopped, install, stop
from scenarios.testing.hub import install_by_hub, operator
from scenarios.testing.livelog import LiveLog
from scenarios.testing.results import Results
from scenarios.testing.service import Discovered, install_discovered, service_alone
from scenarios.testing.shared import Shared, T

ROOT = Path(__file__).parents[1]
DURATIONS = Durations(cache_dir() / "durations.json")
FAILED = pytest.StashKey[set[str]]()
SHARED = pytest.StashKey["Shared[Installation] | Shared[Stopped] | Shared[Discovered]"]()
REPORTED = pytest.StashKey[set[tuple[str, str]]]()
# By unit of work: the labs that are up, the marks of their evidence, and the failures of labs.
LABS = pytest.StashKey[dict[str, Lab]]()
MARKS = pytest.StashKey[dict[str, str]]()
BROKEN = pytest.StashKey[dict[str, str]]()
VOID = "the lab itself failed: void"
# What the kernel says of a panic that a fault asked for (lab.faults.Panic), and of no other.
ASKED_PANIC = "sysrq triggered crash"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of scenarios."""
    group = parser.getgroup("node0", "scenarios in the virtual bare-metal lab")
    group.addoption("--artifacts", default=str(ROOT / "artifacts"), help="where evidence goes (default: artifacts/)")
    add_options(group.addoption)
    group.addoption("--nightly", action="store_true", help="also run the nightly scenarios")
    group.addoption("--weekly", action="store_true", help="also run the nightly and the weekly scenarios")
    group.addoption(
        "--lab", metavar="ID", type=stated, help="examine the cluster of a kept lab instead of installing one"
    )
    group.addoption("--machines", choices=("vm", "container"), help="kind of machines: docs/machines.md (default: vm)")
    group.addoption("--bmc", choices=get_args(shapes.Bmc), help="whose BMCs machines have: docs/bmcs.md")
    group.addoption(
        "--topology",
        metavar="FILE",
        type=stated,
        help="install this topology (docs/topology.md): the scenarios of its size",
    )
    group.addoption(
        "--chaos",
        metavar="SEEDS",
        type=stated,
        help="install with faults that these seeds draw, and nothing else: 17, 1-50, 17:0,2 (docs/faults.md)",
    )
    group.addoption(
        "--chaos-on", metavar="SCENARIO", default="sno-ipv4-static-uefi", help="in this scenario (default: one node)"
    )
    group.addoption(
        "--lab-keep",
        choices=("never", "on-failure", "always"),
        default="never",
        help="leave the lab running when its scenario ends, for `node0-lab ls|ssh|console`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make a topology's name in -k mean the topology: pytest would find "ha" in "what" and "has" as well."""
    words = "|".join(SHAPES)
    config.option.keyword = re.sub(rf"(?<![\w\[-])({words})(?![\w-])", r"[\1-", config.option.keyword)

    # timeout(1) and CI systems end a run so: its lab ends in good order then, and leaves its evidence.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    file_topology(config)
    for name in ("lab.host.budget", "lab.supervisor.watch"):
        logging.getLogger(name).addHandler(LiveLog(config))
    if not hasattr(config, "workerinput"):
        if any(config.getoption(f"--{name}") for name in OPTIONS) and not config.option.collectonly:
            # Once for all workers, and what does not fit is told before anything starts.
            try:
                choose(lambda name: config.getoption(f"--{name}"))
            except SubjectError as error:
                raise pytest.UsageError(str(error)) from error
        artifacts = Path(config.getoption("--artifacts"))
        if not config.option.collectonly:
            try:
                pages.check(artifacts)
                if not config.getoption("--lab"):
                    check_below(artifacts)
            except EvidenceError as error:
                raise pytest.UsageError(f"--artifacts: {error}") from error
        config.pluginmanager.register(Results(artifacts))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """With -n auto, as many workers as single-node labs fit on the machine; bigger labs wait for the ledger."""
    smallest = budget.need_of(shapes.sno())
    room = budget.capacity(labs_dir())
    return max(1, min(room.mib // smallest.mib, room.vcpu // smallest.vcpu))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ScenarioScheduling:
    """Hand out whole scenarios, the longest first."""
    return ScenarioScheduling(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """`-k` knows a scenario by the name of its row of the matrix, too."""
    if (row := row_of(unit_of(item.nodeid))) is not None:
        item.extra_keyword_matches.add(row.name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests by scenario, the longest first, the same in every worker; nightly ones only with --nightly, weekly
    ones only with --weekly."""
    file = file_topology(config)
    if (file.machine if file else config.getoption("--machines")) == "container":
        for item in items:
            if (marker := item.get_closest_marker("vm")) is not None:
                item.add_marker(pytest.mark.skip(reason=f"needs a virtual machine: {marker.args[0]}"))
    if file:
        wanted = {id(item) for item in of_topology(items, file)}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in wanted])
        items[:] = [item for item in items if id(item) in wanted]
    elif not config.getoption("--weekly"):
        later = ["weekly"] if config.getoption("--nightly") else ["nightly", "weekly"]
        left = [item for item in items if any(item.get_closest_marker(name) for name in later)]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    if config.getoption("--chaos"):
        left = [item for item in items if item.path.name != "test_chaos.py"]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    reorder(items, DURATIONS.read())


def _installed_already(request: pytest.FixtureRequest, lab_id: str, release: Subject) -> Installation:
    """Return the cluster of a kept lab, for --lab."""
    lab = Lab.attach(lab_id)
    request.session.stash.setdefault(MARKS, {})[request.param] = lab.evidence.mark
    return Installation(Deployment(lab, [], release))


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """Provide the release and the installer that the options name: by default the lab release, built when its inputs
    changed, and node0."""
    return choose(lambda name: request.config.getoption(f"--{name}"))


@pytest.fixture(scope="session")
def release(chosen: Chosen) -> Subject:
    """Provide the release to install."""
    return chosen.subject


def _new_trouble(item: pytest.Item) -> list[str]:
    """List new kernel errors on the consoles of the test's lab: those that no earlier test has failed for, and that
    are not of a panic that the test is about (`panics`)."""
    used = getattr(item, "funcargs", {})
    subject = used.get("deployment") or used.get("installation") or used.get("stopped") or used.get("discovered")
    if subject is None:
        return []
    reported = item.session.stash.setdefault(REPORTED, set())
    panicking = {name for marker in item.iter_markers("panics") for name in marker.args}
    lines = [
        f"{name}: {line}"
        for name, messages in subject.lab.kernel_trouble().items()
        for line in messages
        if not (name in panicking and ASKED_PANIC in line)
    ]
    new = [line for line in lines if (subject.lab.id, line) not in reported]
    reported.update((subject.lab.id, line) for line in new)
    return new


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Test nothing in a lab that has failed. Raises DaemonEndedError."""
    lab = item.session.stash.get(LABS, {}).get(unit_of(item.nodeid))
    if lab is not None:
        lab.check()


def _ended(item: pytest.Item, lab: Lab) -> list[Ended]:
    """Parts of a test's lab that have ended, but for those that the test ends itself (`ends_daemon`): one that dies by
    itself meanwhile is the lab's failure as ever."""
    own = {name for marker in item.iter_markers("ends_daemon") for name in marker.args}
    return [end for end in lab.ended() if not (end.asked and end.service in own)]


def _broken(item: pytest.Item, error: BaseException | None) -> str:
    """Return the failure of the lab in which a test ran or was to run; empty when there is none."""
    unit, stash = unit_of(item.nodeid), item.session.stash
    lab = stash.get(LABS, {}).get(unit)
    if lab is not None and (ended := _ended(item, lab)):
        return "\n".join(text for end in ended for text in (described(end), end.tail) if text)
    while error is not None:
        if isinstance(error, LabBrokenError):
            return str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return stash.get(BROKEN, {}).get(unit, "")


def _make_void(report: pytest.TestReport, why: str) -> None:
    """Turn a report into an error of the lab's, whatever its outcome: it says nothing about what was tested."""
    if report.passed:
        report.longrepr = f"{VOID}\n{why}"
    else:
        report.sections.insert(0, (VOID, why))
    report.outcome = "failed"
    vars(report)["void"] = why


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Report a void test as such, not as failed."""
    return ("error", "V", "VOID") if "void" in vars(report) and report.failed else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List void scenarios and their labs' failures, separately from failed tests."""
    void: dict[str, str] = {}
    for report in terminalreporter.getreports("error"):
        if why := getattr(report, "void", ""):
            void.setdefault(unit_of(report.nodeid), why)
    if void:
        terminalreporter.section(f"{VOID}, neither passed nor failed; run again", "=", purple=True, bold=True)
        for unit, why in void.items():
            terminalreporter.write_line(f"{unit}: {why}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Yield a kernel error on a console fails the test, a failed lab makes it void; failed scenarios are remembered for
    --lab-keep."""
    report = yield
    if report.when == "call" and report.passed and (trouble := _new_trouble(item)):
        report.outcome = "failed"
        report.longrepr = "kernels complained on their consoles:\n" + "\n".join(trouble)
    error = call.excinfo.value if call.excinfo else None
    if (report.failed or report.when == "call") and not report.skipped and (why := _broken(item, error)):
        _make_void(report, why)
    # xdist's workers send a report's attributes to the controller, which writes down what came of which lab's tests.
    vars(report)["mark"] = item.session.stash.get(MARKS, {}).get(unit_of(item.nodeid), "")
    if report.failed:
        item.session.stash.setdefault(FAILED, set()).add(unit_of(item.nodeid))
    return report


def _command(config: pytest.Config, scenario_id: str) -> str:
    """Write the command that runs a scenario again, with the options of this run; of several -k the last counts."""
    # A worker of xdist has been given the user's command line.
    _, *words = getattr(config, "workerinput", {}).get("mainargv") or ["", *map(str, config.invocation_params.args)]
    return shlex.join([sys.executable, "-m", "pytest", *words, "-k", f"[{scenario_id}]"])


@contextmanager
def _deployed(request: pytest.FixtureRequest, chosen: Chosen) -> Iterator[Deployment]:
    scenario_id: str = request.param
    artifacts = Path(request.config.getoption("--artifacts")) / scenario_id
    keep = request.config.getoption("--lab-keep")
    from_file = file_topology(request.config)
    topology = chosen.sized(from_file) if from_file else topology_of(scenario_id, chosen.sized)
    topology = topology.with_machines(request.config.getoption("--machines")).with_bmcs(
        request.config.getoption("--bmc")
    )
    lab = Lab(topology, artifacts=artifacts, release=chosen.subject, command=_command(request.config, scenario_id))
    request.session.stash.setdefault(MARKS, {})[scenario_id] = lab.evidence.mark
    with lab:
        kind = UserProvisioned if topology.bootstrap else Deployment
        deployment = kind(lab, chosen.installer, chosen.subject, log_level="debug")
        stash, start, done = request.session.stash, time.monotonic(), False
        stash.setdefault(LABS, {})[scenario_id] = lab

        def failed() -> bool:
            return not done or scenario_id in stash.get(FAILED, set())

        def note_failure() -> None:
            """Note a failure where reports of later phases can see it."""
            del stash[LABS][scenario_id]
            if ended := _ended(request.node, lab):
                stash.setdefault(BROKEN, {})[scenario_id] = "\n".join(map(described, ended))

        def note_duration() -> None:
            if not failed() and not from_file:
                DURATIONS.update({scenario_id: time.monotonic() - start})

        def keep_lab() -> None:
            if keep == "always" or (keep == "on-failure" and failed()):
                lab.keep()

        with afterwards(
            ("note how long it took", note_duration),
            ("collect the evidence", lab.collect),
            ("keep what the installer left", deployment.keep_evidence),
            ("note which parts of the lab have failed", note_failure),
            ("keep the lab", keep_lab),
        ):
            write_configs(deployment.directory, lab.topology, lab.access, partial(edit_configs, scenario_id))
            for name, text in further_files(scenario_id).items():
                (deployment.directory / name).parent.mkdir(parents=True, exist_ok=True)
                (deployment.directory / name).write_text(text)
            if (edit := edit_cluster_install(scenario_id, lab.access)) is not None:
                deployment.edit_cluster_install(edit)
            yield deployment
            done = True


@pytest.fixture
def deployment(request: pytest.FixtureRequest, chosen: Chosen) -> Iterator[Deployment]:
    """Provide a lab that is up with both config files written; nothing has booted. Parametrise with a scenario id."""
    with _deployed(request, chosen) as deployed:
        yield deployed


def _close(session: pytest.Session) -> None:
    shared = session.stash.get(SHARED, None)
    if shared is not None:
        del session.stash[SHARED]
        shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """End a scenario's lab with its last test: the next one may need the whole machine."""
    yield
    if nextitem is None or unit_of(nextitem.nodeid) != unit_of(item.nodeid):
        _close(item.session)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Collect the evidence of an interrupted run too, which is invalid unless a test has failed before."""
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        for lab in session.stash.get(LABS, {}).values():
            lab.note_interruption()
    _close(session)


def _shared(request: pytest.FixtureRequest, kind: type[T], make: Callable[[ExitStack], T]) -> T:
    """Return the parts that all tests of the scenario share, made by the first of them."""
    stash = request.session.stash
    if SHARED not in stash:
        stash[SHARED] = Shared(request.param, make)
    shared = stash[SHARED].get(request.param)
    assert isinstance(shared, kind)
    return shared


@pytest.fixture
def installation(request: pytest.FixtureRequest, chosen: Chosen) -> Installation:
    """Provide an installed cluster, made once for all tests of an id; with boot discovery-iso a Discovered, with
    a hub a HubInstalled. Parametrise with a scenario id."""
    scenario_id, lab_id = str(request.param), request.config.getoption("--lab")
    row = row_of(scenario_id)

    def make(labs: ExitStack) -> Installation:
        if lab_id:
            return _installed_already(request, lab_id, chosen.subject)
        variants = words_of(request.param).variants
        if "hub" in variants:
            deployment = labs.enter_context(_deployed(request, chosen))
            hub = labs.enter_context(operator(deployment))
            return install_by_hub(deployment, hub, variants)
        if row is not None and row.boot == "discovery-iso":
            return _discover(labs, request, chosen)
        return install(labs.enter_context(_deployed(request, chosen)), row.minutes * 60 if row else INSTALL_SECONDS)

    return _shared(request, Installation, make)


@pytest.fixture
def stopped(request: pytest.FixtureRequest, chosen: Chosen) -> Stopped:
    """Provide an installation that wait-for has given up on, made once for all tests of an id. Parametrise with an
    id."""
    return _shared(request, Stopped, lambda labs: stop(labs.enter_context(_deployed(request, chosen))))


def _discover(labs: ExitStack, request: pytest.FixtureRequest, chosen: Chosen) -> Discovered:
    service = labs.enter_context(service_alone(labs.enter_context(_deployed(request, chosen))))
    image_type = "minimal-iso" if str(request.param).endswith("_minimal") else "full-iso"
    machines = list(service.deployment.lab.nodes)
    # Several hosts find each other by the names that the lab's DNS has.
    names = {name: name for name in machines} if len(machines) > 1 else {machines[0]: "discovered-0"}
    return install_discovered(service, image_type, names)


@pytest.fixture
def discovered(request: pytest.FixtureRequest, chosen: Chosen) -> Discovered:
    """Provide a cluster installed by a `node0 service`, made once for all tests of an id. Parametrise with an id."""
    return _shared(request, Discovered, lambda labs: _discover(labs, request, chosen))
