"""The processes of an engine that has several hosts: a scheduler, and a worker a host."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import dask
from distributed import Scheduler, Worker
from distributed.security import Security
from filelock import FileLock, Timeout

from ci.informer.engine import host
from ci.informer.engine.announce import amount
from ci.informer.errors import InformerError

#: Seconds between attempts to reach a scheduler that is gone.
_AGAIN = 2.0

Say = Callable[[str], None]
#: The address of Dask's own pages, which cannot be switched off: only this machine reaches it.
LOOPBACK = "127.0.0.1:0"

#: Dask does not do what the engine does: decide where a unit runs, and what a host's memory is for.
SETTINGS = {
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.log-length": 0,
    # Fifty times a second, by default, it looks how late its event loop is: 2 % of a processor for each idle process.
    "distributed.admin.tick.interval": "1s",
    "distributed.comm.timeouts.connect": "10s",
}


def _quiet() -> None:
    """Dask tells of each connection that comes and goes, and with a traceback of a scheduler that does not answer: what
    a person needs to know is said here."""
    logging.getLogger("distributed").setLevel(logging.WARNING)
    for part in ("distributed.worker", "distributed.comm.tcp", "asyncio"):
        logging.getLogger(part).addFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a log record of Dask's is shown. What this module reports itself is not shown, nor a handshake in
    which the peer went away before it had shown its keys (it was killed, or probed the port). Wrong keys are."""
    raised = record.exc_info[1] if record.exc_info else None
    if record.name == "asyncio" and isinstance(raised, OSError):
        # Reset before it was accepted, which asyncio shows a traceback of.
        return not (isinstance(raised, ConnectionError) or raised.errno == errno.ENOTCONN)
    if "TLS handshake failed" in str(record.msg) and isinstance(record.args, tuple):
        return not any(map(_gone, record.args))
    return not record.getMessage().startswith("Failed to communicate with scheduler")


def _gone(error: object) -> bool:
    """Whether a handshake failed because the peer went away, and not because of what it had shown."""
    if isinstance(error, ssl.SSLError):
        return isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    return isinstance(error, OSError)


async def _until_told() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()


async def _scheduler(address: str, security: Security | None, say: Say) -> None:
    name, _, port = address.partition("://")[2].rpartition(":")
    protocol = address.partition("://")[0]
    async with Scheduler(
        host=name.strip("[]"),
        port=int(port),
        protocol=protocol,
        security=security,
        dashboard=False,
        dashboard_address=LOOPBACK,
    ) as one:
        say(f"scheduler at {one.address}")
        await _until_told()


def scheduler(address: str, security: Security | None, say: Say) -> None:
    """Be the scheduler until SIGTERM or SIGINT. Raises InformerError where the address cannot be used."""
    _quiet()
    try:
        with dask.config.set(SETTINGS):
            asyncio.run(_scheduler(address, security, say))
    except (OSError, RuntimeError) as error:  # Dask wraps an OSError in a RuntimeError
        raise InformerError(f"address: {address}: {error.__cause__ or error}") from error


async def _worker(
    address: str, security: Security | None, name: str, announced: Mapping[str, float], *, spool: Path, say: Say
) -> None:
    stop = asyncio.create_task(_until_told())
    missed = False
    while not stop.done():
        try:
            worker = Worker(
                address,
                name=name,
                nthreads=host.MOST_UNITS,
                resources=dict(announced),
                memory_limit=0,
                security=security,
                local_directory=str(spool.parent),
                dashboard=False,
                dashboard_address=LOOPBACK,
                death_timeout="20s",
            )
            await worker
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            if not missed:
                say(f"the scheduler at {address} does not answer ({error}); trying again")
            missed = True
            await asyncio.wait([stop], timeout=_AGAIN)
            continue
        missed = False
        say(f"host {name} at {worker.address}, waiting for units")
        ended = asyncio.create_task(worker.finished())
        await asyncio.wait([stop, ended], return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            # Its threads may be in the midst of a unit.
            await worker.close(timeout=5, executor_wait=False, nanny=False)
        else:
            say(f"the scheduler at {address} is gone; what runs goes on")


def worker(
    address: str, security: Security | None, name: str, announced: Mapping[str, float], *, spool: Path, say: Say
) -> None:
    """Be a host until SIGTERM or SIGINT, which end what runs; a scheduler that is gone is waited for, and what runs
    goes on. Raises InformerError where another worker has the spool."""
    _quiet()
    spool.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(spool.with_name(f"{spool.name}.lock"), timeout=0), dask.config.set(SETTINGS):
            this_host = host.Host(name, spool, amount(announced))
            host.become(this_host)
            asyncio.run(_worker(address, security, name, announced, spool=spool, say=say))
            if running := this_host.running:
                say(f"ending what runs: {', '.join(running)}")
            this_host.close()
    except Timeout as error:
        raise InformerError(f"spool: {spool}: another worker of this machine uses it: --name, --spool") from error
