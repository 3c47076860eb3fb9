"""Sends units to hosts and collects their results, even if a host, the scheduler or the collector dies.

Dask carries calls, limits what runs at a host by its resources, and keeps results for whoever asks for them next. Where
a unit runs is decided here: Dask queues units at one host while another is idle (ten units of equal size on hosts with
room for one, three and one: 12 s where 6 would do).
"""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import dask
import msgspec
from distributed import Client, Future, LocalCluster, Scheduler
from distributed.comm.core import FatalCommClosedError
from distributed.security import Security

from ci.informer.engine import host
from ci.informer.engine.announce import GIB, MIB, RELEASE, VCPU, amount, announced, version_differs, why_not
from ci.informer.engine.host import HERE, LOOPBACK, SETTINGS, Say
from ci.informer.engine.unit import Result, Unit, ready, void
from ci.informer.errors import InformerError
from lab.host.budget import Amount
from lab.host.paths import state_dir

#: Seconds between looks at which hosts are there; that the engine waits for a scheduler, and for a host that fits.
LOOK, PATIENCE = 1.0, 600.0
#: Hosts that a unit may lose before its run is invalid.
MOST_LOST = 3


@dataclass
class Place:
    """A host that is connected: what it announced, and what of it is free. `sent`: releases that it has copied."""

    name: str
    has: Mapping[str, float]
    free: Amount
    sent: set[str] = field(default_factory=set)

    def takes(self, unit: Unit) -> Amount:
        """Return the part that a unit takes of it: no more processors than it has."""
        return msgspec.structs.replace(unit.needs, vcpu=min(unit.needs.vcpu, int(self.has.get(VCPU, 0))))

    def knows(self, release: str) -> bool:
        """Tell whether it need not copy a release, which takes minutes, before a run."""
        return bool(release) and (release in self.sent or RELEASE + release in self.has)


@dataclass
class Flight:
    """A unit that was sent to a host, and has not ended."""

    unit: Unit
    address: str
    future: Future[bytes]


def _workers(dask_scheduler: Scheduler) -> dict[str, tuple[str, dict[str, float], dict[str, float]]]:
    """Return the name of each worker, its resources, and what of them is taken, whoever sent it; run by the
    scheduler."""
    return {
        address: (str(worker.name), dict(worker.resources), dict(worker.used_resources))
        for address, worker in dask_scheduler.workers.items()
    }


class Engine:
    """Runs units on hosts. Use it as a context manager.

    Without an address it is this machine alone, with at most `side_by_side` units at a time. With one
    (`tls://HOST:PORT`) units run on the workers of the scheduler there, which share the folders of units with this
    machine. `say` takes a line for people.
    """

    def __init__(
        self,
        say: Say,
        *,
        address: str = "",
        security: Security | None = None,
        side_by_side: int = 1,
        patience: float = PATIENCE,
    ) -> None:
        self._say, self._address, self._security = say, address, security
        self._most, self._patience = host.MOST_UNITS if address else side_by_side, patience
        self._waiting: list[Unit] = []
        self._flights: dict[str, Flight] = {}  # by the keys of Dask's tasks
        self._losses: dict[str, int] = {}
        self._places: dict[str, Place] = {}
        self._done: queue.Queue[str] = queue.Queue()
        self._cluster: LocalCluster | None = None
        self._client: Client

    def __enter__(self) -> Engine:
        # Dask reads its settings whenever it starts something.
        dask.config.set(SETTINGS)
        if self._address:
            self._connect()
        else:
            self._cluster = LocalCluster(
                n_workers=1,
                processes=False,
                threads_per_worker=host.MOST_UNITS,
                resources=announced(),
                memory_limit=0,
                local_directory=str(state_dir()),
                dashboard_address=LOOPBACK,
                worker_dashboard_address=LOOPBACK,
                silence_logs=50,
            )
            self._client = Client(self._cluster)
        self._look()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Units that still run are ended: after Ctrl-C, at the end of a night, or if no host can run one.
        with suppress(OSError, TimeoutError):
            self._take_back(*self._flights)
        for closing in (self._client, self._cluster):
            if closing is not None:
                closing.close(timeout=10)

    # -- hosts -------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        deadline, reported = time.monotonic() + self._patience, False
        while True:
            try:
                self._client = Client(
                    self._address, security=self._security, timeout=5, set_as_default=False, name="node0-ci"
                )
                return
            except FatalCommClosedError as error:
                raise InformerError(f"scheduler: {self._address}: its key is not that of --tls") from error
            except (OSError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise InformerError(
                        f"scheduler: {self._address}: does not answer after {self._patience:.0f} s: {error}"
                    ) from error
                if not reported:
                    self._say(f"the scheduler at {self._address} does not answer; trying again")
                reported = True
                time.sleep(LOOK)

    def hosts(self) -> dict[str, Mapping[str, float]]:
        """Return each host's announcement, by its name."""
        return {place.name: place.has for place in self._places.values()}

    def _look(self) -> None:
        """Note hosts that have come or gone, and take units back that were lost."""
        cut = any(flight.future.status in ("cancelled", "lost") for flight in self._flights.values())
        try:
            workers = None if cut or self._client.status != "running" else self._client.run_on_scheduler(_workers)
        except (OSError, TimeoutError):
            workers = None
        if workers is None:
            # What runs goes on where only this connection broke, and is adopted; a scheduler's end ends it.
            self._say(f"the scheduler at {self._address} is gone")
            self._client.close(timeout=2)
            self._waiting[:0] = [flight.unit for flight in self._flights.values()]
            self._flights.clear()
            self._connect()
            workers = self._client.run_on_scheduler(_workers)
        places = {}
        for address, (name, has, used) in workers.items():
            old = self._places.get(address)
            place = Place(name if self._address else HERE, has, amount(has) - amount(used))
            places[address] = place
            if old:
                place.sent = old.sent
            elif self._address:
                self._say(f"host {name} is there: {amount(has)}")
                if version_differs(has):
                    self._say(f"host {name} gets no units: {why_not(Unit(key='', payload='', scenario=''), has)}")
        for address in self._places.keys() - places:
            self._say(f"host {self._places[address].name} is gone")
        self._places = places
        self._adopt()
        for key, flight in list(self._flights.items()):
            if flight.address not in places:
                self._losses[flight.unit.key] = self._losses.get(flight.unit.key, 0) + 1
                self._take_back(key)
                self._waiting.insert(0, flight.unit)

    def _take_back(self, *keys: str) -> None:
        """Take units back from their hosts, which end them."""
        flights = [self._flights.pop(key) for key in keys]
        self._client.cancel([flight.future for flight in flights], force=True)
        self.recorded(*(flight.unit.key for flight in flights))
        units, addresses = [flight.unit.key for flight in flights], {flight.address for flight in flights}
        there = list(addresses.intersection(self._places))
        if there:
            self._client.run(host.stop, units, workers=there, wait=not self._address, on_error="ignore")

    def _adopt(self) -> None:
        """Go on with units that a collector, which was killed or cut off, had sent."""
        kept = set(self._client.list_datasets()) if self._waiting else set()
        for unit in [unit for unit in self._waiting if unit.key in kept]:
            self._waiting.remove(unit)
            address, future = self._client.get_dataset(unit.key)
            self._say(f"{unit.job}: was sent already")
            self._await(Flight(unit, address, future))

    # -- units -------------------------------------------------------------------------------------------------------

    def submit(self, units: Sequence[Unit]) -> None:
        """Units to be run, the first ones first."""
        self._waiting += units

    def recorded(self, *keys: str) -> None:
        """Note that the runs of these units are in the history: their results need not be kept any more."""
        with suppress(OSError, TimeoutError):
            for key in set(keys).intersection(self._client.list_datasets()):
                self._client.unpublish_dataset(key)

    @property
    def remote(self) -> bool:
        """Tell whether units run elsewhere."""
        return bool(self._address)

    @property
    def idle(self) -> bool:
        """Tell whether nothing waits or runs."""
        return not self._waiting and not self._flights

    def _send(self, unit: Unit, address: str) -> None:
        place = self._places[address]
        self._say(f"{unit.job}: " + (f"to {place.name}" if self._address else "begins"))
        if self._address:
            ready(Path(unit.folder), unit.key)
        takes = place.takes(unit)
        place.free -= takes
        place.sent.add(unit.digest)
        future = self._client.submit(
            host.perform,
            msgspec.json.encode(unit),
            self.remote,
            key=f"{unit.key}#{uuid.uuid4().hex}",
            workers=[address],
            resources={MIB: takes.mib, VCPU: takes.vcpu, GIB: takes.disk_gib},
            pure=False,
            retries=0,
        )
        # Dask keeps what somebody has published, even if the collector is gone.
        self._client.publish_dataset((address, future), name=unit.key, override=True)
        self._await(Flight(unit, address, future))

    def _await(self, flight: Flight) -> None:
        key = str(flight.future.key)
        self._flights[key] = flight
        flight.future.add_done_callback(lambda _: self._done.put(key))

    def _hand_out(self) -> None:
        """Send the units that fit, in their order. A host that the first unit without room waits for gets no others."""
        reserved = ""
        for unit in list(self._waiting):
            if len(self._flights) >= self._most:
                return
            able = {address: place for address, place in self._places.items() if not why_not(unit, place.has)}
            room = [a for a, place in able.items() if a != reserved and not place.takes(unit).short(place.free)]
            if room:
                self._waiting.remove(unit)
                self._send(unit, max(room, key=lambda host: (able[host].knows(unit.digest), able[host].free.mib)))
            elif able and not reserved:
                reserved = max(able, key=lambda address: able[address].free.mib)

    def _unfit(self) -> None:
        """Raise InformerError where hosts are there, and none can ever run what waits first."""
        whys = {place.name: why_not(self._waiting[0], place.has) for place in self._places.values()}
        if all(whys.values()):
            lines = "; ".join(f"{name}: {why}" for name, why in sorted(whys.items()))
            raise InformerError(f"scenario: {self._waiting[0].scenario!r}: no host can run it: {lines}")

    def ended(self) -> tuple[Unit, Result]:
        """Wait for the next unit that ends; its result, which is kept until `recorded` is called, so that a collector
        which was killed gets it again. Raises InformerError where no host can run what waits."""
        deadline = time.monotonic() + self._patience
        while True:
            self._look()
            for unit in self._waiting:
                if self._losses.get(unit.key, 0) > MOST_LOST:
                    self._waiting.remove(unit)
                    why = f"the {self._losses[unit.key]} hosts that it ran on were lost, one after another"
                    return unit, Result(run=void(unit, why))
            self._hand_out()
            if self._waiting and not self._flights:
                if self._places:
                    self._unfit()
                elif time.monotonic() > deadline:
                    raise InformerError(f"hosts: none has come to {self._address} in {self._patience:.0f} s")
            try:
                flight = self._flights.get(key := self._done.get(timeout=LOOK))
                if flight is None or flight.future.status not in ("finished", "error"):
                    continue  # the next look says whether its host or the scheduler is gone
                if error := flight.future.exception(timeout=LOOK):
                    result = Result(error=str(error), host=self._places[flight.address].name)
                else:
                    result = msgspec.json.decode(flight.future.result(timeout=LOOK * 30), type=Result)
            except queue.Empty:
                continue
            except TimeoutError:
                self._done.put(key)  # its host is busy, or gone
                continue
            del self._flights[key]
            return flight.unit, result
