"""Interfaces and routes as ip and sysfs tell of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.agent.host import network
from installer.assisted import inventory as inv
from installer.hostsys.errors import CommandError
from installer.testing.agent_kit import Host, Programs, hasten, programs_in


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return programs_in(tmp_path / "bin", monkeypatch)


def link(**fields: Any) -> dict[str, Any]:
    return {"ifname": "ens3", "link_type": "ether", "address": "52:54:00:AA:00:01", "mtu": 1500, **fields}


@pytest.mark.parametrize(
    ("fields", "physical", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"link_type": "loopback"}, True, False),
        ({"linkinfo": {"info_kind": "bond"}}, False, True),
        ({"linkinfo": {"info_kind": "vlan"}}, False, True),
        ({"linkinfo": {"info_kind": "bridge"}}, False, True),
        ({"linkinfo": {"info_kind": "team"}}, False, True),
        ({"linkinfo": {"info_kind": "tun"}}, False, False),
        ({"ifname": "cni0", "linkinfo": {"info_kind": "bridge"}}, False, False),
        ({"ifname": "veth0", "linkinfo": {"info_kind": "bond"}}, False, False),
        ({"ifname": "podman0", "linkinfo": {"info_kind": "bridge"}}, True, False),
    ],
)
def test_which_links_count(fields: dict[str, Any], physical: bool, wanted: bool) -> None:
    assert network.wanted(link(**fields), physical) is wanted


def test_a_link_in_full() -> None:
    interface = network.parse_link(
        link(
            flags=["BROADCAST", "UP", "LOWER_UP"],
            linkinfo={"info_kind": "team", "info_slave_data": {"perm_hwaddr": "52:54:00:AA:00:09"}},
            addr_info=[
                {"family": "inet", "local": "192.0.2.1", "prefixlen": 24, "scope": "global"},
                {"family": "inet", "prefixlen": 24},
                {"family": "inet", "local": "169.254.1.1", "prefixlen": 16, "scope": "link"},
                {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64},
            ],
        ),
        speed="1000",
        carrier="0",
        vendor="0x1af4",
        product="0x1000",
    )
    assert (interface.name, interface.mac_address, interface.mtu, interface.type) == (
        "ens3",
        "52:54:00:aa:00:09",
        1500,
        "bond",
    )
    assert (interface.ipv4_addresses, interface.ipv6_addresses) == (["192.0.2.1/24"], ["2001:db8::1/64"])
    assert (interface.speed_mbps, interface.has_carrier, interface.flags) == (
        1000,
        False,
        ["up", "broadcast", "running"],
    )
    assert (interface.vendor, interface.product) == ("0x1af4", "0x1000")
    bare = network.parse_link({})
    assert (bare.name, bare.mac_address, bare.mtu, bare.type, bare.speed_mbps) == ("", "", 0, "physical", 0)
    assert network.parse_link(link(linkinfo={"info_kind": "vlan"})).type == "vlan"
    assert network.parse_link(link(flags=["NO-CARRIER", "MULTICAST", "UP"])).flags == ["up", "multicast"]
    loopback = network.parse_link(
        link(
            ifname="lo",
            link_type="loopback",
            flags=["LOOPBACK", "UP", "LOWER_UP"],
            addr_info=[{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}],
        ),
        physical=False,
    )
    assert (loopback.mac_address, loopback.type, loopback.ipv4_addresses) == ("", "device", ["127.0.0.1/8"])
    assert loopback.flags == ["up", "loopback", "running"]


def test_interfaces_with_what_sysfs_says(host: Host, programs: Programs) -> None:
    links = [link(), link(ifname="ens4"), link(ifname="lo", link_type="loopback")]
    programs.put("ip", f"cat <<'END'\n{json.dumps(links)}\nEND")
    host.write("/sys/class/net/ens3/device/vendor", "0x1af4\n")
    host.write("/sys/class/net/ens3/device/device", "0x1000\n")
    host.write("/sys/class/net/ens3/speed", "10000\n")
    host.write("/sys/class/net/ens3/carrier", "1\n")
    assert [(nic.name, nic.type) for nic in network.interfaces(host)] == [
        ("ens3", "physical"),
        ("ens4", "device"),
        ("lo", "device"),
    ]
    [interface] = network.usable(host)
    assert (interface.name, interface.vendor, interface.product) == ("ens3", "0x1af4", "0x1000")
    assert (interface.speed_mbps, interface.has_carrier) == (10000, True)
    assert set(programs.calls("ip")) == {"-j -d address"}
    programs.put("ip", "true")
    assert network.interfaces(host) == []


def test_an_address_by_dhcpv6_has_the_routers_prefix(host: Host, programs: Programs) -> None:
    addresses = [{"family": "inet6", "local": text, "prefixlen": 128} for text in ("2001:db8::5", "2001:db8:1::5")]
    host.path("/sys/class/net/ens3/device").mkdir(parents=True)
    advertised = [{"dst": "default"}, {"dst": "2001:db8::/64"}]
    programs.put(
        "ip",
        f"""case "$*" in
"-j -d address") echo '{json.dumps([link(addr_info=addresses)])}' ;;
"-j -6 route show dev ens3 proto ra") echo '{json.dumps(advertised)}' ;;
*) exit 1 ;;
esac""",
    )
    [interface] = network.usable(host)
    assert interface.ipv6_addresses == ["2001:db8::5/64", "2001:db8:1::5/128"]


FOUR = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "ens3", "metric": 100},
    {"dst": "192.0.2.0/24", "dev": "ens3"},
    {"dst": "198.51.100.0/24"},
]
ROUTES = f"""case "$2" in
-4) echo '{json.dumps(FOUR)}' ;;
-6) %s ;;
esac"""


def test_routes_of_both_families(host: Host, programs: Programs) -> None:
    programs.put(
        "ip",
        ROUTES
        % """echo '[{"dst": "default", "nexthops": [{"gateway": "fe80::1", "dev": "ens3"}, {"dev": "ens4"}]}]'""",
    )
    four = [
        inv.Route(interface="ens3", gateway="192.0.2.1", destination="0.0.0.0", family=2, metric=100),
        inv.Route(interface="ens3", gateway="", destination="192.0.2.0", family=2, metric=0),
    ]
    six = inv.Route(interface="ens3", gateway="fe80::1", destination="::", family=10, metric=0)
    assert network.routes(host) == [*four, six]
    # IPv6 may be off.
    programs.put("ip", ROUTES % "exit 1")
    assert network.routes(host) == four


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_routes_that_cannot_be_read_are_an_error_and_not_an_empty_list(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """A host without its default route fails a validation: a slow command must not look like that."""
    hasten(monkeypatch, ip=120.0)
    programs.put("ip", f'[ "$2" = {family} ] && sleep 1000; echo "[]"')
    with pytest.raises(CommandError, match="did not end within"):
        network.routes(host)
    programs.put("ip", '[ "$2" = -4 ] && exit 1; echo "[]"')
    with pytest.raises(CommandError, match="exit code 1"):
        network.routes(host)
