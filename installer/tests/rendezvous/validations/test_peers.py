"""What a host's validations say of its peers: groups, addresses that two have, slow links (installer.md §5.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import Result, Role
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.requirements import DOCUMENTED, Requirements
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.service.verdict_kit import cluster_host, host_view, with_inventory

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
SNO = {"control_plane_count": 1, "user_managed_networking": True}


def nic(name: str, *addresses: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "mac_address": "52:54:00:00:00:80", "ipv4_addresses": list(addresses), **changes}


PEERS = (
    with_inventory(cluster_host(1), hostname="master-1", mac="52:54:00:00:00:81", ip="192.168.111.81/24"),
    with_inventory(cluster_host(2), hostname="master-2", mac="52:54:00:00:00:82", ip="192.168.111.82/24"),
)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (None, Verdict(PENDING, "Not enough hosts in cluster to calculate connectivity groups: 3")),
        ({}, Verdict(OK, "Host has connectivity to the majority of hosts in the cluster")),
        (
            {"a": ["h", "h1", "h2"], "b": ["h", "h1", "h2"]},
            Verdict(OK, "Host has connectivity to the majority of hosts in the cluster"),
        ),
        (
            {"a": ["h1", "h2"], "b": ["h"], "c": []},
            Verdict(BAD, "No connectivity to the majority of hosts in the cluster (a, c)"),
        ),
    ],
)
def test_majority(groups: Any, expected: Verdict) -> None:
    known = {"connectivity_majority_groups": "" if groups is None else json.dumps(groups)}
    assert net.majority_group(host_view(cluster=known, peers=PEERS)) == expected
    # Two alone are no majority of anything.
    assert net.majority_group(host_view(cluster=known, peers=PEERS[:1])) == Verdict(
        PENDING,
        "Not enough hosts in cluster to calculate connectivity groups: 2",
    )


def test_addresses_that_others_have() -> None:
    def among(*addresses: str, others: tuple[Host, ...] = PEERS) -> Verdict:
        found = {"interfaces": [nic("a", *addresses)]}
        view = host_view(found=found, peers=others)
        assert view.inventory is not None
        return net.no_ip_collisions(view, view.inventory)

    none = Verdict(OK, "No IP collisions were detected by host")
    assert among("192.168.111.80/24") == none
    # Outside of the machine network everybody may have what nobody routes.
    docker = tuple(with_inventory(cluster_host(n), mac=f"52:54:00:00:00:8{n}", ip="172.17.0.1/16") for n in (1, 2))
    assert among("192.168.111.80/24", "172.17.0.1/16", others=docker) == none
    assert among("192.168.111.81/24", "192.168.111.82/24") == Verdict(
        BAD,
        "Collisions detected for host addresses: 192.168.111.81 (also host master-1 (MAC 52:54:00:00:00:81)), "
        "192.168.111.82 (also host master-2 (MAC 52:54:00:00:00:82))",
    )


def report(*links: tuple[str, float, float]) -> dict[str, Any]:
    """Of each peer by id: round trip (ms) and loss (%)."""
    hosts = [
        {
            "host_id": peer,
            "l3_connectivity": [
                {
                    "remote_ip_address": "10.0.0.1",
                    "successful": True,
                    "average_rtt_ms": rtt,
                    "packet_loss_percentage": loss,
                }
            ],
        }
        for peer, rtt, loss in links
    ]
    return {"connectivity": json.dumps({"remote_hosts": hosts})}


TOLD = "master-1 (MAC 52:54:00:00:00:81)"
NEEDS = {**DOCUMENTED, "master": Requirements(4, 16384, 100, 10, 100, 5.5)}
ALONE = Verdict(OK, "Network latency is not checked: no peers"), Verdict(OK, "Packet loss is not checked: no peers")
WORKER = (cluster_host(3, role=Role.WORKER),)


@pytest.mark.parametrize(
    ("host", "cluster", "peers", "latency", "loss"),
    [
        (
            {},
            SNO,
            PEERS,
            Verdict(OK, "Network latency is not checked: no peers"),
            Verdict(OK, "Packet loss is not checked: no peers"),
        ),
        (
            {},
            {},
            (),
            Verdict(OK, "Network latency is not checked: no peers"),
            Verdict(OK, "Packet loss is not checked: no peers"),
        ),
        (
            {},
            {},
            PEERS[:1],
            Verdict(PENDING, "Network latency is not known: no connectivity report yet"),
            Verdict(PENDING, "Packet loss is not known: no connectivity report yet"),
        ),
        (
            report(("h1", 100.0, 5.5), ("h2", 1.0, 0.0)),
            {},
            PEERS,
            Verdict(OK, "Network latency requirement has been satisfied"),
            Verdict(OK, "Packet loss requirement has been satisfied"),
        ),
        (
            report(("gone", 1000.0, 99.0), ("h1", 100.5, 6.0), ("h2", 100.0, 5.5)),
            {},
            PEERS,
            Verdict(BAD, f"Network latency to {TOLD} (100.50 ms) exceeds the limit of 100 ms for role master"),
            Verdict(BAD, f"Packet loss to {TOLD} (6.00 %) exceeds the limit of 5.5 % for role master"),
        ),
        (
            report(("h1", 200.0, 20.0), ("h2", 300.0, 30.0)),
            {},
            PEERS,
            Verdict(
                BAD,
                f"Network latency to {TOLD} (200.00 ms), master-2 (MAC 52:54:00:00:00:82) (300.00 ms) exceeds the "
                "limit of 100 ms for role master",
            ),
            Verdict(
                BAD,
                f"Packet loss to {TOLD} (20.00 %), master-2 (MAC 52:54:00:00:00:82) (30.00 %) exceeds the "
                "limit of 5.5 % for role master",
            ),
        ),
        # What a worker has says nothing about a master, whether its role was chosen or suggested.
        (
            report(("h3", 500.0, 50.0)),
            {},
            WORKER,
            Verdict(OK, "Network latency requirement has been satisfied"),
            Verdict(OK, "Packet loss requirement has been satisfied"),
        ),
        (
            report(("h3", 500.0, 50.0)),
            {},
            (cluster_host(3, role=Role.AUTO, suggested_role=Role.MASTER),),
            Verdict(BAD, "Network latency to master-3 (500.00 ms) exceeds the limit of 100 ms for role master"),
            Verdict(BAD, "Packet loss to master-3 (50.00 %) exceeds the limit of 5.5 % for role master"),
        ),
    ],
)
def test_links(
    host: dict[str, Any],
    cluster: dict[str, Any],
    peers: tuple[Host, ...],
    latency: Verdict,
    loss: Verdict,
) -> None:
    view = host_view(host=host, cluster=cluster, peers=peers, needs=NEEDS)
    assert net.latency(view) == latency
    assert net.packet_loss(view) == loss


def test_links_of_a_host_without_a_role_have_no_limit_yet() -> None:
    nameless = {"role": Role.AUTO, **report(("h1", 500.0, 50.0))}
    view = host_view(host=nameless, peers=PEERS, needs=NEEDS)
    assert net.latency(view) == Verdict(OK, "Network latency is not checked: role auto-assign has no limit")
    assert net.packet_loss(view) == Verdict(OK, "Packet loss is not checked: role auto-assign has no limit")
