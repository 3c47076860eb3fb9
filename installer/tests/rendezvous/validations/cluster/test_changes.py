"""Side effects that a change of a cluster must not have: a lost manifest, a contradiction, an old answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus, StepType
from installer.assisted.errors import BadRequest, Conflict
from installer.rendezvous.resources import clusters, hosts, manifests
from installer.rendezvous.resources.requests.clusters import ManifestParams
from installer.rendezvous.resources.requests.params import decoded
from installer.rendezvous.store.documents import TangConnectivity
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kept(world: World, cluster_id: str) -> dict[str, bytes]:
    return {
        f"{manifest.folder}/{manifest.file_name}": manifest.content for manifest in world.store.manifests(cluster_id)
    }


def test_a_manifest_is_not_renamed_to_anothers_name(world: World) -> None:
    cluster_id, _ = world.cluster()
    for name in "ab":
        sent_kit.put_manifest(world.engine, cluster_id, {"file_name": f"{name}.yaml", "content": encoded(f"{name}: 1")})
    before = kept(world, cluster_id)

    def rename(**changes: str) -> None:
        body = decoded({"file_name": "a.yaml", **changes}, ManifestParams)
        manifests.put(world.engine, cluster_id, body, True)

    with pytest.raises(Conflict, match=r"manifests/b\.yaml exists already"):
        rename(updated_file_name="b.yaml", updated_content=encoded("c: 1"))
    assert kept(world, cluster_id) == before
    rename(updated_file_name="a.yaml", updated_content=encoded("d: 1"))
    with pytest.raises(BadRequest, match="not distinct between"):
        rename(updated_file_name="b.yaml", updated_folder="openshift")
    rename(updated_file_name="c.yaml", updated_folder="openshift")
    assert kept(world, cluster_id) == {"openshift/c.yaml": b"d: 1", "manifests/b.yaml": b"b: 1"}


@pytest.mark.parametrize(("count", "other"), [(1, 3), (3, 1), (3, 6)])
def test_a_count_contradicts_the_mode_that_is_kept(world: World, count: int, other: int) -> None:
    cluster_id, _ = world.cluster(control_plane_count=count)
    before = world.store.cluster(cluster_id)
    with pytest.raises(BadRequest, match=r"high.availability.mode"):
        sent_kit.update_cluster(world.engine, cluster_id, {"control_plane_count": other})
    with pytest.raises(BadRequest, match='unknown field "high_availability_mode"'):
        sent_kit.update_cluster(world.engine, cluster_id, {"high_availability_mode": "Full"})
    assert world.store.cluster(cluster_id) == before


@pytest.mark.parametrize("name", ["mine\n", "mine\n\n", "\nmine"])
def test_a_name_with_a_newline_is_none(world: World, name: str) -> None:
    cluster_id, infra_env_id = world.cluster()
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    with pytest.raises(BadRequest):
        sent_kit.update_cluster(world.engine, cluster_id, {"name": name})
    with pytest.raises(BadRequest):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, {"host_name": name})
    file = f"a.yaml{name.removeprefix('mine')}" if name.endswith("\n") else "a.yaml\n"
    with pytest.raises(BadRequest):
        sent_kit.put_manifest(world.engine, cluster_id, {"file_name": file, "content": encoded("a: 1")})


def tang(url: str) -> dict[str, Any]:
    return {"enable_on": "all", "mode": "tang", "tang_servers": json.dumps([{"url": url, "thumbprint": "x" * 43}])}


def test_what_old_tang_servers_answered_says_nothing_of_new_ones(world: World) -> None:
    cluster_id, infra_env_id = world.cluster(disk_encryption=tang("http://good:7500"))
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    world.poll(infra_env_id)
    world.reply(infra_env_id, StepType.INVENTORY, inventory())

    def encryption_message() -> str:
        with world.store.change():
            world.engine.reconcile(cluster_id)
        shown = json.loads(world.host(infra_env_id).validations_info.text)
        [message] = [
            entry["message"]
            for group in shown.values()
            for entry in group
            if entry["id"] == "disk-encryption-requirements-satisfied"
        ]
        return str(message)

    good = {"is_success": True, "tang_server_response": [{"tang_url": "http://good:7500", "payload": "x"}]}
    world.clock.go(61)
    world.poll(infra_env_id)
    world.reply(infra_env_id, StepType.TANG, good)
    assert encryption_message() == "Installation disk can be encrypted using tang"
    # The same again is no change.
    sent_kit.update_cluster(world.engine, cluster_id, {"disk_encryption": tang("http://good:7500")})
    assert encryption_message() == "Installation disk can be encrypted using tang"
    sent_kit.update_cluster(world.engine, cluster_id, {"disk_encryption": tang("http://dead:7500")})
    assert encryption_message() == "Disk encryption check was not performed yet"
    # An answer that was on its way comes after the change.
    with world.store.change():
        host = world.host(infra_env_id)
        world.store.put_host(hosts.replace(host, tang_connectivity=TangConnectivity(json.dumps(good))))
    assert encryption_message() == "Disk encryption check was not performed yet: Tang servers have changed"
    assert world.store.cluster(cluster_id).status is not ClusterStatus.READY
    with pytest.raises(Conflict):
        clusters.install(world.engine, cluster_id)
