"""Rules 2 to 7, 45 to 56 in part: names, keys, secrets, modes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from installer.config import check
from installer.config.fielderror import FieldError, forbidden, invalid, required, unsupported
from installer.config.rules import rule
from installer.config.types import InstallConfig

_FIPS_KEYS = ("ssh-rsa", "ecdsa-sha2-nistp")
CAPABILITY_SETS = ("None", "v4.11", "v4.12", "v4.13", "v4.14", "v4.15", "v4.16", "v4.17", "v4.18", "vCurrent")
CAPABILITIES = (
    "Build",
    "CSISnapshot",
    "CloudControllerManager",
    "CloudCredential",
    "Console",
    "DeploymentConfig",
    "ImageRegistry",
    "Ingress",
    "Insights",
    "MachineAPI",
    "NodeTuning",
    "OperatorLifecycleManager",
    "OperatorLifecycleManagerV1",
    "Storage",
    "baremetal",
    "marketplace",
    "openshift-samples",
)
FEATURE_SETS = ("", "CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade")


@rule("2", "sshKey")
def ssh_key(config: InstallConfig) -> Iterator[FieldError]:
    """Each line must be a key; with FIPS only RSA and ECDSA."""
    for line in filter(None, (line.strip() for line in config.ssh_key.splitlines())):
        if problem := check.ssh_key(line):
            yield invalid("sshKey", line, problem)
        elif config.fips and not any(kind in line for kind in _FIPS_KEYS):
            yield invalid("sshKey", line, "only rsa and ecdsa keys may be used with fips")


@rule("4", "additionalTrustBundle")
def trust_bundle(config: InstallConfig) -> Iterator[FieldError]:
    """Every PEM block must be a certificate."""
    if config.additional_trust_bundle and (problem := check.pem_certificates(config.additional_trust_bundle)):
        yield invalid("additionalTrustBundle", config.additional_trust_bundle, problem)


@rule("5", "additionalTrustBundlePolicy")
def trust_bundle_policy(config: InstallConfig) -> Iterator[FieldError]:
    """Proxyonly or Always."""
    if config.additional_trust_bundle_policy not in ("", "Proxyonly", "Always"):
        yield invalid(
            "additionalTrustBundlePolicy",
            config.additional_trust_bundle_policy,
            'supported values: "Proxyonly", "Always"',
        )


@rule("6", "metadata.name")
def name(config: InstallConfig) -> Iterator[FieldError]:
    """At most 54 characters of a DNS name; no dot where the platform makes a label of it."""
    value = config.metadata.name
    if not value:
        yield required("metadata.name", "cluster name required")
    elif problem := check.subdomain(value, 54):
        yield invalid("metadata.name", value, problem)
    elif "." in value and config.platform.name in ("baremetal", "vsphere", "nutanix"):
        yield invalid("metadata.name", value, "cluster name must not contain '.'")


@rule("7", "baseDomain")
def base_domain(config: InstallConfig) -> Iterator[FieldError]:
    """A DNS name, alone and with the cluster's name in front."""
    if problem := check.domain(config.base_domain):
        yield invalid("baseDomain", config.base_domain, problem)
    elif not check.subdomain(config.metadata.name, 54) and (problem := check.domain(config.cluster_domain)):
        yield invalid("baseDomain", config.cluster_domain, problem)


@rule("45", "pullSecret")
def pull_secret(config: InstallConfig) -> Iterator[FieldError]:
    """JSON with auths; the secret itself is not shown."""
    if problem := check.pull_secret(config.pull_secret):
        yield invalid("pullSecret", check.redacted_pull_secret(config.pull_secret), problem)


@rule("52", "publish")
def publish(config: InstallConfig) -> Iterator[FieldError]:
    """External; Internal and Mixed are for clouds."""
    if config.publish not in ("External", "Internal", "Mixed"):
        yield unsupported("publish", config.publish, ("External", "Internal", "Mixed"))
    elif config.publish != "External":
        yield invalid(
            "publish", config.publish, f'{config.publish} publish strategy is not supported on "{config.platform.name}"'
        )


@rule("53", "credentialsMode")
def credentials_mode(config: InstallConfig) -> Iterator[FieldError]:
    """Not settable without a cloud."""
    if config.credentials_mode and config.platform.name in ("none", "baremetal", "vsphere", "external"):
        yield invalid(
            "credentialsMode",
            config.credentials_mode,
            f"cannot be set when using the {config.platform.name!r} platform".replace("'", '"'),
        )


@rule("54", "capabilities")
def capabilities(config: InstallConfig) -> Iterator[FieldError]:
    """Known names, and those that others need."""
    if config.capabilities is None:
        return
    base = config.capabilities.baseline_capability_set
    extra = config.capabilities.additional_enabled_capabilities
    if base and base not in CAPABILITY_SETS:
        yield unsupported("capabilities.baselineCapabilitySet", base, CAPABILITY_SETS)
    for index, item in enumerate(extra):
        if item not in CAPABILITIES:
            yield unsupported(f"capabilities.additionalEnabledCapabilities[{index}]", item, CAPABILITIES)
    if base != "None":
        return
    path = "additionalEnabledCapabilities"
    if "marketplace" in extra and "OperatorLifecycleManager" not in extra:
        yield invalid(path, list(extra), "the marketplace capability requires the OperatorLifecycleManager capability")
    if config.platform.name == "baremetal" and "baremetal" not in extra:
        yield invalid(path, list(extra), "platform baremetal requires the baremetal capability")
    if "Ingress" not in extra:
        yield invalid(path, list(extra), "the Ingress capability is required")


@rule("55", "featureSet")
def features(config: InstallConfig) -> Iterator[FieldError]:
    """Known sets; gates only with CustomNoUpgrade, as Name=bool."""
    if config.feature_set not in FEATURE_SETS:
        yield unsupported("featureSet", config.feature_set, [item for item in FEATURE_SETS if item])
    if config.feature_gates and config.feature_set != "CustomNoUpgrade":
        yield forbidden("featureGates", "featureGates can only be used with the CustomNoUpgrade feature set")
    for index, gate in enumerate(config.feature_gates):
        if not re.fullmatch(r"[A-Za-z0-9]+=(?:true|false|True|False|1|0|t|f|T|F|TRUE|FALSE)", gate):
            yield invalid(f"featureGates[{index}]", gate, "must match the format <feature-name>=<bool>")


@rule("cpu", "cpuPartitioningMode")
def cpu_partitioning(config: InstallConfig) -> Iterator[FieldError]:
    """None or AllNodes."""
    if config.cpu_partitioning_mode not in ("", "None", "AllNodes"):
        yield unsupported("cpuPartitioningMode", config.cpu_partitioning_mode, ("None", "AllNodes"))
