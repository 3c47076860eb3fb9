"""Ties the parts of wait-for together and turns outcomes into lines and exit codes (reference/installer.md §8.3)."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path

from installer.errors import EXIT_INSTALL_FAILED, EXIT_INTERRUPTED, InstallerError, WaitError
from installer.observe import state
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.service import watcher
from installer.observe.state import Inputs
from installer.waitfor import nodes, operators, remedies
from installer.waitfor.bootstrap import Bootstrap
from installer.waitfor.errors import BootstrapFailed
from installer.waitfor.install import Install
from installer.waitfor.settings import Settings, Target

log = logging.getLogger("installer.waitfor")


def execute(
    target: Target, directory: Path, timeout_seconds: float | None = None, settings: Settings | None = None
) -> int:
    """See installer.waitfor.run; ``settings`` for tests."""
    settings = settings or Settings()
    try:
        inputs = state.load(directory, with_password=target == "install-complete")
        _wait(target, inputs, timeout_seconds, settings)
    except InstallerError as error:
        log.error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        log.error(f"wait-for {target} was interrupted; the installation goes on, and waiting can be taken up again")
        return EXIT_INTERRUPTED
    return 0


def _wait(target: Target, inputs: Inputs, timeout_seconds: float | None, settings: Settings) -> None:
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    with ExitStack() as stack:
        service = watcher(inputs, settings)
        stack.callback(service.close)
        kube = Kube(inputs.kubeconfig, settings)
        stack.callback(kube.close)
        bootstrap = Bootstrap(inputs, service, kube, settings)
        try:
            bootstrap.wait(settings.bootstrap if timeout_seconds is None else timeout_seconds)
        except BootstrapFailed as error:
            _after_bootstrap_failure(bootstrap, kube, error)
            raise
        except KeyboardInterrupt:
            log.warning(f"Until now: {bootstrap.last_seen()}")
            raise
        if target == "bootstrap-complete":
            return
        install = Install(inputs, kube, settings, deadline, follow=bootstrap.follow)
        try:
            install.wait()
        except KeyboardInterrupt:
            log.warning(f"Until now: {install.last}")
            raise
        except BootstrapFailed as error:
            _tell_causes(bootstrap, error)
            log.info(f"What the hosts and the service reported is in {inputs.logs}; agent-gather on a host tells more")
            raise WaitError(f"failed to initialize the cluster: {error}", EXIT_INSTALL_FAILED) from error
        except WaitError:
            tell_problems(kube, inputs, settings)
            log.info(f"What the hosts and the service reported is in {inputs.logs}; agent-gather on a host tells more")
            raise


def tell_problems(kube: Kube, inputs: Inputs, settings: Settings) -> None:
    """Log what nodes and operators complain of, as far as the cluster's API answers."""
    _tell_nodes(kube, inputs, settings)
    _tell_operators(kube)


def _tell_causes(bootstrap: Bootstrap, error: BootstrapFailed) -> None:
    """Log them, with remedies where these are known, then keep the evidence. An interrupt ends that alone: how the
    installation ended is known."""
    for line in error.causes:
        log.error(remedies.explained(line, bootstrap.inputs.places))
    try:
        bootstrap.keep_evidence(logs_expected=error.logs_expected)
    except KeyboardInterrupt:
        log.warning(f"Interrupted: {bootstrap.inputs.logs} lacks logs that hosts were to send")


def _after_bootstrap_failure(bootstrap: Bootstrap, kube: Kube, error: BootstrapFailed) -> None:
    """Log the causes first, then what helps to look further; the caller logs the error itself last."""
    _tell_causes(bootstrap, error)
    for event in bootstrap.report.events:
        log.debug(f"Event {event.get('event_time', '')}: {event.get('message', '')}")
    if bootstrap.kube_seen:
        _tell_operators(kube)
    if bootstrap.rest_seen:
        log.info(
            f"What the hosts and the service reported is in {bootstrap.inputs.logs}; agent-gather on a host tells more"
        )
    log.error("Bootstrap failed to complete")


def _tell_nodes(kube: Kube, inputs: Inputs, settings: Settings) -> None:
    """Log problems of nodes before those of operators, which most often lack a node."""
    try:
        cluster_nodes = nodes.read(kube)
    except KubeError as error:
        log.debug(f"Nodes cannot be read: {error}")
        return
    unreached = nodes.api_problem(cluster_nodes, inputs, settings.connect_timeout)
    for line in nodes.problems(cluster_nodes, inputs.expected, unreached):
        log.error(line)


def _tell_operators(kube: Kube) -> None:
    try:
        cluster_operators = kube.operators()
    except KubeError as error:
        log.debug(f"Cluster operators cannot be read: {error}")
        return
    for bad, line in operators.complaints(cluster_operators):
        log.log(logging.ERROR if bad else logging.INFO, line)
