"""What a cluster's validations say (installer.md §5.4): both sides of each question, in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import HostStatus, Result, Role
from installer.rendezvous.validations import cluster as cv
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.service.verdict_kit import cluster_host, cluster_view

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1}
CHECKS = {line.id: line.check for line in cv.TABLE}


def nets(*cidrs: str) -> list[dict[str, Any]]:
    return [{"cidr": cidr} for cidr in cidrs]


def pods(cidr: str, prefix: int | None) -> dict[str, Any]:
    return {"cluster": {"cluster_networks": [{"cidr": cidr, **({"host_prefix": prefix} if prefix else {})}]}}


def hosts(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"hosts": tuple(cluster_host(number, **change) for number, change in enumerate(changes))}


MASTER, WORKER = {"role": Role.MASTER}, {"role": Role.WORKER}
DOWN = {"status": HostStatus.DISCONNECTED}
UNDEFINED = "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined"
EXACT = "The cluster has the exact amount of dedicated control plane nodes: "
EXTERNAL = {"type": "external", "external": {"cloud_controller_manager": "External"}}
NO_CALCULATION = "The machine network needs not be calculated: nothing moves between hosts"
CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("machine-cidr-defined", {}, OK, "The Machine Network CIDR is defined"),
    ("machine-cidr-defined", {"cluster": {"machine_networks": []}}, PENDING, "The Machine Network CIDR is undefined"),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN}},
        OK,
        "No Machine Network CIDR needed: user managed networking",
    ),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN, **SNO}},
        PENDING,
        "The Machine Network CIDR is undefined",
    ),
    ("cluster-cidr-defined", {}, OK, "The Cluster Network CIDR is defined"),
    (
        "cluster-cidr-defined",
        {"cluster": {"cluster_networks": [{"cidr": ""}], **OWN}},
        PENDING,
        "The Cluster Network CIDR is undefined",
    ),
    ("service-cidr-defined", {}, OK, "The Service Network CIDR is defined"),
    ("service-cidr-defined", {"cluster": {"service_networks": []}}, PENDING, "The Service Network CIDR is undefined"),
    ("no-cidrs-overlapping", {}, OK, "No CIDRS are overlapping"),
    ("no-cidrs-overlapping", {"cluster": {"machine_networks": []}}, OK, "No CIDRS are overlapping"),
    ("no-cidrs-overlapping", {"cluster": {"cluster_networks": []}}, PENDING, UNDEFINED),
    ("no-cidrs-overlapping", {"cluster": {"service_networks": []}}, PENDING, UNDEFINED),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": nets("192.168.0.0/16")}},
        BAD,
        "CIDRs 192.168.111.0/24 and 192.168.0.0/16 overlap",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("172.30.5.0/24")}},
        BAD,
        "CIDRs 172.30.5.0/24 and 172.30.0.0/16 overlap",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("192.168.111.128/25"), "service_networks": []}},
        BAD,
        "CIDRs 192.168.111.0/24 and 192.168.111.128/25 overlap",
    ),
    ("networks-same-address-families", {}, OK, "Same address families for all networks"),
    (
        "networks-same-address-families",
        {"cluster": {"machine_networks": [], "cluster_networks": nets("fd01::1/48"), "service_networks": []}},
        OK,
        "Same address families for all networks",
    ),
    (
        "networks-same-address-families",
        {"cluster": {"cluster_networks": nets("fd01::/48", "10.128.0.1/14"), "machine_networks": []}},
        BAD,
        "Address families of networks do not match (cluster: IPv4/IPv6, service: IPv4)",
    ),
    ("network-prefix-valid", {}, OK, "The Cluster Network prefix is valid"),
    ("network-prefix-valid", pods("10.128.0.0/14", None), OK, "The Cluster Network prefix is valid"),
    ("network-prefix-valid", pods("10.128.0.0/14", 30), OK, "The Cluster Network prefix is valid"),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", 31),
        BAD,
        "Host prefix 31 does not fit cluster network 10.128.0.0/14",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.1/14", 13),
        BAD,
        "Host prefix 13 does not fit cluster network 10.128.0.0/14",
    ),
    ("network-prefix-valid", pods("fd01::/48", 126), OK, "The Cluster Network prefix is valid"),
    # Three hosts: four parts are enough, two are not.
    ("network-prefix-valid", pods("10.128.0.0/22", 24), OK, "The Cluster Network prefix is valid"),
    (
        "network-prefix-valid",
        pods("10.128.0.0/23", 24),
        BAD,
        "Cluster network 10.128.0.0/23 with host prefix 24 is too small for 3 hosts",
    ),
    (
        "network-prefix-valid",
        {**pods("10.128.0.0/23", 24), **hosts({}, {})},
        OK,
        "The Cluster Network prefix is valid",
    ),
    ("all-hosts-are-ready-to-install", {}, OK, "All hosts in the cluster are ready to install"),
    ("all-hosts-are-ready-to-install", {"hosts": ()}, BAD, "The cluster has no hosts"),
    (
        "all-hosts-are-ready-to-install",
        hosts({}, {"status": HostStatus.INSUFFICIENT}, {"requested_hostname": "", **DOWN}),
        BAD,
        "The cluster has hosts that are not ready to install: master-1 is insufficient, h2 is disconnected",
    ),
    ("sufficient-masters-count", {}, OK, f"{EXACT}3"),
    ("sufficient-masters-count", hosts({}, {}, {}, WORKER), OK, f"{EXACT}3"),
    (
        "sufficient-masters-count",
        hosts({}, {}, {"role": Role.AUTO, "suggested_role": Role.MASTER, "bootstrap": True}),
        OK,
        f"{EXACT}3",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, WORKER),
        BAD,
        "The cluster must have exactly 3 dedicated control plane node(s), found 2",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, {}, {}),
        BAD,
        "The cluster must have exactly 3 dedicated control plane node(s), found 4",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, {"bootstrap": True}, {"role": Role.AUTO, "suggested_role": Role.WORKER, "bootstrap": True}),
        BAD,
        "The rendezvous host must be a control plane node, it has another role: master-3 (worker)",
    ),
    ("sufficient-masters-count", {"cluster": SNO, **hosts({})}, OK, f"{EXACT}1"),
    (
        "sufficient-masters-count",
        {"cluster": SNO, **hosts({}, WORKER)},
        BAD,
        "A single-node cluster cannot have workers, found 1",
    ),
    ("dns-domain-defined", {}, OK, "The base domain is defined"),
    (
        "dns-domain-defined",
        {"cluster": {"base_dns_domain": ""}},
        PENDING,
        "The base domain is undefined and must be provided",
    ),
    ("pull-secret-set", {}, OK, "The pull secret is set"),
    ("pull-secret-set", {"cluster": {"pull_secret": ""}}, BAD, "The pull secret is not set"),
    ("ntp-server-configured", {}, OK, "No NTP problems found"),
    ("ntp-server-configured", hosts({"clock_gap": 240.0}, {"clock_gap": 0.0}, {}), OK, "No NTP problems found"),
    (
        "ntp-server-configured",
        hosts({"clock_gap": 100.0}, {"clock_gap": -146.0}, {"clock_gap": 0.0}),
        BAD,
        "Hosts' clocks are not synchronized: master-0 is 4.1 minutes ahead of master-1, at most 4 allowed; "
        "configure an NTP server or set the clocks",
    ),
    # Whoever is away says nothing of now.
    ("ntp-server-configured", hosts({"clock_gap": 9000.0, **DOWN}, {"clock_gap": 0.0}), OK, "No NTP problems found"),
    ("network-type-valid", {}, OK, "Cluster has valid network type OVNKubernetes"),
    (
        "network-type-valid",
        {"cluster": {"network_type": "Flat"}},
        BAD,
        "Network type Flat is unknown, allowed are OVNKubernetes, OpenShiftSDN, CiscoACI, Cilium, Calico, None",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "OpenShiftSDN"}},
        OK,
        "Cluster has valid network type OpenShiftSDN",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "OpenShiftSDN", "cluster_networks": nets("10.128.0.0/14", "fd01::/48")}},
        BAD,
        "Network type OpenShiftSDN cannot carry IPv6",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "Cilium", "cluster_networks": nets("fd01::/48")}},
        OK,
        "Cluster has valid network type Cilium",
    ),
    ("custom-manifests-requirements-satisfied", {}, OK, "Custom manifest requirements are satisfied"),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"platform": EXTERNAL}},
        BAD,
        "An external cloud controller manager needs its manifests: none were given",
    ),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"platform": EXTERNAL}, "manifests": 1},
        OK,
        "Custom manifest requirements are satisfied",
    ),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"platform": {**EXTERNAL, "type": "none"}}},
        OK,
        "Custom manifest requirements are satisfied",
    ),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"platform": {"type": "external", "external": {"cloud_controller_manager": ""}}}},
        OK,
        "Custom manifest requirements are satisfied",
    ),
    ("platform-requirements-satisfied", {}, OK, "Platform baremetal requirements satisfied"),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": {}}},
        BAD,
        "Platform none needs user managed networking",
    ),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": {"type": "external"}}},
        BAD,
        "Platform external needs user managed networking",
    ),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": {"type": "none"}, **OWN}},
        OK,
        "Platform none requirements satisfied",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {},
        OK,
        "The machine network is the hosts' subnet",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": nets("192.168.0.0/16", "10.0.0.0/8")}, "inventories": {"h0": None}},
        BAD,
        "Machine network 192.168.0.0/16, 10.0.0.0/8 is not the subnet of VIP 192.168.111.5: "
        "host master-1 has 192.168.111.0/24 there",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": [], "api_vips": []}},
        BAD,
        "Machine network none is not the subnet of VIP 192.168.111.4: host master-0 has 192.168.111.0/24 there",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": nets("192.168.111.7/24")}, "inventories": {"h1": {"ip": "10.0.0.1/8"}}},
        OK,
        "The machine network is the hosts' subnet",
    ),
    *(
        ("machine-cidr-equals-to-calculated-cidr", {"cluster": {"machine_networks": [], **how}}, OK, NO_CALCULATION)
        for how in (OWN, SNO, {"load_balancer": {"type": "user-managed"}})
    ),
]


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert CHECKS[check](cluster_view(**changes)) == Verdict(result, message)


@pytest.mark.parametrize("status", HostStatus)
def test_hosts_that_are_ready(status: HostStatus) -> None:
    ready = {"known", "preparing-for-installation", "preparing-successful", "installing", "installing-in-progress"}
    view = cluster_view(**hosts({"status": status}))
    result = CHECKS["all-hosts-are-ready-to-install"](view).result
    assert result is (OK if status.value in ready | {"installed"} else BAD)


@pytest.mark.parametrize("table", [cv.TABLE, hv.TABLE])
def test_operators_are_not_installed_by_this_service(table: Any) -> None:
    lines = [line for line in table if line.category == "operators"]
    assert len({line.id for line in table}) == len(table)
    assert {"lso-requirements-satisfied", "openshift-logging-requirements-satisfied"} <= {line.id for line in lines}
    for line in lines:
        plain = line.id.removesuffix("-requirements-satisfied")
        view = cluster_view(cluster={"olm_operators": [{"name": "another"}, {}]})
        assert line.check(view) == Verdict(OK, f"{plain} is not requested")
        view = cluster_view(cluster={"olm_operators": [{"name": "another"}, {"name": plain}]})
        assert line.check(view) == Verdict(BAD, f"Operator {plain} cannot be installed by this service")
