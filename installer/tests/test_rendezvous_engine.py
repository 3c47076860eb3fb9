"""The service's rules without a network: registration, inventory, choices, progress, store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.rendezvous import (
    clusters,
    disks,
    hosts,
    hwreqs,
    infra_envs,
    installconfig,
    replies,
    roles,
    settings,
    steps,
)
from installer.rendezvous import inventory as inv
from installer.rendezvous.auth import Authenticator, Scheme
from installer.rendezvous.cluster_states import Trigger
from installer.rendezvous.engine import Engine
from installer.rendezvous.enums import ClusterStatus, HostStatus, Role, Stage, StepType
from installer.rendezvous.errors import BadRequest, ConfigurationError, Conflict, Forbidden, NotFound, Unauthorized
from installer.rendezvous.hostview import load_json
from installer.rendezvous.model import Cluster, Host
from installer.rendezvous.store import Store
from installer.tests.rendezvous_kit import CLUSTER, PULL_SECRET, SMALL, inventory, make_keys

HOST_ID = "00000000-0000-4000-8000-000000000001"


class Clock:
    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.at

    def go(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class World:
    def __init__(self, directory: Path, **env: str) -> None:
        self.clock = Clock()
        config = settings.load(
            {
                "WORK_DIR": str(directory),
                "HW_VALIDATOR_REQUIREMENTS": SMALL,
                "REGISTRIES_CONF": str(directory / "registries.conf"),
                "INSTALLER_IMAGE": "r.example/installer@sha256:1",
                **env,
            }
        )
        store = Store(config.db_path)
        self.engine = Engine(store, config, hwreqs.load(config), self.clock)
        self.store = store

    def cluster(self, **changes: Any) -> tuple[str, str]:
        cluster = clusters.register(self.engine, {**CLUSTER, **changes})
        body = {"name": "ostest", "pull_secret": PULL_SECRET, "cluster_id": cluster.id}
        return cluster.id, infra_envs.register(self.engine, body).id

    def reply(self, infra_env_id: str, kind: StepType, output: Any, code: int = 0, host_id: str = HOST_ID) -> None:
        text = output if isinstance(output, str) else json.dumps(output)
        body = {
            "step_type": kind.value,
            "step_id": "x",
            "exit_code": code,
            "output": text,
            "error": "" if not code else text,
        }
        replies.receive(self.engine, infra_env_id, host_id, body)

    def known(self, **changes: Any) -> tuple[str, str]:
        cluster_id, infra_env_id = self.cluster()
        hosts.register(self.engine, infra_env_id, HOST_ID, "")
        self.poll(infra_env_id)
        self.reply(infra_env_id, StepType.INVENTORY, inventory(**changes))
        return cluster_id, infra_env_id

    def poll(self, infra_env_id: str, host_id: str = HOST_ID) -> list[str]:
        now = int(self.clock().timestamp())
        found = hosts.next_steps(self.engine, infra_env_id, host_id, "", now)
        return [item["step_type"] for item in found["instructions"]]

    def host(self, infra_env_id: str, host_id: str = HOST_ID) -> Host:
        return self.store.host(infra_env_id, host_id)

    def installing(self) -> tuple[str, str]:
        cluster_id, infra_env_id = self.known()
        clusters.install(self.engine, cluster_id)
        clusters.finish_preparation(self.engine, cluster_id, {"bootstrap.ign": b"{}"}, "")
        self.reply(
            infra_env_id, StepType.DISK_SPEED, {"path": "/dev/disk/by-path/pci-0000:04:00.0", "io_sync_duration": 5}
        )
        images = [{"name": "r.example/installer@sha256:1", "result": "success", "size_bytes": 1, "time": 1.0}]
        self.reply(infra_env_id, StepType.IMAGES, {"images": images})
        return cluster_id, infra_env_id


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_sno_from_discovering_to_rebooting(world: World) -> None:
    cluster_id, infra_env_id = world.cluster()
    assert world.store.cluster(cluster_id).status is ClusterStatus.INSUFFICIENT
    host = hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert (host.status, host.role, host.bootstrap) == (HostStatus.DISCOVERING, Role.MASTER, True)
    assert world.poll(infra_env_id) == ["inventory"]
    assert world.poll(infra_env_id) == []
    world.reply(infra_env_id, StepType.INVENTORY, inventory())
    assert world.host(infra_env_id).status is HostStatus.KNOWN, world.host(infra_env_id).status_info
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
    assert world.poll(infra_env_id) == ["inventory", "ntp-synchronizer"]
    clusters.install(world.engine, cluster_id)
    assert world.host(infra_env_id).status is HostStatus.PREPARING
    assert world.poll(infra_env_id) == ["installation-disk-speed-check", "container-image-availability"]
    clusters.finish_preparation(world.engine, cluster_id, {"bootstrap.ign": b"{}"}, "")
    world.reply(
        infra_env_id, StepType.DISK_SPEED, {"path": "/dev/disk/by-path/pci-0000:04:00.0", "io_sync_duration": 5}
    )
    images = [{"name": "r.example/installer@sha256:1", "result": "success", "size_bytes": 1, "time": 1.0}]
    world.reply(infra_env_id, StepType.IMAGES, {"images": images})
    assert world.store.cluster(cluster_id).status is ClusterStatus.INSTALLING
    plan = steps.plan(world.engine.view(world.host(infra_env_id)))
    assert [kind for kind, _ in plan.steps] == [StepType.INSTALL]
    request = json.loads(plan.steps[0][1][0])
    assert (request["role"], request["boot_device"]) == ("bootstrap", "/dev/disk/by-path/pci-0000:04:00.0")
    assert request["control_plane_count"] == 1
    for stage in ("Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk", "Rebooting"):
        hosts.progress(world.engine, infra_env_id, HOST_ID, stage, "")
    host = world.host(infra_env_id)
    assert host.progress.installation_percentage == 6 * 100 // 8
    # Nobody asks after a host that reboots.
    world.clock.go(3600)
    world.engine.clock = world.clock
    with world.store.change():
        world.engine.settle(cluster_id)
    assert world.host(infra_env_id).status is HostStatus.INSTALLING_IN_PROGRESS


def test_a_small_disk_is_named_with_found_and_needed(world: World) -> None:
    _, infra_env_id = world.known(disk_gb=5)
    host = world.host(infra_env_id)
    assert host.status is HostStatus.INSUFFICIENT
    assert "/dev/vda (disk is too small: found 5 GB, at least 10 GB needed)" in host.status_info
    info = load_json(host.validations_info)
    message = next(item["message"] for item in info["hardware"] if item["id"] == "has-min-valid-disks")
    assert "found 5 GB" in message
    # A bigger disk mends it.
    world.reply(infra_env_id, StepType.INVENTORY, inventory(disk_gb=20))
    assert world.host(infra_env_id).status is HostStatus.KNOWN
    names = [event.name for event in world.store.events()]
    assert "host_validation_fixed" in names


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"ram_mib": 512}, HostStatus.INSUFFICIENT, "found 512 MiB, at least 1024 MiB needed"),
        (
            {"ip": "10.0.0.5/24"},
            HostStatus.INSUFFICIENT,
            "no address in machine network 192.168.111.0/24: found 10.0.0.5/24",
        ),
        ({"hostname": "Master_0"}, HostStatus.INSUFFICIENT, "'Master_0' does not match"),
        ({"routes": []}, HostStatus.INSUFFICIENT, "default route"),
    ],
)
def test_bad_hosts(world: World, changes: dict[str, Any], status: HostStatus, words: str) -> None:
    _, infra_env_id = world.known(**changes)
    host = world.host(infra_env_id)
    assert host.status is status
    assert words in host.status_info


def test_localhost_is_named_after_its_mac(world: World) -> None:
    _, infra_env_id = world.known(hostname="localhost")
    assert world.host(infra_env_id).requested_hostname == "52-54-00-00-00-80"


def test_silent_and_skewed_hosts(world: World) -> None:
    cluster_id, infra_env_id = world.known()
    hosts.next_steps(world.engine, infra_env_id, HOST_ID, "", int(world.clock().timestamp()) + 600)
    assert "10.0 minutes ahead of" in world.host(infra_env_id).status_info
    world.clock.go(301)
    with world.store.change():
        world.engine.settle(cluster_id)
    assert world.host(infra_env_id).status is HostStatus.DISCONNECTED
    world.poll(infra_env_id)
    assert world.host(infra_env_id).status is HostStatus.KNOWN


def test_a_service_that_was_away_does_not_blame_the_hosts(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    world.clock.go(3600)
    restarted = Engine(world.store, world.engine.settings, world.engine.requirements, world.clock)
    world.clock.go(5)
    with world.store.change():
        host = restarted.view(world.host(infra_env_id))
        assert host.connected
    world.clock.go(400)
    assert not restarted.view(world.host(infra_env_id)).connected
    assert cluster_id


def test_ntp_is_only_a_warning(world: World) -> None:
    _, infra_env_id = world.known()
    sources = {"ntp_sources": [{"source_name": "192.168.111.1", "source_state": "unreachable"}]}
    world.reply(infra_env_id, StepType.NTP, sources)
    host = world.host(infra_env_id)
    assert host.status is HostStatus.KNOWN
    found = {item["id"]: item for item in load_json(host.validations_info)["network"]}
    assert found["ntp-synced"]["status"] == "failure"
    assert "192.168.111.1 is unreachable" in found["ntp-synced"]["message"]


def test_progress_rules(world: World) -> None:
    _, infra_env_id = world.installing()
    go = lambda stage, info="": hosts.progress(world.engine, infra_env_id, HOST_ID, stage, info)  # noqa: E731
    go("Starting installation")
    go("Waiting for bootkube")
    with pytest.raises(Conflict, match="comes before"):
        go("Installing")
    with pytest.raises(Conflict, match="not one of this host's stages"):
        go("Configuring")
    with pytest.raises(BadRequest):
        go("Dancing")
    go("Writing image to disk", "63%")
    started = world.host(infra_env_id).progress.stage_started_at
    world.clock.go(10)
    go("Writing image to disk", "70%")
    progress = world.host(infra_env_id).progress
    assert (progress.progress_info, progress.stage_started_at) == ("70%", started)
    go("Failed", "disk is broken")
    host = world.host(infra_env_id)
    assert (host.status, host.status_info) == (HostStatus.ERROR, "Failed - disk is broken")
    assert host.progress.current_stage is Stage.WRITING
    assert world.poll(infra_env_id) == ["logs-gather", "stop-installation"]


def test_stage_timeout(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Writing image to disk", "")
    world.clock.go(30 * 60 + 1)
    world.poll(infra_env_id)
    host = world.host(infra_env_id)
    assert host.status is HostStatus.ERROR
    assert "stage Writing image to disk took longer than expected" in host.status_info
    assert world.store.cluster(cluster_id).status is ClusterStatus.ERROR


def test_boot_from_the_wrong_device(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Rebooting", "")
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    host = world.host(infra_env_id)
    assert host.status is HostStatus.INSTALLING_PENDING_USER_ACTION
    assert "fix boot order" in host.status_info
    assert "/dev/vda" in host.status_info
    assert world.store.cluster(cluster_id).status is ClusterStatus.INSTALLING_PENDING_USER_ACTION
    with pytest.raises(Forbidden):
        hosts.register(world.engine, infra_env_id, HOST_ID, "")


def test_failed_preparation_returns_to_ready_and_can_be_tried_again(world: World) -> None:
    cluster_id, infra_env_id = world.known()
    clusters.install(world.engine, cluster_id)
    clusters.finish_preparation(world.engine, cluster_id, None, "openshift-install: exit code 1: boom")
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
    assert world.host(infra_env_id).status is HostStatus.KNOWN
    assert any("boom" in event.message for event in world.store.events())
    assert clusters.install(world.engine, cluster_id).status is ClusterStatus.PREPARING
    with pytest.raises(Conflict):
        clusters.install(world.engine, cluster_id)


def test_media_disconnect(world: World) -> None:
    _, infra_env_id = world.known()
    world.reply(infra_env_id, StepType.NTP, "cannot read /dev/sr0", 256)
    assert world.host(infra_env_id).status is HostStatus.DISCONNECTED


def test_hint_that_matches_nothing_is_refused(world: World) -> None:
    _, infra_env_id = world.known()
    body = {"disks_selected_config": [{"id": "/dev/not-found-by-hints", "role": "install"}]}
    with pytest.raises(BadRequest, match=r"matches the root device hints: /dev/vda \(20 GB\)"):
        hosts.update(world.engine, infra_env_id, HOST_ID, body)
    body["disks_selected_config"][0]["id"] = "/dev/sdx"
    with pytest.raises(BadRequest, match="/dev/sdx is not part of the host's disks"):
        hosts.update(world.engine, infra_env_id, HOST_ID, body)
    assert [event.name for event in world.store.events()].count("host_disk_not_found") == 2


def test_cancel_and_reset(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    assert clusters.cancel(world.engine, cluster_id).status is ClusterStatus.CANCELLED
    assert world.host(infra_env_id).status is HostStatus.CANCELLED
    clusters.reset(world.engine, cluster_id)
    assert world.host(infra_env_id).status is HostStatus.RESETTING_PENDING_USER_ACTION
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert world.host(infra_env_id).status is HostStatus.DISCOVERING


def test_compact_roles_bootstrap_and_majority(tmp_path: Path) -> None:
    world = World(tmp_path, BOOTSTRAP_HOST_MAC="52:54:00:00:00:81", DISABLED_STEPS="")
    cluster_id, infra_env_id = world.cluster(
        control_plane_count=3,
        platform={"type": "baremetal"},
        api_vips=[{"ip": "192.168.111.5"}],
        ingress_vips=[{"ip": "192.168.111.4"}],
    )
    ids = [f"00000000-0000-4000-8000-00000000000{index}" for index in range(3)]
    for index, host_id in enumerate(ids):
        hosts.register(world.engine, infra_env_id, host_id, "")
        world.poll(infra_env_id, host_id)
        document = inventory(f"m-{index}", f"52:54:00:00:00:8{index}", f"192.168.111.8{index}/24")
        world.reply(infra_env_id, StepType.INVENTORY, document, host_id=host_id)
    found = world.store.hosts(cluster_id=cluster_id)
    assert [host.suggested_role for host in found] == [Role.MASTER] * 3
    assert [host.bootstrap for host in found] == [False, True, False]
    assert "Not enough hosts" in found[0].status_info or "majority" in found[0].status_info
    for index, host_id in enumerate(ids):
        links = [
            {
                "host_id": other,
                "l2_connectivity": [{"remote_ip_address": f"192.168.111.8{at}", "successful": True}],
                "l3_connectivity": [
                    {
                        "remote_ip_address": f"192.168.111.8{at}",
                        "successful": True,
                        "average_rtt_ms": 1,
                        "packet_loss_percentage": 0,
                    }
                ],
            }
            for at, other in enumerate(ids)
            if at != index
        ]
        world.reply(infra_env_id, StepType.CONNECTIVITY, {"remote_hosts": links}, host_id=host_id)
    assert "have not been verified to be free yet" in world.store.cluster(cluster_id).status_info
    vips = [{"vip": f"192.168.111.{last}", "verification": "succeeded"} for last in (5, 4)]
    world.reply(infra_env_id, StepType.VERIFY_VIPS, vips, host_id=ids[2])
    cluster = world.store.cluster(cluster_id)
    assert cluster.status is ClusterStatus.READY, cluster.status_info
    world.store.close()


def test_one_transaction_per_change(world: World) -> None:
    cluster_id, _ = world.cluster()
    before = world.store.cluster(cluster_id)

    def broken() -> None:
        with world.store.change():
            world.engine.trigger_cluster(before, Trigger.REFRESH, {}, "nothing")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert world.store.cluster(cluster_id) == before
    with pytest.raises(RuntimeError, match="outside"):
        world.store.put_cluster(before)
    with pytest.raises(NotFound):
        world.store.file(cluster_id, "bootstrap.ign")


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_merge_patch_laws(base: Any, patch: Any) -> None:
    once = installconfig.merge(base, patch)
    assert installconfig.merge(once, patch) == once
    if isinstance(base, dict):
        assert installconfig.merge(base, {}) == base


REPLIES = (
    st.text(max_size=40)
    | JSON.map(json.dumps)
    | st.fixed_dictionaries({"remote_hosts": JSON, "ntp_sources": JSON, "images": JSON, "path": JSON}).map(json.dumps)
)


@hypothesis_settings(deadline=None, max_examples=60)
@given(REPLIES, st.sampled_from([kind.value for kind in StepType]), st.sampled_from((0, 0, 1, -1, 256)))
def test_no_reply_breaks_the_service(tmp_path_factory: Any, text: str, kind: str, code: int) -> None:
    world = World(tmp_path_factory.mktemp("w"))
    try:
        _, infra_env_id = world.known()
        with contextlib.suppress(BadRequest):
            world.reply(infra_env_id, StepType(kind), text, code)
        assert world.host(infra_env_id).status in HostStatus
        world.poll(infra_env_id)
    finally:
        world.store.close()
