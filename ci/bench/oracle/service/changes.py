"""Changes that put something in a scenario out of order: each changes a world in place, and returns False where this
world has nothing to change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ci.bench.oracle.service.hosts import GB, GIB, Host, disk, nic
from ci.bench.oracle.service.worlds import World
from installer.testing.service.words_kit import StepType

#: False where there is nothing to change.
Change = Callable[[World, random.Random], bool | None]
HostChange = Callable[[Host, random.Random], bool | None]
CHANGES: dict[str, Callable[[World, random.Random], bool]] = {}
_LISTS = ("disks", "interfaces", "routes", "gpus")


def _of_host(name: str) -> Callable[[HostChange], HostChange]:
    """Register a change of one host, any of them."""

    def register(function: HostChange) -> HostChange:
        def change(world: World, rng: random.Random) -> bool:
            return bool(world.hosts) and function(rng.choice(world.hosts), rng) is not False

        CHANGES[name] = change
        return function

    return register


def _of_world(name: str) -> Callable[[Change], Change]:
    def register(function: Change) -> Change:
        CHANGES[name] = lambda world, rng: function(world, rng) is not False
        return function

    return register


def _simple(name: str, path: str, *values: Any) -> None:
    """One field of a host's inventory, by its path, gets one of the values."""

    def change(one: Host, rng: random.Random) -> bool:
        at: Any = one.inventory
        *way, last = path.split(".")
        for key in way:
            at = at[int(key)] if key.isdigit() else at.get(key)
            if not at:
                return False
        if at is None:
            return False
        at[last] = rng.choice(values)
        return True

    _of_host(name)(change)


_simple("name-localhost", "hostname", "localhost", "localhost.localdomain", "localhost6")
_simple("name-empty", "hostname", "")
_simple("name-long", "hostname", "a" * 64, "a" * 63, "b" * 243, f"{'a' * 60}.{'b' * 60}")
_simple("name-odd", "hostname", "Host-0", "host_0", "-host", "host.", "0", "host-0.node0.example", "10.0.0.1", "ä")
_simple("name-same", "hostname", "host-0", "host-1")
_simple("cpu-few", "cpu.count", 0, 1, 2, 3, 4, 7, 8)
_simple("cpu-other", "cpu.architecture", "aarch64", "arm64", "", "s390x")
_simple("memory-little", "memory.physical_bytes", 0, 4 * GIB, 8 * GIB - 1, 8 * GIB - 101 * 1024**2, 16 * GIB - 1)
_simple("memory-by-kernel", "memory.physical_bytes", 16 * GIB - 200 * 1024**2, 8 * GIB - 150 * 1024**2)
_simple("disk-small", "disks.0.size_bytes", 0, 20 * GB, 50 * GB, 99 * GB, 100 * GB - 1, 100 * GB)
_simple("disk-type", "disks.0.drive_type", "SSD", "FC", "iSCSI", "Multipath", "RAID", "LVM", "ODD", "Unknown", "ECKD")
_simple("disk-without-id", "disks.0.id", "", None)
_simple("disk-without-uuid", "disks.0.has_uuid", False)
_simple("disk-removable", "disks.0.removable", True)
_simple("disk-media", "disks.0.is_installation_media", True)
_simple("disk-bootable", "disks.0.bootable", True)
_simple("disk-none", "disks", [], None)
_simple("vendor", "system_vendor.manufacturer", "VMware, Inc.", "Nutanix", "Dell Inc.", "", "OpenStack Foundation")
_simple("product", "system_vendor.product_name", "OpenStack Compute", "BlueField SoC", "", None)
_simple("tpm", "tpm_version", "none", "1.2", "2.0", "", None)
_simple("persistent", "boot.device_type", "persistent", "", None)
_simple("mtu", "interfaces.0.mtu", 0, 9000, 576)
_simple("mac-none", "interfaces.0.mac_address", "", None)
_simple("addresses-none", "interfaces.0.ipv4_addresses", [], None)
_simple("prefix-odd", "interfaces.0.ipv4_addresses", ["192.168.111.90/25"], ["192.168.111.90/16"], ["10.9.9.9/8"])
_simple("routes-none", "routes", [], None)
_simple("gateway-odd", "routes.0.gateway", "", "0.0.0.0", "::", None, "192.168.222.1")
_simple("destination-odd", "routes.0.destination", "0.0.0.0/0", "default", "", "10.0.0.0", "::/0", None)
_simple("family-odd", "routes.0.family", 0, 2, 10, None)
_simple("interface-odd", "routes.0.interface", "", "nowhere0", None)


@_of_host("nulls")
def _nulls(one: Host, rng: random.Random) -> None:
    for key in rng.sample(_LISTS, rng.randint(1, len(_LISTS))):
        one.inventory[key] = None


@_of_host("nulls-within")
def _nulls_within(one: Host, rng: random.Random) -> None:
    for item in one.inventory.get("interfaces") or []:
        for key in rng.sample(["ipv4_addresses", "ipv6_addresses", "flags"], 2):
            if not item.get(key):
                item[key] = None
    if one.inventory.get("cpu"):
        one.inventory["cpu"]["flags"] = None


@_of_host("ineligible")
def _ineligible(one: Host, rng: random.Random) -> None:
    for item in one.inventory.get("disks") or []:
        item["installation_eligibility"] = rng.choice(
            [
                {"eligible": False, "not_eligible_reasons": ["Disk is removable"]},
                {"eligible": True, "not_eligible_reasons": ["Disk is removable"]},
                {"eligible": False, "not_eligible_reasons": []},
                {},
                {"eligible": False, "not_eligible_reasons": ["Disk is too small (disk only has 1 GB)"]},
            ]
        )


@_of_host("disks-more")
def _more_disks(one: Host, rng: random.Random) -> None:
    kinds: list[dict[str, Any]] = [
        {"drive_type": "SSD"},
        {"drive_type": "SSD", "name": "nvme0n1", "path": "/dev/nvme0n1"},
        {"size_bytes": 50 * GB},
        {"size_bytes": 110 * GB},
        {"bootable": True},
        {"drive_type": "Multipath", "name": "dm-0", "path": "/dev/dm-0"},
    ]
    disks = one.inventory.get("disks") or []
    one.inventory["disks"] = disks + [disk(n + 1, **kind) for n, kind in enumerate(rng.sample(kinds, 2))]
    rng.shuffle(one.inventory["disks"])


@_of_host("multipath")
def _multipath(one: Host, rng: random.Random) -> None:
    kinds = rng.choice([["FC", "FC"], ["iSCSI", "iSCSI"], ["FC", "iSCSI"], ["HDD", "HDD"], []])
    address = rng.choice(["192.168.111.90", "192.168.222.9", "", "odd"])
    paths = []
    for number, kind in enumerate(kinds):
        item = disk(number + 1, drive_type=kind, holders=rng.choice(["dm-0", "dm-0,dm-1", "dm-9"]))
        if kind == "iSCSI":
            item["iscsi"] = {"host_ip_address": address}
        paths.append(item)
    one.inventory["disks"] = [disk(0, name="dm-0", path="/dev/dm-0", drive_type="Multipath"), *paths]


@_of_host("iscsi")
def _iscsi(one: Host, rng: random.Random) -> None:
    way = rng.choice(["own", "same", "gone", "none", "empty", "odd"])
    extra = nic(7, "52:54:00:07:00:01", ["192.168.222.9/24"])
    if way != "gone":
        one.inventory["interfaces"] = [*(one.inventory.get("interfaces") or []), extra]
    first = next((text for _, _, text in one.addresses), "192.168.111.20/24").split("/")[0]
    address = {"own": "192.168.222.9", "gone": "192.168.222.9", "same": first, "empty": "", "odd": "1.2.3"}
    item = disk(0, drive_type="iSCSI")
    if way != "none":
        item["iscsi"] = {"host_ip_address": address[way]}
    one.inventory["disks"] = [item]


@_of_host("nic-more")
def _more_nics(one: Host, rng: random.Random) -> None:
    address = rng.choice(["192.168.222.9/24", "192.168.111.99/24", "192.168.111.99/25", "10.0.0.9/8", "169.254.1.9/16"])
    kinds: list[dict[str, Any]] = [{}, {"has_carrier": False}, {"type": "bond"}]
    extra = nic(8, "52:54:00:08:00:01", [address], **rng.choice(kinds))
    one.inventory["interfaces"] = [*(one.inventory.get("interfaces") or []), extra]


@_of_host("address-twice")
def _twice(one: Host, rng: random.Random) -> None:
    extra = nic(8, "52:54:00:08:00:01", ["192.168.111.20/24"])
    one.inventory["interfaces"] = [*(one.inventory.get("interfaces") or []), extra]


@_of_host("other-subnet")
def _subnet(one: Host, rng: random.Random) -> None:
    for item in one.inventory.get("interfaces") or []:
        item["ipv4_addresses"] = [f"192.168.112.{20 + one.number}/24"]
    for route in one.inventory.get("routes") or []:
        if route.get("family") == 2:
            route["gateway"] = "192.168.112.1"


@_of_host("silent")
def _silent(one: Host, rng: random.Random) -> None:
    one.silent.update(rng.sample(list(_ANSWERS), rng.randint(1, 3)))


_ANSWERS = (
    *(StepType.INVENTORY, StepType.CONNECTIVITY, StepType.NTP, StepType.DOMAINS),
    *(StepType.FREE_ADDRESSES, StepType.VERIFY_VIPS),
)


@_of_host("answers-null")
def _null_answers(one: Host, rng: random.Random) -> None:
    kind = rng.choice([StepType.CONNECTIVITY, StepType.NTP, StepType.DOMAINS])
    one.answers[kind] = {
        StepType.CONNECTIVITY: {"remote_hosts": None},
        StepType.NTP: {"ntp_sources": None},
        StepType.DOMAINS: {"resolutions": None},
    }[kind]


@_of_host("names")
def _names(one: Host, rng: random.Random) -> None:
    one.names = rng.choice(
        [
            {"api.{}": []},
            {"api-int.{}": []},
            {"console-openshift-console.apps.{}": []},
            {"validateNoWildcardDNS.{}": ["192.0.2.9"]},
            {"validateNoWildcardDNS.{}.": ["192.0.2.9"]},
            {"validateNoWildcardDNS.{}.": ["2001:db8::9"]},
            {"registry.bench.node0.example": []},
            {"api.{}": ["192.168.111.20"]},
        ]
    )


@_of_host("clock")
def _clock(one: Host, rng: random.Random) -> None:
    # Hosts call in once, and the real service counts on from there: no offset is within minutes of a limit.
    one.clock_offset_s = rng.choice([-3700, -1900, -700, -340, -180, 180, 220, 340, 3000, 4800])


@_of_host("ntp")
def _ntp(one: Host, rng: random.Random) -> None:
    one.ntp = rng.choice(
        [
            [],
            None,
            [{"source_name": "a.example", "source_state": "unreachable"}],
            [{"source_name": "a.example", "source_state": "combined"}],
            [{"source_name": "b", "source_state": "error"}, {"source_name": "a", "source_state": "synced"}],
        ]
    )


@_of_world("cut-off")
def _cut(world: World, rng: random.Random) -> bool:
    if len(world.hosts) < 2:
        return False
    for one in rng.sample(world.hosts, rng.randint(1, len(world.hosts) - 1)):
        one.cut_off = {peer.number for peer in rng.sample(world.hosts, rng.randint(1, len(world.hosts)))}
    return True


@_of_host("link")
def _link(one: Host, rng: random.Random) -> None:
    one.rtt_ms, one.loss = rng.choice(
        [(99.0, 0.0), (101.0, 0.0), (1001.0, 0.0), (1.0, 1.0), (1.0, 11.0), (100.0, 10.0)]
    )


@_of_host("small-packets")
def _small(one: Host, rng: random.Random) -> None:
    one.small_packets = True


@_of_host("role")
def _role(one: Host, rng: random.Random) -> None:
    role = rng.choice(["master", "worker", "arbiter", "auto-assign", "bootstrap"])
    one.patches = [*[patch for patch in one.patches if "host_role" not in patch], {"host_role": role}]


@_of_host("renamed")
def _rename(one: Host, rng: random.Random) -> None:
    one.patches.append({"host_name": rng.choice(["host-0", "other", "host-1.node0.example", "x" * 63])})


@_of_host("disk-chosen")
def _choose(one: Host, rng: random.Random) -> bool:
    ids = [item.get("id") for item in one.inventory.get("disks") or [] if item.get("id")]
    if not ids:
        return False
    name = rng.choice(ids)
    one.patches.append(
        rng.choice(
            [
                {"disks_selected_config": [{"id": name, "role": "install"}]},
                {"disks_skip_formatting": [{"disk_id": name, "skip_formatting": True}]},
                {"disks_selected_config": [{"id": name, "role": "none"}]},
            ]
        )
    )
    return True


@_of_host("version")
def _version(one: Host, rng: random.Random) -> None:
    one.version = rng.choice([None, "other.example/agent:latest"])


@_of_host("truncated")
def _truncated(one: Host, rng: random.Random) -> None:
    one.inventory["truncation"] = {"type": rng.choice(["partial", "full"]), "reasons": rng.choice([None, [], ["big"]])}


@_of_world("vip-taken")
def _taken(world: World, rng: random.Random) -> bool:
    vips = [str(item["ip"]) for key in ("api_vips", "ingress_vips") for item in world.cluster.get(key) or []]
    if not vips or not world.hosts:
        return False
    taken = rng.choice(vips)
    for one in world.hosts:
        one.taken.add(taken)
    return True


def _set(name: str, *values: dict[str, Any]) -> None:
    """Fields of the cluster, at registration or once its hosts are known."""

    def change(world: World, rng: random.Random) -> bool:
        value = rng.choice(values)
        if rng.random() < 0.5:
            world.cluster.update(value)
        else:
            world.patch = {**(world.patch or {}), **value}
        return True

    CHANGES[name] = change


_set("domain-none", {"base_dns_domain": ""})
_set("vips-elsewhere", {"api_vips": [{"ip": "192.168.112.5"}], "ingress_vips": [{"ip": "192.168.112.4"}]})
_set("vips-none", {"api_vips": [], "ingress_vips": []})
_set("vips-of-host", {"api_vips": [{"ip": "192.168.111.20"}], "ingress_vips": [{"ip": "192.168.111.4"}]})
_set("vips-edge", {"api_vips": [{"ip": "192.168.111.255"}], "ingress_vips": [{"ip": "192.168.111.4"}]})
_set("machine-none", {"machine_networks": []})
_set(
    "machine-other",
    {"machine_networks": [{"cidr": "192.168.112.0/24"}]},
    {"machine_networks": [{"cidr": "192.168.0.0/16"}]},
    {"machine_networks": [{"cidr": "192.168.111.0/25"}]},
    {"machine_networks": [{"cidr": "192.168.111.0/24"}, {"cidr": "192.168.112.0/24"}]},
)
_set(
    "pods",
    {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 26}]},
    {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 25}]},
    {"cluster_networks": [{"cidr": "10.128.0.0/23", "host_prefix": 23}]},
    {"cluster_networks": [{"cidr": "192.168.0.0/16", "host_prefix": 23}]},
    {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 23}, {"cidr": "10.132.0.0/14", "host_prefix": 23}]},
    {"cluster_networks": []},
)
_set(
    "services",
    {"service_networks": [{"cidr": "172.30.0.0/28"}]},
    {"service_networks": [{"cidr": "192.168.111.0/24"}]},
    {"service_networks": [{"cidr": "10.128.0.0/16"}]},
    {"service_networks": []},
)
_set(
    "network-type", *({"network_type": kind} for kind in ("OpenShiftSDN", "OVNKubernetes", "Calico", "Cilium", "None"))
)
_set("ntp-of-cluster", {"additional_ntp_source": "a.example,192.0.2.7"}, {"additional_ntp_source": ""})
_set("schedulable", {"schedulable_masters": True})
_set("user-managed", {"user_managed_networking": True}, {"user_managed_networking": False})
_set("load-balancer", {"load_balancer": {"type": "user-managed"}}, {"load_balancer": {"type": "cluster-managed"}})
_set(
    "encryption",
    {"disk_encryption": {"enable_on": "all", "mode": "tpmv2"}},
    {"disk_encryption": {"enable_on": "workers", "mode": "tpmv2"}},
    {"disk_encryption": {"enable_on": "masters", "mode": "tpmv2"}},
    {"disk_encryption": {"enable_on": "none"}},
)
_set("count", *({"control_plane_count": count} for count in (1, 2, 3, 4, 5)))
_set("platform", *({"platform": {"type": kind}} for kind in ("none", "baremetal", "vsphere", "nutanix", "external")))
