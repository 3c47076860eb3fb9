"""A host of the engine: it runs units in labs of its own.

What is here runs in the process of a worker, called by the engine through Dask.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import dask
import msgspec
from distributed import Reschedule, Scheduler, Worker, get_worker
from distributed.comm.core import FatalCommClosedError, connect
from distributed.security import Security

from ci.informer.engine.unit import Attempt, Result, Unit, ready, void
from ci.informer.errors import InformerError
from ci.informer.history.model import Run
from lab.errors import EvidenceError, LabError
from lab.evidence.folder import mark_of, marks_of
from lab.host.paths import state_dir

Say = Callable[[str], None]
#: Units that one host may have at a time; memory and processors set the limit long before.
MOST_UNITS = 64
#: The address of Dask's own pages, which cannot be switched off: only this machine reaches it.
LOOPBACK = "127.0.0.1:0"
#: The name of this machine where it is the only host.
HERE = "here"
SETTINGS = {
    "distributed.worker.profile.enabled": False,
    # Fifty times a second, by default, it looks how late its event loop is: 2 % of a processor for each idle process.
    "distributed.admin.tick.interval": "1s",
    "distributed.comm.timeouts.connect": "10s",
}

#: What runs in this process, by the keys of units.
_running: dict[str, Attempt] = {}


def perform(text: bytes, shared: bool) -> bytes:
    """Run a unit and return its result, both as JSON; `shared`: its folder is one that the collector has made."""
    unit, host = msgspec.json.decode(text, type=Unit), str(get_worker().name) if shared else HERE
    try:
        result = Result(run=_shared(unit) if shared else _run(unit, Path(unit.folder)), host=host)
    except InformerError as error:
        result = Result(error=str(error), host=host)
    except (LabError, OSError) as error:
        # One host of many, whose disk may be full: the others go on.
        lost = Result(run=void(unit, f"host {host}: {error}"), host=host)
        result = lost if shared else Result(error=str(error), host=host)
    return msgspec.json.encode(result)


def _run(unit: Unit, folder: Path) -> Run:
    attempt = _running[unit.key] = Attempt(unit, folder)
    try:
        run = attempt.run()
    finally:
        del _running[unit.key]
    if attempt.stopped:
        raise Reschedule
    return run


def _shared(unit: Unit) -> Run:
    """Run a unit beside the shared folder, where what a lost host still writes would be taken for this run's."""
    folder = Path(unit.folder)
    if mark_of(folder) != f"run {unit.key}":
        raise EvidenceError(f"{folder}: is not what the collector has there: hosts share the folder of --artifacts")
    with tempfile.TemporaryDirectory(dir=get_worker().local_directory) as scratch:
        run = _run(unit, Path(scratch, "evidence"))
        ready(folder, unit.key)
        shutil.copytree(Path(scratch, "evidence"), folder, symlinks=True, dirs_exist_ok=True)
    return replace(run, folder=str(folder), mark=marks_of(folder))


async def stop(keys: Collection[str] | None = None) -> None:
    """End units that run in this process, all of them by default, in good order and all at once."""
    ending = [attempt.stop for key, attempt in [*_running.items()] if keys is None or key in keys]
    threads = [threading.Thread(target=end, daemon=True) for end in ending]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)


async def dask_teardown(_: Worker) -> None:
    """End what runs before its worker closes: Dask's hook. It comes again elsewhere."""
    await stop()


def scheduler(address: str, security: Security | None, say: Say) -> None:
    """Be the scheduler until SIGTERM or SIGINT. Raises InformerError where the address cannot be used."""
    protocol, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    _serve(
        lambda: Scheduler(
            host=host.strip("[]"),
            port=int(port),
            protocol=protocol,
            security=security,
            dashboard=False,
            dashboard_address=LOOPBACK,
        ),
        address,
        say,
    )


def worker(address: str, security: Security | None, name: str, announced: Mapping[str, float], *, say: Say) -> None:
    """Be a host until SIGTERM or SIGINT; a scheduler that is gone is waited for. Both end what runs.

    Raises InformerError where the scheduler refuses it.
    """

    async def start() -> Worker:
        await _answers(address, security, say)
        worker: Worker = await Worker(
            address,
            name=name,
            nthreads=MOST_UNITS,
            resources=dict(announced),
            memory_limit=0,
            security=security,
            local_directory=str(state_dir()),
            dashboard=False,
            dashboard_address=LOOPBACK,
            preload=[__name__],
        )
        return worker

    _serve(start, address, say)


async def _answers(address: str, security: Security | None, say: Say) -> None:
    """Wait for a scheduler. A worker would ask it ten times a second, and without end with a key that is not its."""
    reported = False
    while True:
        try:
            comm = await connect(address, **(security.get_connection_args("worker") if security else {}))
            await comm.close()
            return
        except FatalCommClosedError as error:
            raise InformerError(f"address: {address}: its key is not that of --tls") from error
        except OSError:
            if not reported:
                say(f"the scheduler at {address} does not answer; trying again")
            reported = True


def _serve(make: Callable[[], Awaitable[Scheduler | Worker]], address: str, say: Say) -> None:
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # It tells with a traceback of a scheduler that is gone.
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
    try:
        with dask.config.set(SETTINGS):
            asyncio.run(_serve_until_signal(make, say))
    except (OSError, RuntimeError, ValueError) as error:  # Dask wraps an OSError in a RuntimeError
        raise InformerError(f"address: {address}: {error.__cause__ or error}") from error


async def _serve_until_signal(make: Callable[[], Awaitable[Scheduler | Worker]], say: Say) -> None:
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    stop = asyncio.create_task(signalled.wait())
    while not stop.done():
        starting = asyncio.ensure_future(make())
        await asyncio.wait([stop, starting], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        node = starting.result()
        say(f"{type(node).__name__.lower()} at {node.address}")
        await asyncio.wait([stop, asyncio.create_task(node.finished())], return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            say("the scheduler is gone; waiting for it")
        await node.close()
