"""Work beside the loop: the database's log, collections of garbage, images."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from installer.rendezvous.api.app import SERVICE
from installer.rendezvous.eventloop import lag
from installer.rendezvous.store import records
from installer.rendezvous.store.database import Store
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import serve

pytestmark = pytest.mark.slow

MIB = 1024**2


def test_the_database_log_is_folded_in_by_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = Store(path)

    def fill(count: int) -> None:
        for _ in range(count):
            with store.change():
                store.put_file("c", "f", os.urandom(MIB))

    fill(6)
    log = records.write_ahead_log(path)
    before = log.stat().st_size
    # No write has waited for it.
    assert before > records.LARGE_LOG + MIB
    threads: set[str] = set()
    original = records.fold_log

    def fold(database: Path) -> None:
        threads.add(threading.current_thread().name)
        original(database)

    with mock.patch.object(records, "fold_log", fold):
        asyncio.run(records.fold_large_log(path))
    assert threads
    assert threading.main_thread().name not in threads
    # The log is used from its beginning again.
    fill(3)
    assert log.stat().st_size == before
    content = store.file("c", "f")
    store.close()
    again = Store(path)
    assert again.file("c", "f") == content
    again.close()


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.db")
    with mock.patch.object(records, "fold_log", side_effect=AssertionError):
        asyncio.run(records.fold_large_log(tmp_path / "x.db"))
    store.close()


def test_a_full_collection_looks_at_what_is_new(tmp_path: Path) -> None:
    async def use() -> None:
        task = asyncio.create_task(lag.freeze_survivors())
        await asyncio.sleep(0)
        kept = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
        gc.collect()
        assert gc.get_freeze_count() > 100_000
        begin = time.thread_time()
        gc.collect()
        again = time.thread_time() - begin
        gc.unfreeze()
        begin = time.thread_time()
        gc.collect()
        assert again < (time.thread_time() - begin) / 2
        del kept
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert lag.set_aside not in gc.callbacks
        assert gc.get_freeze_count() == 0

    asyncio.run(use())


def test_what_was_set_aside_is_looked_at_now_and_then() -> None:
    class Thing:
        pass

    async def use() -> None:
        first, second = Thing(), Thing()
        first.other, second.other = second, first  # type: ignore[attr-defined]
        gone = weakref.ref(first)
        with mock.patch.object(lag, "THOROUGH", 0.2):
            task = asyncio.create_task(lag.freeze_survivors())
            await asyncio.sleep(0)
            more = [[] for _ in range(gc.get_freeze_count())]  # type: ignore[var-annotated]
            gc.collect()
            del first, second
            gc.collect()
            assert gone() is not None
            end = time.monotonic() + 20
            while gone() is not None:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            del more
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(use())


def test_making_images_leaves_threads_for_the_others(tmp_path: Path) -> None:

    async def use(client: Any, fleet: Fleet) -> None:
        service = client.app[SERVICE]
        stop = threading.Event()
        slow = [asyncio.create_task(service.slowly(stop.wait, 60)) for _ in range(40)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 20) == 1
        stop.set()
        assert await asyncio.gather(*slow) == [True] * 40

    serve(tmp_path, use)
