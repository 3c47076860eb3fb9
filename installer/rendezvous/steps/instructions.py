"""The steps that an agent gets in each state (installer.md §5.5), as a table of types and a maker for each.

The table's seconds say how often a step is repeated. The agent calls in more often than that
(Settings.poll_seconds), so that a change of state is acted on at once instead of a minute later.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from installer.assisted import steparguments as arguments
from installer.assisted.enums import HostStatus, LogsState, Role, StepType
from installer.assisted.inventory import Inventory
from installer.rendezvous.clock import age
from installer.rendezvous.steps import installerargs
from installer.rendezvous.store.model import Cluster, Host, join_headers, join_server, join_url
from installer.rendezvous.validations import disks, networks
from installer.rendezvous.validations.hostview import HostView, same_image
from installer.rendezvous.validations.names import names_to_resolve

T = StepType
H = HostStatus

_ASKED = (T.INVENTORY, T.CONNECTIVITY, T.TANG, T.FREE_ADDRESSES, T.DHCP, T.NTP, T.DOMAINS, T.VERIFY_VIPS)
TABLE: Mapping[HostStatus, tuple[tuple[StepType, ...], int, str]] = {
    H.DISCOVERING: ((T.INVENTORY,), 60, "continue"),
    H.KNOWN: (
        (T.CONNECTIVITY, T.TANG, T.FREE_ADDRESSES, T.DHCP, T.INVENTORY, T.NTP, T.DOMAINS, T.VERIFY_VIPS),
        60,
        "continue",
    ),
    H.INSUFFICIENT: (_ASKED, 60, "continue"),
    H.PENDING_FOR_INPUT: (_ASKED, 60, "continue"),
    H.DISCONNECTED: ((T.INVENTORY,), 120, "continue"),
    H.PREPARING: ((T.DHCP, T.DISK_SPEED, T.IMAGES), 60, "continue"),
    H.PREPARING_SUCCESSFUL: ((T.DHCP,), 60, "continue"),
    H.INSTALLING: ((T.INSTALL, T.DHCP), 60, "continue"),
    H.INSTALLING_IN_PROGRESS: ((T.DHCP,), 60, "continue"),
    H.ERROR: ((T.LOGS, T.STOP), 120, "continue"),
    H.CANCELLED: ((T.LOGS, T.STOP), 120, "continue"),
    H.DISABLED: ((), 120, "continue"),
    H.RESETTING: ((), 120, "continue"),
    # OpenShift gives no step here, so a host that is reset or unbound before it hears of the cancellation goes on
    # installing.
    H.RESETTING_PENDING_USER_ACTION: ((T.STOP,), 60, "continue"),
    H.UNBINDING_PENDING_USER_ACTION: ((T.STOP,), 60, "continue"),
    H.BINDING: ((), 0, "exit"),
    H.UNBINDING: ((), 0, "exit"),
    H.DISCOVERING_UNBOUND: ((T.INVENTORY,), 60, "continue"),
    H.INSUFFICIENT_UNBOUND: ((T.INVENTORY, T.NTP), 60, "continue"),
    H.KNOWN_UNBOUND: ((T.INVENTORY, T.NTP), 60, "continue"),
    H.DISCONNECTED_UNBOUND: ((T.INVENTORY,), 120, "continue"),
}
# Of a host that is added to an installed cluster.
_JOINING = (T.CONNECTIVITY, T.API_VIP, T.TANG, T.INVENTORY, T.NTP, T.DOMAINS)
JOINING: Mapping[HostStatus, tuple[tuple[StepType, ...], int, str]] = {
    H.KNOWN: (_JOINING, 60, "continue"),
    H.INSUFFICIENT: (_JOINING, 60, "continue"),
    H.PENDING_FOR_INPUT: (_JOINING, 60, "continue"),
    H.INSTALLING: ((T.INSTALL,), 60, "continue"),
}
DEFAULT: tuple[tuple[StepType, ...], int, str] = ((), 60, "continue")
# Steps that are handed out once in a status; the others are repeated.
ONCE = frozenset({T.INSTALL, T.LOGS, T.STOP, T.DISK_SPEED, T.IMAGES, T.FREE_ADDRESSES})
# These are asked for again as soon as what they are asked about has changed, though not more often than every few
# seconds while hosts come in one after the other.
ON_CHANGE = frozenset({T.CONNECTIVITY, T.API_VIP, T.VERIFY_VIPS, T.FREE_ADDRESSES, T.DOMAINS, T.TANG})
LEAST_PAUSE = 10
# While two machines may have one id, each poll is asked for the inventory: with pauses one and the same would always be
# the first to call after them.
CONTEST_SECONDS = 60
# Each of n hosts asks the n - 1 others: in a big cluster less often, so that the work grows with n alone.
HOSTS_PER_PAUSE = 10
# A host whose status has just changed will be given other steps, so it is told to call in again soon. There are four
# such changes in an installation, each of which would cost up to Settings.poll_seconds.
LIVELY_SECONDS, LIVELY_PAUSE = 15, 1
ONCE_RETRY = {T.INSTALL: 60, T.DISK_SPEED: 300, T.IMAGES: 300}

# Where OpenShift lets an agent be replaced: never by another while one installs, or while steps of its own are due.
UPGRADABLE = frozenset(
    {
        *(H.BINDING, H.DISCOVERING, H.INSUFFICIENT, H.KNOWN, H.PENDING_FOR_INPUT),
        *(H.DISCOVERING_UNBOUND, H.INSUFFICIENT_UNBOUND, H.KNOWN_UNBOUND),
    }
)

# Their results belong to one attempt to install: answers from an earlier one are dropped.
OF_ATTEMPT = frozenset({T.INSTALL, T.DISK_SPEED, T.IMAGES})

Args = list[str]
Maker = Callable[[HostView], Args | None]


def _connectivity(view: HostView) -> Args | None:
    peers = view.peers.peers_of(view.host)
    return [peers] if peers else None


def _scanned(inventory: Inventory, cidr: str) -> bool:
    """Return whether agents can scan this network, and this host reach others in it."""
    network = networks.network_of(cidr)
    return (network.version == 4 and network.num_addresses <= arguments.LARGEST_SCAN) and any(
        item.ip in network and item.network.num_addresses > 1 for item in networks.interfaces_of(inventory)
    )


def _free_addresses(view: HostView) -> Args | None:
    # Asked only where VIPs have to be found free: SNO and user-managed networking have none.
    if view.inventory is None or not networks.has_vips(view.cluster):
        return None
    cidrs = [cidr for cidr in view.machine_cidrs if _scanned(view.inventory, cidr)]
    return [arguments.text_of(cidrs)] if cidrs else None


def _ntp(view: HostView) -> Args | None:
    sources = networks.time_sources(view.joined, view.infra_env)
    return [arguments.text_of(arguments.NtpRequest(ntp_source=",".join(sources)))]


def _domains(view: HostView) -> Args | None:
    if not view.cluster.name or not view.cluster.base_dns_domain:
        return None
    # Each name costs programs on every host every minute: only those that a validation waits for.
    names = names_to_resolve(view)
    if not names:
        return None
    return [arguments.text_of(arguments.DomainsRequest(domains=[arguments.Domain(domain_name=name) for name in names]))]


def _verify_vips(view: HostView) -> Args | None:
    if not networks.has_vips(view.cluster):
        return None
    vips = [arguments.VipRequest(vip=item["ip"], vip_type="api") for item in view.cluster.api_vips]
    vips += [arguments.VipRequest(vip=item["ip"], vip_type="ingress") for item in view.cluster.ingress_vips]
    return [arguments.text_of(vips)] if vips else None


def _api_vip(view: HostView) -> Args | None:
    if not (url := join_url(view.cluster, view.host)):
        return None
    _, ca = join_server(view.cluster)
    headers = [arguments.RequestHeader(key=key, value=value) for key, value in join_headers(view.host).items()]
    certificate = base64.b64encode(ca.encode()).decode()
    request = arguments.ApiVipRequest(url=url, ca_certificate=certificate or None, request_headers=headers or None)
    return [arguments.text_of(request)]


def _tang(view: HostView) -> Args | None:
    servers = view.cluster.disk_encryption.get("tang_servers")
    return [arguments.text_of(arguments.TangRequest(tang_servers=servers))] if servers else None


def _disk_speed(view: HostView) -> Args | None:
    path = view.host.installation_disk_path
    measured = view.host.disks_info.speed(path)
    persistent = view.inventory is not None and view.inventory.boot.device_type == "persistent"
    if measured.tested or persistent or not path or installerargs.keeps_partitions(view.host):
        return None
    return [arguments.text_of(arguments.DiskSpeedRequest(path=path)), f"{view.settings.disk_check_timeout:.2f}"]


def images_needed(view: HostView) -> list[str]:
    """Images that a host must be able to pull, in upstream's order (container_image_availability_cmd.go)."""
    settings = view.settings
    release = (view.joined.ocp_release_image if view.joined else "") or settings.release_image
    images = (release, settings.mco_image, settings.must_gather_image)
    return list(dict.fromkeys(filter(None, (*images, settings.installer_image))))


def _images(view: HostView) -> Args | None:
    images = images_needed(view)
    if not images or view.host.images_status.value is not None:
        return None
    return [arguments.text_of(arguments.ImagesRequest(timeout=16 * 60, images=images))]


def _still_named(view: HostView, path: str) -> bool:
    """Return whether this name still leads to the disk that the inventory has under it.

    Kernel names are given anew with each boot; before the inventory of the new one has come only udev's links hold.
    """
    chosen = view.host.installation_disk
    return path.startswith("/dev/disk/") or chosen is None or not chosen.restarted


def _to_format(view: HostView) -> list[str]:
    """Return the bootable disks but for those that the user wants left alone, by whichever of its names each is called.

    None at all when one to be left alone is missing or cannot be told from another: it may be any of them.
    """
    if view.inventory is None:
        return []
    left = [disk for _, disk in disks.skipped(view.host, view.inventory)]
    if None in left:
        return []
    paths = [path for path in view.host.disks_to_be_formatted if _still_named(view, path)]
    return [path for path in paths if disks.find(view.inventory, path) not in (None, *left)]


def _install(view: HostView) -> Args | None:
    host, cluster = view.host, view.cluster
    disk = disks.installation(host, view.inventory) if view.inventory is not None else None
    if disk is None or not _still_named(view, host.installation_disk_path):
        return None  # better no installation than one on the wrong disk
    args = installerargs.arguments(view)
    request = arguments.InstallRequest(
        cluster_id=cluster.id,
        infra_env_id=host.infra_env_id,
        host_id=host.id,
        role=Role.BOOTSTRAP if host.bootstrap else view.role,
        boot_device=host.installation_disk_path,
        controller_image=view.settings.controller_image,
        installer_image=view.settings.installer_image,
        control_plane_count=cluster.control_plane_count,
        check_cvo=True,
        disks_to_format=_to_format(view),
        openshift_version=cluster.openshift_version,
        skip_installation_disk_cleanup=installerargs.keeps_partitions(host),
        # A disk of the device mapper cannot be found again by the name that the machine-config-daemon is given.
        enable_skip_mco_reboot=not disk.path.startswith("/dev/dm-"),
        notify_num_reboots=True,
        installation_attempt=cluster.attempt,
        mco_image=view.settings.mco_image or None,
        must_gather_image=view.settings.must_gather_image or None,
        installer_args=arguments.text_of(args) if args else None,
        proxy=_proxy(cluster),
    )
    return [arguments.text_of(request)]


def _proxy(cluster: Cluster) -> arguments.ProxyRequest | None:
    """Return the cluster's proxy, past which the installer reaches the cluster itself; None when it has none."""
    if not cluster.http_proxy and not cluster.https_proxy:
        return None
    direct = cluster.no_proxy.strip()
    if direct != "*":
        own = ("127.0.0.1", "localhost", ".svc", ".cluster.local", f"api-int.{cluster.name}.{cluster.base_dns_domain}")
        direct = ",".join(dict.fromkeys([*(direct.split(",") if direct else []), *own]))
    return arguments.ProxyRequest(
        http_proxy=cluster.http_proxy or None, https_proxy=cluster.https_proxy or None, no_proxy=direct
    )


def _logs(view: HostView) -> Args | None:
    if view.host.logs_info in (LogsState.COMPLETED, LogsState.TIMEOUT):
        return None
    ips = [
        networks.address_in(inventory, view.machine_cidrs)
        for peer, inventory in view.peers
        if inventory is not None and peer.role is Role.MASTER and peer.id != view.host.id
    ]
    request = arguments.LogsRequest(
        cluster_id=view.cluster.id,
        infra_env_id=view.host.infra_env_id,
        host_id=view.host.id,
        bootstrap=view.host.bootstrap,
        installer_gather=True,
        master_ips=[ip for ip in ips if ip],
        installation_attempt=view.cluster.attempt,
    )
    return [arguments.text_of(request)]


MAKERS: Mapping[StepType, Maker] = {
    T.INVENTORY: lambda view: [view.host.id],
    T.CONNECTIVITY: _connectivity,
    T.API_VIP: _api_vip,
    T.TANG: _tang,
    T.FREE_ADDRESSES: _free_addresses,
    T.DHCP: lambda view: None,
    T.NTP: _ntp,
    T.DOMAINS: _domains,
    T.VERIFY_VIPS: _verify_vips,
    T.DISK_SPEED: _disk_speed,
    T.IMAGES: _images,
    T.INSTALL: _install,
    T.LOGS: _logs,
    T.STOP: lambda view: [],
}


class Plan(msgspec.Struct, frozen=True):
    """The answer to one poll: steps as (type, args), the wait in seconds, the action afterwards.

    ``up_to_date``: the host has been asked about everything as it is now; only time makes a step due again.
    """

    steps: list[tuple[StepType, list[str]]]
    wait: int
    post: str
    up_to_date: bool = False


def fingerprint(view: HostView, kind: StepType, args: Args) -> str:
    """Return a short text that changes with a step's arguments."""
    if kind is T.CONNECTIVITY:
        return view.peers.network_fingerprint
    return hashlib.sha256("\0".join(args).encode()).hexdigest()[:12]


def contested(host: Host, at: datetime) -> bool:
    """Return whether another machine may have the host's id."""
    return host.contested_at is not None and age(host.contested_at, at) < CONTEST_SECONDS


def _outdated(view: HostView) -> bool:
    """Return whether the agent is not the service's, and may be replaced now."""
    wanted, current = view.settings.agent_image, view.host.discovery_agent_version
    if view.host.status not in UPGRADABLE or T.UPGRADE.value in view.settings.disabled_steps:
        return False
    # An agent that does not tell its image is replaced, too.
    return bool(wanted) and not same_image(current, wanted)


def plan(view: HostView, up_to_date: bool = False) -> Plan:
    """List the steps that are due for a host now; ``up_to_date`` when nothing has changed since a plan that said so."""
    settings = view.settings
    types, period, post = TABLE.get(view.host.status, DEFAULT)
    if view.host.added:
        types, period, post = JOINING.get(view.host.status, (types, period, post))
    if _outdated(view):
        upgrade = arguments.text_of(arguments.UpgradeRequest(agent_image=settings.agent_image))
        return Plan([(T.UPGRADE, [upgrade])], DEFAULT[1], "continue")
    due: list[tuple[StepType, list[str]]] = []
    compared = True
    for kind in types:
        if kind.value in settings.disabled_steps:
            continue
        wait = ONCE_RETRY.get(kind, 10**9) if kind in ONCE else period
        if kind is T.INVENTORY and contested(view.host, view.at):
            wait = 0
        sent = view.host.sent_steps.get(kind.value)
        if up_to_date and sent is None:
            continue
        waited = age(sent, view.at)
        if waited < wait:
            # Most polls end here, before arguments are made that nobody gets.
            if up_to_date or kind not in ON_CHANGE:
                continue
            if waited < max(LEAST_PAUSE, len(view.peers) / HOSTS_PER_PAUSE):
                compared = False
                continue
            if kind is T.CONNECTIVITY and view.host.sent_args.get(kind.value) == view.peers.network_fingerprint:
                continue
        args = MAKERS[kind](view)
        before = view.host.sent_args.get(kind.value, "")
        if args is not None and (waited >= wait or before != fingerprint(view, kind, args)):
            due.append((kind, args))
    return Plan(due, 0 if post == "exit" else min(_poll_seconds(view), period), post, compared and not due)


def _poll_seconds(view: HostView) -> int:
    """Seconds to a host's next poll; of n hosts whose status changes at once no more than ten call in a second."""
    if age(view.host.status_updated_at, view.at) >= LIVELY_SECONDS:
        return view.settings.poll_seconds
    return min(max(LIVELY_PAUSE, len(view.peers) // 10), view.settings.poll_seconds)


def step_id(kind: StepType, host: Host, attempt: str) -> str:
    """``<type>-<8 hex>``: the same each time that a step is handed out to an agent that has registered once.

    With a registration the service forgets earlier answers, and the agent may not know of it: the network may have
    repeated or delayed the request. With another id the agent does not take the step for one that it has answered
    (agent.loop.Deduper). A step that belongs to an attempt has another id in each; an agent that is asked again while
    it still works answers once, to the first of the two.
    """
    basis = [attempt if kind in OF_ATTEMPT else "", host.id, host.registered_at or "", kind.value]
    if kind is T.INVENTORY and host.contested_at:
        # While two machines answer, both are to answer each time.
        basis += [host.contested_at, host.sent_steps.get(kind.value, "") if host.rival else ""]
    digest = hashlib.sha256("\0".join(basis).encode()).hexdigest()
    return f"{kind.value}-{digest[:8]}"


def encode(plan: Plan, host: Host, attempt: str) -> dict[str, Any]:
    """Return the plan as the API's ``steps`` object."""
    return {
        **({"next_instruction_seconds": plan.wait} if plan.wait else {}),
        "post_step_action": plan.post,
        "instructions": [
            {"step_type": kind.value, "step_id": step_id(kind, host, attempt), "args": args}
            for kind, args in plan.steps
        ],
    }
