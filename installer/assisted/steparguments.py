"""Arguments of steps, as the service gives them and agents read them (installer.md §6.3).

Nearly each step has one, a JSON text of one of these. Other services send more, which is ignored, or less: what is not
needed may be null or missing, and is left out when it is None.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from installer.assisted.enums import Role

NotEmpty = Annotated[str, msgspec.Meta(min_length=1)]
#: Networks whose free addresses are asked for (free-network-addresses), as CIDRs.
Networks = list[str]
#: Addresses in the largest network that agents scan.
LARGEST_SCAN = 1024


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object within an argument."""


class PeerNic(Argument, frozen=True, kw_only=True):
    """A peer's network interface; addresses without prefix lengths."""

    name: str | None = None
    mac: str | None = None
    ip_addresses: list[str] | None = None


class Peer(Argument, frozen=True, kw_only=True):
    """A host that is to be reached."""

    host_id: str
    nics: list[PeerNic] | None = None


#: What connectivity-check is given.
Peers = list[Peer]


class NtpRequest(Argument, frozen=True, kw_only=True):
    """The argument of ntp-synchronizer: sources, divided by commas."""

    ntp_source: str | None = None


class Domain(Argument, frozen=True, kw_only=True):
    """A name to resolve."""

    domain_name: str


class DomainsRequest(Argument, frozen=True, kw_only=True):
    """The argument of domain-resolution."""

    domains: list[Domain] | None = None


class VipRequest(Argument, frozen=True, kw_only=True):
    """A virtual address, of the ``api`` or the ``ingress``."""

    vip: str
    vip_type: str


#: What verify-vips is given.
VipRequests = list[VipRequest]


class DiskSpeedRequest(Argument, frozen=True, kw_only=True):
    """The argument of installation-disk-speed-check: a device."""

    path: NotEmpty


class ImagesRequest(Argument, frozen=True, kw_only=True):
    """The argument of container-image-availability: the images to pull, and the seconds that all of them may take."""

    timeout: float | None = None
    images: list[str] | None = None


class TangServer(Argument, frozen=True, kw_only=True):
    """A Tang server, and the thumbprint of the key that it signs with."""

    url: str
    thumbprint: str | None = None


class TangRequest(Argument, frozen=True, kw_only=True):
    """The argument of tang-connectivity-check: servers, or the JSON text of them that the user gave."""

    tang_servers: str | list[TangServer] | None = None


class RequestHeader(Argument, frozen=True, kw_only=True):
    """A header of a request."""

    key: str
    value: str

    def __repr__(self) -> str:
        # Authorization is one.
        return f"{type(self).__name__}({self.key!r})"


class ApiVipRequest(Argument, frozen=True, kw_only=True):
    """For api-vip-connectivity-check: where the ignition of hosts that join later is; a CA certificate in base64."""

    url: str | None = None
    ca_certificate: str | None = None
    ignition_endpoint_token: str | None = None
    request_headers: list[RequestHeader] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class ProxyRequest(Argument, frozen=True, kw_only=True):
    """Proxies that the orchestrator uses."""

    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None

    def __repr__(self) -> str:
        # URLs of proxies may hold passwords.
        return f"{type(self).__name__}()"


class InstallRequest(Argument, frozen=True, kw_only=True):
    """For install: what the orchestrator is to do on this host; ``installer_args`` is the JSON text of a list."""

    cluster_id: NotEmpty
    infra_env_id: NotEmpty
    host_id: NotEmpty
    role: Role
    boot_device: NotEmpty
    controller_image: str | None = None
    # Empty where the service has none: simulated hosts need none.
    installer_image: str
    control_plane_count: int | None = None
    check_cvo: bool | None = None
    disks_to_format: list[str] | None = None
    openshift_version: str | None = None
    skip_installation_disk_cleanup: bool | None = None
    enable_skip_mco_reboot: bool | None = None
    notify_num_reboots: bool | None = None
    installation_attempt: str | None = None
    mco_image: str | None = None
    must_gather_image: str | None = None
    coreos_image: str | None = None
    service_ips: list[str] | None = None
    installer_args: str | None = None
    proxy: ProxyRequest | None = None


class LogsRequest(Argument, frozen=True, kw_only=True):
    """The argument of logs-gather: the host whose logs are wanted."""

    cluster_id: NotEmpty
    infra_env_id: NotEmpty
    host_id: NotEmpty
    bootstrap: bool | None = None
    installer_gather: bool | None = None
    master_ips: list[str] | None = None
    installation_attempt: str | None = None


class UpgradeRequest(Argument, frozen=True, kw_only=True):
    """The argument of upgrade-agent."""

    agent_image: str


def text_of(argument: object) -> str:
    """Return an argument as it is sent."""
    return msgspec.json.encode(argument).decode()
