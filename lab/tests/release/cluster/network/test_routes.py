"""Routes to other nodes' pods and the masquerade, as a table and in a kernel's network namespace."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.host.namespaces import CLONE_NEWNET, setns, unshare
from lab.release.cluster.errors import NetworkError
from lab.release.cluster.network import routes
from lab.release.cluster.network.routes import Routes

NETWORKS = ["10.128.0.0/14", "fd01::/48"]
FOUR = [str(part) for part in list(ip_network("10.128.0.0/14").subnets(new_prefix=23))[:6]]
SIX = [str(part) for part, _ in zip(ip_network("fd01::/48").subnets(new_prefix=64), range(6), strict=False)]


def node(number: int, *parts: str) -> dict[str, Any]:
    addresses = [f"192.0.2.{number}", f"2001:db8::{number}", f"192.0.2.{number + 100}"]
    return {
        "metadata": {"name": f"n{number}"},
        "spec": {"podCIDR": parts[0], "podCIDRs": list(parts)} if parts else {},
        "status": {"addresses": [{"type": "InternalIP", "address": text} for text in addresses]},
    }


PARTS = st.lists(st.tuples(st.sampled_from(FOUR), st.sampled_from(SIX)), max_size=6)


@given(PARTS, st.integers(1, 6))
def test_each_network_leads_to_the_node_that_has_it_and_none_to_ones_own(
    taken: list[tuple[str, str]], own: int
) -> None:
    nodes = [node(index + 1, *parts) for index, parts in enumerate(taken)]
    mine = set(taken[own - 1]) if own <= len(taken) else set()
    want = routes.wanted(nodes, f"n{own}")
    assert not mine & set(want)
    for part, gateway in want.items():
        family = 0 if ip_network(part).version == 4 else 1
        first = next(index for index, parts in enumerate(taken, 1) if parts[family] == part)
        assert gateway == (f"192.0.2.{first}", f"2001:db8::{first}")[family]
    twice = set(routes.taken_twice(nodes))
    undisputed = {part for index, parts in enumerate(taken, 1) if f"n{index}" not in twice for part in parts}
    assert undisputed - mine == set(want) - mine


def test_a_node_whose_address_is_none_costs_no_other_its_route() -> None:
    odd = node(3, FOUR[2])
    odd["status"]["addresses"] = [{"type": "InternalIP", "address": "not-an-address"}]
    assert routes.wanted([node(1, FOUR[0]), node(2, FOUR[1]), odd], "n1") == {FOUR[1]: "192.0.2.2"}


TABLES = st.dictionaries(st.sampled_from(FOUR), st.sampled_from(["192.0.2.1", "192.0.2.2"]))


@given(TABLES, TABLES)
def test_changes_make_what_is_there_into_what_ought_to_be(want: dict[str, str], have: dict[str, str]) -> None:
    table = dict(have)
    for verb, part, *gateway in routes.changes(want, have):
        if verb == "del":
            del table[part]
        else:
            assert table.get(part) != gateway[1]
            table[part] = gateway[1]
    assert table == want


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def host() -> Iterator[None]:
    """Put this thread into a network of its own, as node n1."""
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    try:
        run("ip", "link", "add", "eth9", "type", "veth", "peer", "name", "peer9")
        run("ip", "link", "set", "peer9", "up")
        run("ip", "link", "set", "eth9", "up")
        run("ip", "address", "add", "192.0.2.1/24", "dev", "eth9")
        run("ip", "address", "add", "2001:db8::1/64", "dev", "eth9", "nodad")
        yield
    finally:
        setns(before, CLONE_NEWNET)
        os.close(before)


def table() -> dict[str, str]:
    listed = [r for v in "46" for r in json.loads(run("ip", f"-{v}", "-json", "route", "show", "proto", "148") or "[]")]
    return {str(ip_network(route["dst"])): str(ip_address(route["gateway"])) for route in listed}


@pytest.mark.usefixtures("host")
def test_a_kernel_has_the_routes_of_both_families_and_gets_them_back() -> None:
    nodes = [node(1, FOUR[0], SIX[0]), node(2, FOUR[1], SIX[1]), node(3, SIX[2], FOUR[2])]
    agent = Routes(None, "n1", NETWORKS)  # type: ignore[arg-type]
    agent.step(nodes)
    both = {FOUR[1]: "192.0.2.2", SIX[1]: "2001:db8::2", FOUR[2]: "192.0.2.3", SIX[2]: "2001:db8::3"}
    assert table() == both
    run("ip", "route", "del", FOUR[1])
    run("ip", "-6", "route", "del", SIX[2])
    run("ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.2")  # somebody else's
    agent.step(nodes)
    assert table() == both
    nodes[1]["status"]["addresses"][0]["address"] = "192.0.2.22"
    agent.step([nodes[0], nodes[1]])
    assert table() == {FOUR[1]: "192.0.2.22", SIX[1]: "2001:db8::2"}
    assert "198.51.100.0/24" in run("ip", "route")


@pytest.mark.usefixtures("host")
def test_a_node_that_is_no_neighbour_keeps_nobody_else_from_a_route() -> None:
    far = node(2, FOUR[1])
    far["status"]["addresses"] = [{"type": "InternalIP", "address": "203.0.113.2"}]
    with pytest.raises(NetworkError, match=rf"ip -4 route replace {FOUR[1]} via 203\.0\.113\.2 proto 148: "):
        Routes(None, "n1", NETWORKS).step([node(1, FOUR[0]), far, node(3, FOUR[2])])  # type: ignore[arg-type]
    assert table() == {FOUR[2]: "192.0.2.3"}


@pytest.mark.usefixtures("host")
def test_what_leaves_the_cluster_network_is_masqueraded_once() -> None:
    agent = Routes(None, "n1", NETWORKS)  # type: ignore[arg-type]
    for _ in range(2):
        agent.step([node(1, FOUR[0], SIX[0])])
    rules = [line for line in run("iptables", "-t", "nat", "-S").splitlines() if "NODE0" in line]
    assert rules == [
        "-N NODE0-MASQUERADE",
        f"-A POSTROUTING -s {FOUR[0]} -j NODE0-MASQUERADE",
        "-A NODE0-MASQUERADE -d 10.128.0.0/14 -j RETURN",
        "-A NODE0-MASQUERADE -d 224.0.0.0/4 -j RETURN",
        "-A NODE0-MASQUERADE -j MASQUERADE --random-fully",
    ]
    assert "-A NODE0-MASQUERADE -d fd01::/48 -j RETURN" in run("ip6tables", "-t", "nat", "-S")
    run("iptables", "-t", "nat", "-F")
    agent.step([node(1, FOUR[0])])
    assert [line for line in run("iptables", "-t", "nat", "-S").splitlines() if "NODE0" in line] == rules
