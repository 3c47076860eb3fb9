"""The validations as tables: who judges what, what waits for an inventory, and what a user may ignore."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple

import msgspec
import pytest

from installer.assisted.enums import HostStatus, Result
from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.validation_ids import ClusterValidation, HostValidation
from installer.rendezvous.states.host import OPERATORS
from installer.rendezvous.store.documents import ValidationIds
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.rendezvous.validations.verdict import Info, Verdict, as_info, overridden
from installer.testing.engine.verdict_kit import cluster_view, host_view

OK, BAD, PENDING, OFF = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.DISABLED
HARDWARE = """
media-connected has-inventory inventory-not-partially-truncated inventory-not-fully-truncated has-min-cpu-cores
has-min-valid-disks has-min-memory has-cpu-cores-for-role has-memory-for-role hostname-unique hostname-valid
valid-platform-network-settings sufficient-installation-disk-speed compatible-with-cluster-platform
disk-encryption-requirements-satisfied vsphere-disk-uuid-enabled compatible-agent no-skip-installation-disk
no-skip-missing-disk
"""
NETWORK = """
connected machine-cidr-defined belongs-to-machine-cidr ignition-downloadable belongs-to-majority-group ntp-synced
time-synced-between-host-and-service container-images-available sufficient-network-latency-requirement-for-role
sufficient-packet-loss-requirement-for-role has-default-route api-domain-name-resolved-correctly
api-int-domain-name-resolved-correctly apps-domain-name-resolved-correctly release-domain-name-resolved-correctly
dns-wildcard-not-configured non-overlapping-subnets no-ip-collisions-in-network no-iscsi-nic-belongs-to-machine-cidr
mtu-valid
"""
# What waits for an inventory, or for other answers of the host.
WAITING = """
inventory-not-partially-truncated inventory-not-fully-truncated has-min-cpu-cores has-min-valid-disks has-min-memory
has-cpu-cores-for-role has-memory-for-role hostname-unique belongs-to-machine-cidr belongs-to-majority-group
valid-platform-network-settings time-synced-between-host-and-service has-default-route non-overlapping-subnets
sufficient-network-latency-requirement-for-role sufficient-packet-loss-requirement-for-role
compatible-with-cluster-platform dns-wildcard-not-configured no-skip-missing-disk mtu-valid
"""
UNBOUND = """
connected media-connected has-inventory has-min-cpu-cores has-min-valid-disks has-min-memory
inventory-not-partially-truncated inventory-not-fully-truncated compatible-agent hostname-valid has-default-route
ntp-synced time-synced-between-host-and-service
"""
# What does not concern such a host is not shown.
UNTOLD = """
ignition-downloadable release-domain-name-resolved-correctly disk-encryption-requirements-satisfied
vsphere-disk-uuid-enabled no-iscsi-nic-belongs-to-machine-cidr ocs-requirements-satisfied
"""
CLUSTER = {
    "network": """machine-cidr-defined cluster-cidr-defined service-cidr-defined no-cidrs-overlapping
networks-same-address-families network-prefix-valid machine-cidr-equals-to-calculated-cidr api-vips-defined
api-vips-valid ingress-vips-defined ingress-vips-valid dns-domain-defined ntp-server-configured network-type-valid""",
    "hosts-data": "all-hosts-are-ready-to-install sufficient-masters-count",
    "configuration": "pull-secret-set custom-manifests-requirements-satisfied platform-requirements-satisfied",
}


def by_category(info: Info) -> dict[str, set[str]]:
    return {category.value: {entry.id for entry in entries} for category, entries in info.items()}


def test_a_hosts_validations_by_category() -> None:
    untold = set(UNTOLD.split())
    verdicts = hv.evaluate(host_view())
    assert {name for name, verdict in verdicts.items() if verdict.result is Result.SUPPRESSED} == untold
    with_silent = {name: Verdict(OK, "") if name in untold else verdict for name, verdict in verdicts.items()}
    categories = by_category(hv.info_of(with_silent))
    assert categories == {
        "hardware": set(HARDWARE.split()),
        "network": set(NETWORK.split()),
        "operators": set(OPERATORS),
    }


def test_a_clusters_validations_by_category() -> None:
    categories = by_category(cv.info_of(cv.evaluate(cluster_view())))
    operators = {*OPERATORS} - {"ocs-requirements-satisfied"}
    assert categories == {**{name: set(ids.split()) for name, ids in CLUSTER.items()}, "operators": operators}


def test_ids_are_those_of_the_api() -> None:
    from assisted_service_client.models import cluster_validation_id, host_validation_id

    hosts = [value for value in vars(host_validation_id.HostValidationId).values() if isinstance(value, str)]
    clusters = [value for value in vars(cluster_validation_id.ClusterValidationId).values() if isinstance(value, str)]
    assert set(HostValidation) <= set(hosts)
    assert set(ClusterValidation) <= set(clusters)
    # Each is judged, by the table in which it is.
    assert {line.id for line in hv.TABLE} == set(HostValidation)
    assert {line.id for line in cv.TABLE} == set(ClusterValidation)


def test_what_waits_for_an_inventory() -> None:
    view = dataclasses.replace(host_view(), inventory=None)
    verdicts = hv.evaluate(view)
    waiting = {name for name, verdict in verdicts.items() if verdict.result is PENDING}
    assert waiting == set(WAITING.split())
    failing = {name for name, verdict in verdicts.items() if verdict.result in (BAD, Result.ERROR)}
    assert failing == {"has-inventory", "hostname-valid", "ntp-synced"}
    assert not [
        name
        for name, verdict in hv.evaluate(host_view()).items()
        if "nventory" in verdict.message[:20] and verdict.result is PENDING
    ]


def test_a_host_without_a_cluster_is_judged_by_itself_alone() -> None:
    alone = dataclasses.replace(host_view(), joined=None)
    assert hv.evaluate(alone).keys() == set(UNBOUND.split())
    with pytest.raises(LookupError, match="host h belongs to no cluster"):
        _ = alone.cluster


def test_a_good_host_and_a_good_cluster_fail_nothing() -> None:
    """So that whatever another test sees fail fails for that test's reason."""
    waiting = {name for name, verdict in hv.evaluate(host_view()).items() if not verdict.is_good}
    assert waiting == {
        *("belongs-to-majority-group", "ntp-synced", "time-synced-between-host-and-service", "mtu-valid"),
        "dns-wildcard-not-configured",
    }
    waiting = {name for name, verdict in cv.evaluate(cluster_view()).items() if not verdict.is_good}
    assert waiting == {"api-vips-valid", "ingress-vips-valid"}


HOST_ALWAYS = """
connected has-inventory machine-cidr-defined hostname-unique hostname-valid media-connected no-skip-missing-disk
no-skip-installation-disk
"""
CLUSTER_ALWAYS = """
machine-cidr-defined cluster-cidr-defined service-cidr-defined dns-domain-defined pull-secret-set api-vips-defined
ingress-vips-defined all-hosts-are-ready-to-install sufficient-masters-count
"""


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", set()), ("[]", set()), ("null", set()), ("{", set()), ('["a", "b"]', {"a", "b"}), ("[7]", set())],
)
def test_what_a_user_ignores(text: str, ids: set[str]) -> None:
    assert hv.ignored(ValidationIds(text)) == ids


@pytest.mark.parametrize(("ids", "always"), [(hv.NOT_IGNORABLE, HOST_ALWAYS), (cv.NOT_IGNORABLE, CLUSTER_ALWAYS)])
def test_without_these_nothing_can_be_installed(ids: frozenset[str], always: str) -> None:
    assert ids == set(always.split())
    for name in ids:
        assert overridden(name, Verdict(BAD, "why"), frozenset({"all", name}), ids) == Verdict(BAD, "why")


@pytest.mark.parametrize("result", Result)
@pytest.mark.parametrize("skipped", [(), ("other",), ("x",), ("all",), ("x", "all")])
def test_ignoring(result: Result, skipped: tuple[str, ...]) -> None:
    good = result.value in ("success", "success-suppress-output", "disabled")
    kept = good or not {"x", "all"} & set(skipped)
    overridden_verdict = overridden("x", Verdict(result, "why"), frozenset(skipped), frozenset({"y"}))
    assert overridden_verdict == (Verdict(result, "why") if kept else Verdict(OFF, "Ignored by the user: why"))


def test_what_is_ignored_stops_nothing() -> None:
    bad: dict[str, Any] = {
        "reported": {"disks": []},
        "cluster": {"ignored_host_validations": '["has-min-valid-disks"]'},
    }
    verdict = hv.evaluate(host_view(**bad))["has-min-valid-disks"]
    assert verdict.result is OFF
    assert verdict.message.startswith("Ignored by the user: Failed to detect disks")
    ignored = cluster_view(cluster={"network_type": "Flat", "ignored_cluster_validations": json.dumps(["all"])})
    verdicts = cv.evaluate(ignored)
    assert verdicts["network-type-valid"].result is OFF
    down = cluster_view(hosts=(), cluster={"ignored_cluster_validations": json.dumps(["all"])})
    assert cv.evaluate(down)["sufficient-masters-count"].result is BAD
    assert HostStatus.KNOWN in cv.READY_HOST


class Line(NamedTuple):
    id: str
    category: Category


def test_verdicts_as_the_api_shows_them() -> None:
    table = [Line("a", Category.NETWORK), Line("b", Category.HARDWARE), Line("c", Category.NETWORK)]
    verdicts = {"c": Verdict(OFF, "left out"), "a": Verdict(OK, "fine"), "b": Verdict(BAD, "broken")}
    info = as_info(verdicts, [*table, Line("unasked", Category.OPERATORS)])
    assert msgspec.to_builtins(info) == {
        "network": [
            {"id": "a", "status": "success", "message": "fine"},
            {"id": "c", "status": "disabled", "message": "left out"},
        ],
        "hardware": [{"id": "b", "status": "failure", "message": "broken"}],
    }
    assert list(info) == [Category.NETWORK, Category.HARDWARE]


def test_each_id_is_in_its_table_once() -> None:
    for table in (hv.TABLE, cv.TABLE):
        ids = [line.id for line in table]
        assert len(ids) == len(set(ids))
