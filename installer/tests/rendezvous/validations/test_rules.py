"""Rules that need no service: install-config, tokens, settings, roles, disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from installer.assisted import inventory as inv
from installer.assisted.auth import Authenticator, Scheme
from installer.assisted.enums import Role
from installer.assisted.errors import ConfigurationError, Unauthorized
from installer.rendezvous import settings
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.reconcile import roles
from installer.rendezvous.resources import clusters
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import disks
from installer.rendezvous.validations import requirements as hwreqs
from installer.testing.service.rendezvous_kit import inventory, make_keys
from installer.testing.service.world_kit import JSON, World


def test_install_config(world: World, tmp_path: Path) -> None:
    cluster_id, infra_env_id = world.known()
    (tmp_path / "registries.conf").write_text(
        '[[registry]]\nlocation = "release.example/r"\nblocked = true\n'
        '[[registry.mirror]]\nlocation = "mirror:5000/r"\n'
    )
    clusters.set_overrides(world.engine, cluster_id, '{"fips": true, "networking": {"networkType": "Calico"}}')
    cluster, host = world.store.cluster(cluster_id), world.host(infra_env_id)
    infra_env = world.store.infra_env(infra_env_id)
    made = installconfig.build(cluster, infra_env, [host], world.engine.settings)
    assert made["bootstrapInPlace"] == {"installationDisk": "/dev/disk/by-path/pci-0000:04:00.0"}
    assert made["imageDigestSources"] == [
        {"source": "release.example/r", "mirrors": ["mirror:5000/r"], "sourcePolicy": "NeverContactSource"}
    ]
    assert made["fips"] is True
    assert made["networking"]["networkType"] == "Calico"
    assert made["networking"]["machineNetwork"] == [{"cidr": "192.168.111.0/24"}]
    assert made["controlPlane"]["replicas"] == 1
    assert made["compute"][0]["replicas"] == 0
    assert made["platform"] == {"none": {}}


@given(JSON, JSON)
def test_merge_patch_laws(base: Any, patch: Any) -> None:
    once = installconfig.merge(base, patch)
    assert installconfig.merge(once, patch) == once
    if isinstance(base, dict):
        assert installconfig.merge(base, {}) == base


def test_tokens() -> None:
    keys = make_keys()
    check = Authenticator("agent-installer-local", keys.public_base64).check
    allowed = frozenset({Scheme.USER, Scheme.WATCHER})
    assert check({"Authorization": keys.token("userAuth")}, allowed) is Scheme.USER
    assert check({"Watcher-Authorization": keys.token("watcherAuth")}, allowed) is Scheme.WATCHER
    for headers, words in (
        ({}, "no token"),
        ({"Authorization": keys.token("agentAuth")}, "scheme agentAuth"),
        ({"Authorization": make_keys().token("userAuth")}, "not valid"),
        ({"Authorization": keys.token("userAuth", exp=1)}, "expired"),
        ({"X-Secret-Key": keys.token("agentAuth")}, "no token"),
    ):
        with pytest.raises(Unauthorized, match=words):
            check(headers, allowed)


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
        found = inv.decode(json.dumps(inventory(disk_gb=200, ram_mib=ram, cpus=8)))
        members.append((Host(id=str(index), infra_env_id="i"), found))
    chosen = roles.suggest(ha, members, needs)
    assert [chosen[str(index)] for index in range(5)] == [
        Role.WORKER,
        Role.MASTER,
        Role.MASTER,
        Role.WORKER,
        Role.MASTER,
    ]


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
    judged = disks.judge(inv.decode(json.dumps(document)), 100, [])
    assert [item.name for item in disks.eligible(judged)] == ["nvme0n1", "sda", "sdb"]
    assert (disks.choose(judged) or judged.disks[0]).name == "sdb"
    document["disks"][0]["bootable"] = True
    judged = disks.judge(inv.decode(json.dumps(document)), 100, [])
    assert (disks.choose(judged) or judged.disks[1]).name == "nvme0n1"
    assert disks.judge(judged, 100, []) == judged


@pytest.mark.parametrize(("holders", "free"), [("dm-1", False), ("sdx, dm-1", False), ("dm-0", True), ("", True)])
@pytest.mark.parametrize("kind", ["FC", "iSCSI", "Multipath"])
def test_a_path_of_a_multipath_device_is_not_installed_on(kind: str, holders: str, free: bool) -> None:
    path = {"id": "sda", "name": "sda", "path": "/dev/sda", "drive_type": kind, "size_bytes": 200 * disks.GB}
    others = [
        {**path, "id": "m", "name": "dm-1", "path": "/dev/dm-1", "drive_type": "Multipath"},
        {**path, "id": "l", "name": "dm-0", "path": "/dev/dm-0", "drive_type": "LVM"},
    ]
    document = {"disks": [{**path, "holders": holders}, *others]}
    judged = disks.judge(inv.decode(json.dumps(document)), 100, [])
    free = free or kind == "Multipath"
    assert (judged.disks[0] in disks.eligible(judged)) is free
    told = f"{kind} disk is a path of a multipath device: use the multipath device"
    assert (told in judged.disks[0].installation_eligibility.not_eligible_reasons) is not free
