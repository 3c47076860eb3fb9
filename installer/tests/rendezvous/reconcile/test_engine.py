"""One installation through the service's rules, without a network: from registration to its end, and the ways aside."""

from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from installer.assisted.enums import ClusterStatus, HostStatus, Role, Stage, StepType
from installer.assisted.errors import BadRequest, Conflict, Forbidden
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.steps import instructions as steps
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory


def test_sno_from_discovering_to_rebooting(world: World) -> None:
    cluster_id, infra_env_id = world.cluster()
    assert world.store.cluster(cluster_id).status is ClusterStatus.INSUFFICIENT
    host = hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert (host.status, host.role, host.bootstrap) == (HostStatus.DISCOVERING, Role.MASTER, True)
    assert world.poll(infra_env_id) == ["inventory"]
    assert world.poll(infra_env_id) == []
    world.reply(infra_env_id, StepType.INVENTORY, inventory())
    assert world.host(infra_env_id).status is HostStatus.INSUFFICIENT
    assert world.poll(infra_env_id) == ["inventory", "ntp-synchronizer", "domain-resolution"]
    world.resolved(infra_env_id)
    assert world.host(infra_env_id).status is HostStatus.KNOWN, world.host(infra_env_id).status_info
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
    clusters.install(world.engine, cluster_id)
    assert world.host(infra_env_id).status is HostStatus.PREPARING
    assert world.poll(infra_env_id) == ["installation-disk-speed-check", "container-image-availability"]
    world.prepared(cluster_id, {"bootstrap.ign": b"{}"})
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
    assert world.poll(infra_env_id) == ["install"]
    for stage in ("Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk", "Rebooting"):
        hosts.progress(world.engine, infra_env_id, HOST_ID, stage, info="")
    host = world.host(infra_env_id)
    assert host.progress.installation_percentage == 6 * 100 // 8
    # Nobody asks after a host that reboots.
    world.wait(3600)
    world.engine.clock = world.clock
    with world.store.change():
        world.engine.reconcile(cluster_id)
    assert world.host(infra_env_id).status is HostStatus.INSTALLING_IN_PROGRESS


def test_what_was_cancelled_and_reset_at_once_is_stopped_all_the_same(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    assert world.poll(infra_env_id) == ["install"]
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Starting installation", info="bootstrap")
    clusters.cancel(world.engine, cluster_id)
    clusters.reset(world.engine, cluster_id)
    assert world.host(infra_env_id).status is HostStatus.RESETTING_PENDING_USER_ACTION
    assert world.poll(infra_env_id) == ["stop-installation"]
    world.reply(infra_env_id, StepType.STOP, "assisted-installer")
    for _ in range(60):
        world.clock.go(5)
        assert world.poll(infra_env_id) == []
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert world.poll(infra_env_id) == ["inventory"]


def test_what_was_cancelled_and_unbound_at_once_is_stopped_all_the_same(world: World) -> None:
    """The infra-env is nobody's by now: one of a cluster keeps its hosts."""
    cluster_id, infra_env_id = world.installing()
    assert world.poll(infra_env_id) == ["install"]
    clusters.cancel(world.engine, cluster_id)
    with world.store.change():
        world.store.put_infra_env(replace(world.store.infra_env(infra_env_id), cluster_id=None))
    hosts.unbind(world.engine, infra_env_id, HOST_ID)
    assert world.host(infra_env_id).status is HostStatus.UNBINDING_PENDING_USER_ACTION
    assert world.poll(infra_env_id) == ["stop-installation"]
    assert world.poll(infra_env_id) == []


OLD, NEW = ("r/agent@sha256:" + digit * 64 for digit in "12")
# isAgentUpgradeAllowed of assisted-service.
UPGRADABLE = {
    *("binding", "discovering", "discovering-unbound", "insufficient", "insufficient-unbound", "known"),
    *("known-unbound", "pending-for-input"),
}


@pytest.mark.parametrize("status", HostStatus)
def test_when_an_agent_is_replaced(world: World, status: HostStatus) -> None:
    _, infra_env_id = world.known_host()
    host = replace(world.host(infra_env_id), status=status, discovery_agent_version=OLD)
    with world.store.change():
        world.store.put_host(host)
    world.engine.adopt(dataclasses.replace(world.engine.settings, agent_image=NEW))
    view = world.engine.view(host)
    plan = steps.plan(view)
    upgraded = [(StepType.UPGRADE, [json.dumps({"agent_image": NEW}, separators=(",", ":"))])]
    assert (plan.steps == upgraded) is (status.value in UPGRADABLE)
    if status.value in UPGRADABLE:
        assert (plan.wait, plan.post) == (60, "continue")
        off = dataclasses.replace(world.engine.settings, disabled_steps=frozenset({"upgrade-agent"}))
        world.engine.adopt(off)
        view = world.engine.view(host)
    assert StepType.UPGRADE not in [kind for kind, _ in steps.plan(view).steps]


def test_progress_rules(world: World) -> None:
    _, infra_env_id = world.installing()
    world.poll(infra_env_id)
    go = lambda stage, info="": hosts.progress(world.engine, infra_env_id, HOST_ID, stage, info=info)  # noqa: E731
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
    world.wait(10)
    go("Writing image to disk", "70%")
    progress = world.host(infra_env_id).progress
    assert (progress.progress_info, progress.stage_started_at) == ("70%", started)
    go("Failed", "disk is broken")
    host = world.host(infra_env_id)
    assert (host.status, host.status_info) == (HostStatus.ERROR, "Failed - disk is broken")
    assert host.progress.current_stage is Stage.WRITING
    assert world.poll(infra_env_id) == ["logs-gather", "stop-installation"]


def test_boot_from_the_wrong_device(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    world.poll(infra_env_id)
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Rebooting", info="")
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    host = world.host(infra_env_id)
    assert host.status is HostStatus.INSTALLING_PENDING_USER_ACTION
    assert "fix boot order" in host.status_info
    assert "/dev/vda" in host.status_info
    assert world.store.cluster(cluster_id).status is ClusterStatus.INSTALLING_PENDING_USER_ACTION
    with pytest.raises(Forbidden):
        hosts.register(world.engine, infra_env_id, HOST_ID, "")


def test_failed_preparation_returns_to_ready_and_can_be_tried_again(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    clusters.install(world.engine, cluster_id)
    world.prepared(cluster_id, None, "openshift-install: exit code 1: boom")
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
    assert world.host(infra_env_id).status is HostStatus.KNOWN
    assert any("boom" in event.message for event in world.store.events())
    assert clusters.install(world.engine, cluster_id).status is ClusterStatus.PREPARING
    with pytest.raises(Conflict):
        clusters.install(world.engine, cluster_id)
