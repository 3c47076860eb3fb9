"""Attempts to install that follow each other: what an earlier one still makes or answers is never the next one's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from installer.assisted.auth import ATTEMPT_HEADER, Scheme
from installer.assisted.endpoint import BASE
from installer.assisted.enums import ClusterStatus, HostStatus, StepType
from installer.assisted.errors import Conflict
from installer.rendezvous.api import fields
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.steps.instructions import MAKERS, OF_ATTEMPT, step_id
from installer.rendezvous.store.database import Store
from installer.testing.engine import sent_kit
from installer.testing.engine.attempts_kit import MANIFEST, NEW, OLD, cancelled, out_of_time, was_reset
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.api_kit import header, serve


@pytest.mark.parametrize("ended", [out_of_time, cancelled, was_reset])
@pytest.mark.parametrize("late", [OLD, None])
def test_files_of_an_earlier_attempts_preparation_are_dropped(
    world: World, ended: Callable[[World, str], None], late: dict[str, bytes] | None
) -> None:
    cluster_id, _ = world.known_host()
    first = clusters.install(world.engine, cluster_id).attempt
    assert first
    ended(world, cluster_id)
    # Between two attempts nobody waits for it either.
    assert not clusters.finish_preparation(world.engine, cluster_id, first, late, reason="late")
    sent_kit.put_manifest(world.engine, cluster_id, MANIFEST)
    second = clusters.install(world.engine, cluster_id).attempt
    assert second not in ("", first)
    events = len(world.store.events())
    assert not clusters.finish_preparation(world.engine, cluster_id, first, late, reason="late")
    assert len(world.store.events()) == events
    cluster = world.store.cluster(cluster_id)
    assert (cluster.status, cluster.last_preparation.status) == (ClusterStatus.PREPARING, "not_started")
    assert world.store.file_names(cluster_id) == []
    assert clusters.finish_preparation(world.engine, cluster_id, second, NEW, reason="")
    assert world.store.cluster(cluster_id).last_preparation.status == "success"
    assert world.store.file(cluster_id, "bootstrap.ign") == b"new"
    # Not twice either: what is kept stays.
    assert not clusters.finish_preparation(world.engine, cluster_id, second, OLD, reason="")
    assert not clusters.finish_preparation(world.engine, cluster_id, second, None, reason="boom")
    assert world.store.file(cluster_id, "bootstrap.ign") == b"new"
    assert world.store.cluster(cluster_id).last_preparation.status == "success"


def test_a_preparation_that_failed_is_told_until_the_next(world: World) -> None:
    """The cluster is soon called ready again; its last preparation says for longer why it does not install."""
    cluster_id, infra_env_id = world.known_host()

    def last() -> tuple[str, str]:
        preparation = world.store.cluster(cluster_id).last_preparation
        return preparation.status, preparation.reason

    clusters.install(world.engine, cluster_id)
    assert world.prepared(cluster_id, OLD)
    images = [{"name": "r.example/installer@sha256:1", "result": "failure", "error": "no route"}]
    world.reply(infra_env_id, StepType.IMAGES, {"images": images})
    assert world.store.cluster(cluster_id).status_info == "Cluster ready to be installed"
    assert (last()[0], "Failed to fetch container images" in last()[1]) == ("failed", True)
    clusters.install(world.engine, cluster_id)
    assert last() == ("not_started", "")
    out_of_time(world, cluster_id)
    assert (last()[0], "did not end within" in last()[1]) == ("failed", True)


def test_a_reset_is_no_preparation_that_failed(world: World) -> None:
    cluster_id, _ = world.known_host()
    clusters.install(world.engine, cluster_id)
    was_reset(world, cluster_id)
    assert "prepare_installation_failed" not in [event.name for event in world.store.events()]


def test_files_of_an_earlier_attempt_go_when_the_next_begins(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    clusters.install(world.engine, cluster_id)
    assert world.prepared(cluster_id, OLD)
    images = [{"name": "r.example/installer@sha256:1", "result": "failure", "error": "no route"}]
    world.reply(infra_env_id, StepType.IMAGES, {"images": images})
    assert world.store.cluster(cluster_id).status is ClusterStatus.READY
    assert world.store.file_names(cluster_id) == ["bootstrap.ign", "old-only"]
    clusters.install(world.engine, cluster_id)
    assert world.store.file_names(cluster_id) == []
    assert world.prepared(cluster_id, OLD)
    clusters.reset(world.engine, cluster_id)
    assert world.store.file_names(cluster_id) == []
    assert world.store.cluster(cluster_id).attempt == ""


def test_an_attempt_outlives_the_service(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    attempt = clusters.install(world.engine, cluster_id).attempt
    identity = world.step_id(infra_env_id, StepType.IMAGES)
    world.store.close()
    world.store = Store(world.engine.settings.db_path)
    world.engine = Engine(world.store, world.engine.settings, world.engine.requirements, world.clock)
    assert world.store.cluster(cluster_id).attempt == attempt
    assert world.step_id(infra_env_id, StepType.IMAGES) == identity
    unreadable = {**NEW, "metadata.json": b"{"}
    assert clusters.finish_preparation(world.engine, cluster_id, attempt, unreadable, reason="")
    assert world.store.cluster(cluster_id).openshift_cluster_id == ""


def test_the_api_does_not_show_attempts(world: World) -> None:
    cluster_id, _ = world.known_host()
    cluster = clusters.install(world.engine, cluster_id)
    assert cluster.attempt not in str(fields.cluster(cluster))


# steps


def asked(world: World, infra_env_id: str) -> dict[str, str]:
    instructions = hosts.next_steps(world.engine, infra_env_id, HOST_ID, "", timestamp=int(world.clock().timestamp()))
    return {item["step_type"]: item["step_id"] for item in instructions["instructions"]}


IMAGES = {"images": [{"name": "r.example/installer@sha256:1", "result": "success", "size_bytes": 1, "time": 1.0}]}
NO_IMAGES = {"images": [{"name": "r.example/installer@sha256:1", "result": "failure", "error": "of before"}]}
SPEED = {"path": "/dev/disk/by-path/pci-0000:04:00.0", "io_sync_duration": 5}


def test_answers_of_an_earlier_attempt_are_dropped_and_asked_for_again(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    clusters.install(world.engine, cluster_id)
    first = asked(world, infra_env_id)
    assert set(first) == {"installation-disk-speed-check", "container-image-availability"}
    assert all(identity.startswith(f"{kind}-") and len(identity) == len(kind) + 9 for kind, identity in first.items())
    out_of_time(world, cluster_id)
    clusters.install(world.engine, cluster_id)
    second = asked(world, infra_env_id)
    assert set(second) == set(first)
    assert not set(second.values()) & set(first.values())
    assert asked(world, infra_env_id) == {}
    events = len(world.store.events())
    world.reply(infra_env_id, StepType.IMAGES, NO_IMAGES, step_id=first["container-image-availability"])
    world.reply(infra_env_id, StepType.DISK_SPEED, "cannot", 1, step_id=first["installation-disk-speed-check"])
    world.reply(infra_env_id, StepType.DISK_SPEED, {**SPEED, "io_sync_duration": 5000}, step_id="")
    host = world.host(infra_env_id)
    assert (host.status, host.images_status.text, host.disks_info.text) == (HostStatus.PREPARING, "", "")
    assert host.step_errors == {}
    assert len(world.store.events()) == events
    # The agent that was busy with it did not begin anew: asked again at once, by the same name.
    assert asked(world, infra_env_id) == second
    world.reply(infra_env_id, StepType.IMAGES, IMAGES, step_id=second["container-image-availability"])
    world.reply(infra_env_id, StepType.DISK_SPEED, SPEED, step_id=second["installation-disk-speed-check"])
    assert world.host(infra_env_id).status is HostStatus.PREPARING_SUCCESSFUL


def test_the_installers_failure_of_before_a_reset_fails_nothing(world: World) -> None:
    cluster_id, infra_env_id = world.installing()
    first = asked(world, infra_env_id)["install"]
    # Handed out once more to an agent that has not begun yet: by the same name, so that its answer is taken.
    world.wait(61)
    assert asked(world, infra_env_id)["install"] == first
    cancelled(world, cluster_id)
    clusters.install(world.engine, cluster_id)
    world.prepared(cluster_id, NEW)
    world.reply(infra_env_id, StepType.IMAGES, IMAGES)
    world.reply(infra_env_id, StepType.DISK_SPEED, SPEED)
    second = asked(world, infra_env_id)["install"]
    assert second != first
    world.reply(infra_env_id, StepType.INSTALL, "of before", 1, step_id=first)
    assert world.host(infra_env_id).status is HostStatus.INSTALLING
    assert asked(world, infra_env_id) == {"install": second}
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Starting installation", info="")
    # The status is another now, the attempt is not.
    world.reply(infra_env_id, StepType.INSTALL, "of now", 1, step_id=second)
    host = world.host(infra_env_id)
    assert (host.status, host.status_info) == (HostStatus.ERROR, "The installer failed: of now")


def installing_again(world: World, cluster_id: str, infra_env_id: str) -> None:
    cancelled(world, cluster_id)
    clusters.install(world.engine, cluster_id)
    world.prepared(cluster_id, NEW)
    world.reply(infra_env_id, StepType.IMAGES, IMAGES)
    world.reply(infra_env_id, StepType.DISK_SPEED, SPEED)
    assert world.host(infra_env_id).status is HostStatus.INSTALLING


@pytest.mark.parametrize(("stage", "info"), [("Failed", "of before"), ("Rebooting", ""), ("Installing", "")])
def test_progress_of_before_this_attempts_install_is_refused(world: World, stage: str, info: str) -> None:
    """An orchestrator that does not name its attempt is at least none that this attempt has not started."""
    cluster_id, infra_env_id = world.installing()
    with pytest.raises(Conflict, match="not told to install"):
        hosts.progress(world.engine, infra_env_id, HOST_ID, stage, info=info)
    first = asked(world, infra_env_id)["install"]
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Starting installation", info="bootstrap")
    installing_again(world, cluster_id, infra_env_id)
    events = len(world.store.events())
    with pytest.raises(Conflict, match="not told to install"):
        hosts.progress(world.engine, infra_env_id, HOST_ID, stage, info=info)
    host = world.host(infra_env_id)
    assert (host.status, host.progress.current_stage) == (HostStatus.INSTALLING, None)
    assert len(world.store.events()) == events
    assert "install" in asked(world, infra_env_id)
    # A late answer has the step handed out again; that it was handed out is not forgotten over it.
    world.reply(infra_env_id, StepType.INSTALL, "of before", 1, step_id=first)
    hosts.progress(world.engine, infra_env_id, HOST_ID, "Starting installation", info="")
    assert world.host(infra_env_id).status is HostStatus.INSTALLING_IN_PROGRESS


def test_steps_tell_their_attempt(world: World) -> None:
    cluster_id, infra_env_id = world.installing()

    def attempt_of(kind: StepType) -> str:
        arguments = MAKERS[kind](world.engine.view(world.host(infra_env_id)))
        return str(json.loads((arguments or [""])[0])["installation_attempt"])

    first = world.store.cluster(cluster_id).attempt
    assert first == attempt_of(StepType.INSTALL) == attempt_of(StepType.LOGS)
    installing_again(world, cluster_id, infra_env_id)
    second = world.store.cluster(cluster_id).attempt
    assert first != second == attempt_of(StepType.INSTALL) == attempt_of(StepType.LOGS)


FORM = {"Content-Type": "multipart/form-data; boundary=a"}
UPLOAD = b'--a\r\nContent-Disposition: form-data; name="upfile"; filename="x"\r\n\r\nabc\r\n--a--\r\n'


def test_what_names_an_attempt_that_is_over_is_refused(tmp_path: Path) -> None:
    """Progress, files, logs and the installation's end, over HTTP, as the programs of an attempt send them."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        world, cluster_id = fleet.world, fleet.cluster_id
        first = clusters.install(world.engine, cluster_id).attempt
        clusters.reset(world.engine, cluster_id)
        fleet.discover()
        second = clusters.install(world.engine, cluster_id).attempt
        machine = fleet.machines[0]
        host = f"/infra-envs/{fleet.infra_env_id}/hosts/{machine.id}"
        cluster = f"/clusters/{cluster_id}"
        calls: tuple[tuple[str, str, Any], ...] = (
            ("PUT", f"{host}/progress", {"current_stage": "Failed", "progress_info": "of before"}),
            ("PUT", f"{host}/logs-progress", {"logs_state": "completed"}),
            ("PUT", f"{cluster}/logs-progress", {"logs_state": "completed"}),
            ("PUT", f"{cluster}/progress", {"finalizing_stage": "Done"}),
            ("POST", f"{cluster}/actions/complete-installation", {"is_success": False, "error_info": "of before"}),
            ("POST", f"{cluster}/uploads/ingress-cert", "BEGIN CERTIFICATE"),
            ("POST", f"{cluster}/logs?logs_type=host&host_id={machine.id}", UPLOAD),
            ("POST", f"{cluster}/logs?logs_type=controller", UPLOAD),
            ("GET", f"{cluster}/downloads/files?file_name=bootstrap.ign", None),
            ("GET", f"/infra-env/{fleet.infra_env_id}/hosts/{machine.id}/downloads/ignition", None),
            ("GET", f"{cluster}/hosts", None),
        )

        async def answers(attempt: str) -> list[tuple[int, str]]:
            replies = []
            for method, path, body in calls:
                kind = {"data": body} if isinstance(body, bytes) else {"json": body} if body else {}
                headers = {**(FORM if isinstance(body, bytes) else {}), ATTEMPT_HEADER: attempt}
                headers |= header(Scheme.AGENT)
                answer = await client.request(method, BASE + path, headers=headers, **kind)
                replies.append((answer.status, await answer.text()))
            return replies

        before = world.store.version(cluster_id)
        for status, text in await answers(first):
            assert status == 409
            assert "is over" in text
        assert world.store.version(cluster_id) == before
        assert not list(tmp_path.rglob("logs/*/*"))
        refused = [call[1] for call, answer in zip(calls, await answers(second), strict=True) if "is over" in answer[1]]
        assert refused == []
        assert [file.name for file in sorted(tmp_path.rglob("logs/*/host_*"))] == [f"host_{machine.id}.tar.gz"]
        with world.store.change():
            left = msgspec.structs.replace(fleet.host(machine), cluster_id=None)
            world.store.put_host(left)
        for (_, path, _), (status, text) in zip(calls, await answers(second), strict=True):
            assert not path.startswith(host) or (status == 409 and "no cluster any more" in text), path

    serve(tmp_path, use)


def test_names_of_steps(world: World) -> None:
    _, infra_env_id = world.known_host()
    host = world.host(infra_env_id)
    others = [
        msgspec.structs.replace(host, registered_at="2026-01-01T00:00:00.000Z"),
        msgspec.structs.replace(host, id="other"),
    ]
    for kind in StepType:
        first_id = step_id(kind, host, "a")
        assert step_id(kind, host, "a") == first_id
        assert (step_id(kind, host, "b") == first_id) is (kind not in OF_ATTEMPT)
        assert first_id not in [step_id(kind, item, "a") for item in others]
    assert {StepType.INSTALL, StepType.IMAGES, StepType.DISK_SPEED} == OF_ATTEMPT
