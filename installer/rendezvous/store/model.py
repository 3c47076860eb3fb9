"""The records of the service: clusters, infra-envs, hosts and events, as frozen structs.

Field names are those of the REST API (assisted-service.swagger.yaml); api/fields.py has which of them it shows.
What hosts reported are documents: typed, with the text that the API shows (documents.py, links.py).
None of these can be part of a cycle, so the garbage collector leaves them alone (``gc=False``, here as in inventory.py
and links.py): with 2,000 hosts it would stop the service for tenths of a second to find nothing.
"""

from __future__ import annotations

import base64
import secrets
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from installer.assisted.enums import (
    ClusterStatus,
    HostStatus,
    LogsState,
    MediaStatus,
    PreparationStatus,
    Role,
    Severity,
    Stage,
)
from installer.rendezvous.store.diskidentity import DiskIdentity
from installer.rendezvous.store.documents import (
    ApiVipConnectivity,
    DisksInfo,
    Document,
    FencingCredentials,
    FreeAddresses,
    HostInventory,
    ImagesStatus,
    InstallerArgs,
    MajorityGroups,
    NameResolutions,
    NodeLabels,
    TangConnectivity,
    TimeSources,
    ValidationIds,
    Validations,
    VerifiedVips,
)
from installer.rendezvous.store.links import Connectivity
from installer.rendezvous.store.shapes import (
    ClusterNetwork,
    DiskEncryption,
    IgnitionEndpoint,
    KernelOperation,
    LoadBalancer,
    Network,
    Platform,
    Proxy,
    Vip,
)

JsonMap = dict[str, Any]
# Of a machine config server that speaks TLS.
TLS_PORT = 22623


class Private(msgspec.Struct, frozen=True, gc=False):
    """A record whose repr shows its name and no more: it holds secrets, and reprs end up in logs."""

    def __repr__(self) -> str:
        own = getattr(self, "id", None) or getattr(self, "file_name", "")
        return f"{type(self).__name__}({own!r})"


class HostProgress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The progress of a host's installation; percentage 0 to 100."""

    installation_percentage: int = 0
    current_stage: Stage | None = None
    progress_info: str = ""
    stage_started_at: str | None = None
    stage_updated_at: str | None = None
    stage_timed_out: bool = False


class Machine(msgspec.Struct, frozen=True, gc=False):
    """A machine's marks in its inventory: its NICs, and the system's serial number if it has one."""

    macs: list[str] = []
    serial: str = ""

    def __str__(self) -> str:
        return f"MAC {', '.join(self.macs) or 'unknown'} (serial number {self.serial or 'unknown'})"

    def is_another(self, than: Machine) -> bool:
        """Return whether the two cannot be one machine. One that runs keeps its serial number, and some NIC."""
        apart = bool(self.macs and than.macs) and not set(self.macs) & set(than.macs)
        return apart or ("" not in (self.serial, than.serial) and self.serial != than.serial)


class Host(Private, frozen=True, gc=False, kw_only=True):
    """One machine that registered."""

    id: str
    infra_env_id: str
    cluster_id: str | None = None
    status: HostStatus = HostStatus.DISCOVERING
    status_info: str = ""
    status_updated_at: str = ""
    validations_info: Validations = Validations()
    inventory: HostInventory = HostInventory()
    connectivity: Connectivity = Connectivity()
    api_vip_connectivity: ApiVipConnectivity = ApiVipConnectivity()
    tang_connectivity: TangConnectivity = TangConnectivity()
    free_addresses: FreeAddresses = FreeAddresses()
    ntp_sources: TimeSources = TimeSources()
    disks_info: DisksInfo = DisksInfo()
    images_status: ImagesStatus = ImagesStatus()
    domain_name_resolutions: NameResolutions = NameResolutions()
    role: Role = Role.AUTO
    suggested_role: Role = Role.AUTO
    bootstrap: bool = False
    requested_hostname: str = ""
    installation_disk_id: str = ""
    installation_disk_path: str = ""
    discovery_agent_version: str = ""
    installer_version: str = ""
    media_status: MediaStatus = MediaStatus.CONNECTED
    ignition_config_overrides: str = ""
    installer_args: InstallerArgs = InstallerArgs()
    machine_config_pool_name: str = ""
    node_labels: NodeLabels = NodeLabels()
    # By their ids.
    disks_to_be_formatted: list[str] = []
    timestamp: int = 0
    progress: HostProgress = HostProgress()
    logs_info: LogsState = LogsState.NONE
    logs_collected_at: str | None = None
    logs_started_at: str | None = None
    checked_in_at: str | None = None
    registered_at: str | None = None
    created_at: str = ""
    updated_at: str = ""
    # All that follows is internal, except the ids of skipped_disks (skip_formatting_disks of the API).
    # By step: when it was last handed out in this status, and a fingerprint of its arguments.
    sent_steps: dict[str, str] = {}
    sent_args: dict[str, str] = {}
    # What the user chose, and by what the disks are found again.
    user_hostname: str = ""
    user_disk: bool = False
    installation_disk: DiskIdentity | None = None
    skipped_disks: list[DiskIdentity] = []
    verified_vips: VerifiedVips = VerifiedVips()
    # Host minus service at the last poll, s.
    clock_gap: float | None = None
    # By step, and ``disk``: what its last failure said.
    step_errors: dict[str, str] = {}
    fencing_credentials: FencingCredentials = FencingCredentials()
    # With these it asks for its config when it is added to a cluster.
    ignition_endpoint_token: str = ""
    ignition_endpoint_http_headers: dict[str, str] = {}
    # Who sent the last inventory since the registration, and another that has sent one too; when there was last reason
    # to suspect that two machines have this id.
    # It was bound to a cluster that was installed already.
    added: bool = False
    machine: Machine | None = None
    rival: Machine | None = None
    contested_at: str | None = None

    @property
    def effective_role(self) -> Role:
        """The chosen role, else the suggested one."""
        return self.suggested_role if self.role is Role.AUTO else self.role

    @property
    def pool(self) -> Role:
        """The role whose Ignition config the host gets."""
        role = self.effective_role
        return role if role in (Role.WORKER, Role.ARBITER) else Role.MASTER

    @property
    def ignition_file(self) -> str:
        """The name of the file that the host's own Ignition config is kept under."""
        return f"{self.pool}-{self.id}.ign"


class ClusterProgress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Percentages of the cluster's installation, 0 to 100."""

    total_percentage: int = 0
    preparing_for_installation_stage_percentage: int = 0
    installing_stage_percentage: int = 0
    finalizing_stage_percentage: int = 0
    finalizing_stage: str | None = None
    finalizing_stage_started_at: str | None = None


class Preparation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Result of the last generation of ignition."""

    status: PreparationStatus = PreparationStatus.NOT_STARTED
    reason: str = ""


class Cluster(Private, frozen=True, gc=False, kw_only=True):
    """The cluster to install."""

    id: str
    name: str
    openshift_version: str = ""
    ocp_release_image: str = ""
    base_dns_domain: str = ""
    control_plane_count: int = 3
    high_availability_mode: str = "Full"
    platform: Platform = msgspec.field(default_factory=lambda: Platform(type="baremetal"))
    user_managed_networking: bool = False
    vip_dhcp_allocation: bool = False
    network_type: str = "OVNKubernetes"
    cluster_networks: list[ClusterNetwork] = []
    service_networks: list[Network] = []
    machine_networks: list[Network] = []
    api_vips: list[Vip] = []
    ingress_vips: list[Vip] = []
    ssh_public_key: str = ""
    pull_secret: str = ""
    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: str = ""
    additional_ntp_source: str = ""
    ntp_sources: str = ""
    cpu_architecture: str = "x86_64"
    hyperthreading: str = "all"
    schedulable_masters: bool = False
    disk_encryption: DiskEncryption = msgspec.field(default_factory=lambda: DiskEncryption(enable_on="none"))
    load_balancer: LoadBalancer | None = None
    # Of hosts that are added, in place of the cluster's own server.
    ignition_endpoint: IgnitionEndpoint = msgspec.field(default_factory=IgnitionEndpoint)
    tags: str = ""
    olm_operators: list[JsonMap] = []
    install_config_overrides: str = ""
    status: ClusterStatus = ClusterStatus.INSUFFICIENT
    status_info: str = ""
    status_updated_at: str = ""
    validations_info: Validations = Validations()
    progress: ClusterProgress = ClusterProgress()
    last_preparation: Preparation = Preparation()
    # Internal: another with every actions/install; what an earlier attempt still sends is dropped.
    attempt: str = ""
    # The id that the payload's installer has given it.
    openshift_cluster_id: str = ""
    monitored_operators: list[JsonMap] = []
    connectivity_majority_groups: MajorityGroups = MajorityGroups()
    ignored_host_validations: ValidationIds = ValidationIds()
    ignored_cluster_validations: ValidationIds = ValidationIds()
    imported: bool = False
    logs_info: LogsState = LogsState.NONE
    controller_logs_collected_at: str | None = None
    controller_logs_started_at: str | None = None
    install_started_at: str | None = None
    install_completed_at: str | None = None
    # Internal: what the user interface keeps here.
    ui_settings: str = ""
    # Internal: where hosts that are added get their config, without the pool, and the CA of that server (PEM).
    join_url: str = ""
    join_ca: str = ""
    # Internal: a digest of what was asked for by whoever chose the id; empty where the service did (repeatable.py).
    request: str = ""
    created_at: str = ""
    updated_at: str = ""

    @property
    def is_sno(self) -> bool:
        """One control-plane node and no more."""
        return self.control_plane_count == 1


def join_server(cluster: Cluster) -> tuple[str, str]:
    """Return the server of configs of hosts that are added (URL without the pool, CA as PEM); empty if unknown."""
    endpoint = cluster.ignition_endpoint
    ca = base64.b64decode(endpoint.get("ca_certificate") or "").decode()
    if url := endpoint.get("url"):
        return url.rstrip("/"), ca
    if ca and cluster.imported:
        # The certificate of a machine config server is for the inner name alone, and has a port of its own.
        name = str(urlsplit(cluster.join_url).hostname)
        inner = f"api-int.{name[4:]}" if name.startswith("api.") else name
        return f"https://{inner}:{TLS_PORT}/config", ca
    return cluster.join_url, ca or cluster.join_ca


def join_url(cluster: Cluster, host: Host) -> str:
    """Return where a host that is added to a cluster gets its config; empty without a place."""
    url, _ = join_server(cluster)
    return url and f"{url}/{host.machine_config_pool_name or host.pool}"


def join_headers(host: Host) -> dict[str, str]:
    """Return the headers with which a host that is added asks for its config."""
    token = host.ignition_endpoint_token
    return ({"Authorization": f"Bearer {token}"} if token else {}) | host.ignition_endpoint_http_headers


class StaticNic(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A NIC of a host with a static network: by its MAC address, and as the document calls it."""

    mac_address: str
    logical_nic_name: str


class StaticNetwork(Private, frozen=True, gc=False, kw_only=True):
    """A host's network: an nmstate document, and the NICs that tell whose it is."""

    network_yaml: str
    mac_interface_map: list[StaticNic]


class KernelArgument(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A change of an image's kernel arguments."""

    operation: KernelOperation
    value: str


class InfraEnv(Private, frozen=True, gc=False, kw_only=True):
    """The settings that hosts are booted with."""

    id: str
    name: str
    cluster_id: str | None = None
    openshift_version: str = ""
    type: str = "full-iso"
    cpu_architecture: str = "x86_64"
    ssh_authorized_key: str = ""
    pull_secret: str = ""
    static_network_config: list[StaticNetwork] = []
    additional_ntp_sources: str = ""
    ntp_sources: str = ""
    additional_trust_bundle: str = ""
    proxy: Proxy = {}
    kernel_arguments: list[KernelArgument] = []
    ignition_config_override: str = ""
    # Internal: signs the URLs of this infra-env's images; a new one invalidates the old URLs.
    image_key: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    # Internal: the release of a hub's that its images are of, while it belongs to no cluster.
    release_image: str = ""
    # Internal: as a cluster's. URLs of such an infra-env's images have no end.
    request: str = ""
    created_at: str = ""
    updated_at: str = ""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something that happened; ``props`` is JSON. Stored as the API shows it: what is empty is left out."""

    name: str
    severity: Severity
    message: str
    event_time: str
    category: str
    cluster_id: str | None = None
    host_id: str | None = None
    infra_env_id: str | None = None
    props: str = ""


class Anchor(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One moment by the monotonic clock (s since the machine's start ``boot``) and by the wall clock (RFC 3339)."""

    boot: str
    monotonic: float
    wall: str


class Manifest(Private, frozen=True, gc=False, kw_only=True):
    """A manifest given to or made by the service; folder is ``manifests`` or ``openshift``."""

    folder: str
    file_name: str
    content: bytes
    manifest_source: str = "user"


Stored = TypeVar("Stored", Cluster, Host, InfraEnv)


def as_text(value: object) -> str:
    """Return a document as it is encoded: msgspec's hook. Raises NotImplementedError for all else."""
    if isinstance(value, Document):
        return value.text
    raise NotImplementedError(f"{type(value).__name__} cannot be stored")


def _of_text(kind: type[Any], text: object) -> object:
    if issubclass(kind, Document) and isinstance(text, str):
        return kind(text)
    raise NotImplementedError(f"{kind.__name__} cannot be read")


def _upgraded(text: bytes) -> bytes:
    """Return a row of an earlier version of the service, in which lists were texts. Raises msgspec.MsgspecError."""
    data: JsonMap = msgspec.json.decode(text, type=JsonMap)
    for name in ("static_network_config", "kernel_arguments"):
        if isinstance(value := data.get(name), str):
            data[name] = msgspec.json.decode(value or "[]")
    if isinstance(value := data.get("disks_to_be_formatted"), str):
        data["disks_to_be_formatted"] = list(filter(None, value.split(",")))
    if isinstance(value := data.pop("skip_formatting_disks", ""), str):
        skipped = msgspec.convert(data.get("skipped_disks", []), list[DiskIdentity])
        ids = {disk.id for disk in skipped}
        # Nothing but the id is known of these.
        others = [DiskIdentity(id=name) for name in value.split(",") if name and name not in ids]
        data["skipped_disks"] = [*skipped, *others]
    return msgspec.json.encode(data)


_ENCODER = msgspec.json.Encoder(enc_hook=as_text)


def encode(item: Cluster | Host | InfraEnv) -> bytes:
    """Return the item as it is stored: JSON, in which documents are the texts that they were."""
    return _ENCODER.encode(item)


def decode(text: bytes, kind: type[Stored]) -> Stored:
    """Return an item that was stored, by this version or an earlier one. Raises msgspec.MsgspecError."""
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_of_text)
    except msgspec.ValidationError:
        return msgspec.json.decode(_upgraded(text), type=kind, dec_hook=_of_text)


def as_map(item: Cluster | Host | InfraEnv) -> JsonMap:
    """Return the item as a map of JSON values, private fields included."""
    data: JsonMap = msgspec.to_builtins(item, enc_hook=as_text)
    return data


def from_map(data: JsonMap, kind: type[Stored]) -> Stored:
    """Return an item of such a map. Raises msgspec.ValidationError."""
    return msgspec.convert(data, kind, dec_hook=_of_text)
