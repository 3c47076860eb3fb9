"""Decisions of wait-for: tables and properties, no I/O."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.assisted.enums import NEVER
from installer.observe.state import Expected
from installer.waitfor import decide, operators
from installer.waitfor.decide import Persistence
from installer.waitfor.model import Check, ClusterSeen, HostSeen, checks_of, host_of
from installer.waitfor.report import Reporter
from installer.waitfor.settings import duration

THREE = Expected(("master-0", "master-1", "master-2"), 3)
ONE = Expected(("master-0",), 1)
OK = Check("has-inventory", "success", "fine")
MEMORY = Check("has-min-memory", "failure", "found 2048 MiB, at least 16384 MiB needed")
MAJORITY = Check("belongs-to-majority-group", "failure", "No connectivity")
PENDING = Check("has-default-route", "pending", "Missing inventory")
NTP = Check("ntp-synced", "failure", "not synced")
IMAGES_PENDING = Check("container-images-available", "pending", "being checked")
AWAY = Check("connected", "failure", "Host is disconnected")


def host(name: str, status: str = "known", *checks: Check, **more: Any) -> HostSeen:
    return HostSeen(id=f"id-{name}", name=name, status=status, checks=checks or (OK,), **more)


CLUSTER = ClusterSeen("c", "insufficient", "not ready")
KNOWN_HOSTS = [host("master-0"), host("master-1")]


@pytest.mark.parametrize(
    ("cluster", "hosts", "expected", "is_stuck"),
    [
        pytest.param(CLUSTER, [host("master-0", "insufficient", MEMORY)], ONE, True, id="one-host-too-small"),
        pytest.param(CLUSTER, [], ONE, False, id="nobody-registered"),
        pytest.param(CLUSTER, [host("master-0", "insufficient", MEMORY)], THREE, False, id="two-hosts-missing"),
        pytest.param(
            CLUSTER, [*KNOWN_HOSTS, host("master-2", "insufficient", MEMORY, PENDING)], THREE, False, id="still-pending"
        ),
        pytest.param(
            CLUSTER,
            [*KNOWN_HOSTS[:1], host("x", "discovering", PENDING), host("y", "insufficient", MEMORY)],
            THREE,
            False,
            id="another-host-pending",
        ),
        pytest.param(CLUSTER, [*KNOWN_HOSTS, host("master-2", "insufficient", MEMORY)], THREE, True, id="one-of-three"),
        pytest.param(
            CLUSTER,
            [host("master-0", "insufficient", MEMORY, IMAGES_PENDING)],
            ONE,
            True,
            id="pending-warning-is-nothing",
        ),
        pytest.param(CLUSTER, [host("master-0", "known", NTP)], ONE, False, id="failed-warning-is-nothing"),
        pytest.param(CLUSTER, [host("master-0", "disconnected", AWAY)], ONE, False, id="silent-host-may-return"),
        pytest.param(
            CLUSTER,
            [host("a", "insufficient", MAJORITY), host("b"), host("c", "disconnected", AWAY)],
            THREE,
            False,
            id="peer-away-explains-connectivity",
        ),
        pytest.param(
            CLUSTER,
            [host("a", "insufficient", MEMORY), host("b"), host("c", "disconnected", AWAY)],
            THREE,
            True,
            id="peer-away-does-not-explain-memory",
        ),
        pytest.param(
            ClusterSeen("c", "preparing-for-installation"),
            [host("master-0", "insufficient", MEMORY)],
            ONE,
            False,
            id="preparing",
        ),
        pytest.param(
            ClusterSeen("c", "installing"), [host("master-0", "installing", MEMORY)], ONE, False, id="installing"
        ),
        pytest.param(
            ClusterSeen("c", "insufficient", "", (Check("api-vips-valid", "failure", "in use"),)),
            [host("master-0")],
            ONE,
            True,
            id="cluster-validation-alone",
        ),
        pytest.param(
            ClusterSeen("c", "insufficient", "", (Check("all-hosts-are-ready-to-install", "failure", "wait"),)),
            [host("master-0")],
            ONE,
            False,
            id="hosts-not-ready-is-no-cause",
        ),
        pytest.param(CLUSTER, [HostSeen("i", "master-0", "insufficient")], ONE, False, id="no-validations-yet"),
        pytest.param(CLUSTER, [host("master-0", "insufficient", OK)], ONE, True, id="insufficient-without-a-reason"),
    ],
)
def test_stuck(cluster, hosts, expected, is_stuck):
    assert (decide.stuck(cluster, hosts, expected) is not None) is is_stuck


statuses = st.sampled_from(["success", "failure", "error", "pending", "disabled"])
ids = st.sampled_from(
    ["has-min-memory", "hostname-unique", "has-default-route", "ntp-synced", "mtu-valid", "connected", "brand-new"]
)
some_checks = st.lists(st.builds(Check, ids, statuses, st.just("m")), min_size=1, max_size=5, unique_by=lambda c: c.id)
some_hosts = st.lists(
    st.builds(
        HostSeen,
        id=st.uuids().map(str),
        name=st.just("h"),
        status=st.sampled_from(["known", "insufficient"]),
        role=st.just("master"),
        checks=some_checks.map(tuple),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(some_hosts, st.integers(1, 4))
def test_stuck_iff_all_hosts_registered_and_are_decided_and_one_failed(hosts, count):
    stays_out = ("ntp-synced", "mtu-valid", "connected")
    blocking = [c for h in hosts for c in h.checks if c.id not in stays_out]
    wanted = (
        len(hosts) >= count
        and all(c.status != "pending" for c in blocking)
        and (any(c.status in ("failure", "error") for c in blocking) or any(h.status == "insufficient" for h in hosts))
    )
    assert bool(decide.stuck(CLUSTER, hosts, Expected((), count))) is wanted


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["none", "memory", "route"]), st.floats(0.1, 40)), max_size=30))
def test_persists_iff_unchanged_for_its_period(steps):
    prints = {
        "none": None,
        "memory": frozenset({("h", "has-min-memory")}),
        "route": frozenset({("h", "has-default-route")}),
    }
    periods = {"memory": 5.0, "route": 75.0}
    persistence, now, since, before = Persistence(5.0, 75.0), 100.0, 0.0, "none"
    for kind, step in steps:
        now += step
        if kind != before:
            since, before = now, kind
            wanted = False
        else:
            wanted = kind != "none" and now - since >= periods[kind]
        assert persistence.observe(prints[kind], now) is wanted


def test_friendly_covers_the_reference():
    for status in (
        "adding-hosts",
        "cancelled",
        "error",
        "finalizing",
        "installing",
        "installing-pending-user-action",
        "insufficient",
        "pending-for-input",
        "preparing-for-installation",
        "ready",
    ):
        assert "status is" not in decide.friendly(status)
    assert decide.friendly("installed") == "Cluster is installed"
    assert decide.friendly("odd") == "Cluster status is odd"


@settings(max_examples=50, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)))
def test_validations_of_anything_do_not_fail(raw):
    checks_of(raw)
    checks_of(json.dumps(raw))


def test_host_name_falls_back_to_the_inventory():
    assert host_of({"id": "1", "inventory": '{"hostname": "x"}', "progress": {"current_stage": "Joined"}}).name == "x"
    assert host_of({"id": "1", "inventory": "broken"}).name == "1"
    for time, sent in ((NEVER, False), ("", False), (None, False), ("2026-01-01T00:00:00.000Z", True)):
        assert host_of({"id": "1", "logs_collected_at": time}).logs_sent is sent


def test_events_are_told_in_order_by_severity(caplog):
    caplog.set_level(logging.INFO, "installer.waitfor")
    first, second = (
        {"event_time": "t", "name": "n", "severity": s, "message": m} for s, m in (("info", "a"), ("error", "b"))
    )
    reporter = Reporter()
    assert reporter.new_events([first, second])
    assert not reporter.new_events([])
    assert reporter.new_events([first])
    assert [(r.levelname, r.message) for r in caplog.records] == [("INFO", "a"), ("WARNING", "b"), ("INFO", "a")]
    assert reporter.events == [first, second, first]


def shown(caplog, events: list[dict[str, Any]], known: list[dict[str, Any]] | None = None) -> list[str]:
    caplog.set_level(logging.INFO, "installer.waitfor")
    caplog.clear()
    reporter = Reporter(known or [])
    assert reporter.new_events(events)
    assert reporter.events == events
    return [record.message for record in caplog.records]


def event(message: str, time: str = "t", **more: Any) -> dict[str, Any]:
    return {"event_time": time, "name": "n", "severity": "info", "message": message, **more}


def test_events_that_are_no_news_are_not_shown(caplog):
    writing = [event(f"Host: m, reached installation stage Writing image to disk: {n}%") for n in (5, 10, 100)]
    other = event("Host: w, reached installation stage Writing image to disk: 40%")
    broken, fixed = (
        event(f"Host m: validation 'ntp-synced' {words}")
        for words in ("that used to succeed is now failing", "is now fixed")
    )
    cluster = event("Cluster validation 'ntp-synced' is now fixed")
    assert shown(caplog, [*writing, other]) == [writing[0]["message"], other["message"]]
    assert shown(caplog, [fixed, broken, fixed, cluster]) == [broken["message"], fixed["message"]]
    # A host's validations are lines of their own.
    status = "Host m: updated status from discovering to insufficient"
    failing = event(f"{status} (Host cannot be installed due to the following failing validation(s): a ; b (c))")
    assert shown(caplog, [failing]) == [status]
    # An earlier command for this installation has shown these.
    known = [event("[redacted]"), event("b")]
    assert shown(caplog, [event("a"), event("b", "u"), event("c")], known) == ["b", "c"]


def test_validation_lines(caplog):
    caplog.set_level(1, "installer.waitfor")
    reporter, cluster = Reporter(), ClusterSeen("c", "insufficient")
    fixed = Check(MEMORY.id, "success", "Sufficient memory")
    for check in (MEMORY, MEMORY, fixed, fixed, MEMORY):
        reporter.validations(cluster, [host("m", "known", check)])
    prefix = "Host m validation: "
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("WARNING", prefix + MEMORY.message),
        ("INFO", prefix + fixed.message),
        ("WARNING", prefix + MEMORY.message),
    ]
    caplog.clear()
    apart, ready = Check(decide.MAJORITY, "failure", "apart"), Check(decide.ALL_READY, "failure", "not all are ready")
    hosts = [host("a", "insufficient", apart), host("b", "insufficient", MEMORY)]
    Reporter().validations(ClusterSeen("c", "insufficient", checks=(ready,)), hosts)
    assert [r.message.partition("validation: ")[2] for r in caplog.records] == [MEMORY.message, "apart", ready.message]


def test_duration():
    assert [duration(x) for x in (3600, 1800, 59, 2.5, 5400)] == ["1h0m0s", "30m0s", "59s", "2.5s", "1h30m0s"]


def with_conditions(name: str, **states: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "status": {
            "conditions": [
                {"type": k, "status": v, "lastTransitionTime": "2024-01-01T00:00:00Z", "message": k}
                for k, v in states.items()
            ]
        },
    }


@pytest.mark.parametrize(
    ("states", "done"),
    [
        ({"Available": "True", "Failing": "False", "Progressing": "False"}, True),
        ({"Available": "True", "Progressing": "False"}, False),
        ({"Available": "True", "Failing": "Unknown", "Progressing": "False"}, False),
        ({"Available": "True", "Failing": "False", "Progressing": "True"}, False),
        ({"Available": "False", "Failing": "False", "Progressing": "False"}, False),
        ({}, False),
    ],
)
def test_initialized(states, done):
    assert operators.initialized(with_conditions("version", **states)) is done


def test_stability_by_either_clock():
    base = datetime(2024, 1, 1, tzinfo=UTC)
    item = [with_conditions("etcd", Progressing="False")]
    assert operators.Stability(30).unstable(item, base + timedelta(seconds=31), 0) == ()
    late = operators.Stability(30)
    assert late.unstable(item, base - timedelta(hours=1), 0) == ("etcd",)
    assert late.unstable(item, base - timedelta(hours=1), 30) == ("etcd",)
    assert late.unstable(item, base - timedelta(hours=1), 31) == ()
    assert late.unstable([with_conditions("etcd", Progressing="True")], base + timedelta(days=1), 40) == ("etcd",)
    assert late.unstable([], base, 0) == ()
    assert operators.Stability(30).unstable([{"metadata": {"name": "new"}}], base, 99) == ("new",)
    unknown = operators.Stability(30)
    assert unknown.unstable(item, None, 0) == ("etcd",)
    assert unknown.unstable(item, None, 31) == ()


def test_route_url():
    admitted = {"host": "c.apps.x", "conditions": [{"type": "Admitted", "status": "True"}]}
    refused = {"host": "no", "conditions": [{"type": "Admitted", "status": "False"}]}
    route = {"spec": {"tls": {}}, "status": {"ingress": [refused, admitted]}}
    assert operators.route_url(route) == "http://c.apps.x"
    assert operators.route_url({**route, "spec": {"tls": {"termination": "edge"}}}) == "https://c.apps.x"
    assert operators.route_url({"status": {"ingress": [refused]}}) is None
    assert operators.route_url({}) is None


def test_complaints():
    lines = operators.complaints([with_conditions("dns", Available="False", Progressing="True", Degraded="False")])
    assert lines == (
        (True, "Cluster operator dns Available is False: Available"),
        (False, "Cluster operator dns Progressing is True: Progressing"),
    )


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "7"])
def test_documents_that_cannot_be_read_say_nothing(text: str) -> None:
    assert checks_of(text) == ()
    assert host_of({"id": "h", "inventory": text, "connectivity": text}).macs == frozenset()
