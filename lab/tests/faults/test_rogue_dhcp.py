"""The fault of a second DHCP server: which daemons it starts, and whose offers are late."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lab import topology
from lab.daemons import dns
from lab.daemons.switch import rogue
from lab.errors import LabError
from lab.faults import RogueDhcp, active
from lab.layout import Layout
from lab.topology import Addressing

LATE = "dhcp-reply-delay=3"


class Services:
    """The lab's daemons; `refuses` is what does not work."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refuses = ""

    def running(self) -> dict[str, bool]:
        return {"dnsmasq": True}

    def __getattr__(self, verb: str) -> Any:
        def do(name: str) -> None:
            self.done.append(f"{verb} {name}")
            if self.done[-1] == self.refuses:
                self.refuses = ""
                raise LabError(f"{verb} {name}: it does not")

        return do


def a_lab(root: Path, addressing: Addressing) -> Any:
    layout = Layout(root, topology.sno(addressing))
    text = dns.dnsmasq_config(layout, leases=root / "leases", log=root / "log")
    (root / "dnsmasq.conf").write_text(text)
    return SimpleNamespace(layout=layout, services=Services())


def test_the_labs_own_offers_are_late_where_the_others_come_first(tmp_path: Path) -> None:
    lab, fault = a_lab(tmp_path, "dhcp"), RogueDhcp()
    before = (tmp_path / "dnsmasq.conf").read_text()
    active.begin(lab, fault)
    config = msgspec.json.decode(lab.layout.rogue.read_bytes(), type=rogue.Config)
    assert (config.bridge, config.network, config.seconds) == ("lab0", "192.168.1.0/24", 0)
    assert (tmp_path / "dnsmasq.conf").read_text() == f"{before}{LATE}\n"
    with pytest.raises(LabError, match="fault 1 has changed the same"):
        active.begin(lab, RogueDhcp("10.0.0.0/24", "last"))
    assert len(list(active.end(lab))) == 1
    assert (tmp_path / "dnsmasq.conf").read_text() == before
    assert lab.services.done == [
        "start rogue-dhcp", "stop dnsmasq", "start dnsmasq", "stop rogue-dhcp", "stop dnsmasq", "start dnsmasq"
    ]  # fmt: skip


def test_the_others_are_late_where_they_come_last(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, "dhcp")
    active.begin(lab, RogueDhcp("10.0.0.0/28", "last"))
    config = msgspec.json.decode(lab.layout.rogue.read_bytes(), type=rogue.Config)
    assert f"--{LATE}" in rogue.arguments(config)
    assert "--dhcp-range=10.0.0.8,10.0.0.14,255.255.255.240,1h" in rogue.arguments(config)
    assert len(list(active.end(lab))) == 1
    assert lab.services.done == ["start rogue-dhcp", "stop rogue-dhcp"]


def test_nothing_is_left_of_one_that_cannot_begin(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, "dhcp")
    before = (tmp_path / "dnsmasq.conf").read_text()
    lab.services.refuses = "start dnsmasq"
    with pytest.raises(LabError, match="start dnsmasq: it does not"):
        active.begin(lab, RogueDhcp())
    assert lab.services.done[-1] == "stop rogue-dhcp"
    assert (tmp_path / "dnsmasq.conf").read_text() == before


def test_where_nobody_asks_for_an_address_it_is_no_fault(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, "static")
    with pytest.raises(LabError, match="leases no IPv4 addresses"):
        active.begin(lab, RogueDhcp())
    assert lab.services.done == []


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ("banana", "network: .*banana"),
        ("192.168.1.1/24", "network: .*host bits"),
        ("10.0.0.0/29", "no room for leases"),
    ],
)
def test_a_network_that_is_none(network: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RogueDhcp(network)
