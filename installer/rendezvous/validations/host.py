"""A host's validations as one table (installer.md §5.4): id, category and a small function each.

A function gets the view and the inventory (None only where the table says so) and gives a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.inventory import Inventory
from installer.rendezvous.states.host import OPERATORS
from installer.rendezvous.store.documents import Info, ValidationIds
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.hostview import HostView
from installer.rendezvous.validations.verdict import (
    Verdict,
    Verdicts,
    as_info,
    failure,
    overridden,
    pending,
    success,
)

# What is said of all that needs an inventory while there is none.
MISSING = pending("Missing inventory")
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
    category: Category
    check: Callable[[HostView, Inventory], Verdict] | Callable[[HostView], Verdict]
    needs_inventory: bool = True


def _operator(name: str) -> Callable[[HostView], Verdict]:
    plain = name.removesuffix("-requirements-satisfied")
    absent = success(f"{plain} is not requested")

    def check(view: HostView) -> Verdict:
        if any(item.get("name") == plain for item in view.cluster.olm_operators):
            return failure(f"Operator {plain} cannot be installed by this service")
        return absent

    return check


TABLE: tuple[Validation, ...] = (
    Validation("connected", Category.NETWORK, net.connected, False),
    Validation("media-connected", Category.HARDWARE, hw.media_connected, False),
    Validation("has-inventory", Category.HARDWARE, hw.has_inventory, False),
    Validation("inventory-not-partially-truncated", Category.HARDWARE, hw.not_partially_truncated),
    Validation("inventory-not-fully-truncated", Category.HARDWARE, hw.not_fully_truncated),
    Validation("has-min-cpu-cores", Category.HARDWARE, hw.min_cpu),
    Validation("has-min-valid-disks", Category.HARDWARE, hw.min_disks),
    Validation("has-min-memory", Category.HARDWARE, hw.min_memory),
    Validation("machine-cidr-defined", Category.NETWORK, net.machine_cidr_defined, False),
    Validation("has-cpu-cores-for-role", Category.HARDWARE, hw.role_cpu),
    Validation("has-memory-for-role", Category.HARDWARE, hw.role_memory),
    Validation("hostname-unique", Category.HARDWARE, hw.hostname_unique),
    Validation("hostname-valid", Category.HARDWARE, hw.hostname_valid),
    Validation("belongs-to-machine-cidr", Category.NETWORK, net.belongs_to_machine_cidr),
    Validation("ignition-downloadable", Category.NETWORK, net.ignition_downloadable, False),
    Validation("belongs-to-majority-group", Category.NETWORK, net.majority_group, False),
    Validation("valid-platform-network-settings", Category.HARDWARE, hw.platform_network),
    Validation("ntp-synced", Category.NETWORK, net.ntp_synced, False),
    Validation("time-synced-between-host-and-service", Category.NETWORK, net.time_synced),
    Validation("container-images-available", Category.NETWORK, net.images_available, False),
    Validation("sufficient-installation-disk-speed", Category.HARDWARE, hw.disk_speed),
    Validation("sufficient-network-latency-requirement-for-role", Category.NETWORK, net.latency, False),
    Validation("sufficient-packet-loss-requirement-for-role", Category.NETWORK, net.packet_loss, False),
    Validation("has-default-route", Category.NETWORK, net.default_route),
    Validation("api-domain-name-resolved-correctly", Category.NETWORK, net.domain("api"), False),
    Validation("api-int-domain-name-resolved-correctly", Category.NETWORK, net.domain("api-int"), False),
    Validation("apps-domain-name-resolved-correctly", Category.NETWORK, net.domain("apps"), False),
    Validation("release-domain-name-resolved-correctly", Category.NETWORK, net.release_domain, False),
    Validation("compatible-with-cluster-platform", Category.HARDWARE, hw.platform),
    Validation("dns-wildcard-not-configured", Category.NETWORK, net.no_wildcard, False),
    Validation("disk-encryption-requirements-satisfied", Category.HARDWARE, hw.disk_encryption),
    Validation("non-overlapping-subnets", Category.NETWORK, net.no_overlap),
    Validation("vsphere-disk-uuid-enabled", Category.HARDWARE, hw.vsphere_uuid),
    Validation("compatible-agent", Category.HARDWARE, hw.compatible_agent, False),
    Validation("no-skip-installation-disk", Category.HARDWARE, hw.no_skip_installation_disk),
    Validation("no-skip-missing-disk", Category.HARDWARE, hw.no_skip_missing_disk),
    Validation("no-ip-collisions-in-network", Category.NETWORK, net.no_ip_collisions),
    Validation("no-iscsi-nic-belongs-to-machine-cidr", Category.NETWORK, net.no_iscsi_nic),
    Validation("mtu-valid", Category.NETWORK, net.mtu_valid, False),
    *(Validation(name, Category.OPERATORS, _operator(name), False) for name in OPERATORS),
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


def evaluate(view: HostView) -> Verdicts:
    """Verdicts by id, in the table's order. Ignored validations turn a failure into ``disabled``."""
    verdicts: dict[str, Verdict] = {}
    skipped = ignored(view.cluster.ignored_host_validations)
    for line in TABLE if view.cluster.id else UNBOUND:
        if not line.needs_inventory:
            verdict = line.check(view)  # type: ignore[call-arg]
        elif view.inventory is None:
            verdict = MISSING
        else:
            verdict = line.check(view, view.inventory)  # type: ignore[call-arg]
        verdicts[line.id] = overridden(line.id, verdict, skipped, NOT_IGNORABLE)
    return verdicts


def info_of(verdicts: Verdicts) -> Info:
    """The verdicts as the API shows them."""
    return as_info(verdicts, TABLE)


def ignored(ids: ValidationIds) -> frozenset[str]:
    """A cluster's ``ignored_*_validations``: ids, ``all`` for every one."""
    return frozenset(ids.value or ())
