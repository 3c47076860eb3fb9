"""Verdicts on a cluster's virtual addresses: their presence, their network, and their holders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import Result
from installer.rendezvous.validations.cluster import table as cv
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import cluster_host, cluster_view

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
CHECKS = {line.id: line.check for line in cv.TABLE}
API, INGRESS = "192.168.111.5", "192.168.111.4"
MANAGED: list[dict[str, Any]] = [{"user_managed_networking": True}, {"control_plane_count": 1}]


def vips(kind: str, *addresses: str) -> dict[str, Any]:
    return {"cluster": {f"{kind}_vips": [{"ip": address} for address in addresses]}}


def verified(*states: tuple[str, str]) -> dict[str, Any]:
    return {"verified_vips": json.dumps([{"vip": vip, "verification": state} for vip, state in states])}


def scanned(*networks: tuple[str, list[str] | None]) -> dict[str, Any]:
    return {"free_addresses": json.dumps([{"network": net, "free_addresses": free} for net, free in networks])}


def members(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"hosts": tuple(cluster_host(number, **change) for number, change in enumerate(changes))}


@pytest.mark.parametrize(("kind", "title"), [("api", "API"), ("ingress", "Ingress")])
def test_defined(kind: str, title: str) -> None:
    check = CHECKS[f"{kind}-vips-defined"]
    assert check(cluster_view()) == Verdict(OK, f"{title} virtual IPs are defined.")
    assert check(cluster_view(**vips(kind))) == Verdict(BAD, f"{title} virtual IPs are undefined and must be provided.")
    assert check(cluster_view(**vips(kind, ""))) == Verdict(
        BAD, f"{title} virtual IPs are undefined and must be provided."
    )
    for how in MANAGED:
        expected = Verdict(OK, f"{title} virtual IPs are not required: User Managed Networking")
        assert check(cluster_view(cluster={f"{kind}_vips": [], **how})) == expected
        assert CHECKS[f"{kind}-vips-valid"](cluster_view(cluster=how)) == expected


def good(kind: str, *addresses: str) -> Verdict:
    return Verdict(OK, f"{kind} vips {', '.join(addresses)} belongs to the Machine CIDR and is not in use.")


def unverified(kind: str, *addresses: str) -> Verdict:
    return Verdict(PENDING, "; ".join(f"{kind} vips <{address}> are not verified yet." for address in addresses))


NETWORK = "192.168.111.0/24"
TAKEN = f"api vips <{API}> is already in use in cidr {NETWORK}, "
FREE: list[tuple[dict[str, Any], Verdict]] = [
    (members({}), unverified("api", API)),
    # What is said of another address says nothing of this one.
    (members(verified((INGRESS, "succeeded")), {}), unverified("api", API)),
    (members(verified((API, "unverified"))), unverified("api", API)),
    (members({}, verified((INGRESS, "failed"), (API, "succeeded"))), good("api", API)),
    (members(verified((API, "succeeded")), verified((API, "failed"))), Verdict(BAD, f"{TAKEN}as host master-1 sees")),
    (members({"requested_hostname": "", **verified((API, "failed"))}), Verdict(BAD, f"{TAKEN}as host h0 sees")),
    # A scan for free addresses that covered it.
    (members(scanned((NETWORK, [API, INGRESS]))), good("api", API)),
    (members(scanned(("10.0.0.0/8", [API]), ("", [API]))), unverified("api", API)),
    (members(scanned((NETWORK, [INGRESS]))), Verdict(BAD, f"{TAKEN}as host master-0 sees")),
    (members(scanned((NETWORK, None))), Verdict(BAD, f"{TAKEN}as host master-0 sees")),
    (members(scanned((NETWORK, [API])), scanned((NETWORK, []))), Verdict(BAD, f"{TAKEN}as host master-1 sees")),
    # Asking for the one address counts for more than a scan.
    (members(verified((API, "succeeded")), scanned((NETWORK, []))), good("api", API)),
    # A host's own address, whatever others say.
    (
        {**members(verified((API, "succeeded")), {}), "inventories": {"h0": None, "h1": {"ip": f"{API}/24"}}},
        Verdict(BAD, f"{TAKEN}by host master-1"),
    ),
    # Where no agent looks, nobody is waited for; both steps would have to be off.
    ({**members({}), "settings": {"disabled_steps": frozenset({"verify-vips"})}}, unverified("api", API)),
    (
        {**members({}), "settings": {"disabled_steps": frozenset({"verify-vips", "free-network-addresses", "x"})}},
        good("api", API),
    ),
]


@pytest.mark.parametrize(("changes", "expected"), FREE)
def test_free(changes: dict[str, Any], expected: Verdict) -> None:
    assert CHECKS["api-vips-valid"](cluster_view(**changes)) == expected


def test_each_vip_counts() -> None:
    machine = {"machine_networks": [{"cidr": NETWORK}, {"cidr": NETWORK}, {"cidr": NETWORK}]}
    two = {**vips("ingress", INGRESS, "192.168.111.6", "192.168.111.7"), **members(verified((INGRESS, "succeeded")))}
    two["cluster"] |= machine
    assert CHECKS["ingress-vips-valid"](cluster_view(**two)) == unverified("ingress", "192.168.111.6", "192.168.111.7")


def test_vips_must_lie_in_their_machine_network() -> None:
    check = CHECKS["ingress-vips-valid"]
    machine = [{"cidr": NETWORK}, {"cidr": "10.1.0.0/16"}]
    far = cluster_view(cluster={"machine_networks": machine, "ingress_vips": [{"ip": "10.2.0.1"}]})
    assert check(far) == Verdict(BAD, f"ingress vips <10.2.0.1> does not belong to machine-network-cidr <{NETWORK}>")
    # Each to the network of its own place in the list.
    second = cluster_view(
        cluster={"machine_networks": machine, "ingress_vips": [{"ip": INGRESS}, {"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]}
    )
    assert check(second) == Verdict(BAD, "ingress vips <10.1.0.2> cannot be set if Machine Network CIDR is empty")
    broadcast = cluster_view(cluster={"ingress_vips": [{"ip": "192.168.111.255"}]})
    assert check(broadcast) == Verdict(
        BAD, f"ingress vips <192.168.111.255> is the broadcast address of machine-network-cidr <{NETWORK}>"
    )
    for own, cidr in (("192.168.111.0", NETWORK), ("fd00::", "fd00::/64")):
        first = cluster_view(cluster={"machine_networks": [{"cidr": cidr}], "ingress_vips": [{"ip": own}]})
        assert check(first).message == f"ingress vips <{own}> is the network address of machine-network-cidr <{cidr}>"
    pair = cluster_view(
        cluster={"machine_networks": [{"cidr": "192.168.111.4/31"}], "ingress_vips": [{"ip": INGRESS}]},
        **members(verified((INGRESS, "succeeded"))),
    )
    assert check(pair) == good("ingress", INGRESS)
    for kind in ("api", "ingress"):
        twice = cluster_view(cluster={"api_vips": [{"ip": API}], "ingress_vips": [{"ip": API}]})
        assert CHECKS[f"{kind}-vips-valid"](twice) == Verdict(
            BAD, f"{kind} vips <{API}> appears both in apiVIPs and ingressVIPs"
        )


def test_a_network_without_room_is_told() -> None:
    small = "192.168.111.0/29"
    taken = {"machine_networks": [{"cidr": small}], "api_vips": [{"ip": API}]}
    verdict = CHECKS["api-vips-valid"](
        cluster_view(cluster=taken, hosts=tuple(cluster_host(n, **verified((API, "failed"))) for n in range(5)))
    )
    assert verdict.message.endswith(
        "The machine network range is too small for the cluster. Please redefine the network."
    )


def test_vips_are_pending_before_hosts_are_discovered() -> None:
    bare = cluster_view(inventories={"h0": None, "h1": None, "h2": None})
    assert CHECKS["api-vips-valid"](bare) == Verdict(PENDING, "Hosts have not been discovered yet")
    assert CHECKS["api-vips-valid"](cluster_view(**vips("api"))) == Verdict(PENDING, "API virtual IPs are undefined.")


def test_the_users_own_load_balancer_holds_them_in_any_machine_network() -> None:
    lie: dict[str, Any] = {
        "ingress_vips": [{"ip": "10.2.0.1"}],
        "machine_networks": [{"cidr": NETWORK}, {"cidr": "10.2.0.0/16"}],
    }
    check = CHECKS["ingress-vips-valid"]
    own = {**lie, "load_balancer": {"type": "user-managed"}}
    assert check(cluster_view(cluster=own)) == Verdict(OK, "ingress vip 10.2.0.1 is valid")
    outside = cluster_view(cluster={**own, "machine_networks": [{"cidr": NETWORK}]})
    assert check(outside) == Verdict(
        BAD,
        "ingress vip '10.2.0.1' failed verification: none of the machine networks is satisfying the requirements: "
        f"ingress vip <10.2.0.1> does not belong to machine-network-cidr <{NETWORK}>",
    )
    managed = cluster_view(cluster={**lie, "load_balancer": {"type": "cluster-managed"}})
    assert check(managed).result is BAD
