"""wait-for install-complete after the bootstrap: ClusterVersion, router CA, operators, console (installer.md §8.2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from installer.errors import EXIT_INSTALL_FAILED, EXIT_OPERATORS_UNSTABLE, WaitError
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.state import Inputs
from installer.waitfor import kubeconfig, nodes, operators
from installer.waitfor.errors import BootstrapFailed
from installer.waitfor.report import Reporter
from installer.waitfor.settings import Settings, duration, until

log = logging.getLogger("installer.waitfor")
T = TypeVar("T")


def poll(limit: float, interval: float, look: Callable[[], T | None], away: Callable[[KubeError], object]) -> T | None:
    """``look`` until it gives something or ``limit`` seconds are over; ``away`` hears of an API that does not answer,
    which is asked again."""
    deadline = time.monotonic() + limit
    while True:
        try:
            answer = look()
        except KubeError as error:
            away(error)
            answer = None
        if answer is not None:
            return answer
        now = time.monotonic()
        if now >= deadline:
            return None
        time.sleep(min(interval, deadline - now))


class Install:
    """The second half of install-complete. ``deadline``: monotonic end of all stages, None for each one's own;
    ``follow`` looks at the service until the cluster is initialized, and raises what ends the waiting."""

    def __init__(
        self, inputs: Inputs, kube: Kube, settings: Settings, deadline: float | None, *, follow: Callable[[], None]
    ) -> None:
        self.inputs, self.kube, self.settings, self.deadline = inputs, kube, settings, deadline
        self.follow = follow
        self.started = self.next_api_check = self.next_service_look = time.monotonic()
        self.report = Reporter()
        #: What was seen last, for the line after an interrupt.
        self.last = "the cluster's API has not answered"

    def wait(self) -> None:
        """Return when the cluster is installed and its access was logged. Raises WaitError with exit code 6 or 7, and
        what `follow` raises."""
        self._initialize()
        self._router_ca()
        self._stable_operators()
        self._finish(self._console())

    def _limit(self, own: float) -> float:
        return own if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    def _poll(self, limit: float, interval: float, look: Callable[[], T | None]) -> T | None:
        """``look`` until it gives something or ``limit`` seconds are over; an API that is away is asked again."""
        return poll(
            limit, interval, look, lambda error: self.report.once("api", f"Cluster's API: {error}", logging.DEBUG)
        )

    def _initialize(self) -> None:
        own = self.settings.initialize_baremetal if self.inputs.platform == "baremetal" else self.settings.initialize
        limit = self._limit(own)
        log.info(f"Waiting up to {until(limit)} for the cluster at {self.kube.host} to initialize...")

        def look() -> bool | None:
            try:
                version = self.kube.cluster_version()
            except KubeError as error:
                self.last = f"{self.last.split('; now ')[0]}; now {error}"
                self.look_at_service()
                raise
            # The cluster's own word counts, whatever the service says.
            if operators.initialized(version):
                return True
            self.look_at_service()
            self.last = operators.progress(version)
            self.report.once("version", f"Still waiting for the cluster to initialize: {self.last}", logging.DEBUG)
            cluster_nodes = nodes.read(self.kube)
            self.report.once("nodes", "; ".join(nodes.problems(cluster_nodes, self.inputs.expected)), logging.DEBUG)
            self._tell_unreached(cluster_nodes)
            return None

        if self._poll(limit, self.settings.interval, look) is None:
            raise WaitError(
                f"failed to initialize the cluster: {self.last} (ClusterVersion did not become Available, without "
                f"Failing and Progressing, within {duration(round(limit))})",
                EXIT_INSTALL_FAILED,
            )

    def look_at_service(self) -> None:
        """One look at the service. One that hangs is left alone for five times as long as it took: the cluster's API is
        what is waited for."""
        now = time.monotonic()
        if now >= self.next_service_look:
            try:
                self.follow()
            except BootstrapFailed as error:
                if self.inputs.ca_pem:
                    raise
                # OpenShift's service gives hosts up by its time limits, and no host that has rebooted heeds it
                # (installer.md §8.2): its own installer looks at the cluster alone from here on.
                text = f"{error}; still waiting, since the cluster may complete: {'; '.join(error.causes)}"
                self.report.once("ended", text, logging.WARNING)
            done = time.monotonic()
            self.next_service_look = done + 5 * (done - now)

    def _tell_unreached(self, cluster_nodes: list[nodes.Node]) -> None:
        """Warn, long before the time-out, of nodes that cannot join because the API's name leads nowhere."""
        now = time.monotonic()
        if now - self.started < self.settings.unreachable_after or now < self.next_api_check:
            return
        self.next_api_check = now + self.settings.notice_every
        unreached = nodes.api_problem(cluster_nodes, self.inputs, self.settings.connect_timeout)
        lines = nodes.problems(cluster_nodes, self.inputs.expected, unreached) if unreached else ()
        self.report.once("unreached", "; ".join(lines), logging.WARNING)

    def _router_ca(self) -> None:
        what = "ConfigMap openshift-config-managed/default-ingress-cert"
        last = "not asked"

        def look() -> str | None:
            nonlocal last
            try:
                return self.kube.config_map("openshift-config-managed", "default-ingress-cert").get("ca-bundle.crt", "")
            except KubeError as error:
                if error.status == 404:
                    raise WaitError(f"{what} is missing: the router's CA is not known", EXIT_INSTALL_FAILED) from error
                last = str(error)
                raise

        limit = self._limit(self.settings.console)
        bundle = self._poll(limit, self.settings.interval, look)
        if not bundle:
            text = f"has no ca-bundle.crt ({what})" if bundle == "" else f"{what} was not read: {last}"
            raise WaitError(f"the router's CA cannot be had: {text}", EXIT_INSTALL_FAILED)
        changed = kubeconfig.add_router_ca(self.inputs.kubeconfig, bundle)
        log.debug(f"The router's CA {'was put into' if changed else 'is in'} {self.inputs.kubeconfig}")

    def _stable_operators(self) -> None:
        limit = self._limit(self.settings.operators)
        log.info(f"Waiting up to {until(limit)} to ensure each cluster operator has finished progressing...")
        stability = operators.Stability(self.settings.stable_for)
        before: frozenset[str] | None = None
        last = "the cluster's API has not answered"

        def look() -> bool | None:
            nonlocal before, last
            cluster_operators, at = self.kube.operators_at()
            unstable = stability.unstable(cluster_operators, at, time.monotonic())
            for name in sorted(frozenset(operators.name_of(item) for item in cluster_operators) - frozenset(unstable)):
                self.report.once(f"operator {name}", f"Cluster Operator {name} is stable", logging.DEBUG)
            for name in unstable:
                never_stable = before is None or name in before
                text = "is not stable yet" if never_stable else "became unstable"
                self.report.once(f"operator {name}", f"Cluster Operator {name} {text}", logging.DEBUG)
            before = frozenset(unstable)
            last = ", ".join(unstable)
            self.last = f"cluster operators that were not stable: {last}"
            return True if not unstable else None

        if self._poll(limit, self.settings.operators_interval, look) is None:
            raise WaitError(
                f"these cluster operators were not stable for {duration(self.settings.stable_for)} within "
                f"{duration(round(limit))}: {last}",
                EXIT_OPERATORS_UNSTABLE,
            )
        log.info("All cluster operators have completed progressing")

    def _console(self) -> str | None:
        log.info("Checking to see if there is a route at openshift-console/console...")
        limit = min(self._limit(self.settings.console), self.settings.console)
        last = "not asked"

        def look() -> str | None:
            nonlocal last
            try:
                url = operators.route_url(self.kube.route("openshift-console", "console"))
            except KubeError as error:
                last = str(error)
                if error.status == 404:
                    return ""
                raise
            last = "no ingress has admitted it"
            return url

        url = self._poll(limit, self.settings.interval, look)
        if not url:
            log.warning(f"There is no console to offer: route openshift-console/console: {last}")
        return url or None

    def _finish(self, console: str | None) -> None:
        log.info("Install complete!")
        log.info(
            "To access the cluster as the system:admin user when using 'oc', run\n"
            f"    export KUBECONFIG={self.inputs.kubeconfig}"
        )
        if console is None:
            return
        log.info(f"Access the OpenShift web-console here: {console}")
        # An empty file: the user gave the password's hash, so only the user knows the password.
        if self.inputs.password and not self.settings.print_password:
            log.info(
                'Login to the console with user: "kubeadmin", and the password in '
                f"{self.inputs.directory / 'auth/kubeadmin-password'}"
            )
        elif self.inputs.password:
            text = f'Login to the console with user: "kubeadmin", and password: "{self.inputs.password}"'
            # For the screen only: a handler that writes a file leaves out records with `secret` set.
            log.info(text, extra={"secret": True})
        else:
            log.info('Login to the console with user: "kubeadmin", and the password that its hash was made from')
