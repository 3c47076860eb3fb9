"""Preparations in the service's threads: each waits for no other attempt's, and ends with its own attempt."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.enums import ClusterStatus
from installer.assisted.errors import PrepareError
from installer.rendezvous.api.context import Service
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.resources import clusters
from installer.testing.engine import sent_kit
from installer.testing.engine.attempts_kit import MANIFEST, NEW, OLD, out_of_time
from installer.testing.engine.store_kit import no_more_bytes
from installer.testing.engine.world_kit import World
from installer.testing.service.api_kit import service_of


class Generator:
    """Stands where the generator's thread is: each job waits until the test lets it go."""

    def __init__(self) -> None:
        self.jobs: list[prepare.Job] = []
        self.let: dict[str, threading.Event] = {}
        self.results: dict[str, dict[str, bytes] | PrepareError] = {}

    def __call__(self, job: prepare.Job) -> dict[str, bytes]:
        go = self.let.setdefault(job.cluster.attempt, threading.Event())
        self.jobs.append(job)
        assert go.wait(30), "the test has forgotten a job"
        result = self.results[job.cluster.attempt]
        if isinstance(result, PrepareError):
            raise result
        return result

    def release(self, attempt: str, result: dict[str, bytes] | PrepareError) -> None:
        self.results[attempt] = result
        self.let[attempt].set()


async def until(event: str, seen: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end, f"{event}: not within 20 s"
        await asyncio.sleep(0.01)


def serving(world: World, use: Callable[[Service, Generator], Awaitable[None]]) -> None:
    generator = Generator()
    service = service_of(world, generator)

    async def run() -> None:
        try:
            await use(service, generator)
        finally:
            for go in generator.let.values():
                go.set()

    asyncio.run(run())


def test_an_attempt_does_not_wait_for_the_one_before(world: World) -> None:
    cluster_id, _ = world.known_host()

    async def use(service: Service, results: Generator) -> None:
        first = clusters.install(world.engine, cluster_id).attempt
        await service.tick()
        await until("the first job", lambda: len(results.jobs) == 1)
        assert not results.jobs[0].stop.is_set()
        await service.tick()
        assert len(results.jobs) == len(service.preparing) == 1
        out_of_time(world, cluster_id)
        await service.tick()
        # Nobody waits for it: told to end, and nothing else is begun.
        assert results.jobs[0].stop.is_set()
        assert list(service.preparing) == [(cluster_id, first)]
        sent_kit.put_manifest(world.engine, cluster_id, MANIFEST)
        second = clusters.install(world.engine, cluster_id).attempt
        await service.tick()
        await until("the second job", lambda: len(results.jobs) == 2)
        assert [len(job.manifests) for job in results.jobs] == [0, 1]
        assert results.jobs[0].work != results.jobs[1].work
        assert not results.jobs[1].stop.is_set()
        results.release(first, OLD)
        await until("the first's end", lambda: (cluster_id, first) not in service.preparing)
        assert world.store.cluster(cluster_id).last_preparation.status == "not_started"
        results.release(second, NEW)
        await until("the second's end", lambda: not service.preparing)
        assert world.store.file(cluster_id, "bootstrap.ign") == b"new"
        assert world.store.file_names(cluster_id) == ["bootstrap.ign"]
        await service.tick()
        assert len(results.jobs) == 2

    serving(world, use)


def test_generated_files_are_stored_once_the_disk_has_room(world: World) -> None:
    cluster_id, _ = world.known_host()
    world.engine.settings = dataclasses.replace(world.engine.settings, monitor_seconds=0.02)

    async def use(service: Service, results: Generator) -> None:
        attempt = clusters.install(world.engine, cluster_id).attempt
        await service.tick()
        await until("the job", lambda: bool(results.jobs))
        with no_more_bytes(world.store):
            results.release(attempt, NEW)
            await until("a try to keep it", lambda: "disk I/O error" in "".join(lines))
            assert world.store.cluster(cluster_id).last_preparation.status == "not_started"
            await service.tick()
        await until("its being kept", lambda: not service.preparing)
        assert world.store.file(cluster_id, "bootstrap.ign") == b"new"
        # Made once, not again and again.
        assert len(results.jobs) == 1

    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Lines()
    logging.getLogger("assisted-service").addHandler(handler)
    try:
        serving(world, use)
    finally:
        logging.getLogger("assisted-service").removeHandler(handler)


@pytest.mark.parametrize(
    ("result", "reason"),
    [(PrepareError("openshift-install", "exit code 1: boom"), "openshift-install: exit code 1: boom")],
)
def test_a_generator_that_fails_says_why(world: World, result: PrepareError, reason: str) -> None:
    cluster_id, _ = world.known_host()

    async def use(service: Service, results: Generator) -> None:
        attempt = clusters.install(world.engine, cluster_id).attempt
        await service.tick()
        await until("the job", lambda: bool(results.jobs))
        results.release(attempt, result)
        await until("its end", lambda: not service.preparing)
        cluster = world.store.cluster(cluster_id)
        assert cluster.status is ClusterStatus.READY
        assert cluster.status_info == "Cluster ready to be installed"
        assert any(event.message.endswith(reason) for event in world.store.events())

    serving(world, use)


def test_deleting_a_cluster_ends_its_preparation(world: World) -> None:
    cluster_id, _ = world.known_host()

    async def use(service: Service, results: Generator) -> None:
        attempt = clusters.install(world.engine, cluster_id).attempt
        await service.tick()
        await until("the job", lambda: bool(results.jobs))
        clusters.delete(world.engine, cluster_id)
        await service.tick()
        assert results.jobs[0].stop.is_set()
        results.release(attempt, NEW)
        await until("its end", lambda: not service.preparing)
        assert world.store.clusters() == []
        assert world.store.file_names(cluster_id) == []

    serving(world, use)


def test_the_services_end_ends_its_preparations(world: World, tmp_path: Path) -> None:
    cluster_id, _ = world.known_host()

    async def use(service: Service, results: Generator) -> None:
        clusters.install(world.engine, cluster_id)
        await service.tick()
        await until("the job", lambda: bool(results.jobs))
        [(task, _)] = service.preparing.values()
        service.stop_preparations()
        assert results.jobs[0].stop.is_set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Begun anew by the next service.
        assert clusters.awaits_ignition(world.store.cluster(cluster_id))

    serving(world, use)
