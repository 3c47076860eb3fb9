"""Feature gates as far as install-config's fields depend on them (reference/installer.md §1.2, rule 55).

Which gate is on by default, and which only with a feature set for previews, is as in the API of OpenShift 4.22.
"""

from __future__ import annotations

from installer.config.types.install import InstallConfig

ARBITER = "HighlyAvailableArbiter"
FENCING = "DualReplica"
DNS_RECORDS = "OnPremDNSRecords"
DISK_SETUP = "MultiDiskSetup"
OS_STREAMS = "OSStreams"
HOST_GROUPS = "VSphereHostVMGroupZonal"
NETWORKS = "VSphereMultiNetworks"
DATA_DISKS = "VSphereMultiDisk"

FEATURE_SETS = ("", "CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade")
CUSTOM = "CustomNoUpgrade"
OKD = "OKD"
_PREVIEWS = ("DevPreviewNoUpgrade", "TechPreviewNoUpgrade")
_DEFAULT = frozenset({ARBITER, DATA_DISKS, NETWORKS})
# What Go's ParseBool takes.
TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def enabled(config: InstallConfig, gate: str) -> bool:
    """Return whether a gate is on: by its own entry (on counts more than off), by the feature set, or by default."""
    on = (gate in _DEFAULT and config.feature_set != CUSTOM) or config.feature_set in _PREVIEWS
    if config.feature_set == CUSTOM:
        return on or any(f"{gate}={value}" in config.feature_gates for value in TRUE)
    return on


def are_valid(config: InstallConfig) -> bool:
    """Return whether feature set and gates are well-formed, so that it is known which gates are on."""
    entries = [entry.split("=") for entry in config.feature_gates]
    return (
        config.feature_set in FEATURE_SETS
        and (not entries or config.feature_set == CUSTOM)
        and all(len(entry) == 2 and entry[1] in TRUE | FALSE for entry in entries)
    )


def forbidden_text(gate: str) -> str:
    """Return the reason why a field must not be set."""
    return (
        f"this field is protected by the {gate} feature gate which must be enabled through either the "
        "TechPreviewNoUpgrade or CustomNoUpgrade feature set"
    )
