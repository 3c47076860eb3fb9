"""Verdicts on a host's network (installer.md §5.4): both sides of each question, in the user's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus, HostStatus, Result
from installer.rendezvous.validations import names
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import host_view

OK, BAD, PENDING, ERROR = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.ERROR
SUPPRESSED = Result.SUPPRESSED
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1, "user_managed_networking": True}
NO_CIDRS: dict[str, Any] = {"machine_networks": []}
DAY2 = {"status": ClusterStatus.ADDING_HOSTS}


def nic(name: str, *addresses: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "mac_address": "52:54:00:00:00:80", "ipv4_addresses": list(addresses), **changes}


def asked(**fields: Any) -> dict[str, Any]:
    """Change of a host whose answers are these documents."""
    return {"host": {name: json.dumps(value) for name, value in fields.items()}}


def image(name: str, result: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "result": result, **more}


def route(**changes: Any) -> dict[str, Any]:
    return {"interface": "enp1s0", "gateway": "192.168.111.1", "destination": "0.0.0.0", "family": 2, **changes}


def iscsi(address: str, *nics: dict[str, Any], drive_type: str = "iSCSI") -> dict[str, Any]:
    """Return the installation disk hangs on this address."""
    disk = {"id": "lun", "path": "/dev/sda", "drive_type": drive_type, "iscsi": {"host_ip_address": address}}
    return {
        "host": {"installation_disk_id": "lun"},
        "reported": {"disks": [{"id": "other"}, disk], "interfaces": list(nics)},
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
        "Host is disconnected: the agent has not called in since 2026-01-01T11:56:59.000Z. Is it on, and does it reach "
        "this service?",
    ),
    (
        "connected",
        {"host": {"checked_in_at": None}},
        BAD,
        "Host is disconnected: the agent has not called in since it was made. Is it on, and does it reach this "
        "service?",
    ),
    ("machine_cidr_defined", {}, OK, "Machine Network CIDR is defined"),
    (
        "machine_cidr_defined",
        {"cluster": NO_CIDRS},
        BAD,
        "Machine Network CIDR is undefined; the Machine Network CIDR can be defined by setting "
        "either the API or Ingress virtual IPs",
    ),
    (
        "machine_cidr_defined",
        {"cluster": NO_CIDRS | OWN},
        OK,
        "No Machine Network CIDR needed: User Managed Networking",
    ),
    (
        "machine_cidr_defined",
        {"cluster": NO_CIDRS | SNO},
        OK,
        "No Machine Network CIDR needed: User Managed Networking",
    ),
    ("belongs_to_machine_cidr", {}, OK, "Host belongs to all machine network CIDRs"),
    ("belongs_to_machine_cidr", {"cluster": NO_CIDRS}, PENDING, "Missing inventory or machine network CIDR"),
    ("belongs_to_machine_cidr", {"cluster": NO_CIDRS | SNO}, PENDING, "Missing inventory or machine network CIDR"),
    (
        "belongs_to_machine_cidr",
        {"cluster": NO_CIDRS | OWN},
        OK,
        "No machine network CIDR validation needed: User Managed Networking",
    ),
    (
        "belongs_to_machine_cidr",
        {
            "cluster": {"machine_networks": [{"cidr": c} for c in ("192.168.111.0/24", "10.0.0.0/8", "fd00::/64")]},
            "reported": {"interfaces": [nic("a", "192.168.111.80/24", "172.16.0.1/16", ipv6_addresses=[LINK_LOCAL])]},
        },
        BAD,
        "Host does not belong to machine network CIDRs: it has no address in 10.0.0.0/8, fd00::/64, "
        "its addresses are 192.168.111.80/24, 172.16.0.1/16. Verify that the host belongs to every "
        "CIDR listed under machine networks",
    ),
    (
        "belongs_to_machine_cidr",
        {"reported": {"interfaces": [nic("a", ipv6_addresses=[LINK_LOCAL])]}},
        BAD,
        "Host does not belong to machine network CIDRs: it has no address in 192.168.111.0/24, its "
        "addresses are none. Verify that the host belongs to every CIDR listed under machine "
        "networks",
    ),
    ("ignition_downloadable", {}, SUPPRESSED, ""),
    ("ignition_downloadable", {"cluster": DAY2}, PENDING, "Ignition is not yet available, pending API connectivity"),
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
        "This host has failed to download the ignition file from the cluster: no answer. Please "
        "ensure the host can reach this URL",
    ),
    (
        "ignition_downloadable",
        {"cluster": DAY2, **asked(api_vip_connectivity={"url": "https://api:22624/w", "download_error": "refused"})},
        BAD,
        "This host has failed to download the ignition file from https://api:22624/w: refused. "
        "Please ensure the host can reach this URL",
    ),
    (
        "majority_group",
        {"cluster": SNO},
        OK,
        "Host has connectivity to the majority of hosts in the cluster",
    ),
    ("majority_group", {}, PENDING, "Machine Network CIDR or Connectivity Majority Groups missing"),
    ("ntp_synced", {}, BAD, "Host couldn't synchronize with any NTP server"),
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
    ("time_synced", {}, PENDING, "Missing host time, can't determine synchronization between host and service"),
    ("time_synced", {"host": {"clock_gap": 0.0}}, OK, "Host clock is synchronized with service"),
    ("time_synced", {"host": {"clock_gap": 3600.0}}, OK, "Host clock is synchronized with service"),
    ("time_synced", {"host": {"clock_gap": -1200.0}}, OK, "Host clock is synchronized with service"),
    (
        "time_synced",
        {"host": {"clock_gap": 3606.0}},
        BAD,
        "Host clock is not synchronized, host time is ahead of service by 60.1 minutes (at most 60): "
        "please configure an NTP server via DHCP",
    ),
    (
        "time_synced",
        {"host": {"clock_gap": -1206.0}},
        BAD,
        "Host clock is not synchronized, service time is ahead of host's by 20.1 minutes (at most "
        "20): please configure an NTP server via DHCP",
    ),
    (
        "images_available",
        {},
        OK,
        "All required container images were either pulled successfully or no attempt was made to pull them",
    ),
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
        "Failed to fetch container images needed for installation (retry to install; if it stays so, check the network "
        "settings and the mirror registry): a (no route), c",
    ),
    ("default_route", {}, OK, "Host has been configured with at least one default route."),
    (
        "default_route",
        {"reported": {"routes": [route(destination="10.0.0.0/8"), route(gateway="0.0.0.0"), route(gateway="")]}},
        BAD,
        "Host has not yet been configured with a default route.",
    ),
    ("no_overlap", {}, OK, "Host subnets are not overlapping"),
    (
        "no_overlap",
        {"reported": {"interfaces": [nic("a", "10.0.0.1/24", "10.0.0.3/24"), nic("b", "10.0.0.2/24")]}},
        BAD,
        "Address networks are overlapping: Address network 10.0.0.0/24 appears on multiple interfaces [a, b]",
    ),
    # Two addresses of one network on one interface, link-local ones, and a family that the cluster has not.
    (
        "no_overlap",
        {
            "reported": {
                "interfaces": [
                    nic("a", "10.0.0.1/24", "10.0.0.3/24", ipv6_addresses=["fe80::1/64", "fd00::1/64"]),
                    nic("b", "10.0.1.1/24", ipv6_addresses=["fe80::2/64", "fd00::2/64"]),
                ]
            }
        },
        OK,
        "Host subnets are not overlapping",
    ),
    (
        "no_overlap",
        {"reported": {"interfaces": [nic("a", "10.0.0.1/8"), nic("b", "10.1.0.1/16"), nic("c", "172.16.0.1/16")]}},
        BAD,
        "Address networks are overlapping: Address networks 10.0.0.0/8 in interface a and "
        "10.1.0.0/16 in interface b overlap",
    ),
    (
        "no_wildcard",
        {},
        PENDING,
        "DNS wildcard check cannot be performed yet because the host has not yet performed DNS resolution",
    ),
    ("no_iscsi_nic", {}, SUPPRESSED, ""),
    (
        "no_iscsi_nic",
        {"host": {"installation_disk_id": "gone"}},
        SUPPRESSED,
        "",
    ),
    (
        "no_iscsi_nic",
        {"host": {"installation_disk_id": "lun"}, "reported": {"disks": [{"id": "lun", "drive_type": "iSCSI"}]}},
        ERROR,
        "iSCSI disk  is missing host IP address",
    ),
    (
        "no_iscsi_nic",
        iscsi("192.168.111.80", nic("a", "192.168.111.80/24"), drive_type="HDD"),
        SUPPRESSED,
        "",
    ),
    (
        "no_iscsi_nic",
        iscsi("192.168.111.80", nic("a", "192.168.111.80/24"), nic("b", "10.0.0.1/24")),
        BAD,
        "Network interface connected to iSCSI disk cannot belong to machine network CIDRs: a of /dev/sda",
    ),
    # As it should be: one NIC for the storage, another for the cluster.
    (
        "no_iscsi_nic",
        iscsi("10.0.0.1", nic("a", "192.168.111.80/24"), nic("b", "10.0.0.1/24")),
        OK,
        "Network interface connected to iSCSI disk does not belong to machine network CIDRs",
    ),
    (
        "no_iscsi_nic",
        iscsi("fd00::1", nic("b", "192.168.111.80/24", ipv6_addresses=["fd00::1/64"]), nic("c")),
        BAD,
        "Network interface connected to iSCSI disk cannot belong to machine network CIDRs: b of /dev/sda",
    ),
    ("mtu_valid", {}, PENDING, "Missing MTU report information"),
    (
        "mtu_valid",
        asked(
            connectivity={
                "remote_hosts": [
                    {
                        "host_id": "h1",
                        "mtu_report": [
                            {"outgoing_nic": "enp1s0", "remote_ip_address": "192.168.111.81"},
                            {"outgoing_nic": "enp1s0", "remote_ip_address": "192.168.111.82", "mtu_successful": True},
                            {"outgoing_nic": "enp1s0", "remote_ip_address": "192.168.111.83", "mtu_successful": False},
                            # Neither of the machine network.
                            {"outgoing_nic": "enp1s0", "remote_ip_address": "10.0.0.1"},
                            {"outgoing_nic": "other", "remote_ip_address": "192.168.111.84"},
                        ],
                    }
                ]
            }
        ),
        BAD,
        "MTU is broken. Interface: enp1s0, remote IP address: 192.168.111.81; Interface: enp1s0, "
        "remote IP address: 192.168.111.83",
    ),
]
WITH_INVENTORY = {
    "default_route",
    "no_overlap",
}


def verdict(check: str, changes: dict[str, Any]) -> Verdict:
    view = host_view(**changes)
    call: Any = getattr(net, check, None) or getattr(names, check)
    result: Verdict = call(view, view.inventory) if check in WITH_INVENTORY else call(view)
    return result


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert verdict(check, changes) == Verdict(result, message)
