"""Both sides of every guard of wait-for's decisions, and the exact texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from installer.observe.state import Expected
from installer.waitfor import decide
from installer.waitfor.decide import Persistence
from installer.waitfor.model import Check, ClusterSeen, HostSeen

OK = Check("has-inventory", "success", "fine")
MEMORY = Check("has-min-memory", "failure", "too little")
ROUTE = Check("has-default-route", "failure", "none")
MAJORITY = Check("belongs-to-majority-group", "pending", "wait")
CLUSTER = ClusterSeen("c", "insufficient", "not ready")


def stuck(cluster: ClusterSeen, hosts: list[HostSeen], wanted: Expected) -> set[tuple[str, str]] | None:
    """Return the findings of `decide.stuck`, as a set that can be written down."""
    fingerprint = decide.stuck(cluster, hosts, wanted)
    return None if fingerprint is None else set(fingerprint)


def host(name: str, status: str = "known", *checks: Check, **more: Any) -> HostSeen:
    return HostSeen(id=f"id-{name}", name=name, status=status, checks=checks or (OK,), **more)


def expected(count: int, names: tuple[str, ...] = (), macs: Any = ()) -> Expected:
    return Expected(names, count, macs)


@pytest.mark.parametrize("name", [
    "ntp-synced", "container-images-available", "mtu-valid", "release-domain-name-resolved-correctly",
    "inventory-not-partially-truncated", "connected", "media-connected",
])  # fmt: skip
def test_validations_that_never_block(name):
    """Warnings, and a host's presence: neither as a failure nor while they are open."""
    for status in ("failure", "error", "pending"):
        check = Check(name, status, "m")
        assert not decide.blocks(check)
        assert decide.failing(host("a", "known", check)) == ()
        assert not decide.undecided(host("a", "known", check), expected(1))
        assert stuck(CLUSTER, [host("a", "known", check)], expected(1)) is None


def test_statuses_that_block():
    for status, fails in (
        ("failure", True),
        ("error", True),
        ("pending", False),
        ("success", False),
        ("disabled", False),
    ):
        check = Check("has-min-memory", status, "m")
        assert decide.blocks(check)
        assert decide.failing(host("a", "known", check, OK)) == ((check,) if fails else ())
        assert decide.undecided(host("a", "known", check, OK), expected(1)) is (status == "pending")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_majority_group_needs_three(count):
    assert decide.undecided(host("a", "known", MAJORITY), expected(count)) is (count >= 3)
    assert decide.undecided(host("a", "known", MAJORITY, Check("x", "pending", "")), expected(count))


def test_a_host_without_validations_is_undecided():
    assert decide.undecided(HostSeen("i", "a", "known"), expected(1))
    assert not decide.undecided(host("a"), expected(1))


@pytest.mark.parametrize("status", ["insufficient", "pending-for-input", "ready"])
def test_the_states_before_an_installation(status):
    bad = [host("a", "insufficient", MEMORY)]
    assert stuck(ClusterSeen("c", status), bad, expected(1)) == {("id-a", "has-min-memory")}
    for other in ("installing", "error", "preparing-for-installation", "finalizing", "cancelled", "adding-hosts", ""):
        assert stuck(ClusterSeen("c", other), bad, expected(1)) is None


def test_what_keeps_an_installation_from_starting():
    first, second = host("a", "insufficient", MEMORY, ROUTE, OK), host("b", "insufficient", OK)
    assert stuck(CLUSTER, [first, second], expected(2)) == {
        ("id-a", "has-min-memory"), ("id-a", "has-default-route"), ("id-b", "status"),
    }  # fmt: skip
    assert stuck(CLUSTER, [first, second], expected(3)) is None
    assert stuck(CLUSTER, [first, second], expected(1)) == stuck(CLUSTER, [first, second], expected(2))
    # With a host away only facts about machines count.
    away = host("c", "disconnected", OK)
    assert stuck(CLUSTER, [first, second, away], expected(3)) == {("id-a", "has-min-memory")}
    assert stuck(CLUSTER, [host("a", "insufficient", ROUTE), away], expected(2)) is None
    # The cluster's own validations count when no host's do.
    vip, not_ready = (
        Check("api-vips-valid", "failure", "in use"),
        Check("all-hosts-are-ready-to-install", "failure", ""),
    )
    cluster = ClusterSeen("c", "insufficient", "", (vip, not_ready, Check("x", "pending", "")))
    assert stuck(cluster, [host("a")], expected(1)) == {("c", "api-vips-valid")}
    assert stuck(cluster, [host("a", "insufficient", MEMORY)], expected(1)) == {("id-a", "has-min-memory")}
    assert stuck(cluster, [host("a", "disconnected")], expected(1)) is None
    assert decide.cluster_failing(cluster) == (vip, not_ready)


@pytest.mark.parametrize("name", [
    "has-min-cpu-cores", "has-min-memory", "has-min-valid-disks", "has-cpu-cores-for-role", "has-memory-for-role",
    "compatible-with-cluster-platform", "disk-encryption-requirements-satisfied", "vsphere-disk-uuid-enabled",
    "sufficient-installation-disk-speed", "inventory-not-fully-truncated", "no-skip-installation-disk",
    "no-skip-missing-disk", "compatible-agent",
])  # fmt: skip
def test_facts_about_a_machine(name):
    assert decide.lasting(frozenset({("h", name)}))
    assert decide.lasting(frozenset({("h", name), ("h", "has-default-route")}))
    away = host("b", "disconnected")
    bad = host("a", "insufficient", Check(name, "failure", "m"))
    assert stuck(CLUSTER, [bad, away], expected(2)) == {("id-a", name)}


def test_what_a_later_report_may_change():
    for name in ("has-default-route", "status", "belongs-to-machine-cidr", "hostname-unique"):
        assert not decide.lasting(frozenset({("has-min-memory", name)}))
    assert not decide.lasting(frozenset())


@pytest.mark.parametrize(("name", "period"), [("has-min-memory", 5.0), ("has-default-route", 75.0)])
def test_persistent_at_its_period_and_not_before(name, period):
    seen = frozenset({("h", name)})
    persistence = Persistence(5.0, 75.0)
    assert [persistence.observe(seen, 100.0 + at) for at in (0, period - 0.01, period, period + 1)] == [
        False,
        False,
        True,
        True,
    ]
    assert not persistence.observe(None, 300.0)
    assert not persistence.observe(None, 900.0)
    assert [persistence.observe(seen, 1000.0 + at) for at in (0, period - 0.01, period)] == [False, False, True]
    # Something else begins anew, and so does the same after it.
    assert not persistence.observe(frozenset({("other", name)}), 2000.0)
    assert not persistence.observe(seen, 2000.0 + period)
    assert persistence.observe(seen, 2000.0 + 2 * period)
    # The first look never counts, even where there is no period at all.
    assert [Persistence(0.0, 0.0).observe(seen, 1e9), Persistence(0.0, 0.0).observe(None, 1e9)] == [False, False]


CONSEQUENCES = (
    "belongs-to-majority-group", "sufficient-network-latency-requirement-for-role",
    "sufficient-packet-loss-requirement-for-role", "all-hosts-are-ready-to-install", "sufficient-masters-count",
)  # fmt: skip


def test_causes_first_in_their_order_then_consequences():
    follow = [Check(name, "failure", "f") for name in CONSEQUENCES]
    lone = host("a", "insufficient", *follow[:3], Check("ntp-synced", "failure", "warned of"), MEMORY)
    two = host("b", "insufficient", ROUTE)
    three = host("c", "insufficient", OK, status_info="why")
    cluster = ClusterSeen("c", "insufficient", "", (*follow[3:], Check("api-vips-valid", "failure", "used"), OK))
    assert decide.causes(cluster, [lone, two, three, host("d")]) == (
        "Host a validation has-min-memory failed: too little",
        "Host b validation has-default-route failed: none",
        "Host c is insufficient: why",
        "Cluster validation api-vips-valid failed: used",
        *(f"Host a validation {name} failed: f" for name in CONSEQUENCES[:3]),
        *(f"Cluster validation {name} failed: f" for name in CONSEQUENCES[3:]),
    )
    assert decide.causes(CLUSTER, [host("d"), host("e", "disconnected")]) == ()
    # A silent host, since which its peers fail, is told before these.
    apart = host("d", "insufficient", Check("belongs-to-majority-group", "failure", "alone"), ROUTE)
    assert decide.causes(CLUSTER, [apart, host("e", "disconnected", status_info="since noon")]) == (
        "Host d validation has-default-route failed: none",
        "Host e is disconnected: since noon",
        "Host d validation belongs-to-majority-group failed: alone",
    )


def test_a_host_that_sent_no_inventory_and_fell_silent_is_the_first_cause():
    """Its inventory is missing for no other reason; a host that had sent it has causes of its own."""
    unsent = [Check("has-inventory", "failure", "not received"), Check("hostname-valid", "failure", "missing")]
    silent = host("e", "disconnected", *unsent, status_info="since noon")
    assert [line.partition(" failed")[0] for line in decide.causes(CLUSTER, [host("d"), silent])] == [
        "Host e is disconnected: since noon",
        "Host e validation has-inventory",
        "Host e validation hostname-valid",
    ]
    assert decide.causes(CLUSTER, [host("e", "disconnected", MEMORY)])[0].startswith("Host e validation has-min-memory")


def test_the_only_host_without_an_inventory_is_named_by_elimination():
    macs = tuple((name, frozenset({mac})) for name, mac in (("a", "m1"), ("b", "m2"), ("", "m3")))
    a, b, third = (host(name or "x", macs=of) for name, of in macs)
    silent = host("id-b", "disconnected")
    assert [item.name for item in decide.named((a, silent, third), expected(3, macs=macs))] == [
        "a",
        "id-b (probably b)",
        "x",
    ]
    assert decide.named((a, b, silent), expected(3, macs=macs))[2].name == "id-b (probably m3)"
    for hosts, count in (
        ((a, silent), 3),  # one is still to come, and may be it
        ((a, silent, third, host("y", macs=frozenset({"m4"}))), 4),  # the configuration does not describe the fourth
        ((silent, silent, third), 3),
        ((a, host("id-b", "discovering"), third), 3),  # it will say so itself
        ((a, b, third), 3),
    ):
        assert decide.named(hosts, expected(count, macs=macs)) == hosts


def test_the_last_errors_among_events():
    events = [{"severity": s, "message": m} for s, m in (
        ("error", "1"), ("info", "no"), ("critical", "2"), ("error", "1"), ("warning", "no"), ("error", None),
        ("error", ""), ("error", "3"), ("error", "4"), ("error", "5"), ("error", "6"),
    )]  # fmt: skip
    assert decide.recent_errors(events) == ("6", "5", "4", "3", "1")
    assert decide.recent_errors(events, 2) == ("6", "5")
    assert decide.recent_errors(events, 9) == ("6", "5", "4", "3", "1", "2")
    assert decide.recent_errors([{}]) == ()


def test_failed_hosts():
    follower = host("a", "error", stage="", status_info="Host is PART OF A CLUSTER that failed")
    culprit = host("b", "error", stage="Rebooting", status_info="timed out")
    assert decide.failed_hosts([follower, culprit, host("c"), host("d", "insufficient")]) == (
        "Host b failed at stage Rebooting: timed out",
        "Host a failed: Host is PART OF A CLUSTER that failed",
    )
    assert decide.failed_hosts([host("c")]) == ()


MACS = (("a", frozenset({"m0"})), ("b", frozenset({"m1"})), ("", frozenset({"m2", "m3"})))


def test_missing_by_mac():
    three = expected(3, ("a", "b"), MACS)
    seen = host("x", macs=frozenset({"m1", "m9"}))
    tally = "(1 of 3 expected hosts registered)"
    assert decide.missing(three, [seen]) == (
        f"Host a with MAC address m0 never registered {tally}",
        f"Host with MAC address m2, m3 never registered {tally}",
    )
    # Never more lines than hosts that are short.
    stranger = host("x", macs=frozenset({"m9"}))
    assert decide.missing(three, [stranger, stranger]) == (
        "Host a with MAC address m0 never registered (2 of 3 expected hosts registered)",
    )
    # A host that the configuration gives no address of cannot be told apart.
    some = expected(2, ("a",), (("a", frozenset()),))
    assert decide.missing(some, [seen]) == (
        "1 host(s) that the configuration does not describe never registered (1 of 2 expected hosts registered)",
    )
    # Nobody has sent an inventory: names are all there is.
    assert decide.missing(three, [host("a")]) == (
        "Host b never registered (1 of 3 expected hosts registered)",
        "1 host(s) that the configuration does not describe never registered (1 of 3 expected hosts registered)",
    )


def test_missing_so_far():
    assert decide.missing(expected(1, ("a",)), [], yet=True) == (
        "Host a has not registered yet (0 of 1 expected hosts registered)",
    )
    assert decide.missing(expected(3, ("a", "b", "c")), [host("x")], yet=True) == (
        "2 of these hosts have not registered yet (1 of 3 expected hosts registered): a, b, c",
    )


@pytest.mark.parametrize(
    ("mac", "is_near"),
    [
        ("52:54:00:aa:00:02", True),
        ("52:54:00:ab:00:02", True),
        ("52:54:00:ab:01:02", False),
        ("52:54:00:aa:00:01", False),
        ("52:54:00:aa:00", False),
    ],
)
def test_a_mac_address_with_a_slip_of_the_hand(mac, is_near):
    wanted = expected(2, ("a", "b"), (("a", frozenset({"52:54:00:aa:00:01"})), ("b", frozenset({"52:54:00:bb:00:09"}))))
    there = [host("b", macs=frozenset({"52:54:00:bb:00:09"})), host("s", macs=frozenset({mac}))]
    words = f"; s registered with {mac}, "
    for lines in (decide.missing(wanted, there[1:]), decide.others_instead(wanted, there)):
        near = [line for line in lines if words in line]
        assert bool(near) == is_near, lines
        assert all(
            line.endswith(" digits differ: is one of the two mistyped?") or "one digit differs" in line for line in near
        )


def test_missing_by_name():
    assert decide.missing(expected(1, ("a",)), [host("b")]) == ()
    assert decide.missing(expected(1, ("a",)), [host("b"), host("c")]) == ()
    assert decide.missing(expected(2, ("a", "b")), []) == (
        "Host a never registered (0 of 2 expected hosts registered)",
        "Host b never registered (0 of 2 expected hosts registered)",
    )
    assert decide.missing(expected(2, ("a", "b.example.org")), [host("b")]) == (
        "Host a never registered (1 of 2 expected hosts registered)",
    )
    assert decide.missing(expected(3, ("a", "b", "c")), [host("x")]) == (
        "2 of these hosts never registered (1 of 3 expected hosts registered): a, b, c",
    )
    assert decide.missing(expected(3, ("a",)), [host("x")]) == (
        "Host a never registered (1 of 3 expected hosts registered)",
        "1 host(s) without a configured hostname never registered (1 of 3 expected hosts registered)",
    )


def test_surplus():
    expected_host, stranger = host("k", macs=frozenset({"m0"})), host("s", macs=frozenset({"m9", "m8"}))
    words = "hosts registered, the configuration has replicas for"
    wanted = expected(1, ("a",), MACS)
    assert (
        decide.surplus(wanted, [])
        == decide.surplus(wanted, [stranger])
        == decide.surplus(expected(2), [expected_host, stranger])
        == ()
    )
    assert decide.surplus(wanted, [expected_host, stranger]) == (
        f"2 {words} 1; not described by the configuration: s (m8, m9)",
    )
    assert decide.surplus(wanted, [stranger, stranger]) == (f"2 {words} 1; registered: s (m8, m9), s (m8, m9)",)
    assert decide.surplus(wanted, [expected_host, expected_host]) == (f"2 {words} 1; registered: k (m0), k (m0)",)
    assert decide.surplus(expected(1), [expected_host, host("n")]) == (f"2 {words} 1; registered: k (m0), n (id-n)",)


def test_others_instead():
    expected_host, stranger = host("k", macs=frozenset({"m0"})), host("s", macs=frozenset({"m9", "m8"}))
    wanted = expected(1, ("a",), MACS)
    assert decide.others_instead(wanted, []) == decide.others_instead(wanted, [expected_host]) == ()
    assert decide.others_instead(expected(1), [stranger]) == ()
    assert decide.others_instead(expected(2, (), MACS[:2]), [expected_host, host("silent")]) == ()
    assert decide.others_instead(expected(1, ("a",), MACS[:1]), [stranger]) == (
        f"Host {MACS[0][0]} with MAC address m0 never registered "
        "(1 hosts registered, not described by the configuration: s (m8, m9))",
    )


def test_why_nothing_is_registered():
    refusal = {"name": "cluster_registration_failed", "message": "The cluster was not registered: no"}
    host_refusal = {"name": "host_registration_refused", "message": "The host at 192.0.2.2 was refused"}
    events = [{"name": "other", "message": "x"}, refusal, host_refusal, refusal]
    assert decide.unregistered("192.0.2.1", "clusters", 0, events) == (refusal["message"],)
    [line] = decide.unregistered("192.0.2.1", "InfraEnvs", 0, events)
    assert "192.0.2.1" in line
    assert "agent-register-infraenv.service" in line
    assert decide.unregistered("192.0.2.1", "clusters", 2, events) == (
        "2 clusters are known to the service on 192.0.2.1",
    )
    assert decide.refused(events) == (host_refusal["message"],)
    assert decide.refused([]) == ()


def test_the_host_without_links_comes_first():
    bad = Check("belongs-to-majority-group", "failure", "no link")
    a = host("a", "insufficient", bad, reaches=frozenset({"id-c"}))
    b = host("b", "insufficient", bad, reaches=frozenset({"id-a"}))
    c = host("c", "insufficient", bad, reaches=frozenset({"id-a"}))
    assert [line.split()[1] for line in decide.causes(ClusterSeen("c", "insufficient"), [a, b, c])] == ["b", "a", "c"]


def test_all_known():
    assert not decide.all_known([], expected(0))
    assert decide.all_known([host("a")], expected(1))
    assert decide.all_known([host("a"), host("b")], expected(1))
    assert not decide.all_known([host("a")], expected(2))
    assert not decide.all_known([host("a"), host("b", "insufficient")], expected(2))


def test_rebooted():
    for stage in ("Rebooting", "Waiting for ignition", "Configuring", "Joined", "Done"):
        assert decide.rebooted([host("a"), host("b", stage=stage)])
    for stage in ("", "Installing", "Writing image to disk", "Waiting for control plane"):
        assert not decide.rebooted([host("a", stage=stage)])
    assert not decide.rebooted([])
    # Other masters reboot long before the rendezvous host, whose service is to serve on.
    waiting = replace(host("a", stage="Waiting for control plane"), bootstrap=True)
    assert not decide.rebooted([waiting, host("b", stage="Joined")])
    assert decide.rebooted([replace(waiting, stage="Rebooting"), host("b")])
