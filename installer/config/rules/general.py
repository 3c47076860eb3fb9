"""Rules 2 to 7, 45, 52 and 53: names, keys, secrets, modes."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from installer.config.fielderror import FieldError, forbidden, invalid, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types.install import InstallConfig
from installer.config.values import check

log = logging.getLogger(__name__)

_FIPS_KEYS = r"ecdsa-sha2-nistp\d{3}|ssh-rsa"
FIPS_STATE = Path("/proc/sys/crypto/fips_enabled")
SKIP_FIPS_CHECK = "OPENSHIFT_INSTALL_SKIP_HOSTCRYPT_VALIDATION"
# Credentials modes of the platforms that have any (of those that the agent installer supports).
_EACH_MODE = ("Manual", "Mint", "Passthrough")
_CREDENTIALS_MODES = {
    "aws": _EACH_MODE,
    "azure": ("Manual", "Passthrough"),
    "gcp": _EACH_MODE,
    "ibmcloud": ("Manual",),
    "nutanix": ("Manual",),
    "openstack": ("Passthrough",),
    "powervc": ("Passthrough",),
    "powervs": ("Manual",),
}


@rule("2", "sshKey")
def ssh_key(config: InstallConfig) -> Iterator[FieldError]:
    """Each line must be a key; with FIPS the first one must be one of RSA or ECDSA."""
    safe_key = check.without_private_key(config.ssh_key)
    if config.fips:
        yield from _fips_key(config.ssh_key, safe_key)
        return
    for line in filter(None, config.ssh_key.split("\n")):
        if problem := check.ssh_key(line):
            yield invalid("sshKey", line if safe_key == config.ssh_key else safe_key, problem)


def _fips_key(text: str, shown: str) -> Iterator[FieldError]:
    if not text:
        return
    kinds = [check.ssh_key_type(line) for line in text.split("\n") if not check.ssh_key(line)]
    if not kinds:
        yield invalid("sshKey", shown, "Fatal error trying to parse configured public key: ssh: no key found")
    elif not re.fullmatch(_FIPS_KEYS, kinds[0]):
        problem = f"SSH key type {kinds[0]} unavailable when FIPS is enabled. Please use rsa or ecdsa."
        yield invalid("sshKey", shown, problem)


@rule("3", "fips")
def host_crypto(config: InstallConfig) -> Iterator[FieldError]:
    """Keys of a cluster in FIPS mode come from a machine in FIPS mode; the environment can make it a warning."""
    if not config.fips:
        return
    try:
        on = FIPS_STATE.read_text().strip() == "1"
    except OSError:
        on = False
    if on:
        return
    text = "target cluster is in FIPS mode, enable FIPS mode on the host"
    if os.environ.get(SKIP_FIPS_CHECK):
        log.warning(text)
    else:
        yield forbidden("fips", text)


@rule("4", "additionalTrustBundle")
def trust_bundle(config: InstallConfig) -> Iterator[FieldError]:
    """Every PEM block must be a certificate."""
    if config.additional_trust_bundle and (problem := check.pem_certificates(config.additional_trust_bundle)):
        yield invalid("additionalTrustBundle", check.without_private_key(config.additional_trust_bundle), problem)


@rule("5", "additionalTrustBundlePolicy")
def trust_bundle_policy(config: InstallConfig) -> Iterator[FieldError]:
    """additionalTrustBundlePolicy is Proxyonly or Always."""
    if config.additional_trust_bundle_policy not in ("", "Proxyonly", "Always"):
        yield invalid(
            "additionalTrustBundlePolicy",
            config.additional_trust_bundle_policy,
            'supported values: "Proxyonly", "Always"',
        )


@rule("6", "metadata.name")
def name(config: InstallConfig) -> Iterator[FieldError]:
    """At most 54 characters of a DNS name; no dot where the platform makes a label of it."""
    value, platform = config.metadata.name, config.platform
    if "." in value and (platform.with_vips is not None or platform.openstack is not None):
        yield invalid("metadata.name", value, "cluster name must not contain '.'")
    elif problem := check.subdomain(value, 54):
        yield invalid("metadata.name", value, problem)


@rule("7", "baseDomain")
def base_domain(config: InstallConfig) -> Iterator[FieldError]:
    """Check a DNS name, alone and with the cluster's name in front."""
    if problem := check.domain(config.base_domain):
        yield invalid("baseDomain", config.base_domain, problem)
    elif not check.subdomain(config.metadata.name, 54) and (problem := check.domain(config.cluster_domain)):
        yield invalid("baseDomain", config.cluster_domain, problem)


@rule("45", "pullSecret")
def pull_secret(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the pull secret is JSON with auths; errors do not show it."""
    if problem := check.pull_secret(config.pull_secret):
        yield invalid("pullSecret", check.redacted_pull_secret(config.pull_secret), problem)


@rule("52", "publish")
def publish(config: InstallConfig) -> Iterator[FieldError]:
    """publish is External; Internal and Mixed are for clouds, and so is operatorPublishingStrategy."""
    if config.publish not in ("External", "Internal", "Mixed"):
        yield unsupported("publish", config.publish, ("External", "Internal", "Mixed"))
    elif config.publish != "External":
        yield invalid(
            "publish", config.publish, f'{config.publish} publish strategy is not supported on "{config.platform.name}"'
        )
    if config.operator_publishing_strategy is not None and config.publish != "Mixed":
        text = "operator publishing strategy is only allowed with mixed publishing strategy installs"
        yield invalid("operatorPublishingStrategy", config.publish, text)
        for name, value in (
            ("apiserver", config.operator_publishing_strategy.apiserver),
            ("ingress", config.operator_publishing_strategy.ingress),
        ):
            if value not in ("", "Internal", "External"):
                yield unsupported(name, value, ("External", "Internal"))


@rule("53", "credentialsMode")
def credentials_mode(config: InstallConfig) -> Iterator[FieldError]:
    """credentialsMode cannot be set on platforms that are not clouds."""
    mode, name = config.credentials_mode, config.platform.name
    if not mode:
        return
    allowed = _CREDENTIALS_MODES.get(name)
    if allowed is None:
        yield invalid("credentialsMode", mode, f'cannot be set when using the "{name}" platform')
    elif mode not in allowed:
        yield unsupported("credentialsMode", mode, allowed)
