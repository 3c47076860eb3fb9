"""Verdicts on a cluster (installer.md §5.4): both sides of each question, in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import HostStatus, Result, Role
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.rendezvous.validations.verdict import SUPPRESSED, Verdict
from installer.testing.engine.verdict_kit import cluster_host, cluster_view

CHECKS = {line.id: line.check for line in cv.TABLE}
#: Verdicts, and changes to a cluster or a host that the tables of cases name.
OK, BAD, PENDING, ERROR = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.ERROR
OWN = {"user_managed_networking": True}
SNO = {"control_plane_count": 1}
MASTER, WORKER = {"role": Role.MASTER}, {"role": Role.WORKER}
DOWN = {"status": HostStatus.DISCONNECTED}
OCI = {"type": "external", "external": {"platform_name": "oci"}}
EXTERNAL = {"type": "external", "external": {"cloud_controller_manager": "External"}}
OWN_BALANCER = {"load_balancer": {"type": "user-managed"}}


def nets(*cidrs: str) -> list[dict[str, Any]]:
    """Networks as the API has them."""
    return [{"cidr": cidr} for cidr in cidrs]


def pods(cidr: str, prefix: int | None) -> dict[str, Any]:
    """Change to a cluster: its cluster network, and how much of it a host gets."""
    return {"cluster": {"cluster_networks": [{"cidr": cidr, **({"host_prefix": prefix} if prefix else {})}]}}


def hosts(*changes: dict[str, Any]) -> dict[str, Any]:
    """Change to a cluster: these are its hosts."""
    return {"hosts": tuple(cluster_host(number, **change) for number, change in enumerate(changes))}


CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("machine-cidr-defined", {}, OK, "The Machine Network CIDR is defined."),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": []}},
        BAD,
        "The Machine Network CIDR is undefined; the Machine Network CIDR can be defined by setting "
        "either the API or Ingress virtual IPs.",
    ),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN}},
        OK,
        "No Machine Network CIDR needed: User Managed Networking",
    ),
    (
        "machine-cidr-defined",
        {"cluster": {"machine_networks": [], **OWN, **SNO}},
        BAD,
        "The Machine Network CIDR is undefined; Setting Machine Network CIDR is required for single node cluster",
    ),
    ("cluster-cidr-defined", {}, OK, "The Cluster Network CIDR is defined."),
    (
        "cluster-cidr-defined",
        {"cluster": {"cluster_networks": [{"cidr": ""}], **OWN}},
        BAD,
        "The Cluster Network CIDR is undefined.",
    ),
    ("service-cidr-defined", {}, OK, "The Service Network CIDR is defined."),
    ("service-cidr-defined", {"cluster": {"service_networks": []}}, BAD, "The Service Network CIDR is undefined."),
    ("no-cidrs-overlapping", {}, OK, "No CIDRS are overlapping."),
    (
        "no-cidrs-overlapping",
        {"cluster": {"machine_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": nets("192.168.0.0/16")}},
        BAD,
        "CIDRS Overlapping: Machine Network and Service Network: CIDRS 192.168.111.0/24 and 192.168.0.0/16 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("172.30.5.0/24")}},
        BAD,
        "CIDRS Overlapping: Cluster Network and Service Network: CIDRS 172.30.5.0/24 and 172.30.0.0/16 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"service_networks": nets("192.168.111.0/24"), **OWN}},
        BAD,
        "CIDRS Overlapping: Machine Network and Service Network: CIDRS 192.168.111.0/24 and 192.168.111.0/24 overlap.",
    ),
    (
        "no-cidrs-overlapping",
        {
            "cluster": {
                "cluster_networks": nets("10.128.0.0/14", "10.130.0.0/16"),
                "service_networks": nets("172.30.0.0/16", "fd02::/112"),
            }
        },
        BAD,
        "CIDRS Overlapping: Cluster Network and Cluster Network: CIDRS 10.128.0.0/14 and 10.130.0.0/16 overlap.",
    ),
    *(
        (
            "service-cidr-defined",
            {"cluster": {"service_networks": nets(cidr)}},
            BAD,
            f"The Service Network CIDR {cidr} cannot be used: its prefix length must be between {range_}.",
        )
        for cidr, range_ in (
            ("172.30.0.0/32", "12 and 28"),
            ("172.30.0.0/29", "12 and 28"),
            ("10.0.0.0/11", "12 and 28"),
            ("fd02::/107", "108 and 124"),
            ("fd02::/125", "108 and 124"),
        )
    ),
    *(
        (
            "service-cidr-defined",
            {"cluster": {"service_networks": nets(*cidrs)}},
            OK,
            "The Service Network CIDR is defined.",
        )
        for cidrs in (["172.16.0.0/12"], ["172.30.0.0/28", "fd02::/108"], ["fd02::/124"])
    ),
    (
        "service-cidr-defined",
        {"cluster": {"service_networks": nets("172.30.0.0/16", "172.31.0.0/16")}},
        BAD,
        "The Service Network CIDR cannot be 172.30.0.0/16, 172.31.0.0/16: there is one for each address family.",
    ),
    ("networks-same-address-families", {}, OK, "Same address families for all networks."),
    (
        "networks-same-address-families",
        {"cluster": {"machine_networks": [], "cluster_networks": nets("fd01::1/48"), "service_networks": []}},
        PENDING,
        "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined.",
    ),
    ("network-prefix-valid", {}, OK, "The Cluster Network prefix is valid."),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", None),
        BAD,
        "Invalid Cluster Network prefix: Host prefix, now 0, must be a positive integer.",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.0/14", 30),
        BAD,
        "Host prefix, now 30, must be less than or equal to 25 to allow at least 128 addresses",
    ),
    (
        "network-prefix-valid",
        pods("10.128.0.1/14", 13),
        BAD,
        "Cluster network CIDR prefix 14 does not contain enough addresses for 3 hosts each one with "
        "13 prefix (524288 addresses)",
    ),
    (
        "network-prefix-valid",
        pods("fd01::/48", 126),
        BAD,
        "Host prefix, now 126, must be less than or equal to 121 to allow at least 128 addresses",
    ),
    # Three hosts: four parts are enough, two are not.
    ("network-prefix-valid", pods("10.128.0.0/22", 24), OK, "The Cluster Network prefix is valid."),
    (
        "network-prefix-valid",
        pods("10.128.0.0/23", 24),
        BAD,
        "Cluster network CIDR prefix 23 does not contain enough addresses for 3 hosts each one with "
        "24 prefix (256 addresses)",
    ),
    ("all-hosts-are-ready-to-install", {}, OK, "All hosts in the cluster are ready to install."),
    ("all-hosts-are-ready-to-install", {"hosts": ()}, OK, "All hosts in the cluster are ready to install."),
    (
        "all-hosts-are-ready-to-install",
        hosts({}, {"status": HostStatus.INSUFFICIENT}, {"requested_hostname": "", **DOWN}),
        BAD,
        "The cluster has hosts that are not ready to install: master-1 is insufficient, h2 is disconnected.",
    ),
    ("sufficient-masters-count", {}, OK, "The cluster has the exact amount of dedicated control plane nodes."),
    (
        "sufficient-masters-count",
        hosts({}, {}, {}, WORKER),
        OK,
        "The cluster has the exact amount of dedicated control plane nodes.",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, {"role": Role.AUTO, "suggested_role": Role.MASTER, "bootstrap": True}),
        OK,
        "The cluster has the exact amount of dedicated control plane nodes.",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, WORKER),
        BAD,
        "The cluster must have exactly 3 dedicated control plane nodes, found 2. Add or remove "
        "hosts, or change their roles configurations to meet the requirement.",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, {}, {}),
        BAD,
        "The cluster must have exactly 3 dedicated control plane nodes, found 4. Add or remove "
        "hosts, or change their roles configurations to meet the requirement.",
    ),
    (
        "sufficient-masters-count",
        hosts({}, {}, {"bootstrap": True}, {"role": Role.AUTO, "suggested_role": Role.WORKER, "bootstrap": True}),
        BAD,
        "The rendezvous host must be a control plane node, it has another role: master-3 (worker)",
    ),
    (
        "sufficient-masters-count",
        {"cluster": SNO, **hosts({})},
        OK,
        "The cluster has the exact amount of dedicated control plane nodes.",
    ),
    (
        "sufficient-masters-count",
        {"cluster": SNO, **hosts({}, WORKER)},
        BAD,
        "Single-node clusters must have a single control plane node and no workers: found 1 and 1.",
    ),
    ("dns-domain-defined", {}, OK, "The base domain is defined."),
    (
        "dns-domain-defined",
        {"cluster": {"base_dns_domain": ""}},
        BAD,
        "The base domain is undefined and must be provided.",
    ),
    ("pull-secret-set", {}, OK, "The pull secret is set."),
    ("pull-secret-set", {"cluster": {"pull_secret": ""}}, BAD, "The pull secret is not set."),
    ("ntp-server-configured", {}, OK, "No ntp problems found"),
    ("ntp-server-configured", hosts({"clock_gap": 240.0}, {"clock_gap": 0.0}, {}), OK, "No ntp problems found"),
    (
        "ntp-server-configured",
        hosts({"clock_gap": 100.0}, {"clock_gap": -146.0}, {"clock_gap": 0.0}),
        OK,
        "No ntp problems found",
    ),
    # Whoever is away says nothing of now.
    ("ntp-server-configured", hosts({"clock_gap": 9000.0, **DOWN}, {"clock_gap": 0.0}), OK, "No ntp problems found"),
    ("network-type-valid", {}, OK, "The cluster has a valid network type"),
    (
        "network-type-valid",
        {"cluster": {"network_type": "Flat"}},
        BAD,
        "The network type Flat is not valid; the valid network types are OpenShiftSDN, "
        "OVNKubernetes, Cilium, Calico, CiscoACI, None",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "OpenShiftSDN", "cluster_networks": nets("10.128.0.0/14", "fd01::/48")}},
        BAD,
        "The cluster is configured with IPv6 which is not supported by OpenShiftSDN; use OVNKubernetes instead",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "OpenShiftSDN", "control_plane_count": 1}},
        BAD,
        "Control Plane Count '1' (SNO) is not supported by OpenShiftSDN; use another network type instead",
    ),
    (
        "network-type-valid",
        {"cluster": {"vip_dhcp_allocation": True}},
        BAD,
        "VIP DHCP allocation is not supported when the cluster is configured to use OVNKubernetes.",
    ),
    (
        "network-type-valid",
        {"cluster": {"network_type": "Cilium", "cluster_networks": nets("fd01::/48")}},
        OK,
        "The cluster has a valid network type",
    ),
    ("custom-manifests-requirements-satisfied", {}, OK, "No custom manifests are required"),
    ("platform-requirements-satisfied", {}, OK, "Platform requirements satisfied"),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": {"type": "external"}}},
        OK,
        "Platform requirements satisfied",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {},
        OK,
        "The Cluster Machine CIDR is equivalent to the calculated CIDR.",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": nets("192.168.0.0/16", "10.0.0.0/8")}, "inventories": {"h0": None}},
        BAD,
        "The Cluster Machine CIDR 192.168.0.0/16 is different than the calculated CIDR 192.168.111.0/24.",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": [], "api_vips": []}},
        OK,
        "The Cluster Machine CIDR is equivalent to the calculated CIDR.",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": nets("192.168.111.7/24")}, "inventories": {"h1": {"ip": "10.0.0.1/8"}}},
        OK,
        "The Cluster Machine CIDR is equivalent to the calculated CIDR.",
    ),
    *(
        (
            "machine-cidr-equals-to-calculated-cidr",
            {"cluster": {"machine_networks": [], **how}},
            OK,
            "The Cluster Machine CIDR is not required: User Managed Networking",
        )
        for how in (OWN, SNO)
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"machine_networks": [], **OWN_BALANCER}},
        OK,
        "Calculating machine network CIDR is not enabled: User Managed Load Balancer",
    ),
    (
        "machine-cidr-equals-to-calculated-cidr",
        {"cluster": {"api_vips": [{"ip": "10.9.0.5"}]}},
        BAD,
        "No suitable matching CIDR found for VIP 10.9.0.5",
    ),
    (
        "no-cidrs-overlapping",
        {"cluster": {"cluster_networks": nets("10.128.0.0/14", "10.132.0.0/14")}},
        ERROR,
        "A mismatch between the number of Cluster and Service networks",
    ),
    # Only these plugins look at host_prefix.
    (
        "network-prefix-valid",
        {"cluster": {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 27}], "network_type": "Calico"}},
        OK,
        "The Cluster Network prefix is valid.",
    ),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"network_type": "Calico"}},
        BAD,
        "Custom manifests are required for: Calico network type. Please upload manifests via the custom manifests API.",
    ),
    (
        "custom-manifests-requirements-satisfied",
        {"cluster": {"install_config_overrides": '{"networking": {"networkType": "Cilium"}}'}, "manifests": 1},
        OK,
        "Custom manifests are uploaded",
    ),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": OCI}},
        BAD,
        "The custom manifest required for Oracle Cloud Infrastructure platform integration has not been added. Add a "
        "custom manifest to continue.",
    ),
    (
        "platform-requirements-satisfied",
        {"cluster": {"platform": OCI}, "manifests": 1},
        OK,
        "Platform requirements satisfied",
    ),
    (
        "sufficient-masters-count",
        {"cluster": {"control_plane_count": 2}, **hosts({}, {}, WORKER)},
        BAD,
        "The cluster must have exactly 2 dedicated control plane nodes and at least 1 arbiter node or the control "
        "plane nodes must have fencing credentials, found 2. Add or remove hosts, or change their roles configurations "
        "to meet the requirement.",
    ),
    (
        "sufficient-masters-count",
        {"cluster": {"control_plane_count": 2}, **hosts({}, {}, {"role": Role.ARBITER})},
        OK,
        "The cluster has the exact amount of dedicated control plane nodes.",
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
        plain = line.id.removesuffix("-requirements-satisfied").replace("numa-resources", "numaresources")
        view = cluster_view(cluster={"olm_operators": [{"name": "another"}, {}]})
        untold = plain == "ocs" or line.id in {f"{name}-requirements-satisfied" for name in cv.UNREPORTED}
        assert line.check(view) == (SUPPRESSED if untold else Verdict(OK, f"{plain} is disabled"))
        view = cluster_view(cluster={"olm_operators": [{"name": "another"}, {"name": plain}]})
        assert line.check(view) == Verdict(BAD, f"Operator {plain} cannot be installed by this service")
