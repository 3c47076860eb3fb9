"""wait-for bootstrap-complete: one evaluation every 2 s until the temporary control plane has done its work."""

from __future__ import annotations

import logging
import time
from typing import Any

from installer.assisted.client import AssistedClient
from installer.assisted.enums import ClusterStatus, HostStatus
from installer.assisted.errors import ClientError
from installer.observe import outside
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.service import hosts as hosts_of_service
from installer.observe.state import Inputs
from installer.waitfor import decide, remedies
from installer.waitfor.errors import BootstrapFailed
from installer.waitfor.evidence import EVENTS, Evidence
from installer.waitfor.model import ClusterSeen, HostSeen, cluster_of, host_of
from installer.waitfor.report import Reporter
from installer.waitfor.settings import Settings, duration

log = logging.getLogger("installer.waitfor")


class Bootstrap:
    """Follows one installation. Use ``wait``; ``evidence`` afterwards holds what was kept."""

    def __init__(self, inputs: Inputs, service: AssistedClient, kube: Kube, settings: Settings) -> None:
        self.inputs, self.service, self.kube, self.settings = inputs, service, kube, settings
        self.evidence = Evidence(inputs.logs, (inputs.token, inputs.password or ""))
        self.report = Reporter(self.evidence.events(), inputs.places)
        self.persistence = decide.Persistence(settings.failing_for, settings.failing_for_remeasured)
        self.kube_seen = self.rest_seen = self.complete = self.rebooting = False
        self.kube_state = self.rest_state = "never asked"
        self.config_map = "not seen"
        self.cluster: ClusterSeen | None = None
        self.hosts: tuple[HostSeen, ...] = ()
        self.raw_cluster: dict[str, Any] = {}
        self.raw_hosts: list[dict[str, Any]] = []
        self.ids: tuple[str, str] | None = None  # of the infra-env and the cluster, once there is exactly one cluster
        self.started = self.lost_since = self.noticed_at = self.changed = time.monotonic()
        self.unreachable = False  # whether the last notice said that the rendezvous host cannot be reached
        self.complaint = ""  # what the rendezvous host complained of at the last look, before its service was up
        self.complaints: set[str] = set()  # all that were ever heard
        self.repeated_complaint: tuple[str, float] | None = None  # the last one that was heard more than once, and when
        self.wrong_service = ""  # what answers in the place of the service, as a line; else empty
        self.metadata_error = ""  # why the last look at the service gave no cluster and no hosts
        self.unregistered: tuple[str, ...] = ()  # lines: why the service has no cluster or no infra-env
        self.images_read_whole = False  # as no host had registered; once, since they are large
        self.ready_since: float | None = None
        self.registered_since: float | None = None

    def wait(self, limit: float) -> None:
        """Return when the bootstrap is complete. Raises BootstrapFailed; ``limit`` in seconds from now."""
        self.started = self.lost_since = time.monotonic()
        self.noticed_at = self.started - self.settings.notice_every
        deadline = self.started + limit
        while not self._evaluate():
            now = time.monotonic()
            if now >= deadline:
                raise BootstrapFailed(
                    f"bootstrap process timed out after {duration(limit)}: {self.last_seen()}", self._open_causes()
                )
            quiet = now - self.changed >= self.settings.quiet_after and self.ready_since is None
            interval = max(self.settings.interval, self.settings.interval_quiet) if quiet else self.settings.interval
            time.sleep(min(interval, deadline - now))

    def follow(self) -> None:
        """Look at the service after the bootstrap, too. Raises BootstrapFailed: its host never joins the cluster."""
        if self.rest_seen and (self.rest_state == "answers" or not self.rebooting):
            self._look_at_rest()

    def _evaluate(self) -> bool:
        """One look at both APIs; True when the bootstrap is complete."""
        if self.complete:
            log.info("Bootstrap is complete")
            log.info("cluster bootstrap is complete")
            return True
        kube_alive = self._look_at_kube()
        try:
            rest_alive = self._look_at_rest()
        except BootstrapFailed:
            if not self.complete:
                raise
            rest_alive = True  # the bootstrap did not fail, the installation did: `follow` tells
        if kube_alive or rest_alive:
            self.lost_since = time.monotonic()
            self.report.once("lost", "")
        else:
            self._on_silence()
        return False

    def _look_at_kube(self) -> bool:
        try:
            self.kube.check_alive()
        except KubeError as error:
            self.kube_state = str(error)
            self.report.once("kube", self.kube_state, logging.DEBUG)
            return False
        self.kube_state = "answers"
        self.report.once("kube", "", logging.DEBUG)
        if not self.kube_seen:
            self.kube_seen = True
            log.info("Bootstrap Kube API Initialized")
        try:
            status = self.kube.config_map("kube-system", "bootstrap").get("status", "without a status")
        except KubeError as error:
            status = "not there yet" if error.status == 404 else str(error)
        self.config_map = status
        if status == "complete":
            self.complete = True
            log.info("Bootstrap configMap status is complete")
        return True

    def _look_at_rest(self) -> bool:
        try:
            infra_envs = [] if self.ids else self.service.infra_envs()
            if self.ids:
                # Also tells whether the service lives; what is asked for besides has mostly not changed.
                self._take_events(self.ids[0])
        except ClientError as error:
            if error.status == 404:
                # Another cluster's service, or one that lost its memory: look anew.
                self.ids = None
            self.rest_state = str(error)
            # Waiting does not help: the host at that address was booted from another image.
            hint = decide.refusal(error, self.inputs.directory)
            self.wrong_service = decide.not_the_service(error, self.inputs.rendezvous_ip, hint)
            if hint and not self.complete:
                self.report.once("answered", self.wrong_service, logging.WARNING)
            self.report.once("rest", self.rest_state, logging.DEBUG)
            return False
        self.rest_state, self.wrong_service = "answers", ""
        self.report.once("rest", "", logging.DEBUG)
        self.report.once("answered", "")
        if not self.rest_seen:
            self.rest_seen = True
            self.changed = time.monotonic()
            log.debug("The rendezvous service answers")
        try:
            self._follow(infra_envs)
            self.metadata_error = ""
        except ClientError as error:
            if error.status == 404:
                self.ids = None
            self.metadata_error = str(error)
            self.report.once("metadata", f"cluster metadata cannot be retrieved yet: {error}")
        return True

    def _take_events(self, infra_env: str) -> None:
        if self.report.new_events(self.service.events(infra_env, len(self.report.events))):
            self.changed = time.monotonic()
            self.evidence.put(EVENTS, self.report.events)

    def _follow(self, infra_envs: list[dict[str, Any]]) -> None:
        """MonitorStatusFromAssistedService of the reference. Raises BootstrapFailed, ClientError."""
        if self.ids is None:
            if infra_envs:
                self._take_events(str(infra_envs[0].get("id")))
            clusters = self.service.clusters()
            if len(clusters) != 1:
                self._unregistered("clusters", len(clusters))
                return
            if not infra_envs:
                self._unregistered("InfraEnvs", 0)
            cluster_id = str(clusters[0].get("id"))
            if infra_envs:
                self.unregistered = ()
                self.report.once("metadata", "")
                self.ids = (str(infra_envs[0].get("id")), cluster_id)
        else:
            cluster_id = self.ids[1]
        before = (self.raw_cluster, self.raw_hosts)
        self.raw_cluster = self.service.cluster(cluster_id)
        self.raw_hosts = hosts_of_service(self.service, self.ids[0]) if self.ids else []
        if before == (self.raw_cluster, self.raw_hosts):
            self._judge(self.cluster or cluster_of(self.raw_cluster), self.hosts)
            return
        self.cluster = cluster = cluster_of(self.raw_cluster)
        self.hosts = hosts = decide.named(self._ordered(), self.inputs.expected)
        self.report.status(cluster, hosts)
        self.report.validations(cluster, hosts)
        self.rebooting = self.rebooting or decide.rebooted(hosts)
        self._judge(cluster, hosts)

    def _ordered(self) -> tuple[HostSeen, ...]:
        """Return the hosts as the configuration lists them."""
        return tuple(sorted(map(host_of, self.raw_hosts), key=lambda host: self.inputs.expected.rank(host.macs)))

    def _unregistered(self, what: str, count: int) -> None:
        """Report that the service has `count` of these, where one is expected. Raises ClientError."""
        events = self.service.events("") if not count else ()
        self.unregistered = decide.unregistered(self.inputs.rendezvous_ip, what, count, events)
        self.report.once("metadata", f"cluster metadata cannot be retrieved yet: {'; '.join(self.unregistered)}")

    def _judge(self, cluster: ClusterSeen, hosts: tuple[HostSeen, ...]) -> None:
        if cluster.status in (ClusterStatus.ERROR, ClusterStatus.CANCELLED):
            causes = decide.failed_hosts(hosts) or (f"Cluster {cluster.status}: {cluster.status_info}",)
            text = f"cluster installation ended in status {cluster.status}: {cluster.status_info}"
            text = text if self.complete else f"bootstrap process returned error: {text}"
            raise BootstrapFailed(text, causes, logs_expected=cluster.status == ClusterStatus.ERROR)
        now, expected = time.monotonic(), self.inputs.expected
        self._tell_stages(hosts, now)
        if self.complete:
            return  # a service without its memory begins anew, the cluster does not
        self._tell_missing(cluster, hosts, now)
        if self.persistence.observe(decide.stuck(cluster, hosts, expected), now):
            raise BootstrapFailed(
                f"bootstrap process returned error: the installation cannot start: {cluster.status_info}",
                decide.causes(cluster, hosts),
            )
        if cluster.status != ClusterStatus.READY or not decide.all_known(hosts, expected):
            self.ready_since = None
        elif self.ready_since is None:
            self.ready_since = now
        elif now - self.ready_since > self.settings.ready_limit:
            raise BootstrapFailed(
                "bootstrap process returned error: failed to progress after all hosts available: the cluster has been "
                f"ready for {duration(round(now - self.ready_since))}: {cluster.status_info}",
                (
                    *decide.surplus(expected, hosts),
                    *decide.others_instead(expected, hosts),
                    *decide.causes(cluster, hosts),
                    *decide.recent_errors(self.report.events),
                ),
            )

    def _tell_missing(self, cluster: ClusterSeen, hosts: tuple[HostSeen, ...], now: float) -> None:
        """Warn of expected hosts that have not registered long after the first one did, or are known by another MAC."""
        if not hosts and not self.images_read_whole and now - self.started >= self.settings.unreachable_after:
            # None of them may be able to pull the agent's image.
            self.images_read_whole = True
            self._tell_image_problems(whole=True)
        if not hosts or cluster.status not in decide.BEFORE_INSTALL:
            self.registered_since = None
            return
        if self.registered_since is None:
            self.registered_since = now
        late = now - self.registered_since >= self.settings.missing_after
        for index, line in enumerate(decide.missing(self.inputs.expected, hosts, yet=True)):
            if late or decide.MISTYPED in line:
                self.report.once(f"missing {index}", line, logging.WARNING)

    def _tell_stages(self, hosts: tuple[HostSeen, ...], now: float) -> None:
        """Warn of stages that fail and are tried again, and show all hosts' stages when nothing changes for long."""
        for host in hosts:
            self.report.once(f"again {host.id}", decide.fails_again(host), logging.WARNING)
        period = self.settings.unchanged_for
        where = decide.stages_in_words(hosts) if now - self.changed >= period else ""
        self.report.once("unchanged", where and f"Nothing is new for {duration(period)}: {where}", logging.WARNING)

    def _on_silence(self) -> None:
        """Neither API answers: before anything was seen, at the reboot of node0, or for a bad reason."""
        now = time.monotonic()
        if not self.rest_seen and not self.kube_seen:
            unreachable = now - self.started >= self.settings.unreachable_after
            # The first time as soon as it is due.
            if now - self.noticed_at < self.settings.notice_every and self.unreachable == unreachable:
                return
            self.noticed_at, self.unreachable = now, unreachable
            self.report.once("initialize", "Waiting for cluster install to initialize")
            self._tell_complaint(now)
            if unreachable:
                why = self.wrong_service or self._outside()
                address = self.inputs.rendezvous_ip
                # All that the host says follows as its complaint, where it says so again.
                cause = "" if self.wrong_service else remedies.remedy(why, self.inputs.places)
                self.report.once("unreachable", f"Cannot access Rendezvous Host {address}: {cause or why}", key=cause)
                if self.wrong_service:
                    # Something runs: no image is missing.
                    self.report.once("answered", self.wrong_service, logging.WARNING)
                    return
                self._tell_image_problems()
        elif self.rebooting:
            self.report.once(
                "lost",
                "The rendezvous host is rebooting into its installed system, its service has ended as it should; "
                "waiting for the cluster's API",
            )
            if not self.kube_seen and now - self.lost_since >= self.settings.unreachable_after:
                self.report.once("api", self._silent_api(), logging.WARNING)
        elif now - self.lost_since >= self.settings.lost_after:
            after = "the rendezvous service" if not self.kube_seen else "the bootstrap's kube API"
            text = f"Neither the rendezvous service nor the kube API answers any more, the last was {after}"
            # Without the kube API no bootstrap was seen to begin.
            text += "" if self.kube_seen else ": cluster bootstrap did not complete"
            kube = f"{self.kube.host}: {self.kube_state}" if self.kube_seen else self._silent_api()
            states = f"rendezvous service: {self.rest_state}; {kube}"
            level = logging.WARNING if self.kube_seen else logging.ERROR
            self.report.once("lost", f"{text}; still waiting ({states})", level)

    def _tell_complaint(self, now: float) -> None:
        """Warn of the rendezvous host's complaint. A passing one, while the network comes up, is gone at the next
        look."""
        before, self.complaint = self.complaint, self._complaint()
        if self.complaint and (before or self.complaint in self.complaints):
            self.repeated_complaint = self.complaint, now
        self.complaints.add(self.complaint)
        # Of one cause the text differs at each attempt, by a port for one.
        cause = remedies.remedy(self.complaint, self.inputs.places)
        # After a while a known cause does not pass.
        lasting = self.complaint if before or (cause and self.unreachable) else ""
        self.report.once(
            "complaint", remedies.explained(lasting, self.inputs.places), logging.WARNING, key=lasting and cause
        )

    def _tell_image_problems(self, *, whole: bool = False) -> None:
        for index, problem in enumerate(self.image_problems(whole=whole)):
            text = remedies.explained(problem, self.inputs.places)
            self.report.once(f"images {index}", text, logging.WARNING)

    def _outside(self) -> str:
        settings, address = self.settings, self.inputs.rendezvous_ip
        why = outside.host(address, settings.rest_port, settings.ssh_port, settings.connect_timeout)
        fields = ", ".join(filter(None, (self.inputs.places.rendezvous_ip, *self._rendezvous_host())))
        off = why.endswith(outside.OFF)
        return (
            f"{why}. Switch it on with the image, or correct its address or MAC address ({fields})"
            if off and fields
            else why
        )

    def _rendezvous_host(self) -> list[str]:
        """Return the field of the host that is to have the rendezvous IP, where its address is in the inputs."""
        return self.inputs.places.addresses.get(self.inputs.rendezvous_ip, [])[:1]

    def _complaint(self) -> str:
        """Return the rendezvous host's complaint before its service is up; empty if nothing, or no answer."""
        address, settings = self.inputs.rendezvous_ip, self.settings
        complaint = outside.complaint(address, settings.ssh_port, settings.connect_timeout)
        return f"Rendezvous Host {address} says: {complaint}" if complaint else ""

    def _silent_api(self) -> str:
        return outside.api(self.kube.host, self.kube_state, self.inputs.rendezvous_ip, self.settings.connect_timeout)

    def image_problems(self, *, whole: bool = False) -> tuple[str, ...]:
        """List reasons why hosts cannot pull the images that they need to come up."""
        return outside.image_problems(self.inputs.images, whole=whole) if self.inputs.images is not None else ()

    def _open_causes(self) -> tuple[str, ...]:
        """List a time-out's causes, the first ones: who is missing, what fails, the service's errors, or how far it
        came."""
        return self._causes() or (f"No failure was reported: {self.last_seen()}",)

    def _causes(self) -> tuple[str, ...]:
        address = self.inputs.rendezvous_ip
        if not self.rest_seen and self.wrong_service:
            return (self.wrong_service,)
        if not self.rest_seen:
            why = self._outside()
            if self.repeated_complaint is not None:
                # Between two attempts the host complains of nothing.
                complaint, at = self.repeated_complaint
                words = complaint.partition(" says: ")[2]
                ago = duration(round(time.monotonic() - at))
                why += f". It said {ago} before: {words}" if words not in why else ""
            return (
                *self.image_problems(whole=True),
                f"The rendezvous service was never reached: {self.rest_state}; {why}",
            )
        if self.metadata_error and self.cluster is None:
            # No list of hosts was ever read, so none of them can be blamed.
            return (f"The rendezvous service on {address} cannot say how far it is: {self.metadata_error}",)
        if self.unregistered:
            # Without a cluster and an infra-env no host can register.
            return (*self.unregistered, *self.image_problems(whole=True))
        causes = decide.missing(self.inputs.expected, self.hosts) if not self.rebooting else ()
        if causes:
            causes = (*decide.refused(self.report.events), *causes)
        if causes and not self.hosts:
            causes = (*self.image_problems(whole=True), *causes)
        if self.cluster and self.cluster.status in decide.BEFORE_INSTALL:
            causes += decide.others_instead(self.inputs.expected, self.hosts)
            causes += decide.causes(self.cluster, self.hosts)
        stuck = [
            f"Host {host.name} was at stage {host.stage}{f': {host.stage_info}' if host.stage_info else ''}"
            for host in self.hosts
            if host.stage and host.stage not in decide.REBOOTED
        ]
        # The service's work is done, and what it once complained of is no longer the cause.
        silent = (self._silent_api(),) if self.rebooting and not self.kube_seen and self.rest_state != "answers" else ()
        if not self.rebooting and self.rest_state != "answers":
            # What it said of its hosts before is of no installation that goes on.
            gone = f"The rendezvous service on {address} answers no more: {self.rest_state}; {self._outside()}"
            return (*causes, gone, *decide.recent_errors(self.report.events), *stuck)
        return (*causes, *silent, *decide.recent_errors(self.report.events), *stuck)

    def last_seen(self) -> str:
        """For a time-out, or an interrupting user: what was waited for, and what was seen last."""
        if self.kube_seen:
            parts = ["waited for ConfigMap kube-system/bootstrap to say complete", f"last seen: {self.config_map}"]
        elif self.rest_seen:
            parts = ["waited for the bootstrap's kube API to come up"]
        else:
            parts = [f"waited for the rendezvous service on {self.inputs.rendezvous_ip} to come up"]
        if self.cluster:
            parts.append(f"cluster was {self.cluster.status} ({self.cluster.status_info})")
        for host in self.hosts:
            parts.append(f"host {host.name} was {host.status}{f' at stage {host.stage}' if host.stage else ''}")
        parts += [f"rendezvous service: {self.rest_state}", f"kube API: {self.kube_state}"]
        return "; ".join(parts)

    def keep_evidence(self, *, logs_expected: bool) -> None:
        """Put all that is known into DIR/logs. Waits up to 2 min for logs that failed hosts are about to send."""
        try:
            if self.raw_cluster and logs_expected:
                self.await_uploads()
        finally:
            kept: dict[str, Any] = {EVENTS: self.report.events} if self.report.events else {}
            kept |= {"hosts.json": self.raw_hosts, "cluster.json": self.raw_cluster} if self.raw_cluster else {}
            for name, value in kept.items():
                self.evidence.put(name, value)
        if self.cluster and self.rest_state == "answers":
            self.evidence.archive(self.service, self.cluster.id)

    def await_uploads(self) -> None:
        """Wait for the logs of hosts that failed, for as long as the settings say."""
        deadline, limit = time.monotonic() + self.settings.logs_wait, self.settings.logs_wait
        while True:
            waiting = [h.name for h in self.hosts if h.status == HostStatus.ERROR and not h.logs_sent]
            if not waiting or time.monotonic() >= deadline:
                break
            self.report.once("awaited", f"Waiting up to {duration(limit)} for logs of {', '.join(waiting)}")
            time.sleep(self.settings.interval)
            try:
                infra_env = str(self.service.infra_envs()[0].get("id"))
                self._take_events(infra_env)
                self.raw_hosts = hosts_of_service(self.service, infra_env)
                self.hosts = self._ordered()
            except (ClientError, IndexError) as error:
                self.report.once("uploads", f"cannot look for uploaded logs: {error}", logging.DEBUG)
        if waiting:
            log.warning(f"No logs came from {', '.join(waiting)}")
