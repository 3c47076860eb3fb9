"""Classes of differences; docs/differences.md has the reasons, by the same names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

#: By class: the shapes (compare.shape) of its differences, as regular expressions that match at the beginning.
CLASSES: dict[str, tuple[str, ...]] = {
    "dns-labels": (
        r"(only node0 refuses|error of node0 only): baseDomain: Invalid value: each label",
        r"refused at: .*, node0: install-config's rules: baseDomain: Invalid value: each label",
        r"(only node0 refuses|error of node0 only): platform\.\S+: Invalid value: must be the domain name or IP",
        r"(only node0 refuses|error of node0 only): additionalNTPSources: Invalid value: NTP server is not a valid",
    ),
    "mac-case": (
        r"only node0 refuses: hosts\[\]\.interfaces\[\]\.macAddress: Invalid value: duplicate MAC address found, in",
        r"refused at: network documents, node0: hosts' rules: \S+: Invalid value: duplicate MAC address found, in",
        r"warning of openshift-install only: For host \S*, BootMACAddress",
    ),
    "manifests-kind": (r"only node0 refuses: .*: kind must be",),
    "manifests-hosts": (
        r"only node0 refuses: hosts\[\]\.interfaces\[\]\.macAddress: Invalid value: duplicate MAC address found$",
        r"(only node0 refuses|refused at: network documents, node0: hosts' rules): hosts\[\]\.interfaces: Required",
        r"refused at: network documents, node0: hosts' rules: \S+\.macAddress: Invalid value: address",
    ),
    "manifests-overrides": (r"only node0 refuses: .*invalid agent-install\.openshift\.io/install-conf",),
    "pre-release-form": (
        r'only openshift-install refuses: agent-config is read: .*unknown field "spec"',
        r"warning of node0 only: agent-config\.yaml has no apiVersion, and its fields are under spec",
    ),
    "manifests-agent-config": (r"only openshift-install refuses: files: missing configuration or manifest file$",),
    "crashes": (r"openshift-install crashes: ",),
    "vsphere-at-once": (
        r"error of node0 only: platform\.vsphere\.failureDomains\.(name: Required|topology\."
        r"(computeCluster|folder|networks|resourcePool|tagIDs|template): )",
    ),
    "vsphere-gate": (
        r"error of openshift-install only: <nil>: Forbidden: .*VSphereHostVMGroupZonal",
        r"error of node0 only: platform\.vsphere\.failureDomains\.zoneType: Forbidden: .*VSphereHostVMGroupZonal",
    ),
    "other-clouds": (
        r"error of openshift-install only: platform\.(aws|azure|gcp|ibmcloud|openstack|powerv[cs])\b",
        r"warning of openshift-install only: (compute\[\]|controlPlane)\.platform is ignored",
    ),
    "nutanix-vips": (r"value of: platform\.nutanix\.(api|ingress)VIPs: Invalid value: IP expected to be in one of",),
    "defaults-in-values": (r"value of: (controlPlane|compute\[\])\.platform\.aws: Invalid value",),
    "null-documents": (r"output: cluster-manifests/nmstateconfig\.yaml$",),
    "load-balancer": (r"output: cluster-manifests/agent-cluster-install\.yaml\[\]\.spec\.loadBalancer$",),
    "no-proxy": (r"output: cluster-manifests/\S+\.spec\.proxy\.noProxy$",),
    "ignored-values": (
        r"warning of (openshift-install|node0) only: ([Pp]latform\.|credentialsMode|hosts\[\]\.BMC).* is ignored",
        r"warning of node0 only: (metadata|networking|arbiter|osImageStream|operatorPub|\S+\.diskSetup)\b.* is ignored",
        r"warning of node0 only: cluster-manifests/\S+: spec\..* is ignored",
    ),
    "read-as": (r"warning of node0 only: \S+: line .* (is read as .*|is not read as it stands), since",),
    "cpu-partitioning": (r"warning of node0 only: cpuPartitioningMode: .* is neither None nor AllNodes",),
    "interfaces-by-name": (
        r"warning of node0 only: networkConfig (has interface \S+, which is not among|does not use interface)",
        r"warning of node0 only: (the name|interface) \S+ of MAC address \S+ is (that of the|taken for)",
        r"only openshift-install refuses: hosts\[\]\.interfaces\[\]\.name: ",
    ),
    "warned-and-refused": (
        r'warning of node0 only: Mirror registry "…" is not found in pullSecret',
        r"warning of node0 only: not enough worker hosts defined",
        r"warning of node0 only: vsphere (authentication|topology) fields are now deprecated",
        r"warning of node0 only: (computeCluster|datastore|folder) as a non-path is now deprecated",
    ),
}
PATTERNS = {name: re.compile("|".join(f"(?:{pattern})" for pattern in shapes)) for name, shapes in CLASSES.items()}


def class_of(difference: str) -> str:
    """Return the first class that a difference belongs to, empty where there is none."""
    return next((name for name, pattern in PATTERNS.items() if pattern.match(difference)), "")


def sort(differences: Mapping[str, Collection[str]]) -> dict[str, dict[str, list[str]]]:
    """By class ("" for none) and shape of a difference: the names of the inputs that have it.

    `differences`: the shapes of each input, by its name.
    """
    by_class: dict[str, dict[str, list[str]]] = {name: {} for name in ("", *CLASSES)}
    for name, shapes in differences.items():
        for shape in shapes:
            by_class[class_of(shape)].setdefault(shape, []).append(name)
    return by_class
