"""Hosts that run from the agent ISO, until they run from their disks: as the rendezvous service tells it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from installer.assisted.client import AssistedClient
from installer.assisted.enums import HostStatus, Stage
from installer.assisted.errors import ClientError
from installer.ipi.targets import Target
from installer.observe.service import hosts as hosts_of_service
from installer.waitfor.decide import REBOOTED
from installer.waitfor.model import HostSeen, host_of

log = logging.getLogger("installer.ipi.follow")

# The rendezvous host's reboot takes its service away, perhaps before anybody has read that it reboots; a host that was
# writing its disk then has time for that.
GONE_SECONDS, WRITING_SECONDS = 30.0, 300.0


class Follower:
    """The last that the service said about hosts; one look at a time."""

    def __init__(self, service: AssistedClient) -> None:
        self._service = service
        self._seen: dict[str, HostSeen] = {}
        self._answered: float | None = None
        self.problem = "it was not asked yet"

    def look(self) -> None:
        """Ask the service once; `problem` says why it did not tell."""
        try:
            infra_envs = self._service.infra_envs()
            raw = hosts_of_service(self._service, str(infra_envs[0].get("id"))) if infra_envs else []
        except ClientError as error:
            self.problem = str(error)
            return
        self.problem, self._answered = "", time.monotonic()
        for host in map(host_of, raw):
            if host.id not in self._seen:
                log.debug("host %s has registered", host.name)
            self._seen[host.id] = host

    def host(self, target: Target) -> HostSeen | None:
        """Return a machine's host, by its MAC address or its name."""
        hosts = list(self._seen.values())
        by_mac = [host for host in hosts if target.mac and target.mac in host.macs]
        return next(iter(by_mac or [host for host in hosts if host.name == target.name]), None)

    def left(self, target: Target) -> bool:
        """Tell whether a machine runs from its disk, or is about to."""
        host = self.host(target)
        if host is None or self._answered is None:
            return False
        silent = time.monotonic() - self._answered
        writing = host.stage in (Stage.WRITING, Stage.COPYING)
        return host.stage in REBOOTED or (writing and silent > (GONE_SECONDS if host.bootstrap else WRITING_SECONDS))

    def failed(self, targets: Iterable[Target]) -> list[str]:
        """List the machines whose installation has failed, a line each."""
        seen = ((target, self.host(target)) for target in targets)
        return [
            f"{target.name}: its installation failed: {host.status_info or host.stage_info}"
            for target, host in seen
            if host and (host.status == HostStatus.ERROR or host.stage == Stage.FAILED)
        ]
