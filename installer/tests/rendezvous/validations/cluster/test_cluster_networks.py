"""What a cluster's validations say of its networks (installer.md §5.4): both sides, in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import Result
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.cluster_kit import (
    BAD,
    CHECKS,
    OK,
    OWN,
    PENDING,
    SNO,
    hosts,
    nets,
    pods,
)
from installer.testing.engine.verdict_kit import cluster_view

CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("machine-cidr-defined", {}, OK, "The Machine Network CIDR is defined."),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": []}},
        BAD,
        "The Machine Network CIDR is undefined; the Machine Network CIDR can be defined by setting "
        "either the API or Ingress virtual IPs.",
    ),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN}},
        OK,
        "No Machine Network CIDR needed: User Managed Networking",
    ),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN, **SNO}},
        BAD,
        "The Machine Network CIDR is undefined; Setting Machine Network CIDR is required for single node cluster",
    ),
    ("cluster-cidr-defined", {}, OK, "The Cluster Network CIDR is defined."),
    (
        "cluster-cidr-defined",
        {"cluster": {"cluster_networks": [{"cidr": ""}], **OWN}},
        BAD,
        "The Cluster Network CIDR is undefined.",
    ),
    ("service-cidr-defined", {}, OK, "The Service Network CIDR is defined."),
    ("service-cidr-defined", {"cluster": {"service_networks": []}}, BAD, "The Service Network CIDR is undefined."),
    ("no-cidrs-overlapping", {}, OK, "No CIDRS are overlapping."),
    (
        "no-cidrs-overlapping",
        {"cluster": {"machine_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": nets("192.168.0.0/16")}},
        BAD,
        "CIDRS Overlapping: Machine Network and Service Network: CIDRS 192.168.111.0/24 and 192.168.0.0/16 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("172.30.5.0/24")}},
        BAD,
        "CIDRS Overlapping: Cluster Network and Service Network: CIDRS 172.30.5.0/24 and 172.30.0.0/16 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("192.168.111.128/25"), "service_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": nets("192.168.111.0/24"), **OWN}},
        BAD,
        "CIDRS Overlapping: Machine Network and Service Network: CIDRS 192.168.111.0/24 and 192.168.111.0/24 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {
            "cluster": {
                "cluster_networks": nets("10.128.0.0/14", "10.130.0.0/16"),
                "service_networks": nets("172.30.0.0/16", "fd02::/112"),
            }
        },
        BAD,
        "CIDRS Overlapping: Cluster Network and Cluster Network: CIDRS 10.128.0.0/14 and 10.130.0.0/16 overlap.",
    ),
    *(
        (
            "service-cidr-defined",
            {"cluster": {"service_networks": nets(cidr)}},
            BAD,
            f"The Service Network CIDR {cidr} cannot be used: its prefix length must be between {range_}.",
        )
        for cidr, range_ in (
            ("172.30.0.0/32", "12 and 28"),
            ("172.30.0.0/29", "12 and 28"),
            ("10.0.0.0/11", "12 and 28"),
            ("fd02::/107", "108 and 124"),
            ("fd02::/125", "108 and 124"),
        )
    ),
    *(
        (
            "service-cidr-defined",
            {"cluster": {"service_networks": nets(*cidrs)}},
            OK,
            "The Service Network CIDR is defined.",
        )
        for cidrs in (["172.16.0.0/12"], ["172.30.0.0/28", "fd02::/108"], ["fd02::/124"])
    ),
    (
        "service-cidr-defined",
        {"cluster": {"service_networks": nets("172.30.0.0/16", "172.31.0.0/16")}},
        BAD,
        "The Service Network CIDR cannot be 172.30.0.0/16, 172.31.0.0/16: there is one for each address family.",
    ),
    ("networks-same-address-families", {}, OK, "Same address families for all networks."),
    (
        "networks-same-address-families",
        {"cluster": {"machine_networks": [], "cluster_networks": nets("fd01::1/48"), "service_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "networks-same-address-families",
        {"cluster": {"cluster_networks": nets("fd01::/48", "10.128.0.1/14"), "machine_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    ("network-prefix-valid", {}, OK, "The Cluster Network prefix is valid."),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", None),
        BAD,
        "Invalid Cluster Network prefix: Host prefix, now 0, must be a positive integer.",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", 30),
        BAD,
        "Host prefix, now 30, must be less than or equal to 25 to allow at least 128 addresses",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", 31),
        BAD,
        "Host prefix, now 31, must be less than or equal to 25 to allow at least 128 addresses",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.1/14", 13),
        BAD,
        "Cluster network CIDR prefix 14 does not contain enough addresses for 3 hosts each one with "
        "13 prefix (524288 addresses)",
    ),
    (
        "network-prefix-valid",
        pods("fd01::/48", 126),
        BAD,
        "Host prefix, now 126, must be less than or equal to 121 to allow at least 128 addresses",
    ),
    # Three hosts: four parts are enough, two are not.
    ("network-prefix-valid", pods("10.128.0.0/22", 24), OK, "The Cluster Network prefix is valid."),
    (
        "network-prefix-valid",
        pods("10.128.0.0/23", 24),
        BAD,
        "Cluster network CIDR prefix 23 does not contain enough addresses for 3 hosts each one with "
        "24 prefix (256 addresses)",
    ),
    (
        "network-prefix-valid",
        {**pods("10.128.0.0/23", 24), **hosts({}, {})},
        BAD,
        "Cluster network CIDR prefix 23 does not contain enough addresses for 2 hosts each one with "
        "24 prefix (256 addresses)",
    ),
]


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert CHECKS[check](cluster_view(**changes)) == Verdict(result, message)
