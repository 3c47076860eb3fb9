"""Feature gates as far as install-config's fields depend on them (reference/installer.md §1.2, rule 55).

Which gate is on by default, and which only with a feature set for previews, is as in the API of OpenShift 4.22.
"""

from __future__ import annotations

from installer.config.types import InstallConfig

ARBITER = "HighlyAvailableArbiter"
FENCING = "DualReplica"
DNS_RECORDS = "OnPremDNSRecords"
DISK_SETUP = "MultiDiskSetup"
OS_STREAMS = "OSStreams"
HOST_GROUPS = "VSphereHostVMGroupZonal"
NETWORKS = "VSphereMultiNetworks"

FEATURE_SETS = ("", "CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade")
CUSTOM = "CustomNoUpgrade"
_PREVIEWS = ("DevPreviewNoUpgrade", "TechPreviewNoUpgrade")
_DEFAULT = frozenset({ARBITER, NETWORKS})
# What Go's ParseBool takes.
TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def enabled(config: InstallConfig, gate: str) -> bool:
    """Whether a gate is on: by its own entry (the last one counts), by the feature set, or by default."""
    on = gate in _DEFAULT or config.feature_set in _PREVIEWS
    if config.feature_set == CUSTOM:
        for entry in config.feature_gates:
            name, _, value = entry.partition("=")
            if name == gate and value in TRUE | FALSE:
                on = value in TRUE
    return on


def forbidden_text(gate: str) -> str:
    """Why a field must not be set."""
    return (
        f"this field is protected by the {gate} feature gate which must be enabled through either the "
        "TechPreviewNoUpgrade or CustomNoUpgrade feature set"
    )
