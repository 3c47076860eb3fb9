"""What a host's network validations say (installer.md §5.4): both sides of each question, in the user's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus, HostStatus, Result
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.service.verdict_kit import host_view

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1, "user_managed_networking": True}
NO_CIDRS: dict[str, Any] = {"machine_networks": []}
DAY2 = {"status": ClusterStatus.ADDING_HOSTS}
DOMAIN = "ostest.test.node0.example"


def nic(name: str, *addresses: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "mac_address": "52:54:00:00:00:80", "ipv4_addresses": list(addresses), **changes}


def asked(**fields: Any) -> dict[str, Any]:
    """Changes of a host whose answers are these documents."""
    return {"host": {name: json.dumps(value) for name, value in fields.items()}}


def resolved(**answers: list[str]) -> dict[str, Any]:
    items = [
        {"domain_name": f"{name.replace('_', '-')}.{DOMAIN}.", "ipv4_addresses": found}
        for name, found in answers.items()
    ]
    return asked(domain_name_resolutions={"resolutions": items})


def image(name: str, result: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "result": result, **more}


def route(**changes: Any) -> dict[str, Any]:
    return {"interface": "enp1s0", "gateway": "192.168.111.1", "destination": "0.0.0.0", "family": 2, **changes}


def iscsi(address: str, *nics: dict[str, Any], drive_type: str = "iSCSI") -> dict[str, Any]:
    """The installation disk hangs on this address."""
    disk = {"id": "lun", "drive_type": drive_type, "iscsi": {"host_ip_address": address}}
    return {
        "host": {"installation_disk_id": "lun"},
        "found": {"disks": [{"id": "other"}, disk], "interfaces": list(nics)},
    }


def source(name: str, state: str) -> dict[str, str]:
    return {"source_name": name, "source_state": state}


def silent(seconds: str) -> dict[str, Any]:
    return {"host": {"checked_in_at": f"2026-01-01T{seconds}Z"}}


LINK_LOCAL = "fe80::1/64"
CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("connected", {}, OK, "Host is connected"),
    ("connected", silent("11:57:00.000"), OK, "Host is connected"),
    (
        "connected",
        silent("11:56:59.000"),
        BAD,
        "Host is disconnected: the agent has not called in since 2026-01-01T11:56:59.000Z",
    ),
    (
        "connected",
        {"host": {"checked_in_at": None}},
        BAD,
        "Host is disconnected: the agent has not called in since it was made",
    ),
    ("machine_cidr_defined", {}, OK, "Machine Network CIDR is defined"),
    ("machine_cidr_defined", {"cluster": NO_CIDRS}, PENDING, "Machine Network CIDR is undefined"),
    (
        "machine_cidr_defined",
        {"cluster": NO_CIDRS | OWN},
        OK,
        "No Machine Network CIDR needed: user managed networking",
    ),
    ("machine_cidr_defined", {"cluster": NO_CIDRS | SNO}, PENDING, "Machine Network CIDR is undefined"),
    ("belongs_to_machine_cidr", {}, OK, "Host belongs to all machine network CIDRs"),
    ("belongs_to_machine_cidr", {"cluster": NO_CIDRS}, PENDING, "Missing machine network CIDR"),
    ("belongs_to_machine_cidr", {"cluster": NO_CIDRS | SNO}, PENDING, "Missing machine network CIDR"),
    (
        "belongs_to_machine_cidr",
        {"cluster": NO_CIDRS | OWN},
        OK,
        "No machine network CIDR validation needed: user managed networking",
    ),
    (
        "belongs_to_machine_cidr",
        {
            "cluster": {"machine_networks": [{"cidr": c} for c in ("192.168.111.0/24", "10.0.0.0/8", "fd00::/64")]},
            "found": {"interfaces": [nic("a", "192.168.111.80/24", "172.16.0.1/16", ipv6_addresses=[LINK_LOCAL])]},
        },
        BAD,
        "Host has no address in machine network 10.0.0.0/8, fd00::/64: found 192.168.111.80/24, 172.16.0.1/16",
    ),
    (
        "belongs_to_machine_cidr",
        {"found": {"interfaces": [nic("a", ipv6_addresses=[LINK_LOCAL])]}},
        BAD,
        "Host has no address in machine network 192.168.111.0/24: found none",
    ),
    ("ignition_downloadable", {}, OK, "Ignition is downloadable: it is made when the installation starts"),
    ("ignition_downloadable", {"cluster": DAY2}, PENDING, "Ignition has not been asked for yet"),
    (
        "ignition_downloadable",
        {"cluster": DAY2, **asked(api_vip_connectivity={"is_success": True})},
        OK,
        "Ignition is downloadable",
    ),
    (
        "ignition_downloadable",
        {"cluster": DAY2, **asked(api_vip_connectivity={"is_success": False})},
        BAD,
        "Ignition is not downloadable from the cluster: no answer",
    ),
    (
        "ignition_downloadable",
        {"cluster": DAY2, **asked(api_vip_connectivity={"url": "https://api:22624/w", "download_error": "refused"})},
        BAD,
        "Ignition is not downloadable from https://api:22624/w: refused",
    ),
    (
        "majority_group",
        {"cluster": SNO},
        OK,
        "Day2 or single node host is not required to be connected to other hosts in the cluster",
    ),
    ("majority_group", {}, PENDING, "Not enough hosts in cluster to calculate connectivity groups: 1"),
    ("ntp_synced", {}, PENDING, "NTP sources have not been checked yet"),
    (
        "ntp_synced",
        asked(ntp_sources=[]),
        BAD,
        "Host couldn't synchronize with any NTP server: no sources are configured",
    ),
    (
        "ntp_synced",
        asked(
            ntp_sources=[
                source("a", "error"),
                source("b", "unreachable"),
            ]
        ),
        BAD,
        "Host couldn't synchronize with any NTP server: a is error, b is unreachable",
    ),
    (
        "ntp_synced",
        asked(ntp_sources=[source("a", "error"), source("b", "synced")]),
        OK,
        "Host NTP is synced",
    ),
    ("time_synced", {}, PENDING, "The host has not told its time yet"),
    ("time_synced", {"host": {"clock_gap": 0.0}}, OK, "Host clock is synchronized with service"),
    ("time_synced", {"host": {"clock_gap": 240.0}}, OK, "Host clock is synchronized with service"),
    ("time_synced", {"host": {"clock_gap": -240.0}}, OK, "Host clock is synchronized with service"),
    (
        "time_synced",
        {"host": {"clock_gap": 246.0}},
        BAD,
        "Host clock is 4.1 minutes ahead of the service's, at most 4 allowed",
    ),
    (
        "time_synced",
        {"host": {"clock_gap": -600.0}},
        BAD,
        "Host clock is 10.0 minutes behind the service's, at most 4 allowed",
    ),
    (
        "time_synced",
        {"host": {"clock_gap": 60060.0}, "settings": {"max_clock_gap": 36000.0}},
        BAD,
        "Host clock is 1001.0 minutes ahead of the service's, at most 600 allowed",
    ),
    ("images_available", {}, OK, "Images have not been checked yet"),
    (
        "images_available",
        {"host": {"status": HostStatus.PREPARING}},
        PENDING,
        "Images availability is being checked",
    ),
    (
        "images_available",
        asked(images_status=[image("a", "success"), image("b", "success")]),
        OK,
        "All required container images were either pulled successfully or no attempt was made to pull them",
    ),
    (
        "images_available",
        asked(images_status=[image("a", "failure", error="no route"), image("b", "success"), image("c", "failure")]),
        BAD,
        "Container images needed for installation could not be pulled: a (no route), c",
    ),
    ("default_route", {}, OK, "Host has been configured with at least one default route"),
    (
        "default_route",
        {"found": {"routes": [route(destination="10.0.0.0/8"), route(gateway="0.0.0.0"), route(gateway="")]}},
        BAD,
        "Host has not been configured with a default route",
    ),
    ("no_overlap", {}, OK, "Host subnets are not overlapping"),
    (
        "no_overlap",
        {"found": {"interfaces": [nic("a", "10.0.0.1/8"), nic("b", "10.1.0.1/16"), nic("c", "172.16.0.1/16")]}},
        BAD,
        "Address networks 10.0.0.0/8 and 10.1.0.0/16 of the host overlap",
    ),
    ("no_wildcard", {}, OK, "DNS wildcard check is not required"),
    ("no_wildcard", {"cluster": SNO}, OK, "DNS wildcard check is not required"),
    (
        "no_wildcard",
        {"cluster": OWN},
        PENDING,
        "DNS wildcard check cannot be performed yet because the host has not yet performed DNS resolution",
    ),
    ("no_wildcard", {"cluster": OWN, **resolved(validateNoWildcardDNS=[])}, OK, "DNS wildcard check was successful"),
    (
        "no_wildcard",
        {"cluster": OWN, **resolved(validateNoWildcardDNS=["10.0.0.1"])},
        BAD,
        f"DNS wildcard configuration was detected for domain *.{DOMAIN}",
    ),
    ("no_iscsi_nic", {}, OK, "Network interface is not used for iSCSI"),
    (
        "no_iscsi_nic",
        {"host": {"installation_disk_id": "gone"}},
        OK,
        "Network interface is not used for iSCSI",
    ),
    (
        "no_iscsi_nic",
        {"host": {"installation_disk_id": "lun"}, "found": {"disks": [{"id": "lun", "drive_type": "iSCSI"}]}},
        OK,
        "Network interface is not used for iSCSI",
    ),
    (
        "no_iscsi_nic",
        iscsi("192.168.111.80", nic("a", "192.168.111.80/24"), nic("b", "192.168.111.80/24")),
        BAD,
        "Network interface a, b of the iSCSI installation disk is in the machine network",
    ),
    (
        "no_iscsi_nic",
        iscsi("192.168.111.80", nic("a", "192.168.111.80/24"), drive_type="HDD"),
        OK,
        "Network interface is not used for iSCSI",
    ),
    (
        "no_iscsi_nic",
        iscsi("192.168.111.80", nic("a", "192.168.111.80/24"), nic("b", "10.0.0.1/24")),
        BAD,
        "Network interface a of the iSCSI installation disk is in the machine network",
    ),
    # As it should be: one NIC for the storage, another for the cluster.
    (
        "no_iscsi_nic",
        iscsi("10.0.0.1", nic("a", "192.168.111.80/24"), nic("b", "10.0.0.1/24")),
        OK,
        "Network interface of the iSCSI disk is outside of the machine network",
    ),
    (
        "no_iscsi_nic",
        iscsi("fd00::1", nic("b", "192.168.111.80/24", ipv6_addresses=["fd00::1/64"]), nic("c")),
        BAD,
        "Network interface b of the iSCSI installation disk is in the machine network",
    ),
    ("mtu_valid", {}, OK, "MTU is ok"),
    (
        "mtu_valid",
        asked(
            connectivity={
                "remote_hosts": [
                    {
                        "host_id": "h1",
                        "mtu_report": [
                            {"remote_ip_address": "10.0.0.1", "mtu_successful": False},
                            {"remote_ip_address": "10.0.0.2", "mtu_successful": True},
                            {"remote_ip_address": "10.0.0.3", "mtu_successful": False},
                        ],
                    }
                ]
            }
        ),
        BAD,
        "MTU is broken on the way to 10.0.0.1, 10.0.0.3",
    ),
]
WITH_INVENTORY = {
    "belongs_to_machine_cidr",
    "time_synced",
    "default_route",
    "no_overlap",
    "no_ip_collisions",
    "no_iscsi_nic",
}


def verdict(check: str, changes: dict[str, Any]) -> Verdict:
    view = host_view(**changes)
    call: Any = getattr(net, check)
    found: Verdict = call(view, view.inventory) if check in WITH_INVENTORY else call(view)
    return found


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert verdict(check, changes) == Verdict(result, message)
