"""Verdicts on names and the DNS, as a host sees them (installer.md §5.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import Result
from installer.rendezvous.validations import names as net
from installer.rendezvous.validations.verdict import SUPPRESSED, Verdict
from installer.testing.engine.verdict_kit import host_view

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1, "user_managed_networking": True}
DOMAIN = "ostest.test.node0.example"


def asked(**fields: Any) -> dict[str, Any]:
    """Change of a host whose answers are these documents."""
    return {"host": {name: json.dumps(value) for name, value in fields.items()}}


@pytest.mark.parametrize("record", net.RECORDS)
def test_names_that_only_the_user_can_make_resolve(record: str) -> None:
    name = {"api": f"api.{DOMAIN}", "api-int": f"api-int.{DOMAIN}", "apps": f"console-openshift-console.apps.{DOMAIN}"}
    check = net.domain(record)
    shown = f"*.apps.{DOMAIN}" if record == "apps" else name[record]
    free = Verdict(OK, f"Domain name resolution for the {shown} domain was successful or not required")

    def answered(spelling: str, **addresses: list[str]) -> dict[str, Any]:
        return asked(
            domain_name_resolutions={"resolutions": [{"domain_name": "x"}, {}, {"domain_name": spelling, **addresses}]}
        )

    assert check(host_view()) == free
    assert check(host_view(cluster=SNO)) == free
    mine = name[record]
    assert check(host_view(cluster=OWN)) == Verdict(
        PENDING, f"DNS resolution of {mine} has not been checked on this host yet"
    )
    missing = Verdict(
        BAD,
        f"Couldn't resolve domain name {shown} on the host. To continue installation, create the necessary DNS entries "
        f"to resolve this domain name to your cluster's {net.TARGETS[record]} IP address",
    )
    assert check(host_view(cluster=OWN, **answered("other.example"))) == missing
    assert check(host_view(cluster=OWN, **answered(mine))) == missing
    both = answered(mine.upper(), ipv4_addresses=["10.0.0.1"], ipv6_addresses=["fd00::1"])
    assert check(host_view(cluster=OWN, **both)) == free
    # A record for each control-plane node leads to the host itself, too.
    assert check(host_view(cluster=OWN, **answered(mine, ipv4_addresses=["10.0.0.1", "192.168.111.80"]))) == free


def probed(full: list[str], relative: list[str]) -> dict[str, Any]:
    answers = [(f"validateNoWildcardDNS.{DOMAIN}.", full), (f"validateNoWildcardDNS.{DOMAIN}", relative)]
    items = [{"domain_name": name, "ipv4_addresses": addresses} for name, addresses in answers]
    return asked(domain_name_resolutions={"resolutions": items})


def test_a_search_list_that_makes_names_of_nothing() -> None:
    assert net.no_wildcard(host_view(**probed([], []))) == Verdict(OK, "DNS wildcard check was successful")
    full = net.no_wildcard(host_view(**probed(["10.0.0.1", "10.0.0.2"], ["10.0.0.1"])))
    assert full.message.startswith(f"DNS wildcard configuration was detected for domain *.{DOMAIN}")
    assert full.message.endswith("The domain resolves to 10.0.0.1, 10.0.0.2")
    relative = net.no_wildcard(host_view(**probed([], ["10.0.0.9"])))
    assert relative.result is BAD
    assert "DHCP-provided domain-search" in relative.message


def test_the_releases_registry() -> None:
    pulled = {"release_image": "quay.example/r@sha256:1", "registries_conf": Path("/none")}
    assert net.release_domain(host_view()) == SUPPRESSED
    assert net.release_domain(host_view(settings=pulled)) == SUPPRESSED

    def answered(**addresses: list[str]) -> dict[str, Any]:
        answers = {"resolutions": [{"domain_name": "quay.example", **addresses}]}
        return {"settings": pulled, **asked(domain_name_resolutions=answers)}

    assert net.release_domain(host_view(**answered())) == Verdict(
        BAD,
        "Couldn't resolve domain name quay.example, the release image's registry, on the host: correct the name, or "
        "add it to the DNS",
    )
    assert net.release_domain(host_view(**answered(ipv6_addresses=["fd00::1", "fd00::2"]))) == SUPPRESSED
    # The cluster's own release comes before the service's.
    other = {**answered(), "cluster": {"ocp_release_image": "other.example/r:1"}}
    assert net.release_domain(host_view(**other)) == SUPPRESSED


def test_only_names_that_are_waited_for_are_asked() -> None:
    pulled = {"release_image": "quay.example/r@sha256:1", "registries_conf": Path("/none")}
    # With the search list and without it.
    probes = [f"validateNoWildcardDNS.{DOMAIN}", f"validateNoWildcardDNS.{DOMAIN}."]
    every = [f"api.{DOMAIN}", f"api-int.{DOMAIN}", f"console-openshift-console.apps.{DOMAIN}", *probes]
    assert net.names_to_resolve(host_view()) == probes
    assert net.names_to_resolve(host_view(cluster=SNO)) == probes
    assert net.names_to_resolve(host_view(cluster=OWN)) == every
    assert net.names_to_resolve(host_view(cluster=OWN, settings=pulled)) == [*every, "quay.example"]
    assert net.names_to_resolve(host_view(settings=pulled)) == [*probes, "quay.example"]
