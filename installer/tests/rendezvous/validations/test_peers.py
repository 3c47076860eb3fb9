"""Verdicts on a host among its peers: groups, shared addresses, slow links (installer.md §5.4)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import Result, Role
from installer.rendezvous.store.documents import FencingCredentials
from installer.rendezvous.store.links import Connectivity
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations import network as net
from installer.rendezvous.validations.connectivity import majority_groups
from installer.rendezvous.validations.requirements import DOCUMENTED, Requirements
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import CLUSTER, cluster_host, host_view, with_inventory

replace = msgspec.structs.replace
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
    fields = {"connectivity_majority_groups": "" if groups is None else json.dumps(groups)}
    assert net.majority_group(host_view(cluster=fields, peers=PEERS)) == expected
    # Two alone are no majority of anything.
    if expected.result is BAD:
        assert net.majority_group(host_view(cluster=fields, peers=PEERS[:1])) == Verdict(
            PENDING, "Not enough hosts in cluster to calculate connectivity groups"
        )


def test_a_majority_that_is_not_known() -> None:
    unknown = host_view(cluster={"connectivity_majority_groups": ""}, peers=PEERS)
    assert net.majority_group(unknown) == Verdict(
        PENDING, "Machine Network CIDR or Connectivity Majority Groups missing"
    )
    nowhere = host_view(cluster={"connectivity_majority_groups": "{}"}, peers=PEERS)
    assert net.majority_group(nowhere) == Verdict(PENDING, "Not enough information to calculate host majority groups")


def reaching(*addresses: str, peer: str, layer: str = "l3_connectivity") -> dict[str, Any]:
    links = [{"remote_ip_address": address, "successful": True} for address in addresses]
    return {"host_id": peer, layer: links}


def seeing(number: int, *peers: dict[str, Any]) -> Host:
    return replace(PEERS[0], id=f"h{number}", connectivity=Connectivity(json.dumps({"remote_hosts": peers})))


def test_hosts_of_different_subnets_are_one_group_where_the_user_manages_networking() -> None:
    """All others reach one and the same address of a host: routing is enough, and machine networks do not matter."""
    own = replace(CLUSTER, user_managed_networking=True)
    hosts = [
        seeing(0, reaching("10.1.0.1", "nonsense", peer="h1"), reaching("10.2.0.1", peer="h2")),
        seeing(1, reaching("10.0.0.1", peer="h0"), reaching("10.2.0.1", "10.2.0.2", peer="h2")),
        seeing(2, reaching("10.0.0.1", peer="h0"), reaching("10.1.0.1", peer="h1")),
    ]
    assert majority_groups(own, hosts) == {"IPv4": ["h0", "h1", "h2"]}
    balanced = replace(CLUSTER, load_balancer={"type": "user-managed"})
    assert majority_groups(balanced, hosts) == {"IPv4": ["h0", "h1", "h2"]}
    assert majority_groups(CLUSTER, hosts) == {"192.168.111.0/24": []}
    # Each reaches the host, but not at one address.
    hosts[0] = seeing(0, reaching("10.1.0.9", peer="h1"), reaching("10.2.0.1", peer="h2"))
    assert majority_groups(own, hosts) == {"IPv4": ["h0", "h2"]}
    # What a host reaches of itself says nothing.
    hosts[0] = seeing(0, reaching("10.0.0.1", peer="h0"), reaching("10.2.0.1", peer="h2"))
    assert majority_groups(own, hosts) == {"IPv4": ["h0", "h2"]}
    both = replace(own, service_networks=[{"cidr": "172.30.0.0/16"}, {"cidr": "fd02::/112"}])
    assert majority_groups(both, hosts) == {"IPv4": ["h0", "h2"], "IPv6": []}


def test_nobody_answers_arp_in_an_ipv6_network() -> None:
    six = replace(CLUSTER, machine_networks=[{"cidr": "fd00::/64"}])
    hosts = [seeing(n, *(reaching(f"fd00::{m}", peer=f"h{m}") for m in range(3) if m != n)) for n in range(3)]
    assert majority_groups(six, hosts) == {"fd00::/64": ["h0", "h1", "h2"]}


def test_two_nodes_that_fence_each_other_are_a_group() -> None:
    fencing = FencingCredentials.of({"address": "redfish://x", "username": "u", "password": "p"})
    pair = replace(CLUSTER, control_plane_count=2)
    hosts = [
        replace(
            seeing(n, reaching("192.168.111.8", peer=f"h{1 - n}", layer="l2_connectivity")), fencing_credentials=fencing
        )
        for n in range(2)
    ]
    assert majority_groups(pair, hosts) == {"192.168.111.0/24": ["h0", "h1"]}
    plain = [replace(host, fencing_credentials=FencingCredentials()) for host in hosts]
    assert majority_groups(pair, plain) == {"192.168.111.0/24": []}


def test_an_address_that_two_machines_answer_for() -> None:
    def answer(mac: str, nic: str = "eno1") -> dict[str, Any]:
        return {"remote_ip_address": "192.168.111.80", "remote_mac": mac, "outgoing_nic": nic, "successful": True}

    def seen(*links: dict[str, Any]) -> Verdict:
        peer = {"host_id": "h", "l2_connectivity": list(links)}
        return net.no_ip_collisions(host_view(peers=(seeing(1, peer),)))

    good = Verdict(OK, "No IP collisions were detected by host h")
    assert seen(answer("52:54:00:00:00:80"), answer("52:54:00:00:00:80")) == good
    # By another way it may be another machine's.
    assert seen(answer("52:54:00:00:00:80"), answer("52:54:00:00:00:99", "eno2")) == good
    assert seen(answer("52:54:00:00:00:99"), answer("52:54:00:00:00:80")) == Verdict(
        BAD,
        "Collisions detected for host ID h, IP address: 192.168.111.80 "
        "Mac addresses: 52:54:00:00:00:80,52:54:00:00:00:99",
    )


def test_addresses_that_others_have() -> None:
    def among(*addresses: str, others: tuple[Host, ...] = PEERS) -> Verdict:
        peer_inventory = {"interfaces": [nic("a", *addresses)]}
        view = host_view(reported=peer_inventory, peers=others)
        assert view.inventory is not None
        return net.no_ip_collisions(view)

    none = Verdict(OK, "No IP collisions were detected by host h")
    assert among("192.168.111.80/24") == none
    # Outside of the machine network everybody may have what nobody routes.
    docker = tuple(with_inventory(cluster_host(n), mac=f"52:54:00:00:00:8{n}", ip="172.17.0.1/16") for n in (1, 2))
    assert among("192.168.111.80/24", "172.17.0.1/16", others=docker) == none
    assert among("192.168.111.81/24", "192.168.111.82/24") == Verdict(
        BAD,
        "Collisions detected for host ID h, IP address: 192.168.111.81 (also host master-1 (MAC 52:54:00:00:00:81)); "
        "IP address: 192.168.111.82 (also host master-2 (MAC 52:54:00:00:00:82))",
    )


def report(*links: tuple[str, float, float]) -> dict[str, Any]:
    """Round trip (ms) and loss (%) of each peer, by id."""
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


NAMED = "master-1 (MAC 52:54:00:00:00:81)"
NEEDS = {
    **DOCUMENTED,
    "master": Requirements(
        cpu_cores=4, ram_mib=16384, disk_size_gb=100, disk_speed_ms=10, latency_ms=100, packet_loss_percent=5.5
    ),
}
PINGS = (
    "Please try the following commands on the host master-0 to investigate further:\n"
    "ping -c 10 -W 3 -q -I enp1s0 192.168.111.80\n"
)
BONDS = (
    "Check if there are multiple devices on the same L2 network: then bond them (networkConfig), or disable all but "
    "one."
)


def slow(peers: str) -> Verdict:
    limit = "A total network latency above the tolerated threshold of 100.00 ms for role master"
    return Verdict(BAD, f"{limit} was encountered between host master-0 and {peers}\nActions:\n{PINGS}")


def lossy(peers: str) -> Verdict:
    limit = "A total packet loss above the tolerated threshold of 5.50% for role master"
    return Verdict(BAD, f"{limit} was encountered between host master-0 and {peers}\nActions:\n{BONDS}\n{PINGS}")


WORKER = (cluster_host(3, role=Role.WORKER),)


@pytest.mark.parametrize(
    ("host", "cluster", "peers", "latency", "loss"),
    [
        (
            {},
            SNO,
            PEERS,
            Verdict(OK, "Network latency requirement has been satisfied."),
            Verdict(OK, "Packet loss requirement has been satisfied."),
        ),
        (
            {},
            {},
            (),
            Verdict(OK, "Network latency requirement has been satisfied."),
            Verdict(OK, "Packet loss requirement has been satisfied."),
        ),
        (
            {},
            {},
            PEERS[:1],
            Verdict(PENDING, "Missing network latency information."),
            Verdict(PENDING, "Missing packet loss information."),
        ),
        (
            report(("h1", 100.0, 5.5), ("h2", 1.0, 0.0)),
            {},
            PEERS,
            Verdict(OK, "Network latency requirement has been satisfied."),
            Verdict(OK, "Packet loss requirement has been satisfied."),
        ),
        (
            report(("gone", 1000.0, 99.0), ("h1", 100.5, 6.0), ("h2", 100.0, 5.5)),
            {},
            PEERS,
            slow(f"{NAMED} (100.50 ms)"),
            lossy(f"{NAMED} (6.00%)"),
        ),
        (
            report(("h1", 200.0, 20.0), ("h2", 300.0, 30.0)),
            {},
            PEERS,
            slow(f"{NAMED} (200.00 ms), master-2 (MAC 52:54:00:00:00:82) (300.00 ms)"),
            lossy(f"{NAMED} (20.00%), master-2 (MAC 52:54:00:00:00:82) (30.00%)"),
        ),
        # What a worker has says nothing about a master, whether its role was chosen or suggested.
        (
            report(("h3", 500.0, 50.0)),
            {},
            WORKER,
            Verdict(OK, "Network latency requirement has been satisfied."),
            Verdict(OK, "Packet loss requirement has been satisfied."),
        ),
        (
            report(("h3", 500.0, 50.0)),
            {},
            (cluster_host(3, role=Role.AUTO, suggested_role=Role.MASTER),),
            slow("master-3 (500.00 ms)"),
            lossy("master-3 (50.00%)"),
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
    assert net.latency(view) == Verdict(OK, "Network latency requirement has been satisfied.")
    assert net.packet_loss(view) == Verdict(OK, "Packet loss requirement has been satisfied.")
