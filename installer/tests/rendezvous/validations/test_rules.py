"""Rules that need no service: install-config, tokens, settings, roles, disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from installer.assisted import inventory as inv
from installer.assisted.enums import Role
from installer.assisted.errors import ConfigurationError
from installer.rendezvous import settings
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.reconcile import roles
from installer.rendezvous.resources import clusters
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import disks
from installer.rendezvous.validations import requirements as hwreqs
from installer.testing.engine.world_kit import JSON, World
from installer.testing.service.rendezvous_kit import inventory


def test_install_config(world: World, tmp_path: Path) -> None:
    cluster_id, infra_env_id = world.known_host()
    (tmp_path / "registries.conf").write_text(
        '[[registry]]\nlocation = "release.example/r"\nblocked = true\n'
        '[[registry.mirror]]\nlocation = "mirror:5000/r"\n'
    )
    clusters.set_overrides(world.engine, cluster_id, '{"fips": true, "networking": {"networkType": "Calico"}}')
    cluster, host = world.store.cluster(cluster_id), world.host(infra_env_id)
    infra_env = world.store.infra_env(infra_env_id)
    document = installconfig.build(cluster, [infra_env], [host], world.engine.settings)
    assert document["bootstrapInPlace"] == {"installationDisk": "/dev/disk/by-path/pci-0000:04:00.0"}
    assert document["imageDigestSources"] == [
        {"source": "release.example/r", "mirrors": ["mirror:5000/r"], "sourcePolicy": "NeverContactSource"}
    ]
    assert document["fips"] is True
    assert document["networking"]["networkType"] == "Calico"
    assert document["networking"]["machineNetwork"] == [{"cidr": "192.168.111.0/24"}]
    assert document["controlPlane"]["replicas"] == 1
    assert document["compute"][0]["replicas"] == 0
    assert document["platform"] == {"none": {}}


@hypothesis_settings(max_examples=30)
@given(JSON, JSON)
def test_merge_patch_laws(base: Any, patch: Any) -> None:
    once = installconfig.merge(base, patch)
    assert installconfig.merge(once, patch) == once
    if isinstance(base, dict):
        assert installconfig.merge(base, {}) == base


def test_settings_and_requirements() -> None:
    assert settings.load({"HOST_STAGE_REBOOTING_TIMEOUT": "1h30m"}).stage_timeouts == {"REBOOTING": 5400.0}
    for env, words in (
        ({"LISTEN_PORT": "x"}, "LISTEN_PORT"),
        ({"HOST_PREPARE_TIMEOUT": "soon"}, "HOST_PREPARE_TIMEOUT"),
        ({"RELEASE_IMAGES": "{"}, "RELEASE_IMAGES"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            settings.load(env)
    parsed = hwreqs.parse(
        '[{"version":"default","sno":{"cpu_cores":2}},{"version":"4.18","sno":{"cpu_cores":3}}]', "t", "4.18.1"
    )
    assert parsed["sno"].cpu_cores == 3
    assert parsed["master"] == hwreqs.DOCUMENTED["master"]
    with pytest.raises(ConfigurationError, match=r"sno\.cpu_cores"):
        hwreqs.parse('[{"version":"default","sno":{"cpu_cores":"many"}}]', "t")


def test_weakest_capable_hosts_become_masters() -> None:
    cluster = Cluster(id="c", name="c", control_plane_count=1, high_availability_mode="Full")
    assert cluster.is_sno
    needs = hwreqs.DOCUMENTED
    ha = Cluster(id="c", name="c", control_plane_count=3)
    members = []
    for index, ram in enumerate((65536, 16384, 32768, 8192, 20480)):
        document = inv.decode(json.dumps(inventory(disk_gb=200, ram_mib=ram, cpus=8)))
        members.append((Host(id=str(index), infra_env_id="i"), document))
    chosen = roles.suggest(ha, members, needs)
    assert [chosen[str(index)] for index in range(5)] == [
        Role.WORKER,
        Role.MASTER,
        Role.MASTER,
        Role.WORKER,
        Role.MASTER,
    ]
    # What is wrong with a disk says nothing about a role; of hosts alike in whole GiB the first comes first.
    diskless = inv.decode(json.dumps(inventory(disk_gb=1, ram_mib=16384, cpus=8, disks=[])))
    assert roles.suggest(ha, [(Host(id="d", infra_env_id="i"), diskless)], needs) == {"d": Role.MASTER}
    alike = [inv.decode(json.dumps(inventory(ram_mib=ram, cpus=8))) for ram in (17000, 16900)]
    assert roles.weight(alike[0]) == roles.weight(alike[1])


def test_disk_choice() -> None:
    def disk(name: str, kind: str = "SSD", size: int = 200, **more: Any) -> dict[str, Any]:
        return {
            "id": name,
            "name": name,
            "path": f"/dev/{name}",
            "drive_type": kind,
            "size_bytes": size * disks.GB,
            **more,
        }

    document = {
        "disks": [
            disk("nvme0n1", size=120),
            disk("sda"),
            disk("sdb", "HDD", 300),
            disk("sr0", "ODD"),
            disk("sdc", size=5),
        ]
    }
    judged = disks.judge(inv.decode(json.dumps(document)), 100)
    assert [item.name for item in disks.eligible(judged)] == ["nvme0n1", "sda", "sdb"]
    assert (disks.choose(judged) or judged.disks[0]).name == "sdb"
    document["disks"][0]["bootable"] = True
    judged = disks.judge(inv.decode(json.dumps(document)), 100)
    assert (disks.choose(judged) or judged.disks[1]).name == "nvme0n1"
    assert disks.judge(judged, 100) == judged


def block(name: str, kind: str, holders: str = "", address: str | None = None) -> dict[str, Any]:
    """Return a disk as an agent tells it; ``address``: of the host, towards the target of an iSCSI disk."""
    plain = {"id": name, "name": name, "path": f"/dev/{name}", "drive_type": kind, "size_bytes": 200 * disks.GB}
    return {**plain, "holders": holders, **({} if address is None else {"iscsi": {"host_ip_address": address}})}


NICS = [
    {"name": "eno1", "ipv4_addresses": ["10.0.0.9/24"], "ipv6_addresses": ["fd00::9/64"]},
    {"name": "eno2", "ipv4_addresses": ["10.5.0.9/24"]},
]
ROUTES = [
    {"interface": "eno2", "gateway": "10.5.0.1", "destination": "0.0.0.0", "metric": 200},
    {"interface": "eno1", "gateway": "10.0.0.1", "destination": "0.0.0.0", "metric": 100},
    {"interface": "eno1", "gateway": "fd00::1", "destination": "::", "family": 10},
]


def reasons(*present: dict[str, Any], **more: Any) -> list[str]:
    """Return the objections to the first of these disks."""
    document = {"disks": list(present), "interfaces": NICS, "routes": ROUTES, "cpu": {"architecture": "x86_64"}, **more}
    judged = disks.judge(inv.decode(json.dumps(document)), 100)
    assert disks.judge(judged, 100) == judged
    eligibility = judged.disks[0].installation_eligibility
    assert eligibility.eligible is not bool(eligibility.not_eligible_reasons)
    return eligibility.not_eligible_reasons


@pytest.mark.parametrize(("holders", "free"), [("dm-1", False), ("sdx, dm-1", False), ("dm-0", True), ("", True)])
@pytest.mark.parametrize("kind", ["FC", "iSCSI", "HDD"])
def test_a_path_of_a_multipath_device_is_not_installed_on(kind: str, holders: str, free: bool) -> None:
    others = [block("dm-1", "Multipath"), block("dm-0", "LVM")]
    messages = "Disk is a member of multipath device dm-1 and is not eligible for installation."
    # A device whose paths are of another type cannot be installed on itself.
    messages += "" if kind == "HDD" else " Use the multipath device instead."
    assert reasons(block("sda", kind, holders, "10.9.0.1"), *others) == ([] if free else [messages])


PATHS = "Multipath device has path of unsupported type. It must be FC, iSCSI"
MIXED = "Multipath device has paths of different types, but they must all be the same type"
BROKEN = "Installation on multipath device is not possible due to errors on at least one iSCSI disk"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], [PATHS]),
        ([block("sda", "HDD", "dm-1")], [PATHS]),
        ([block("sda", "FC", "dm-0")], [PATHS]),
        ([block("sda", "FC", "dm-1"), block("sdb", "FC", "dm-1")], []),
        ([block("sda", "FC", "dm-1"), block("sdb", "SSD", "dm-1")], [MIXED]),
        ([block("sda", "FC", "dm-1"), block("sdb", "iSCSI", "dm-10", "10.9.0.1")], []),
        ([block("sda", "iSCSI", "dm-1", "10.9.0.1"), block("sdb", "iSCSI", "dm-1", "10.5.0.9")], []),
        ([block("sda", "iSCSI", "dm-1", "10.9.0.1"), block("sdb", "iSCSI", "dm-1", "10.0.0.9")], [BROKEN]),
        ([block("sda", "iSCSI", "dm-1")], [BROKEN]),
        ([block("sda", "iSCSI", "dm-1", "10.0.0.9"), block("sdb", "FC", "dm-1")], [MIXED, BROKEN]),
    ],
)
def test_what_a_multipath_device_is_made_of(members: list[dict[str, Any]], expected: list[str]) -> None:
    assert reasons(block("dm-1", "Multipath"), *members) == expected


SAME = "iSCSI host IP {} is the same as host IP (of eno1), they must be different"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        # A NIC of its own, whatever networks the others are in, and one that has no default route in use.
        ("10.9.0.1", []),
        ("10.5.0.9", []),
        ("10.0.0.9", [SAME.format("10.0.0.9")]),
        ("fd00::9", [SAME.format("fd00::9")]),
        ("", ["Host IP address is not available"]),
        (None, ["Host IP address is not available"]),
        ("x", ["Cannot parse iSCSI host IP x: 'x' does not appear to be an IPv4 or IPv6 address"]),
    ],
)
def test_the_nic_that_an_iscsi_disk_hangs_on(address: str | None, expected: list[str]) -> None:
    assert reasons(block("sda", "iSCSI", address=address)) == expected


def test_an_iscsi_disk_where_the_default_route_is_nobodys() -> None:
    disk = block("sda", "iSCSI", address="10.0.0.9")
    assert reasons(disk, routes=[]) == []
    assert reasons(disk, routes=[{**ROUTES[1], "interface": "gone"}]) == [
        "Cannot find the network interface behind the default route"
    ]


def test_what_is_too_small_and_what_is_no_disk() -> None:
    assert reasons({**block("sda", "SSD"), "size_bytes": 100 * disks.GB - 1}) == [
        "Disk is too small (disk only has 100 GB (short by 1 B), but 100 GB are required)"
    ]
    assert reasons({**block("sda", "SSD"), "size_bytes": 20 * disks.GB}) == [
        "Disk is too small (disk only has 20 GB, but 100 GB are required)"
    ]
    assert reasons(block("sr0", "ODD")) == [
        "Drive type is ODD, it must be one of HDD, SSD, Multipath, RAID, iSCSI, FC."
    ]
    assert reasons(block("dasda", "ECKD"), cpu={"architecture": "s390x"}) == []
    assert reasons(block("sda", "FC"), cpu={"architecture": "arm64"})


def test_a_disk_without_an_id_has_its_kernel_name() -> None:
    columns = {**block("sda", "SSD"), "by_id": "/dev/disk/by-id/x"}
    del columns["id"]
    judged = disks.judge(inv.decode(json.dumps({"disks": [columns]})), 100)
    assert judged.disks[0].id == "/dev/sda"
