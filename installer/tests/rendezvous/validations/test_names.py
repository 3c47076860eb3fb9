"""What a host's validations say of names and the DNS (installer.md §5.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import Result
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.service.verdict_kit import host_view

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1, "user_managed_networking": True}
DOMAIN = "ostest.test.node0.example"


def asked(**fields: Any) -> dict[str, Any]:
    """Changes of a host whose answers are these documents."""
    return {"host": {name: json.dumps(value) for name, value in fields.items()}}


@pytest.mark.parametrize("record", net.RECORDS)
def test_names_that_only_the_user_can_make_resolve(record: str) -> None:
    name = {"api": f"api.{DOMAIN}", "api-int": f"api-int.{DOMAIN}", "apps": f"console-openshift-console.apps.{DOMAIN}"}
    check = net.domain(record)
    free = Verdict(OK, f"Domain name resolution of {record} is not required (single node or managed networking)")

    def answered(spelling: str, **addresses: list[str]) -> dict[str, Any]:
        return asked(
            domain_name_resolutions={"resolutions": [{"domain_name": "x"}, {}, {"domain_name": spelling, **addresses}]}
        )

    assert check(host_view()) == free
    assert check(host_view(cluster=SNO)) == free
    mine = name[record]
    assert check(host_view(cluster=OWN)) == Verdict(PENDING, f"DNS resolution of {mine} has not been checked yet")
    assert check(host_view(cluster=OWN, **answered("other.example"))).result is PENDING
    assert check(host_view(cluster=OWN, **answered(mine))) == Verdict(
        BAD, f"Couldn't resolve domain name {mine} on the host"
    )
    both = answered(f"{mine.upper()}.", ipv4_addresses=["10.0.0.1"], ipv6_addresses=["fd00::1"])
    assert check(host_view(cluster=OWN, **both)) == Verdict(OK, f"Domain name {mine} resolves to 10.0.0.1, fd00::1")


def test_the_releases_registry() -> None:
    pulled = {"release_image": "quay.example/r@sha256:1", "registries_conf": Path("/none")}
    free = "Release domain name resolution is not required: the release comes from a mirror or by address"
    assert net.release_domain(host_view()) == Verdict(OK, free)
    assert net.release_domain(host_view(settings=pulled)) == Verdict(
        PENDING,
        "DNS resolution of the release's registry quay.example has not been checked yet",
    )

    def answered(**addresses: list[str]) -> dict[str, Any]:
        found = {"resolutions": [{"domain_name": "quay.example", **addresses}]}
        return {"settings": pulled, **asked(domain_name_resolutions=found)}

    assert net.release_domain(host_view(**answered())) == Verdict(
        BAD,
        "Couldn't resolve the release's registry quay.example on the host",
    )
    assert net.release_domain(host_view(**answered(ipv6_addresses=["fd00::1", "fd00::2"]))) == Verdict(
        OK,
        "Domain name quay.example resolves to fd00::1, fd00::2",
    )
    # The cluster's own release comes before the service's.
    other = {"settings": pulled, "cluster": {"ocp_release_image": "other.example/r:1"}}
    assert "registry other.example has not" in net.release_domain(host_view(**other)).message


def test_only_names_that_are_waited_for_are_asked() -> None:
    pulled = {"release_image": "quay.example/r@sha256:1", "registries_conf": Path("/none")}
    four = [
        *(f"api.{DOMAIN}", f"api-int.{DOMAIN}", f"console-openshift-console.apps.{DOMAIN}"),
        f"validateNoWildcardDNS.{DOMAIN}",
    ]
    assert net.names_to_resolve(host_view()) == []
    assert net.names_to_resolve(host_view(cluster=SNO)) == []
    assert net.names_to_resolve(host_view(cluster=OWN)) == four
    assert net.names_to_resolve(host_view(cluster=OWN, settings=pulled)) == [*four, "quay.example"]
    assert net.names_to_resolve(host_view(settings=pulled)) == ["quay.example"]
