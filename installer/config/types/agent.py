"""agent-config.yaml as types (reference/installer.md §1.3)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from installer.config.decode import key
from installer.config.types.install import ObjectMeta, TypeName
from installer.config.types.platform import Bmc, RootDeviceHints


@dataclass(frozen=True)
class Interface:
    """A logical name for the NIC of that MAC address."""

    name: str = ""
    mac_address: str = ""


@dataclass(frozen=True)
class Host:
    """A host of agent-config."""

    hostname: str = ""
    _: KW_ONLY
    role: str = ""
    interfaces: tuple[Interface, ...] = ()
    network_config: Any = field(default=None, repr=False)  # may hold passwords of 802.1x
    root_device_hints: RootDeviceHints | None = None
    bmc: Bmc | None = key("BMC", default=None)  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """agent-config.yaml."""

    api_version: TypeName = ""
    kind: TypeName = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    rendezvous_ip: str = key("rendezvousIP", default="")
    additional_ntp_sources: tuple[str, ...] = key("additionalNTPSources", default=())
    boot_artifacts_base_url: str = key("bootArtifactsBaseURL", default="")
    minimal_iso: bool = key("minimalISO", default=False)
    hosts: tuple[Host, ...] = ()
