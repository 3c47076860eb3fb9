"""Turns what changed between two evaluations into log lines (reference/installer.md §8.1)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from installer.assisted.enums import ClusterStatus, HostStatus, Result, Severity
from installer.observe.state import Places
from installer.waitfor import decide, remedies
from installer.waitfor.model import Check, ClusterSeen, HostSeen

log = logging.getLogger("installer.waitfor")
TRACE = 5
# A stage's percentage: the first of a stage is news, the others are for who looks closely.
_PERCENTAGE = re.compile(r"(.*reached installation stage .+): \d+%")
# A host's failing validations are lines of their own; in an event they hide its end, and each other.
_FAILING = re.compile(r"(Host .+: updated status from \S+ to \S+) \(Host cannot be installed due to .*\)", re.DOTALL)
_VALIDATION = re.compile(r"(.*[Vv]alidation '.+') (that used to succeed is now failing|is now fixed)")


def _identity(event: Mapping[str, Any]) -> list[str]:
    """Return what tells events of two installations apart. A kept message may lack secrets."""
    return [str(event.get(field)) for field in ("event_time", "name", "host_id", "cluster_id")]


class Reporter:
    """A log of changes, each of which is logged once. `known`: the first events, as an earlier command for the same
    installation has kept them when it logged them. `places`: fields of the inputs, for causes."""

    def __init__(self, known: Sequence[Mapping[str, Any]] = (), places: Places | None = None) -> None:
        self._places = places or Places()
        self.events: list[dict[str, Any]] = []
        self._known = [_identity(event) for event in known]
        self._begun: set[str] = set()  # stages whose percentages come, and validations that were reported as failing
        self._last_texts: dict[str, str] = {}
        self._checks: dict[tuple[str, str], Check] = {}
        self._status = ""

    def once(self, topic: str, text: str, level: int = logging.INFO, *, key: str = "") -> None:
        """Log ``text`` unless it was the last text of this ``topic``; an empty text forgets the topic. Texts with the
        same ``key`` are the same."""
        if text and self._last_texts.get(topic) != (key or text):
            log.log(level, text)
        self._last_texts[topic] = key or text

    def new_events(self, events: Sequence[dict[str, Any]]) -> bool:
        """Log and keep the new events. Returns whether there were any."""
        for event in events:
            number = len(self.events)
            self.events.append(event)
            text = str(event.get("message") or event.get("name") or "")
            if failing := _FAILING.fullmatch(text):
                log.debug(text)
                text = failing[1]
            if not self._is_news(text) or self._known[number : number + 1] == [_identity(event)]:
                log.debug(text)
            else:
                log.log(logging.INFO if event.get("severity") == Severity.INFO else logging.WARNING, text)
        return bool(events)

    def _is_news(self, text: str) -> bool:
        """Return whether this is neither a further percentage of a stage nor the mend of what was never broken."""
        if percentage := _PERCENTAGE.fullmatch(text):
            seen = percentage[1] in self._begun
            self._begun.add(percentage[1])
            return not seen
        if validation := _VALIDATION.fullmatch(text):
            if validation[2] == "is now fixed":
                return validation[1] in self._begun
            self._begun.add(validation[1])
        return True

    def validations(self, cluster: ClusterSeen, hosts: Sequence[HostSeen]) -> None:
        """Log validations that are new or whose message changed, consequences of others last."""
        checks = [(host.id, f"Host {host.name} validation: ", check) for host in hosts for check in host.checks]
        checks += [(cluster.id, "Cluster validation: ", check) for check in cluster.checks]
        for owner, prefix, check in sorted(checks, key=lambda entry: entry[2].id in decide.CONSEQUENCES):
            self._validation(owner, prefix, check)

    def _validation(self, owner: str, prefix: str, check: Check) -> None:
        before = self._checks.get((owner, check.id))
        self._checks[(owner, check.id)] = check
        text = remedies.explained(prefix + check.message, self._places) if check.failed else prefix + check.message
        if before is None:
            success = logging.DEBUG if check.status == Result.SUCCESS else TRACE
            log.log(logging.WARNING if check.failed else success, text)
        elif before.message != check.message:
            if check.failed:
                log.warning(text)
            elif check.status == Result.SUCCESS and before.failed:
                log.info(text)
            else:
                log.log(TRACE, text)

    def status(self, cluster: ClusterSeen, hosts: Sequence[HostSeen]) -> None:
        """Log a change of the cluster's status."""
        before, self._status = self._status, cluster.status
        if before == cluster.status:
            return
        log.info(decide.friendly(cluster.status))
        if before == ClusterStatus.PREPARING and cluster.status == ClusterStatus.READY:
            log.info(f"Failed to prepare cluster installation, retrying: {cluster.status_info}")
        if cluster.status == ClusterStatus.INSTALLING_PENDING_USER_ACTION:
            for host in hosts:
                if host.status == HostStatus.INSTALLING_PENDING_USER_ACTION:
                    log.warning(f"Host {host.name} {host.status_info}")
            log.info("Cluster has stopped installing, working to recover installation")
