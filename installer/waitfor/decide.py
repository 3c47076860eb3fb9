"""Decisions of waiting for the bootstrap: pure functions over what was seen (reference/installer.md §8.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from installer.assisted.enums import ClusterStatus, HostStatus, Result, Severity, Stage
from installer.assisted.errors import ClientError, NoAnswer, Untrusted
from installer.assisted.stages import FAILS_AGAIN
from installer.assisted.validation_ids import ClusterValidation, HostValidation
from installer.common.macs import mistyped
from installer.observe.state import Expected
from installer.waitfor.model import Check, ClusterSeen, HostSeen

FRIENDLY: Mapping[str, str] = {
    ClusterStatus.ADDING_HOSTS: "Cluster is adding hosts",
    ClusterStatus.CANCELLED: "Cluster installation was cancelled",
    ClusterStatus.ERROR: "Cluster has hosts in error",
    ClusterStatus.FINALIZING: "Cluster installation is finalizing",
    ClusterStatus.INSTALLED: "Cluster is installed",
    ClusterStatus.INSTALLING: "Cluster installation in progress",
    ClusterStatus.INSTALLING_PENDING_USER_ACTION: "Cluster has hosts requiring user input",
    ClusterStatus.INSUFFICIENT: "Cluster is not ready for install. Check validations",
    ClusterStatus.PENDING_FOR_INPUT: "User input is required to continue cluster installation",
    ClusterStatus.PREPARING: "Cluster is preparing for installation",
    ClusterStatus.READY: "Cluster is ready for install",
}
# These never keep a host from being installed (installer.md §5.4, below the table of transitions).
WARNINGS = frozenset(
    {
        HostValidation.NTP_SYNCED,
        HostValidation.CONTAINER_IMAGES_AVAILABLE,
        HostValidation.MTU_VALID,
        HostValidation.RELEASE_DOMAIN_NAME_RESOLVED_CORRECTLY,
        HostValidation.INVENTORY_NOT_PARTIALLY_TRUNCATED,
    }
)
# A silent host may come back at any moment: waiting goes on, and the time-out names it.
PRESENCE = frozenset({HostValidation.CONNECTED, HostValidation.MEDIA_CONNECTED})
# Facts about the machine: no later report of the agent changes them unless somebody changes the machine.
LASTING = frozenset(
    {
        HostValidation.HAS_MIN_CPU_CORES,
        HostValidation.HAS_MIN_MEMORY,
        HostValidation.HAS_MIN_VALID_DISKS,
        HostValidation.HAS_CPU_CORES_FOR_ROLE,
        HostValidation.HAS_MEMORY_FOR_ROLE,
        HostValidation.COMPATIBLE_WITH_CLUSTER_PLATFORM,
        HostValidation.DISK_ENCRYPTION_REQUIREMENTS_SATISFIED,
        HostValidation.VSPHERE_DISK_UUID_ENABLED,
        HostValidation.SUFFICIENT_INSTALLATION_DISK_SPEED,
        HostValidation.INVENTORY_NOT_FULLY_TRUNCATED,
        HostValidation.NO_SKIP_INSTALLATION_DISK,
        HostValidation.NO_SKIP_MISSING_DISK,
        HostValidation.COMPATIBLE_AGENT,
    }
)
BEFORE_INSTALL = frozenset({ClusterStatus.INSUFFICIENT, ClusterStatus.PENDING_FOR_INPUT, ClusterStatus.READY})
MAJORITY = HostValidation.BELONGS_TO_MAJORITY_GROUP
MAJORITY_LEAST = 3
# OpenSSL's words for a certificate that is not yet valid, or has expired: the clocks differ.
OTHER_TIME = ("certificate is not yet valid", "certificate has expired")
MOST_NAMED = 5
MISTYPED = "is one of the two mistyped?"
ALL_READY = ClusterValidation.ALL_HOSTS_ARE_READY_TO_INSTALL
REBOOTED = frozenset({Stage.REBOOTING, Stage.WAITING_IGNITION, Stage.CONFIGURING, Stage.JOINED, Stage.DONE})
STATUS_ID = "status"

Fingerprint = frozenset[tuple[str, str]]


def friendly(status: str) -> str:
    """One short phrase for a cluster status; an unknown one is shown as it is."""
    return FRIENDLY.get(status, f"Cluster status is {status}")


def blocks(check: Check) -> bool:
    """Return whether this validation decides on whether the host can be installed."""
    return check.id not in WARNINGS and check.id not in PRESENCE


def failing(host: HostSeen) -> tuple[Check, ...]:
    """Failed validations that block the host."""
    return tuple(check for check in host.checks if check.failed and blocks(check))


def undecided(host: HostSeen, expected: Expected) -> bool:
    """Return whether some blocking validation is still to be decided, or the host has none at all yet."""
    open_ids = {check.id for check in host.checks if check.status == Result.PENDING and blocks(check)}
    if expected.count < MAJORITY_LEAST:
        # With fewer hosts the group is never computed (installer.md §5.4): it stays pending for good.
        open_ids.discard(MAJORITY)
    return bool(open_ids) or not host.checks


def cluster_failing(cluster: ClusterSeen) -> tuple[Check, ...]:
    """Failed validations of the cluster."""
    return tuple(check for check in cluster.checks if check.failed)


def stuck(cluster: ClusterSeen, hosts: Sequence[HostSeen], expected: Expected) -> Fingerprint | None:
    """Return the obstacle to a start, as (host or cluster id, validation id); None while it may still start.

    None unless all expected hosts have registered, nothing that blocks is pending, and something that blocks failed.
    """
    if cluster.status not in BEFORE_INSTALL or not hosts or len(hosts) < expected.count:
        return None
    if any(undecided(host, expected) for host in hosts):
        return None
    failures = {(host.id, check.id) for host in hosts for check in failing(host)}
    failures |= {(host.id, STATUS_ID) for host in hosts if host.status == HostStatus.INSUFFICIENT and not failing(host)}
    if any(host.status == HostStatus.DISCONNECTED for host in hosts):
        # Peers measured against a host that is away fail for that reason alone.
        failures = {pair for pair in failures if pair[1] in LASTING}
    elif not failures:
        failures = {(cluster.id, check.id) for check in cluster_failing(cluster) if check.id != ALL_READY}
    return frozenset(failures) or None


def lasting(fingerprint: Fingerprint) -> bool:
    """Return whether at least one of the failures is a fact about a machine."""
    return any(name in LASTING for _, name in fingerprint)


@dataclass
class Persistence:
    """Says when a fingerprint has stayed what it is for its period (seconds) over at least two evaluations."""

    period: float
    period_remeasured: float
    _last: Fingerprint | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def observe(self, fingerprint: Fingerprint | None, now: float) -> bool:
        """``now`` in seconds of a monotonic clock."""
        if fingerprint is None or fingerprint != self._last:
            self._last, self._since = fingerprint, now
            return False
        return now - self._since >= (self.period if lasting(fingerprint) else self.period_remeasured)


# Consequences of other hosts' troubles come last: a host that is cut off fails these, and so do its peers.
CONSEQUENCES = frozenset(
    {
        MAJORITY,
        HostValidation.SUFFICIENT_NETWORK_LATENCY_REQUIREMENT_FOR_ROLE,
        HostValidation.SUFFICIENT_PACKET_LOSS_REQUIREMENT_FOR_ROLE,
        ALL_READY,
        ClusterValidation.SUFFICIENT_MASTERS_COUNT,
    }
)


def _unlinked(host: HostSeen, hosts: Sequence[HostSeen]) -> frozenset[str]:
    """Ids of the hosts with which it has no link both ways: one that is cut off from all is the others' cause."""
    return frozenset(
        other.id
        for other in hosts
        if other is not host and (other.id not in host.reaches or host.id not in other.reaches)
    )


def _missing_links(host: HostSeen, hosts: Sequence[HostSeen]) -> str:
    """Return the end of a line: the hosts that a host has no link with; empty where nobody has any link."""
    unlinked = _unlinked(host, hosts)
    names = [other.name for other in hosts if other.id in unlinked][:MOST_NAMED]
    return f": no link with {', '.join(names)}" if names and any(other.reaches for other in hosts) else ""


def causes(cluster: ClusterSeen, hosts: Sequence[HostSeen]) -> tuple[str, ...]:
    """One line per host and failing validation, then one per failing validation of the cluster; causes first.

    A silent host gets a line if others fail because of it, or it has fallen silent before it said what it is.
    """
    lines = []
    silent = [host for host in hosts if host.status == HostStatus.DISCONNECTED]
    for host in sorted(hosts, key=lambda host: -len(_unlinked(host, hosts))):
        failures = failing(host)
        unheard = host in silent and any(check.id == HostValidation.HAS_INVENTORY for check in failures)
        for check in failures:
            apart = _missing_links(host, hosts) if check.id == MAJORITY else ""
            text = f"Host {host.name} validation {check.id} failed: {check.message}{apart}"
            lines.append((check.id in CONSEQUENCES or unheard, text))
        if not failures and host.status == HostStatus.INSUFFICIENT:
            lines.append((False, f"Host {host.name} is insufficient: {host.status_info}"))
    lines += [
        (check.id in CONSEQUENCES, f"Cluster validation {check.id} failed: {check.message}")
        for check in cluster_failing(cluster)
    ]
    own = tuple(text for follows, text in lines if not follows)
    others = tuple(text for follows, text in lines if follows)
    # Peers of a silent host fail because of it: it is named before the consequences.
    away = tuple(f"Host {host.name} is disconnected: {host.status_info}" for host in silent) if others else ()
    return (*own, *away, *others)


def recent_errors(events: Sequence[Mapping[str, Any]], most: int = 5) -> tuple[str, ...]:
    """Messages of the last events that are errors, the newest first, each once."""
    bad = [
        str(event.get("message") or "")
        for event in events
        if event.get("severity") in (Severity.ERROR, Severity.CRITICAL)
    ]
    return tuple(dict.fromkeys(text for text in reversed(bad) if text))[:most]


def refusal(error: ClientError, directory: Path) -> str:
    """Return the end of a line: the likely cause when something else has the service's address, or when the service
    rejects this asset directory's credentials; empty for an error that may pass."""
    if isinstance(error, Untrusted) and any(words in str(error) for words in OTHER_TIME):
        return "; is this machine's clock right?"
    refused = isinstance(error, Untrusted) or error.status in (401, 403)
    return f"; was the host booted from the image in {directory}?" if refused else ""


def not_the_service(error: ClientError, address: str, hint: str) -> str:
    """One line about what answers at the service's address without being the service; empty where nothing answers."""
    if isinstance(error, NoAnswer) and not isinstance(error, Untrusted):
        return ""
    return f"What answers on {address} does not serve as the rendezvous service of this image: {error}{hint}"


REFUSED = "host_registration_refused"
# The event of its refusal, and the unit that registers it.
REGISTERED_BY: Mapping[str, tuple[str, str]] = {
    "clusters": ("cluster_registration_failed", "agent-register-cluster.service"),
    "InfraEnvs": ("infra_env_registration_failed", "agent-register-infraenv.service"),
}


def _messages(events: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, ...]:
    texts = (str(event.get("message") or "") for event in reversed(events) if event.get("name") in names)
    return tuple(dict.fromkeys(text for text in texts if text))


def refused(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """One line per host that came and was not let in, the latest first."""
    return _messages(events, (REFUSED, "host_registration_failed"))


def unregistered(address: str, what: str, count: int, events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Explain why the service there has not one cluster or InfraEnv but ``count``: what it refused, else who has to
    bring it."""
    if count:
        return (f"{count} {what} are known to the service on {address}",)
    event, unit = REGISTERED_BY[what]
    who = f"{unit} of that host has to register it, and the host's console and journal tell why it has not"
    return _messages(events, (event,)) or (f"0 {what} are known to the service on {address}: {who}",)


def failed_hosts(hosts: Sequence[HostSeen]) -> tuple[str, ...]:
    """One line per host in error, with the stage it was at; first those that failed by themselves."""
    bad = [host for host in hosts if host.status == HostStatus.ERROR]
    # A host that merely goes down with its cluster says so; the one that caused it must be read first.
    bad.sort(key=lambda host: "part of a cluster" in host.status_info.lower())
    return tuple(
        f"Host {host.name} failed" + (f" at stage {host.stage}" if host.stage else "") + f": {host.status_info}"
        for host in bad
    )


def named(hosts: tuple[HostSeen, ...], expected: Expected) -> tuple[HostSeen, ...]:
    """Return the hosts; one that fell silent before it said what it is gets a name besides its id, where all others
    have said so and a single one of the expected is none of them."""
    seen = {mac for host in hosts for mac in host.macs}
    unheard = [host for host in hosts if not host.macs]
    left = [name or ", ".join(sorted(macs)) for name, macs in expected.macs if macs and not macs & seen]
    complete = len(hosts) == len(expected.macs) == expected.count
    if not complete or len(left) != 1 or [host.status for host in unheard] != [HostStatus.DISCONNECTED]:
        return hosts
    name = f"{unheard[0].name} (probably {left[0]})"
    return tuple(replace(host, name=name) if host is unheard[0] else host for host in hosts)


def missing(expected: Expected, hosts: Sequence[HostSeen], *, yet: bool = False) -> tuple[str, ...]:
    """List the expected hosts that never registered, or have not `yet`, a line each: by MAC or name, else by number."""
    short = expected.count - len(hosts)
    if short <= 0:
        return ()
    ends = ("has not registered yet", "have not registered yet") if yet else ("never registered", "never registered")
    single, several = (f"{end} ({len(hosts)} of {expected.count} expected hosts registered)" for end in ends)
    seen = {mac for host in hosts for mac in host.macs}
    present = {host.name for host in hosts}
    if expected.macs and seen:
        # Machines none of whose MAC addresses a registered host has, whatever the hosts call themselves.
        slips = _mistyped(expected, hosts)
        lines = [
            f"Host {name + ' ' if name else ''}with MAC address {', '.join(sorted(macs))} {single}"
            f"{slips.get(macs) or _switched_off(field, yet=yet)}{_at(field)}"
            # First those that have come as another machine: the others may still be on their way.
            for name, macs, field in sorted(expected.described(), key=lambda entry: entry[1] not in slips)
            if not macs & seen
        ][:short]
    else:
        names = [name for name in expected.names if name not in present and name.split(".")[0] not in present]
        if len(names) > short:
            # Hosts that did register under other names (DHCP, say) may be among those looked for.
            return (f"{short} of these hosts {several}: {', '.join(names)}",)
        lines = [f"Host {name} {single}" for name in names]
    if short > len(lines):
        what = "that the configuration does not describe" if expected.macs else "without a configured hostname"
        lines.append(f"{short - len(lines)} host(s) {what} {several}")
    return tuple(lines)


def _at(field: str) -> str:
    return f" ({field})" if field else ""


def _switched_off(field: str, *, yet: bool) -> str:
    """Return the end of a line about a missing host: the remedy, where the field of its MAC address is known."""
    return ": switch it on with the image, or correct its MAC address" if field and yet else ""


def _mistyped(expected: Expected, hosts: Sequence[HostSeen]) -> dict[frozenset[str], str]:
    """Return ends of lines about missing hosts, by their MAC addresses: each names the host that has registered with
    nearly the same MAC address, and that the configuration does not describe."""
    registered = {mac for host in hosts for mac in host.macs}
    absent = [macs for _, macs, _ in expected.described() if not macs & registered]
    strangers = _strangers(expected, hosts)
    return {
        absent[index]: f"; {strangers[slip.stranger].name} registered with {slip.mac}, {slip.words}: {MISTYPED}"
        for index, slip in mistyped(absent, [host.macs for host in strangers]).items()
    }


def _strangers(expected: Expected, hosts: Sequence[HostSeen]) -> list[HostSeen]:
    """Return the hosts that have sent their MAC addresses, and that the configuration does not describe."""
    described = {mac for _, macs in expected.macs for mac in macs}
    return [host for host in hosts if host.macs and not host.macs & described]


def surplus(expected: Expected, hosts: Sequence[HostSeen]) -> tuple[str, ...]:
    """One line when more hosts have registered than the configuration has replicas; names the strangers."""
    if len(hosts) <= expected.count:
        return ()
    described = {mac for _, macs in expected.macs for mac in macs}
    strangers = [host for host in hosts if described and not host.macs & described] or list(hosts)
    names = ", ".join(f"{host.name} ({', '.join(sorted(host.macs)) or host.id})" for host in strangers)
    which = "not described by the configuration" if described and len(strangers) < len(hosts) else "registered"
    return (f"{len(hosts)} hosts registered, the configuration has replicas for {expected.count}; {which}: {names}",)


def others_instead(expected: Expected, hosts: Sequence[HostSeen]) -> tuple[str, ...]:
    """One line per machine that the configuration describes and that is not among as many hosts as it has replicas for:
    another one was booted in its place, and the installation waits for the one that is described."""
    if len(hosts) < expected.count or not all(host.macs for host in hosts):
        # One whose inventory has not come may be any of them.
        return ()
    registered = {mac for host in hosts for mac in host.macs}
    described = {mac for _, macs in expected.macs for mac in macs}
    strangers = ", ".join(f"{h.name} ({', '.join(sorted(h.macs)) or h.id})" for h in hosts if not h.macs & described)
    if not strangers:
        return ()
    slips = _mistyped(expected, hosts)
    tally = f"{len(hosts)} hosts registered, not described by the configuration: {strangers}"
    return tuple(
        f"Host {name + ' ' if name else ''}with MAC address {', '.join(sorted(macs))} never registered ({tally})"
        f"{slips.get(macs, '')}{_at(field)}"
        for name, macs, field in expected.described()
        if not registered & macs
    )


def all_known(hosts: Sequence[HostSeen], expected: Expected) -> bool:
    """Return whether all expected hosts have registered and passed."""
    return bool(hosts) and len(hosts) >= expected.count and all(host.status == HostStatus.KNOWN for host in hosts)


def rebooted(hosts: Sequence[HostSeen]) -> bool:
    """Return whether the rendezvous host has come to its reboot (before one is chosen: any host)."""
    bootstraps = [host for host in hosts if host.bootstrap]
    return any(host.stage in REBOOTED for host in bootstraps or hosts)


def fails_again(host: HostSeen) -> str:
    """One line about a host whose stage fails each time it is tried; empty for any other."""
    at = f"Host {host.name} is at stage {host.stage}: {host.stage_info}"
    return at if host.stage_info.startswith(FAILS_AGAIN) else ""


def stages_in_words(hosts: Sequence[HostSeen]) -> str:
    """Each host's stage with its progress info, in words; empty where none is installing."""
    return "; ".join(
        f"host {host.name} is at stage {host.stage}{f': {host.stage_info}' if host.stage_info else ''}"
        for host in hosts
        if host.stage and host.stage != Stage.DONE
    )
