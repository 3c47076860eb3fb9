"""Steps about the network, over programs that are processes and answers to ARP that are given."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from installer.agent.checks import arp, netchecks
from installer.agent.errors import StepError
from installer.assisted.steparguments import Domain, DomainsRequest, NtpRequest, Peer, PeerNic, Peers, VipRequest
from installer.testing.agent_kit import Host, Programs, hasten, programs_in

LINKS = [
    {
        "ifname": "ens3",
        "link_type": "ether",
        "address": "52:54:00:00:00:01",
        "mtu": 1500,
        "addr_info": [
            {"family": "inet", "local": "192.0.2.1", "prefixlen": 29},
            {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64},
        ],
    }
]
PEER, PEER_MAC = "192.0.2.2", "52:54:00:00:00:02"
PING = "echo '{} received, {}% packet loss, time 9ms'; echo 'rtt min/avg/max/mdev = 0.1/0.25/1/1 ms'"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    fixture = Host(tmp_path)
    fixture.path("/sys/class/net/ens3/device").mkdir(parents=True)
    return fixture


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    fixture = programs_in(tmp_path / "bin", monkeypatch)
    neighbour = f"[ $4 = 2001:db8::2 ] && echo '2001:db8::2 lladdr {PEER_MAC} REACHABLE'; true"
    fixture.put("ip", f"if [ $1 = -j ]; then cat <<'END'\n{json.dumps(LINKS)}\nEND\nelse {neighbour}; fi")
    fixture.put("ping", PING.format(10, 0))
    return fixture


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, list[str], int]]:
    """List the addresses asked for by ARP; the peer alone answers."""
    calls: list[tuple[str, str, list[str], int]] = []

    def scan(nic: str, source: str, addresses: Iterable[str], rounds: int = 2) -> dict[str, str]:
        calls.append((nic, source, list(addresses), rounds))
        return {address: PEER_MAC for address in addresses if address == PEER}

    monkeypatch.setattr(arp, "scan", scan)
    return calls


def test_sources_of_time() -> None:
    text = "MS Name\n===\n^* 192.0.2.1 2\n^+ a 2\n=- b 2\n#? c\n^x d\n^~ e\n^  f 1\n  nothing\n^! g\n"
    assert [(item["source_name"], item["source_state"]) for item in netchecks.parse_sources(text)] == [
        ("192.0.2.1", "synced"), ("a", "combined"), ("b", "not_combined"), ("c", "unreachable"), ("d", "error"),
        ("e", "variable"), ("f", ""),
    ]  # fmt: skip


CHRONY = """
[ "$1" = add ] && { echo "^? $3 2" >> {state}; exit; }
cat {state} 2>/dev/null; true
"""


def test_missing_sources_of_time_are_added_by_the_name_that_was_given(host: Host, programs: Programs) -> None:
    state = host.write("/state", "^* 192.0.2.1 2\n^? ntp.example 0\n")
    programs.put("chronyc", CHRONY.replace("{state}", str(state)))
    answer = json.loads(netchecks.ntp(host, NtpRequest(ntp_source=" ntp.example, ntp.example.org,, 192.0.2.1 ")))
    assert [line for line in programs.calls("chronyc") if "add" in line] == ["add server ntp.example.org iburst"]
    assert [item["source_name"] for item in answer["ntp_sources"]] == ["192.0.2.1", "ntp.example", "ntp.example.org"]
    asked = len(programs.calls("chronyc"))
    netchecks.ntp(host, NtpRequest(ntp_source="ntp.example.org"))
    # Nothing to add: asked by address and by name, once each.
    assert len(programs.calls("chronyc")) == asked + 2
    assert json.loads(netchecks.ntp(host, NtpRequest()))["ntp_sources"] == answer["ntp_sources"]


def test_a_chrony_that_does_not_answer_fails_the_step(host: Host, programs: Programs) -> None:
    programs.put("chronyc", "echo '506 Cannot talk to daemon'; exit 1")
    with pytest.raises(StepError) as caught:
        netchecks.ntp(host, NtpRequest(ntp_source="a"))
    assert caught.value.exit_code == 1
    assert "506 Cannot talk to daemon" in caught.value.reason


def test_names(host: Host, programs: Programs) -> None:
    programs.put(
        "getent", 'case "$2" in a.example) echo "192.0.2.5 STREAM a"; echo "2001:db8::5 STREAM";; *) exit 2;; esac'
    )
    request = DomainsRequest(domains=[Domain(domain_name=name) for name in ("a.example", "b.example")])
    answer = json.loads(netchecks.domains(host, request))
    assert answer["resolutions"] == [
        {"domain_name": "a.example", "ipv4_addresses": ["192.0.2.5"], "ipv6_addresses": ["2001:db8::5"], "cnames": []},
        {"domain_name": "b.example", "ipv4_addresses": [], "ipv6_addresses": [], "cnames": []},
    ]
    assert programs.calls("getent") == ["ahosts a.example", "ahosts b.example"]
    assert json.loads(netchecks.domains(host, DomainsRequest())) == {"resolutions": []}


def test_lookups() -> None:
    text = "192.0.2.9 before any\n= a\n192.0.2.1 STREAM a\n192.0.2.1 DGRAM\n::ffff:192.0.2.1\n\n= b\n= a\n192.0.2.2\n"
    assert netchecks.parse_lookups(text) == {"a": ["192.0.2.1", "192.0.2.2"], "b": []}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10% packet loss\nrtt min/avg/max/mdev = 0.1/0.25/0.4/0.1 ms", (0.25, 10.0)),
        ("0% packet loss", (0.0, 0.0)),
        ("33.3333% packet loss", (0.0, 33.3333)),
        ("", (0.0, 100.0)),
    ],
)
def test_pings(text: str, expected: tuple[float, float]) -> None:
    assert netchecks.parse_ping(text) == expected


def peer(*nics: tuple[str, list[str]]) -> Peers:
    return [Peer(host_id="p", nics=[PeerNic(mac=mac, ip_addresses=addresses) for mac, addresses in nics])]


def test_a_peer_that_is_reached(host: Host, programs: Programs, asked: list[Any]) -> None:
    [report] = json.loads(netchecks.connectivity(host, peer((PEER_MAC.upper(), [PEER, "2001:db8::2"]))))["remote_hosts"]
    assert report["host_id"] == "p"
    reply = {"outgoing_nic": "ens3", "remote_mac": PEER_MAC, "successful": True}
    assert report["l2_connectivity"] == [
        {**reply, "outgoing_ip_address": "192.0.2.1", "remote_ip_address": PEER},
        {**reply, "outgoing_ip_address": "2001:db8::1", "remote_ip_address": "2001:db8::2"},
    ]
    quality = {"outgoing_nic": "", "successful": True, "average_rtt_ms": 0.25, "packet_loss_percentage": 0.0}
    assert report["l3_connectivity"] == [
        {**quality, "remote_ip_address": PEER},
        {**quality, "remote_ip_address": "2001:db8::2"},
    ]
    size = {"outgoing_nic": "ens3", "mtu_successful": True}
    assert report["mtu_report"] == [{**size, "remote_ip_address": a} for a in (PEER, "2001:db8::2")]
    assert asked == [("ens3", "192.0.2.1", [PEER], 3)]
    pings = sorted(programs.calls("ping"))
    assert pings == [
        "-4 -c 1 -W 3 -M do -s 1472 -I ens3 192.0.2.2",
        "-4 -c 10 -i 0.2 -W 3 -q 192.0.2.2",
        "-6 -c 1 -W 3 -I ens3 2001:db8::2",
        "-6 -c 1 -W 3 -M do -s 1452 -I ens3 2001:db8::2",
        "-6 -c 10 -i 0.2 -W 3 -q 2001:db8::2",
    ]


def test_a_peer_that_is_not_reached(host: Host, programs: Programs, asked: list[Any]) -> None:
    """Another machine answers with its address; pings get through now and then, or not at all; a network is far."""
    programs.put("ping", f"[ ${{@: -1}} = 203.0.113.9 ] && {{ {PING.format(1, 90)}; exit; }}; {PING.format(0, 100)}")
    nics = peer(("52:54:00:00:00:09", [PEER]), ("", ["192.0.2.3", "203.0.113.9"]))
    [report] = json.loads(netchecks.connectivity(host, nics))["remote_hosts"]
    assert [(i["remote_ip_address"], i["remote_mac"], i["successful"]) for i in report["l2_connectivity"]] == [
        (PEER, PEER_MAC, False), ("192.0.2.3", "", False)
    ]  # fmt: skip
    assert [(i["successful"], i["packet_loss_percentage"]) for i in report["l3_connectivity"]] == [
        (False, 100.0), (False, 100.0), (True, 90.0)
    ]  # fmt: skip
    assert [i["mtu_successful"] for i in report["mtu_report"]] == [False, False]


def test_pings_that_hang_are_peers_that_are_not_reached(
    host: Host, programs: Programs, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, ping=60.0)
    programs.put("ping", "sleep 1000")
    [report] = json.loads(netchecks.connectivity(host, peer((PEER_MAC, [PEER]))))["remote_hosts"]
    assert report["l2_connectivity"][0]["successful"] is True
    assert report["l3_connectivity"][0]["successful"] is False
    assert report["mtu_report"][0]["mtu_successful"] is False


def test_addresses_that_nobody_has(host: Host, programs: Programs, asked: list[Any]) -> None:
    [report] = json.loads(netchecks.free_addresses(host, ["192.0.2.5/29"]))
    # Neither this host's own address nor the peer's.
    assert report == {"network": "192.0.2.5/29", "free_addresses": [f"192.0.2.{n}" for n in (3, 4, 5, 6)]}
    # Asked by probes, which enter nobody's cache.
    assert asked == [("ens3", "0.0.0.0", [f"192.0.2.{n}" for n in range(2, 7)], 3)]
    # All its addresses are this host's.
    assert json.loads(netchecks.free_addresses(host, ["192.0.2.1/32"]))[0]["free_addresses"] == []
    with pytest.raises(StepError, match=r"no interface has an address in 203\.0\.113\.0/29"):
        netchecks.free_addresses(host, ["203.0.113.0/29"])
    with pytest.raises(StepError, match=r"10\.0\.0\.0/21 has 2048 addresses, at most 1024 are scanned"):
        netchecks.free_addresses(host, ["10.0.0.0/21"])
    with pytest.raises(StepError, match="no interface"):
        netchecks.free_addresses(host, ["10.0.0.0/22"])


def test_virtual_addresses(host: Host, programs: Programs, asked: list[Any]) -> None:
    wanted = {
        "192.0.2.1": "failed",  # this host's own
        "2001:db8::1": "failed",
        PEER: "failed",
        "2001:db8::2": "failed",
        "192.0.2.3": "succeeded",
        "2001:db8::3": "succeeded",
        "203.0.113.1": "unverified",
    }
    answer = json.loads(netchecks.verify_vips(host, [VipRequest(vip=vip, vip_type="api") for vip in wanted]))
    assert answer == [
        {"vip": vip, "vip_type": "api", "verification": verification} for vip, verification in wanted.items()
    ]


def test_an_interface_that_cannot_be_asked_fails_the_step(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(*args: Any, **options: Any) -> dict[str, str]:
        raise OSError("Network is down")

    monkeypatch.setattr(arp, "scan", scan)
    with pytest.raises(StepError, match="ARP on ens3: Network is down"):
        netchecks.verify_vips(host, [VipRequest(vip=PEER, vip_type="api")])


def test_a_neighbour_of_which_the_kernel_knows_nothing(host: Host, programs: Programs, asked: list[Any]) -> None:
    """ip fails for an address that it has no entry of: nobody has it."""
    programs.put("ip", f"if [ $1 = -j ]; then cat <<'END'\n{json.dumps(LINKS)}\nEND\nelse exit 1; fi")
    [report] = json.loads(netchecks.verify_vips(host, [VipRequest(vip="2001:db8::9", vip_type="api")]))
    assert report["verification"] == "succeeded"
    assert programs.calls("ping") == ["-6 -c 1 -W 3 -I ens3 2001:db8::9"]
    assert programs.calls("ip")[-1] == "-6 neigh show 2001:db8::9 dev ens3"
