"""A host's validations as one table (installer.md §5.4): id, category and a small function each.

A function gets the view and the inventory (None only where the table says so) and gives a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.inventory import Inventory
from installer.assisted.validation_ids import OPERATORS, of_operator
from installer.assisted.validation_ids import HostValidation as V
from installer.rendezvous.store.documents import Info, ValidationIds
from installer.rendezvous.store.model import Cluster
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations import names
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.hostview import HostView
from installer.rendezvous.validations.verdict import (
    SUPPRESSED,
    Verdict,
    Verdicts,
    as_info,
    failure,
    overridden,
    pending,
    success,
)

# The verdict of validations that need an inventory while there is none.
MISSING, MISSING_ROLE = pending("Missing inventory"), pending("Missing inventory or role")
# Without these nothing can be installed at all, whatever the user says. node0 is stricter than OpenShift by the last
# three: what cannot be read cannot be installed, and a disk that the user wants left alone must be told from those to
# be formatted, and not be the one to be installed on.
NOT_IGNORABLE = frozenset(
    {
        *(V.CONNECTED, V.HAS_INVENTORY, V.MACHINE_CIDR_DEFINED, V.HOSTNAME_UNIQUE, V.HOSTNAME_VALID),
        *(V.MEDIA_CONNECTED, V.NO_SKIP_MISSING_DISK, V.NO_SKIP_INSTALLATION_DISK),
    }
)


class Validation(NamedTuple):
    """One line of the table; ``missing``: the verdict while there is no inventory, None when the check knows itself."""

    id: str
    category: Category
    check: Callable[[HostView, Inventory], Verdict] | Callable[[HostView], Verdict]
    missing: Verdict | None = MISSING


def operator_verdict(cluster: Cluster, name: str, unreported: Collection[str] = ("ocs",)) -> Verdict:
    """Judge an operator: it must not be asked for. Those that upstream does not report are not shown (ocs is odf)."""
    plain = {"numa-resources": "numaresources"}.get(name, name)
    if any(item.get("name") == plain for item in cluster.olm_operators):
        return failure(f"Operator {plain} cannot be installed by this service")
    return SUPPRESSED if plain in unreported else success(f"{plain} is disabled")


def _operator(name: str) -> Callable[[HostView], Verdict]:
    return lambda view: operator_verdict(view.cluster, name)


TABLE: tuple[Validation, ...] = (
    Validation(V.CONNECTED, Category.NETWORK, net.connected, None),
    Validation(V.MEDIA_CONNECTED, Category.HARDWARE, hw.media_connected, None),
    Validation(V.HAS_INVENTORY, Category.HARDWARE, hw.has_inventory, None),
    Validation(V.INVENTORY_NOT_PARTIALLY_TRUNCATED, Category.HARDWARE, hw.not_partially_truncated),
    Validation(V.INVENTORY_NOT_FULLY_TRUNCATED, Category.HARDWARE, hw.not_fully_truncated),
    Validation(V.HAS_MIN_CPU_CORES, Category.HARDWARE, hw.min_cpu),
    Validation(V.HAS_MIN_VALID_DISKS, Category.HARDWARE, hw.min_disks),
    Validation(V.HAS_MIN_MEMORY, Category.HARDWARE, hw.min_memory),
    Validation(V.MACHINE_CIDR_DEFINED, Category.NETWORK, net.machine_cidr_defined, None),
    Validation(V.HAS_CPU_CORES_FOR_ROLE, Category.HARDWARE, hw.role_cpu, MISSING_ROLE),
    Validation(V.HAS_MEMORY_FOR_ROLE, Category.HARDWARE, hw.role_memory, MISSING_ROLE),
    Validation(V.HOSTNAME_UNIQUE, Category.HARDWARE, hw.hostname_unique),
    Validation(V.HOSTNAME_VALID, Category.HARDWARE, hw.hostname_valid, failure("Missing inventory")),
    Validation(V.BELONGS_TO_MACHINE_CIDR, Category.NETWORK, net.belongs_to_machine_cidr, None),
    Validation(V.IGNITION_DOWNLOADABLE, Category.NETWORK, net.ignition_downloadable, None),
    Validation(V.BELONGS_TO_MAJORITY_GROUP, Category.NETWORK, net.majority_group, None),
    Validation(V.VALID_PLATFORM_NETWORK_SETTINGS, Category.HARDWARE, hw.platform_network),
    Validation(V.NTP_SYNCED, Category.NETWORK, net.ntp_synced, None),
    Validation(V.TIME_SYNCED_BETWEEN_HOST_AND_SERVICE, Category.NETWORK, net.time_synced, None),
    Validation(V.CONTAINER_IMAGES_AVAILABLE, Category.NETWORK, net.images_available, None),
    Validation(V.SUFFICIENT_INSTALLATION_DISK_SPEED, Category.HARDWARE, hw.disk_speed, None),
    Validation(V.SUFFICIENT_NETWORK_LATENCY_REQUIREMENT_FOR_ROLE, Category.NETWORK, net.latency, None),
    Validation(V.SUFFICIENT_PACKET_LOSS_REQUIREMENT_FOR_ROLE, Category.NETWORK, net.packet_loss, None),
    Validation(
        V.HAS_DEFAULT_ROUTE, Category.NETWORK, net.default_route, pending("Missing default routing information.")
    ),
    Validation(V.API_DOMAIN_NAME_RESOLVED_CORRECTLY, Category.NETWORK, names.domain("api"), None),
    Validation(V.API_INT_DOMAIN_NAME_RESOLVED_CORRECTLY, Category.NETWORK, names.domain("api-int"), None),
    Validation(V.APPS_DOMAIN_NAME_RESOLVED_CORRECTLY, Category.NETWORK, names.domain("apps"), None),
    Validation(V.RELEASE_DOMAIN_NAME_RESOLVED_CORRECTLY, Category.NETWORK, names.release_domain, None),
    Validation(
        V.COMPATIBLE_WITH_CLUSTER_PLATFORM,
        Category.HARDWARE,
        hw.platform,
        pending("Missing inventory or platform isn't set"),
    ),
    Validation(V.DNS_WILDCARD_NOT_CONFIGURED, Category.NETWORK, names.no_wildcard, None),
    Validation(V.DISK_ENCRYPTION_REQUIREMENTS_SATISFIED, Category.HARDWARE, hw.disk_encryption, None),
    Validation(V.NON_OVERLAPPING_SUBNETS, Category.NETWORK, net.no_overlap),
    Validation(V.VSPHERE_DISK_UUID_ENABLED, Category.HARDWARE, hw.vsphere_uuid, None),
    Validation(V.COMPATIBLE_AGENT, Category.HARDWARE, hw.compatible_agent, None),
    Validation(V.NO_SKIP_INSTALLATION_DISK, Category.HARDWARE, hw.no_skip_installation_disk, None),
    Validation(
        V.NO_SKIP_MISSING_DISK, Category.HARDWARE, hw.no_skip_missing_disk, pending("Host inventory not available yet")
    ),
    Validation(V.NO_IP_COLLISIONS_IN_NETWORK, Category.NETWORK, net.no_ip_collisions, None),
    Validation(V.NO_ISCSI_NIC_BELONGS_TO_MACHINE_CIDR, Category.NETWORK, net.no_iscsi_nic, None),
    Validation(V.MTU_VALID, Category.NETWORK, net.mtu_valid, None),
    *(Validation(of_operator(name), Category.OPERATORS, _operator(name), None) for name in OPERATORS),
)
_CATEGORIES = {line.id: line.category for line in TABLE}
# Validations that look at the host alone.
UNBOUND = tuple(
    line
    for line in TABLE
    if line.id
    in {
        *(V.CONNECTED, V.MEDIA_CONNECTED, V.HAS_INVENTORY, V.HAS_MIN_CPU_CORES, V.HAS_MIN_VALID_DISKS),
        *(V.HAS_MIN_MEMORY, V.INVENTORY_NOT_PARTIALLY_TRUNCATED, V.INVENTORY_NOT_FULLY_TRUNCATED, V.COMPATIBLE_AGENT),
        *(V.HOSTNAME_VALID, V.HAS_DEFAULT_ROUTE, V.NTP_SYNCED, V.TIME_SYNCED_BETWEEN_HOST_AND_SERVICE),
    }
)


def evaluate(view: HostView) -> Verdicts:
    """Verdicts by id, in the table's order. Ignored validations turn a failure into ``disabled``."""
    verdicts: dict[str, Verdict] = {}
    skipped = ignored(view.joined.ignored_host_validations) if view.joined else frozenset[str]()
    for line in TABLE if view.joined else UNBOUND:
        if line.missing is None:
            verdict = line.check(view)  # type: ignore[call-arg]
        elif view.inventory is None:
            verdict = line.missing
        else:
            verdict = line.check(view, view.inventory)  # type: ignore[call-arg]
        verdicts[line.id] = overridden(line.id, verdict, skipped, NOT_IGNORABLE)
    return verdicts


def info_of(verdicts: Verdicts) -> Info:
    """Return the verdicts as the API shows them."""
    return as_info(verdicts, _CATEGORIES)


def ignored(ids: ValidationIds) -> frozenset[str]:
    """Return a cluster's ``ignored_*_validations``: ids, ``all`` for every one."""
    return frozenset(ids.value or ())
