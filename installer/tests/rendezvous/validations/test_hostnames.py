"""What a host may be called (installer.md §5.4), and that no two are called the same."""

from __future__ import annotations

import pytest

from installer.assisted.enums import Result
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.hardware_kit import verdict
from installer.testing.engine.verdict_kit import cluster_host, host_view, with_inventory

OK, BAD, PENDING, ERROR = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.ERROR


def test_hosts_of_one_name_are_told_apart() -> None:
    twins = (
        with_inventory(cluster_host(1), hostname="master-0", mac="52:54:00:00:00:81"),
        cluster_host(2, requested_hostname="master-0"),
        with_inventory(cluster_host(3), hostname="master-3"),
    )
    view = host_view(peers=twins)
    assert view.inventory is not None
    assert hw.hostname_unique(view, view.inventory) == Verdict(
        BAD,
        "Hostname master-0 is not unique in the cluster: host master-0 (MAC 52:54:00:00:00:80) and host "
        "master-0 (MAC 52:54:00:00:00:81), master-0 have it",
    )


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("0", True),
        ("a" * 63, True),
        ("a" * 64, False),
        (f"a.{'b' * 61}", True),
        # As a whole no longer than one label may be.
        (f"a.{'b' * 62}", False),
        (".".join(["b" * 60] * 4)[:243], False),
        (f"a.{'b' * 64}", False),
        ("-a", False),
        ("node-", False),
        ("a.-b", False),
        ("a-.b", False),
        ("a--b.0c", True),
        ("a..b", False),
        ("a.", False),
        ("a_b", False),
        ("a b", False),
        # As a file of names would hold it.
        ("a\n", False),
        ("ä", False),
    ],
)
def test_names(name: str, good: bool) -> None:
    assert verdict("hostname_valid", {"host": {"user_hostname": name}}).result is (OK if good else BAD)


def test_a_host_without_a_name() -> None:
    nameless = verdict("hostname_valid", {"host": {"requested_hostname": ""}, "reported": {"hostname": ""}})
    assert nameless.result is BAD
    assert nameless.message.startswith("Hostname (empty) is forbidden, hostname should match pattern")
