"""The validations as tables: who judges what, what waits for an inventory, and what a user may ignore."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import HostStatus, Result
from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.validation_ids import ClusterValidation, HostValidation
from installer.rendezvous.store.documents import ValidationIds
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.rendezvous.validations.verdict import Verdict, as_info, overridden
from installer.testing.engine.verdict_kit import cluster_view, host_view

OK, BAD, PENDING, OFF = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.DISABLED


def test_ids_are_those_of_the_api() -> None:
    from assisted_service_client.models import cluster_validation_id, host_validation_id

    hosts = [value for value in vars(host_validation_id.HostValidationId).values() if isinstance(value, str)]
    clusters = [value for value in vars(cluster_validation_id.ClusterValidationId).values() if isinstance(value, str)]
    # Each is judged, by the table in which it is.
    assert set(HostValidation) <= {line.id for line in hv.TABLE} <= set(hosts)
    assert set(ClusterValidation) <= {line.id for line in cv.TABLE} <= set(clusters)


def test_what_waits_for_an_inventory() -> None:
    view = dataclasses.replace(host_view(), inventory=None)
    verdicts = hv.evaluate(view)
    failing = {name for name, verdict in verdicts.items() if verdict.result in (BAD, Result.ERROR)}
    assert failing == {"has-inventory", "hostname-valid", "ntp-synced"}
    assert not [
        name
        for name, verdict in hv.evaluate(host_view()).items()
        if "nventory" in verdict.message[:20] and verdict.result is PENDING
    ]


def test_a_host_without_a_cluster_is_judged_by_itself_alone() -> None:
    alone = dataclasses.replace(host_view(), joined=None)
    assert [*hv.evaluate(alone)] == [line.id for line in hv.UNBOUND]
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


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", set()), ("[]", set()), ("null", set()), ("{", set()), ('["a", "b"]', {"a", "b"}), ("[7]", set())],
)
def test_what_a_user_ignores(text: str, ids: set[str]) -> None:
    assert hv.ignored(ValidationIds(text)) == ids


@pytest.mark.parametrize("ids", [hv.NOT_IGNORABLE, cv.NOT_IGNORABLE])
def test_without_these_nothing_can_be_installed(ids: frozenset[str]) -> None:
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


def test_verdicts_as_the_api_shows_them() -> None:
    categories = {"a": Category.NETWORK, "b": Category.HARDWARE, "c": Category.NETWORK, "unasked": Category.OPERATORS}
    verdicts = {"c": Verdict(OFF, "left out"), "a": Verdict(OK, "fine"), "b": Verdict(BAD, "broken")}
    info = as_info(verdicts, categories)
    assert msgspec.to_builtins(info) == {
        "network": [
            {"id": "a", "status": "success", "message": "fine"},
            {"id": "c", "status": "disabled", "message": "left out"},
        ],
        "hardware": [{"id": "b", "status": "failure", "message": "broken"}],
    }
    assert list(info) == [Category.NETWORK, Category.HARDWARE]
