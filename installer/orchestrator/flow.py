"""The order of things by role (installer.md §7.1), as tables of steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from installer.assisted.enums import Role, Stage
from installer.assisted.errors import ClientError
from installer.assisted.stages import SNO
from installer.common.redact import shortened
from installer.hostsys import logs
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem
from installer.orchestrator import bootstrap, controlplane, disk
from installer.orchestrator.controller import Controller
from installer.orchestrator.errors import OrchestratorError, StageError, Unwanted
from installer.orchestrator.report import Reporter, parse

log = logging.getLogger("assisted-installer")
REBOOT_SECONDS = 15


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The command line's request."""

    role: str
    boot_device: str
    control_plane_count: int
    installer_args: Sequence[str] = ()
    format_disks: Sequence[str] = ()
    skip_cleanup: bool = False

    @property
    def sno(self) -> bool:
        """Bootstrap in place."""
        return self.control_plane_count == 1

    @property
    def kind(self) -> str:
        """The host's row of FLOWS."""
        if self.role == Role.BOOTSTRAP:
            return SNO if self.sno else Role.BOOTSTRAP
        return self.role if self.role in FLOWS else Role.WORKER


@dataclass
class Run:
    """One installation on one host."""

    plan: Plan
    host: HostSystem
    _: KW_ONLY
    reporter: Reporter
    sleep: Callable[[float], None] = time.sleep
    controller: Controller | None = None
    ignition: Path | None = None
    own_config: dict[str, Any] = field(default_factory=dict, repr=False)
    #: The disk that is cleaned and written: the plan's, with links resolved.
    device: str = ""


Step = Callable[[Run], None]


def starting(run: Run) -> None:
    """Format the disks asked for and clean the install disk; failures are only reported."""
    run.reporter.stage(Stage.STARTING, run.plan.role)
    run.device = disk.resolve(run.host, run.plan.boot_device)
    problems: list[str] = []
    for device in run.plan.format_disks:
        try:
            disk.quick_format(run.host, device)
        except CommandError as error:
            problems.append(str(error))
    if not run.plan.skip_cleanup:
        problems += disk.clean(run.host, run.device)
    if problems:
        run.reporter.stage(Stage.STARTING, f"Failed to clean up disks: {shortened('; '.join(problems), 900)}")


def start_bootstrap(run: Run) -> None:
    """Fetch bootstrap.ign, put it in place, start bootkube."""
    config = parse(run.reporter.file("bootstrap.ign"), "bootstrap.ign")
    bootstrap.extract(run.host, config, run.plan.sno)
    if run.plan.sno:
        # This system and the one after the reboot are the same node: what bootkube makes carries its name.
        run.own_config = parse(run.reporter.host_ignition(), "host ignition")
        bootstrap.take_hostname(run.host, run.own_config)
    if run.controller is not None:
        run.controller.write(run.host)
    bootstrap.start(run.host, config)


def installing(run: Run) -> None:
    """Stage Installing."""
    run.reporter.stage(Stage.INSTALLING, run.plan.role)


def fetch_ignition(run: Run) -> None:
    """Fetch this host's own ignition, as a file for coreos-installer."""
    data = run.reporter.host_ignition()
    parse(data, "host ignition")
    run.ignition = bootstrap.store_ignition(run.host, f"{run.plan.role}-{run.reporter.host_id}.ign", data)


def wait_bootkube(run: Run) -> None:
    """Stage Waiting for bootkube."""
    run.reporter.stage(Stage.WAITING_BOOTKUBE)
    bootstrap.wait_bootkube(run.host, lambda words: run.reporter.stage(Stage.WAITING_BOOTKUBE, words), sleep=run.sleep)


def merge_master(run: Run) -> None:
    """SNO: the ignition is what bootkube left, with the host's own parts."""
    data = bootstrap.merged_master(run.host, run.own_config)
    run.ignition = bootstrap.store_ignition(run.host, f"master-{run.reporter.host_id}.ign", data)


def write_image(run: Run) -> None:
    """Stage Writing image to disk, with percentages."""
    run.reporter.stage(Stage.WRITING)
    if run.ignition is None:
        raise StageError("write image", "no ignition was made")
    disk.write_image(
        run.host,
        run.ignition,
        run.device,
        run.plan.installer_args,
        report=lambda percent: run.reporter.stage(Stage.WRITING, percent),
    )


def wait_control_plane(run: Run) -> None:
    """Bootstrap: enough masters Ready."""
    run.reporter.stage(Stage.WAITING_CONTROL_PLANE, "waiting for masters to join the bootstrap control plane")
    controlplane.wait_masters(run.host, run.reporter, run.plan.control_plane_count, run.sleep)


def wait_pivot(run: Run) -> None:
    """Bootstrap: bootkube, etcd, controller, workers."""
    wait_bootkube(run)
    run.reporter.stage(Stage.WAITING_BOOTKUBE, "waiting for ETCD bootstrap to be complete")
    controlplane.wait_etcd(run.host, run.sleep)
    run.reporter.stage(Stage.WAITING_CONTROLLER, "waiting for controller pod ready event")
    controlplane.wait_controller(run.host, run.sleep)
    controlplane.wait_workers(run.reporter, run.sleep)


def wait_as_worker(run: Run) -> None:
    """Worker: two control-plane hosts have joined."""
    run.reporter.stage(Stage.WAITING_CONTROL_PLANE)
    controlplane.wait_ready_masters_by_service(run.reporter, run.sleep)


def upload_logs(run: Run) -> None:
    """Send this host's logs while the service still runs."""
    try:
        reporter = run.reporter
        sender = logs.Sender(reporter.client, reporter.cluster_id, reporter.infra_env_id, reporter.host_id)
        sender.send(run.host, run.plan.role == Role.BOOTSTRAP)
    except (ClientError, OSError) as error:
        log.error("logs were not uploaded: %s", error)


def reboot(run: Run) -> None:
    """Stage Rebooting: at once on SNO, in a moment elsewhere so that others still get an answer from node0.

    OpenShift waits for a minute (reference/installer.md §7.1, row 10); a systemd timer makes that up to two.
    """
    run.reporter.stage(Stage.REBOOTING)
    delay = [] if run.plan.sno else [f"--on-active={REBOOT_SECONDS}", "--timer-property=AccuracySec=1s"]
    # The shutdown waits for a slow disk as well.
    run.host.run("sync", timeout=600, check=False)
    try:
        # As a unit of the host's systemd, so that it outlives this container.
        run.host.run("systemd-run", "--no-block", "--collect", *delay, "systemctl", "reboot", timeout=600)
    except CommandError as error:
        raise StageError("reboot", str(error)) from None


FLOWS: Mapping[str, tuple[Step, ...]] = {
    SNO: (starting, installing, start_bootstrap, wait_bootkube, merge_master, write_image, upload_logs, reboot),
    Role.BOOTSTRAP: (
        starting,
        start_bootstrap,
        installing,
        fetch_ignition,
        write_image,
        wait_control_plane,
        wait_pivot,
        upload_logs,
        reboot,
    ),
    Role.MASTER: (starting, installing, fetch_ignition, write_image, upload_logs, reboot),
    Role.ARBITER: (starting, installing, fetch_ignition, write_image, upload_logs, reboot),
    Role.WORKER: (starting, installing, fetch_ignition, write_image, wait_as_worker, upload_logs, reboot),
}


def execute(run: Run) -> int:
    """All steps in order; 0, or 1 after stage Failed was reported with the error's text.

    1 at once, and nothing reported, when the service no longer wants this host installed.
    """
    try:
        return _execute(run)
    except Unwanted as error:
        log.error("%s", error)
        return 1


def _execute(run: Run) -> int:
    try:
        for step in FLOWS[run.plan.kind]:
            log.info("step %s", step.__name__)
            step(run)
    except Unwanted:
        raise
    except (OrchestratorError, CommandError, OSError) as error:
        log.error("%s", error)
        run.reporter.stage(Stage.FAILED, shortened(str(error), 1500))
        return 1
    return 0
