"""`node0 wait-for`: the cluster's API, its ConfigMap of the bootstrap, then as after any installation."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from installer.common.inputs import read_input
from installer.errors import EXIT_BOOTSTRAP_FAILED, EXIT_INTERRUPTED, InstallerError, WaitError
from installer.observe import state
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.state import Inputs
from installer.upi import certificates
from installer.upi.balancer import Balancer
from installer.waitfor.command import tell_problems
from installer.waitfor.install import Install, poll
from installer.waitfor.report import Reporter
from installer.waitfor.settings import Settings, Target, duration, until

log = logging.getLogger("installer.waitfor")

GATHER = "node0 gather bootstrap --help"
_BOOTSTRAP = "bootstrap.ign"


def wait(target: Target, directory: Path, timeout: float | None, settings: Settings) -> int:
    """Wait for ``target``; the exit code (reference/installer.md §8.3). ``timeout``: seconds for all of it, None for
    each stage's own."""
    started = time.monotonic()
    deadline = None if timeout is None else started + timeout
    try:
        inputs = state.load_cluster(directory, with_password=target == "install-complete")
        with ExitStack() as stack:
            kube = Kube(inputs.kubeconfig, settings)
            stack.callback(kube.close)
            if target == "bootstrap-complete":
                _bootstrap(inputs, kube, settings, deadline)
            else:
                _install(inputs, kube, settings, deadline)
    except InstallerError as error:
        log.error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        log.error(f"wait-for {target} was interrupted; the installation goes on, and waiting can be taken up again")
        return EXIT_INTERRUPTED
    log.info(f"Time elapsed: {duration(round(time.monotonic() - started))}")
    return 0


def _warn_of_expiry(inputs: Inputs) -> str:
    """Return a line on certificates of bootstrap.ign that have expired, which is logged; empty otherwise."""
    try:
        line = certificates.expired(read_input(inputs.directory / _BOOTSTRAP), dt.datetime.now(dt.UTC))
    except OSError:
        return ""
    if line:
        log.warning(line)
    return line


class _Waiting:
    """One stage: how long it may take, and what was seen last."""

    def __init__(self, settings: Settings, deadline: float | None, own: float) -> None:
        self._interval = settings.interval
        self.limit = own if deadline is None else max(deadline - time.monotonic(), 0.0)
        self._report = Reporter()
        self.last = "never asked"

    def seen(self, text: str) -> None:
        """Note what was seen; once in the log as long as it stays."""
        self.last = text
        self._report.once("seen", f"Still waiting: {text}", logging.DEBUG)

    def poll(self, look: Callable[[], str | None]) -> str | None:
        """Return what ``look`` gives first; None where it gives nothing in time."""
        return poll(self.limit, self._interval, look, lambda error: self.seen(str(error)))


def _bootstrap(inputs: Inputs, kube: Kube, settings: Settings, deadline: float | None) -> None:
    """Wait for the API, then for the ConfigMap by which the bootstrap machine tells its end. Raises WaitError."""
    expired = _warn_of_expiry(inputs)
    waiting = _Waiting(settings, deadline, settings.api)
    log.info(f"Waiting up to {until(waiting.limit)} for the Kubernetes API at {kube.host}...")
    version = waiting.poll(kube.check_alive)
    if version is None:
        _explain(kube, inputs, settings, expired)
        raise WaitError(
            f"Bootstrap failed to complete: the Kubernetes API at {kube.host} did not answer within "
            f"{duration(round(waiting.limit))}: {waiting.last}. It lasts while the bootstrap machine has no temporary"
            " control plane, or the load balancer and the names api and api-int do not lead to it",
            EXIT_BOOTSTRAP_FAILED,
        )
    log.info(f"API {version} up")
    own = settings.bootstrapping_baremetal if inputs.platform == "baremetal" else settings.bootstrapping
    waiting = _Waiting(settings, deadline, own)
    log.info(f"Waiting up to {until(waiting.limit)} for bootstrapping to complete...")

    def status() -> str | None:
        try:
            found = str(kube.config_map("kube-system", "bootstrap").get("status", ""))
        except KubeError as error:
            if error.status != 404:
                raise
            waiting.seen("ConfigMap kube-system/bootstrap is not there")
            return None
        waiting.seen(f"ConfigMap kube-system/bootstrap has status {found!r}")
        return found if found == "complete" else None

    if waiting.poll(status) is None:
        _explain(kube, inputs, settings, expired)
        raise WaitError(
            f"Bootstrap failed to complete within {duration(round(waiting.limit))}: {waiting.last}",
            EXIT_BOOTSTRAP_FAILED,
        )
    log.info("It is now safe to remove the bootstrap resources")


def _explain(kube: Kube, inputs: Inputs, settings: Settings, expired: str) -> None:
    if expired:
        log.error(expired)
    tell_problems(kube, inputs, settings)
    log.info(f"Use the following commands to gather logs from the cluster\n    {GATHER}")


def _install(inputs: Inputs, kube: Kube, settings: Settings, deadline: float | None) -> None:
    balancer = Balancer(kube.host, settings.connect_timeout)
    install = Install(inputs, kube, settings, deadline, follow=balancer.look)
    try:
        install.wait()
    except KeyboardInterrupt:
        log.warning(f"Until now: {install.last}")
        raise
    except WaitError:
        tell_problems(kube, inputs, settings)
        raise
