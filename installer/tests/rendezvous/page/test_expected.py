"""Hosts that the inputs list and that have not come, and the order of all."""

from __future__ import annotations

from pathlib import Path

import msgspec

from installer.common.macs import ExpectedHost, listed, read_listed
from installer.rendezvous.page import expected
from installer.rendezvous.store.model import StaticNetwork, StaticNic
from installer.testing.engine.fleet_kit import discovered


def test_hosts_are_in_the_order_of_the_inputs_and_the_missing_are_named(tmp_path: Path) -> None:
    fleet = discovered(tmp_path, 3)  # with the MAC addresses 52:54:00:00:01:00 to :02
    store = fleet.world.store
    hosts = store.hosts()
    inputs = (
        ExpectedHost("far", ("02:00:00:00:00:01",)),
        ExpectedHost("last", ("02:00:00:00:00:02", "52:54:00:00:01:02")),
        ExpectedHost("", ("52:54:00:00:01:00",)),
        ExpectedHost("typo", ("52:54:00:00:0a:01",)),
    )
    assert read_listed(listed(inputs)) == inputs
    assert expected.ranks(inputs, hosts) == [2, 5, 1]
    cards = expected.missing(inputs, hosts)
    assert [(card["name"], card["rank"], card["macs"]) for card in cards] == [
        ("far", 0, ["02:00:00:00:00:01"]),
        ("typo", 3, ["52:54:00:00:0a:01"]),
    ]
    hint = "host-1 registered with 52:54:00:00:01:01, one digit differs: is one of the two mistyped?"
    assert [card["hint"] for card in cards] == ["", hint]
    # Without inputs of an image, infra-envs tell by the networks that they give hosts.
    nics = [StaticNic(mac_address="52:54:00:00:01:01", logical_nic_name="eth0")]
    [infra_env] = store.infra_envs()
    with_network = msgspec.structs.replace(
        infra_env, static_network_config=[StaticNetwork(network_yaml="", mac_interface_map=nics)]
    )
    assert expected.listed_hosts((), [with_network, with_network]) == (ExpectedHost("", ("52:54:00:00:01:01",)),)
    assert expected.listed_hosts(inputs, [with_network]) == inputs
    assert expected.ranks(expected.listed_hosts((), [with_network]), hosts) == [1, 0, 3]
    assert expected.ranks((), hosts) == [0, 1, 2]
    assert expected.missing((), hosts) == []
