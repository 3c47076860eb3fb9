"""A host's validations as one table (installer.md §5.4): id, category and a small function each.

A function gets the view and the inventory (None only where the table says so) and gives (result, message).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from installer.assisted.enums import GOOD, Result
from installer.assisted.inventory import Inventory
from installer.rendezvous.states.host import OPERATORS
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.hostview import HostView, load_json

Verdict = tuple[Result, str]
# Without these nothing can be installed at all, whatever the user says. node0 is stricter than OpenShift by the last
# three: what cannot be read cannot be installed, and a disk that the user wants left alone must be told from those to
# be formatted, and not be the one to be installed on.
NOT_IGNORABLE = frozenset(
    {
        *("connected", "has-inventory", "machine-cidr-defined", "hostname-unique", "hostname-valid"),
        *("media-connected", "no-skip-missing-disk", "no-skip-installation-disk"),
    }
)


class Validation(NamedTuple):
    """One line of the table; ``needs_inventory``: pending while there is no inventory."""

    id: str
    category: str
    check: Callable[[HostView, Inventory], Verdict] | Callable[[HostView], Verdict]
    needs_inventory: bool = True


def _operator(name: str) -> Callable[[HostView], Verdict]:
    plain = name.removesuffix("-requirements-satisfied")
    absent = Result.SUCCESS, f"{plain} is not requested"

    def check(view: HostView) -> Verdict:
        if any(item.get("name") == plain for item in view.cluster.olm_operators):
            return Result.FAILURE, f"Operator {plain} cannot be installed by this service"
        return absent

    return check


TABLE: tuple[Validation, ...] = (
    Validation("connected", "network", net.connected, False),
    Validation("media-connected", "hardware", hw.media_connected, False),
    Validation("has-inventory", "hardware", hw.has_inventory, False),
    Validation("inventory-not-partially-truncated", "hardware", hw.not_partially_truncated),
    Validation("inventory-not-fully-truncated", "hardware", hw.not_fully_truncated),
    Validation("has-min-cpu-cores", "hardware", hw.min_cpu),
    Validation("has-min-valid-disks", "hardware", hw.min_disks),
    Validation("has-min-memory", "hardware", hw.min_memory),
    Validation("machine-cidr-defined", "network", net.machine_cidr_defined, False),
    Validation("has-cpu-cores-for-role", "hardware", hw.role_cpu),
    Validation("has-memory-for-role", "hardware", hw.role_memory),
    Validation("hostname-unique", "hardware", hw.hostname_unique),
    Validation("hostname-valid", "hardware", hw.hostname_valid),
    Validation("belongs-to-machine-cidr", "network", net.belongs_to_machine_cidr),
    Validation("ignition-downloadable", "network", net.ignition_downloadable, False),
    Validation("belongs-to-majority-group", "network", net.majority_group, False),
    Validation("valid-platform-network-settings", "hardware", hw.platform_network),
    Validation("ntp-synced", "network", net.ntp_synced, False),
    Validation("time-synced-between-host-and-service", "network", net.time_synced),
    Validation("container-images-available", "network", net.images_available, False),
    Validation("sufficient-installation-disk-speed", "hardware", hw.disk_speed),
    Validation("sufficient-network-latency-requirement-for-role", "network", net.latency, False),
    Validation("sufficient-packet-loss-requirement-for-role", "network", net.packet_loss, False),
    Validation("has-default-route", "network", net.default_route),
    Validation("api-domain-name-resolved-correctly", "network", net.domain("api"), False),
    Validation("api-int-domain-name-resolved-correctly", "network", net.domain("api-int"), False),
    Validation("apps-domain-name-resolved-correctly", "network", net.domain("apps"), False),
    Validation("release-domain-name-resolved-correctly", "network", net.release_domain, False),
    Validation("compatible-with-cluster-platform", "hardware", hw.platform),
    Validation("dns-wildcard-not-configured", "network", net.no_wildcard, False),
    Validation("disk-encryption-requirements-satisfied", "hardware", hw.disk_encryption),
    Validation("non-overlapping-subnets", "network", net.no_overlap),
    Validation("vsphere-disk-uuid-enabled", "hardware", hw.vsphere_uuid),
    Validation("compatible-agent", "hardware", hw.compatible_agent, False),
    Validation("no-skip-installation-disk", "hardware", hw.no_skip_installation_disk),
    Validation("no-skip-missing-disk", "hardware", hw.no_skip_missing_disk),
    Validation("no-ip-collisions-in-network", "network", net.no_ip_collisions),
    Validation("no-iscsi-nic-belongs-to-machine-cidr", "network", net.no_iscsi_nic),
    Validation("mtu-valid", "network", net.mtu_valid, False),
    *(Validation(name, "operators", _operator(name), False) for name in OPERATORS),
)


# Those that look at nothing but the host itself.
UNBOUND = tuple(
    line
    for line in TABLE
    if line.id
    in {
        *("connected", "media-connected", "has-inventory", "has-min-cpu-cores", "has-min-valid-disks"),
        *("has-min-memory", "inventory-not-partially-truncated", "inventory-not-fully-truncated", "compatible-agent"),
        *("hostname-valid", "has-default-route", "ntp-synced", "time-synced-between-host-and-service"),
    }
)


def evaluate(view: HostView) -> dict[str, tuple[str, Result, str]]:
    """Verdicts by id: (category, result, message). Ignored validations turn a failure into ``disabled``."""
    verdicts: dict[str, tuple[str, Result, str]] = {}
    skipped = ignored(view.cluster.ignored_host_validations)
    for line in TABLE if view.cluster.id else UNBOUND:
        result: Result
        if not line.needs_inventory:
            result, message = line.check(view)  # type: ignore[call-arg]
        elif view.inventory is None:
            result, message = Result.PENDING, "Missing inventory"
        else:
            result, message = line.check(view, view.inventory)  # type: ignore[call-arg]
        verdicts[line.id] = (line.category, *overridden(line.id, result, message, skipped, NOT_IGNORABLE))
    return verdicts


def ignored(text: str) -> frozenset[str]:
    """Ids from a cluster's ``ignored_*_validations``: a JSON list in text, ``["all"]`` for every one."""
    return frozenset(str(item) for item in load_json(text) or ()) if text else frozenset()


def overridden(
    name: str, result: Result, message: str, skipped: frozenset[str], never: frozenset[str]
) -> tuple[Result, str]:
    """A failing or open verdict that the user chose to ignore is ``disabled``; some cannot be ignored."""
    if not skipped or result in GOOD or name in never or not skipped & {name, "all"}:
        return result, message
    return Result.DISABLED, f"Ignored by the user: {message}"


def as_info(verdicts: Mapping[str, tuple[str, Result, str]]) -> dict[str, list[dict[str, str]]]:
    """The shape of ``validations_info``: lists by category."""
    info: dict[str, list[dict[str, str]]] = {}
    for name, (category, result, message) in verdicts.items():
        info.setdefault(category, []).append({"id": name, "status": result.value, "message": message})
    return info
