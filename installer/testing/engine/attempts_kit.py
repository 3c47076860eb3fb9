"""Ways for an attempt to install to end, so that another may begin; and the files that each has made."""

from __future__ import annotations

from installer.assisted.enums import ClusterStatus, StepType
from installer.rendezvous.resources import clusters, hosts
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory

OLD, NEW = {"bootstrap.ign": b"old", "old-only": b"old"}, {"bootstrap.ign": b"new"}
MANIFEST = {"folder": "openshift", "file_name": "a.yaml", "content": "YTogMQo="}


def out_of_time(world: World, cluster_id: str) -> None:
    """Its preparation takes longer than it may."""
    world.wait(601)
    world.poll(next(item.id for item in world.store.infra_envs()))
    with world.store.change():
        world.engine.reconcile(cluster_id)
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY


def cancelled(world: World, cluster_id: str) -> None:
    """Cancel and reset it, as a user."""
    clusters.cancel(world.engine, cluster_id)
    assert world.store.cluster(cluster_id).status is ClusterStatus.CANCELLED
    back(world, cluster_id)


def was_reset(world: World, cluster_id: str) -> None:
    """Reset it, as a user."""
    back(world, cluster_id)


def back(world: World, cluster_id: str) -> None:
    """Reset it, and have the host known again."""
    clusters.reset(world.engine, cluster_id)
    infra_env_id = next(item.id for item in world.store.infra_envs())
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    world.poll(infra_env_id)
    world.reply(infra_env_id, StepType.INVENTORY, inventory())
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
