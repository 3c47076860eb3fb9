"""Rules 54 to 56, and fields that a feature gate protects: what the cluster has, and what it may have."""

from __future__ import annotations

from collections.abc import Iterator

from installer.common.formats.yamltext import dump
from installer.config import gates
from installer.config.fielderror import FieldError, forbidden, invalid, too_many, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types.install import DiskSetup, InstallConfig

# Which capabilities a set has, by what each release added to the one before (openshift/api, ClusterVersion).
_ADDED = {
    "None": (),
    "v4.11": ("MachineAPI", "baremetal", "marketplace", "openshift-samples"),
    "v4.12": ("CSISnapshot", "Console", "Insights", "Storage"),
    "v4.13": ("NodeTuning",),
    "v4.14": ("Build", "DeploymentConfig", "ImageRegistry"),
    "v4.15": ("CloudCredential", "OperatorLifecycleManager"),
    "v4.16": ("CloudControllerManager", "Ingress"),
    "v4.17": (),
    "v4.18": ("OperatorLifecycleManagerV1",),
    "vCurrent": (),
}
CAPABILITY_SETS = tuple(_ADDED)
CAPABILITIES = tuple(sorted(name for names in _ADDED.values() for name in names))
_NO_CLOUD = ("none", "baremetal")
OS_STREAMS = ("rhel-9", "rhel-10")
_LONGEST_DISK_ID = 12


def capability_set(name: str) -> set[str]:
    """Return the capabilities of a set; none if the set is unknown."""
    if name not in _ADDED:
        return set()
    included: set[str] = set()
    for each, added in _ADDED.items():
        included.update(added)
        if each == name:
            break
    return included


@rule("54", "capabilities")
def capabilities(config: InstallConfig) -> Iterator[FieldError]:
    """Capabilities have known names, and include those that other capabilities or the platform need."""
    chosen = config.capabilities
    if chosen is None:
        return
    base, extra = chosen.baseline_capability_set, chosen.additional_enabled_capabilities or ()
    if base not in CAPABILITY_SETS:
        yield unsupported("capabilities.baselineCapabilitySet", base, CAPABILITY_SETS)
    for index, item in enumerate(extra):
        if item not in CAPABILITIES:
            yield unsupported(f"capabilities.additionalEnabledCapabilities[{index}]", item, CAPABILITIES)
    on, name = capability_set(base or "vCurrent") | set(extra), config.platform.name
    path = "additionalEnabledCapabilities"
    extras = None if chosen.additional_enabled_capabilities is None else list(extra)  # [] is shown as it was given
    if "marketplace" in on and "OperatorLifecycleManager" not in on:
        yield invalid(path, extras, "the marketplace capability requires the OperatorLifecycleManager capability")
    if name == "baremetal" and base == "None" and "baremetal" not in on:
        yield invalid(path, extras, "platform baremetal requires the baremetal capability")
    both = {"baselineCapabilitySet": base, "additionalEnabledCapabilities": extras}
    whole = {key: value for key, value in both.items() if value}
    if "CloudCredential" not in on and name not in _NO_CLOUD:
        text = "disabling CloudCredential capability available only for baremetal platforms"
        yield invalid("capabilities", whole, text)
    if "CloudControllerManager" not in on:
        external = config.platform.external
        if name not in (*_NO_CLOUD, "external"):
            text = (
                "is only supported on the Baremetal, None, or External platform with cloudControllerManager value none"
            )
            yield invalid("capabilities", whole, f"disabling CloudControllerManager {text}")
        elif external is not None and external.cloud_controller_manager == "External":
            text = "on External platform supported only with cloudControllerManager value none"
            yield invalid("capabilities", whole, f"disabling CloudControllerManager {text}")
    if "Ingress" not in on:
        yield invalid("capabilities", whole, "the Ingress capability is required")


@rule("55", "featureSet")
def features(config: InstallConfig) -> Iterator[FieldError]:
    """featureSet is a known one; gates, as Name=bool, need CustomNoUpgrade; gated fields need their gates."""
    if config.feature_set == gates.OKD:
        yield forbidden("featureSet", "OKD featureset is not supported on OpenShift clusters")
    elif config.feature_set not in gates.FEATURE_SETS:
        yield unsupported("featureSet", config.feature_set, sorted([*gates.FEATURE_SETS, gates.OKD]))
    if config.feature_gates and config.feature_set != gates.CUSTOM:
        yield forbidden("featureGates", "featureGates can only be used with the CustomNoUpgrade feature set")
    for index, gate in enumerate(config.feature_gates):
        parts = gate.split("=")
        text = "must match the format <feature-name>=<bool>"
        if len(parts) != 2:
            yield invalid(f"featureGates[{index}]", gate, text)
        elif parts[1] not in gates.TRUE | gates.FALSE:
            yield invalid(f"featureGates[{index}]", gate, f"{text}, could not parse boolean value")
    if gates.are_valid(config):
        yield from _gated(config)


def _gated(config: InstallConfig) -> Iterator[FieldError]:
    platform, pool = config.platform, config.control_plane
    with_vips = platform.with_vips
    external_dns = with_vips is not None and with_vips.dns_records_type == "External"
    disks = pool is not None and bool(pool.disk_setup)
    for path, used, gate in (
        (f"platform.{platform.name}.dnsRecordsType", external_dns, gates.DNS_RECORDS),
        ("controlPlane.diskSetup", disks, gates.DISK_SETUP),
        ("compute.diskSetup", any(pool.disk_setup for pool in config.compute), gates.DISK_SETUP),
        ("osImageStream", bool(config.os_image_stream), gates.OS_STREAMS),
    ):
        if used and not gates.enabled(config, gate):
            yield forbidden(path, gates.forbidden_text(gate))


@rule("56", "osImageStream")
def os_image_stream(config: InstallConfig) -> Iterator[FieldError]:
    """One of OS_STREAMS."""
    if config.os_image_stream and config.os_image_stream not in OS_STREAMS:
        text = f"Unsupported OS Image Stream. Supported values are: {', '.join(OS_STREAMS)}"
        yield forbidden("osImageStream", text)


@rule("disks", "diskSetup")
def disk_setup(config: InstallConfig) -> Iterator[FieldError]:
    """Each entry has what its type says; etcd and swap once at most, etcd on the control plane."""
    pools = [("controlPlane", config.control_plane)] + [(f"compute[{i}]", p) for i, p in enumerate(config.compute)]
    for path, pool in pools:
        seen: set[str] = set()
        for entry in pool.disk_setup if pool else ():
            yield from _disk(f"{path}.diskSetup", entry, seen, path == "controlPlane")


def _disk(path: str, entry: DiskSetup, seen: set[str], control_plane: bool) -> Iterator[FieldError]:
    """Yield the first thing that is wrong; paths and values are upstream's, which shows the entry and not its number.

    An entry of no known type is passed over, as upstream does.
    """
    setups = {"etcd": entry.etcd, "swap": entry.swap, "user-defined": entry.user_defined}
    if entry.type not in setups:
        return
    setup, name = setups[entry.type], "userDefined" if entry.type == "user-defined" else entry.type
    if entry.type in seen:
        yield too_many(f"{path}.{name}", 2, 1)
    elif setup is None:
        yield invalid(f"{path}.{name}", _shown(entry), f"{name} configuration must be created")
    elif entry.type == "user-defined" and len(setup.platform_disk_id) > _LONGEST_DISK_ID:
        text = f"cannot be longer than {_LONGEST_DISK_ID} characters"
        yield invalid(f"{path}.userDefined.platformDiskId", _shown(entry), text)
    elif entry.type == "etcd" and not control_plane:
        yield invalid(f"{path}.etcd", _shown(entry), "cannot specify etcd on worker machine pools")
    elif entry.type != "user-defined":
        seen.add(entry.type)


def _shown(entry: DiskSetup) -> str:
    setups = {"etcd": entry.etcd, "swap": entry.swap, "userDefined": entry.user_defined}
    data: dict[str, object] = {"type": entry.type}
    for name, setup in setups.items():
        if setup is not None:
            pairs = {"mountPath": setup.mount_path, "platformDiskID": setup.platform_disk_id}
            data[name] = {key: value for key, value in pairs.items() if value}
    return dump(dict(sorted(data.items())))
