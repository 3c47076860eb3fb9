"""Overrides of an install-config, as far as upstream's InstallerConfigBaremetal has them (assisted-service,
internal/installcfg/installcfg.go): a wrong type or an unknown field would only be refused by the payload's installer,
when manifests are made. Names are case-sensitive here, since that installer reads the merged document.

Below `networking` and the platforms only types that upstream has are judged: this installer's own annotation holds more
there (installer.manifests.overrides).
"""

from __future__ import annotations

import msgspec

from installer.rendezvous.resources.requests.clusters import Body
from installer.rendezvous.store.model import JsonMap


class _Proxy(Body, frozen=True, kw_only=True):
    http_proxy: str | None = msgspec.field(default=None, name="httpProxy")
    https_proxy: str | None = msgspec.field(default=None, name="httpsProxy")
    no_proxy: str | None = msgspec.field(default=None, name="noProxy")


class _ClusterNetwork(Body, frozen=True, kw_only=True, rename="camel"):
    cidr: str | None = None
    host_prefix: int | None = None


class _MachineNetwork(Body, frozen=True, kw_only=True):
    cidr: str | None = None


class _Networking(Body, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=False):
    network_type: str | None = None
    cluster_network: list[_ClusterNetwork] | None = None
    machine_network: list[_MachineNetwork] | None = None
    service_network: list[str] | None = None


class _Metadata(Body, frozen=True, kw_only=True):
    name: str | None = None


class _Pool(Body, frozen=True, kw_only=True):
    """A member of `compute`, and `arbiter`."""

    name: str | None = None
    hyperthreading: str | None = None
    replicas: int | None = None


class _FencingCredential(Body, frozen=True, kw_only=True, rename="camel"):
    hostname: str | None = None
    mac_address: str | None = None
    address: str | None = None
    username: str | None = None
    password: str | None = None
    certificate_verification: str | None = None


class _Fencing(Body, frozen=True, kw_only=True):
    credentials: list[_FencingCredential] | None = None


class _ControlPlane(_Pool, frozen=True, kw_only=True):
    fencing: _Fencing | None = None


class _Platform(Body, frozen=True, kw_only=True):
    baremetal: JsonMap | None = None
    none: JsonMap | None = None
    vsphere: JsonMap | None = None
    nutanix: JsonMap | None = None
    external: JsonMap | None = None


class _BootstrapInPlace(Body, frozen=True, kw_only=True, rename="camel"):
    installation_disk: str | None = None


class _Source(Body, frozen=True, kw_only=True):
    """A member of `imageContentSources` and `imageDigestSources`."""

    source: str | None = None
    mirrors: list[str] | None = None


class _Capabilities(Body, frozen=True, kw_only=True, rename="camel"):
    baseline_capability_set: str | None = None
    additional_enabled_capabilities: list[str] | None = None


class InstallConfigOverrides(Body, frozen=True, kw_only=True, rename="camel"):
    """The overrides as a whole; what is None is not overridden."""

    api_version: str | None = None
    base_domain: str | None = None
    proxy: _Proxy | None = None
    networking: _Networking | None = None
    metadata: _Metadata | None = None
    compute: list[_Pool] | None = None
    control_plane: _ControlPlane | None = None
    arbiter: _Pool | None = None
    platform: _Platform | None = None
    bootstrap_in_place: _BootstrapInPlace | None = None
    fips: bool | None = None
    cpu_partitioning_mode: str | None = msgspec.field(default=None, name="cpuPartitioningMode")
    pull_secret: str | None = None
    ssh_key: str | None = msgspec.field(default=None, name="sshKey")
    additional_trust_bundle: str | None = None
    additional_trust_bundle_policy: str | None = None
    image_content_sources: list[_Source] | None = None
    image_digest_sources: list[_Source] | None = None
    capabilities: _Capabilities | None = None
    feature_set: str | None = None
    feature_gates: list[str] | None = None
    os_image_stream: str | None = msgspec.field(default=None, name="osImageStream")
    # Beyond upstream's: what this installer's own annotation has.
    publish: str | None = None
