"""Sends units to hosts and collects their results, even if a host, the scheduler or the collector dies.

Dask carries calls and tells who is there. Where a unit runs is decided here: Dask knows what a worker has, but not what
of it is taken, and leaves one idle while units queue at another (ten units of equal size on hosts with room for one,
three and one: 12 s where 6 would do). And a unit may outlive its scheduler: its host goes on with it, and whoever asks
for it next gets the same run.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

import dask
import msgspec
from distributed import Client, Future, LocalCluster
from distributed.comm.core import FatalCommClosedError
from distributed.security import Security

from ci.informer.engine import host
from ci.informer.engine.announce import VCPU, amount, announced, version_differs, why_not
from ci.informer.engine.evidence import fetch
from ci.informer.engine.places import Flight, Place
from ci.informer.engine.serving import LOOPBACK, SETTINGS, Say
from ci.informer.engine.unit import Result, Unit, ready, void
from ci.informer.errors import InformerError
from lab.evidence.folder import marks_of
from lab.host.budget import Amount

#: Seconds between looks at which hosts are there; until the units of a host that is gone are run elsewhere; that the
#: engine waits for a scheduler, and for a host that fits.
LOOK, GRACE, PATIENCE = 1.0, 30.0, 600.0
#: Hosts that a unit may lose before it is void.
MOST_LOST = 3


class Engine:
    """Runs units on hosts. Use it as a context manager.

    Without an address it is this machine alone, with at most `side_by_side` units at a time, whose evidence stays where
    it is written. With one (`tls://HOST:PORT`) units run on the workers of the scheduler there, and evidence is fetched
    to `evidence`, a folder a unit. `say` takes a line for people.
    """

    def __init__(
        self,
        say: Say,
        *,
        address: str = "",
        security: Security | None = None,
        spool: Path | None = None,
        side_by_side: int = 1,
        grace: float = GRACE,
        patience: float = PATIENCE,
    ) -> None:
        self._say, self._address, self._security = say, address, security
        self._spool, self._most = spool, side_by_side if not address else host.MOST_UNITS
        self._grace, self._patience = grace, patience
        self._waiting: list[Unit] = []
        self._flights: dict[str, Flight] = {}
        self._losses: dict[str, int] = {}
        self._places: dict[str, Place] = {}
        # Hosts that have not told yet which units they have.
        self._unasked: set[str] = set()
        self._warned_of: set[str] = set()
        self._done: queue.Queue[tuple[str, int, Future[bytes]]] = queue.Queue()
        self._turn = 0
        self._cluster: LocalCluster | None = None
        self._client: Client | None = None
        self._futures: dict[str, Future[bytes]] = {}
        # Hosts of results that are not in the history yet, by unit; units whose runs are in it.
        self._results: dict[str, str] = {}
        self._recorded: set[str] = set()

    def __enter__(self) -> Engine:
        # Dask reads its settings whenever it starts something.
        dask.config.set(SETTINGS)
        if self._address:
            self._connect()
        else:
            assert self._spool is not None, "the engine of this machine keeps results in a folder"
            host.become(host.Host("here", self._spool))
            self._cluster = LocalCluster(
                n_workers=1,
                processes=False,
                threads_per_worker=host.MOST_UNITS,
                resources=announced(),
                memory_limit=0,
                local_directory=str(self._spool.parent / "dask"),
                dashboard_address=LOOPBACK,
                worker_dashboard_address=LOOPBACK,
                silence_logs=50,
            )
            self._client = Client(self._cluster)
        self._look()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Units that still run are ended: after Ctrl-C, at the end of a night, or if no host can run one.
        for one in self._flights.values():
            if self._address:
                self._call(one.address, host.drop, one.unit.key)
            else:
                host.dropped(one.unit.key)
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
                raise InformerError(f"scheduler: {self._address}: its keys are not of the same CA as --tls") from error
            except (OSError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise InformerError(
                        f"scheduler: {self._address}: does not answer after {self._patience:.0f} s: {error}"
                    ) from error
                if not reported:
                    self._say(f"the scheduler at {self._address} does not answer; trying again")
                reported = True
                time.sleep(LOOK)

    def _call(self, address: str, function: Callable[..., object], *args: object) -> object:
        """Call a function on a host; None when the host does not answer."""
        assert self._client is not None
        try:
            return self._client.run(function, *args, workers=[address], on_error="raise")[address]
        except (OSError, TimeoutError, KeyError, ValueError, RuntimeError):
            return None

    def hosts(self) -> dict[str, Mapping[str, float]]:
        """What each host announced, by its name."""
        return {place.name: place.has for place in self._places.values()}

    def _present(self) -> dict[str, Place] | None:
        """The hosts that are connected, by address; None when the scheduler does not answer."""
        assert self._client is not None
        if self._client.status != "running":
            return None
        try:
            # Asked each time, as the client's own list may be from before the scheduler went away.
            workers = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]  # type: ignore[union-attr]
        except (OSError, TimeoutError, AttributeError):
            return None
        name = {} if self._address else {"name": "here"}
        return {address: Place(str({**one, **name}["name"]), one["resources"]) for address, one in workers.items()}

    def _look(self) -> None:
        """Note hosts that have come or gone, and go on with the units that new ones hold."""
        present = self._present()
        if present is None:
            self._say(f"the scheduler at {self._address} is gone; what runs goes on where it is")
            assert self._client is not None
            self._client.close(timeout=2)
            self._connect()
            present = self._present() or {}
            # Calls were lost with the scheduler; hosts are asked for their units once they have reconnected. Until now
            # they could not, so their grace begins here.
            self._places.clear()
            for one in self._flights.values():
                one.missing = time.monotonic()
        new = [address for address in present if address not in self._places]
        for address in [one for one in self._places if one not in present]:
            self._say(f"host {self._places.pop(address).name} is gone")
        for address in new:
            self._places[address] = present[address]
            if self._address:
                self._say(f"host {present[address].name} is there: {amount(present[address].has)}")
        self._count_others()
        now = time.monotonic()
        for one in self._flights.values():
            if one.address not in self._places and one.missing is None:
                one.missing = now
        # A call is lost with its connection, even if the host reconnects at once.
        cut = {one.address for one in self._flights.values() if one.missing is not None and one.address in present}
        self._unasked = self._unasked.intersection(present).union(new)
        for address in sorted(self._unasked | cut):
            self._adopt(address)
        for key, one in list(self._flights.items()):
            if one.missing is not None and now - one.missing >= self._grace:
                del self._flights[key]
                self._losses[key] = self._losses.get(key, 0) + 1
                self._waiting.insert(0, one.unit)

    def _count_others(self) -> None:
        """Ask hosts what other collectors' units take, where something waits for room."""
        for address, place in self._places.items() if self._address and self._waiting else ():
            # Hosts of another version get no units, and may not know the question.
            taken = self._call(address, host.taken) if not version_differs(place.has) else None
            theirs = taken.items() if isinstance(taken, dict) else ()
            place.others = sum((Amount(*one) for key, one in theirs if key not in self._flights), Amount())

    def _adopt(self, address: str) -> None:
        """Go on with units that a host which is new, or there again, holds from before."""
        held = self._call(address, host.units_here)
        if held is None:
            return  # busy, or on its way: asked again at the next look
        self._unasked.discard(address)
        for key, has_ended in held.items() if isinstance(held, dict) else ():
            flight = self._flights.get(key)
            unit = flight.unit if flight else next((unit for unit in self._waiting if unit.key == key), None)
            if unit is None:
                if key in self._recorded:  # its collector was killed before it could say so
                    self._call(address, host.drop, key)
                continue  # else another collector's
            if flight is not None and flight.missing is None:
                if flight.address == address:
                    continue
                our_host, there = self._places[address].name, flight.name
                if not has_ended:
                    self._say(f"{unit.job}: runs at {there} by now; {our_host} ends it")
                    self._call(address, host.drop, key)
                    continue
                # Taken for lost, and here it is: nothing is run to its end twice.
                self._say(f"{unit.job}: {our_host} has its result; {there} ends it")
                self._call(flight.address, host.drop, key)
                self._send(unit, address)
                continue
            if unit in self._waiting:
                self._waiting.remove(unit)
            self._say(f"{unit.job}: {self._places[address].name} has it still")
            self._send(unit, address)

    # -- units -------------------------------------------------------------------------------------------------------

    def submit(self, units: Sequence[Unit]) -> None:
        """Units to be run, the first ones first."""
        self._waiting += units
        for address in self._places:
            # Units that a killed collector had sent are taken over.
            if self._address:
                self._adopt(address)

    def recorded(self, *keys: str) -> None:
        """The runs of these units are in the history: hosts need not keep what came of them any more."""
        for key in keys:
            self._recorded.add(key)
            if (address := self._results.pop(key, "")) in self._places:
                self._call(address, host.drop, key)

    @property
    def remote(self) -> bool:
        """Whether units run elsewhere: evidence is fetched."""
        return bool(self._address)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self._waiting and not self._flights

    def _send(self, unit: Unit, address: str) -> None:
        assert self._client is not None
        self._turn += 1
        turn, key = self._turn, unit.key
        self._flights[key] = Flight(unit, self._places[address].name, address, turn)
        future = self._client.submit(
            host.perform, msgspec.json.encode(unit), key=f"{key}#{turn}", workers=[address], pure=False, retries=0
        )
        self._futures[key] = future
        future.add_done_callback(lambda done: self._done.put((key, turn, done)))

    def _free(self, address: str) -> Amount:
        units = (one.unit for one in self._flights.values() if one.address == address)
        taken = sum((self._takes(unit, address) for unit in units), Amount())
        return amount(self._places[address].has) - taken - self._places[address].others

    def _takes(self, unit: Unit, address: str) -> Amount:
        """What a unit takes of a host: no more processors than it has."""
        most = int(self._places[address].has.get(VCPU, 0))
        return msgspec.structs.replace(unit.needs, vcpu=min(unit.needs.vcpu, most))

    def _hand_out(self) -> None:
        """Send the units that fit, in their order. A host that the first unit without room waits for gets no others."""
        reserved = ""
        for unit in list(self._waiting):
            if len(self._flights) >= self._most:
                return
            able = [address for address, place in self._places.items() if not why_not(unit, place.has)]
            fits = [address for address in able if not self._takes(unit, address).short(self._free(address))]
            room = [address for address in fits if address != reserved]
            if room:
                self._waiting.remove(unit)
                best = max(room, key=lambda one: (self._places[one].knows(unit.digest), self._free(one).mib))
                self._say(f"{unit.job}: " + (f"to {self._places[best].name}" if self._address else "begins"))
                self._places[best].sent.add(unit.digest)
                self._send(unit, best)
            elif able and not reserved:
                reserved = max(able, key=lambda address: self._free(address).mib)

    def _unfit(self) -> None:
        """Raises InformerError where hosts are there, and none can ever run what waits first."""
        for unit in self._waiting[:1]:
            whys = {place.name: why_not(unit, place.has) for place in self._places.values()}
            if not whys or not all(whys.values()):
                continue
            lines = "; ".join(f"{name}: {why}" for name, why in sorted(whys.items()))
            raise InformerError(f"scenario: {unit.scenario!r}: no host can run it: {lines}")

    def _tell_full(self) -> None:
        """Say, once, that the hosts are full with runs of other collectors."""
        if any(place.others.mib for place in self._places.values()) and "full" not in self._warned_of:
            self._warned_of.add("full")
            self._say(f"{self._waiting[0].job}: waits; other collectors' runs have the hosts' room")

    def _tell_misfits(self) -> None:
        """Say, once a host, that it gets no units because its code has another version."""
        for unit in self._waiting[:1]:
            for place in self._places.values():
                why = why_not(unit, place.has)
                if "version" in why and place.name not in self._warned_of:
                    self._warned_of.add(place.name)
                    self._say(f"host {place.name} gets no units: {why}")

    def ended(self, evidence: Callable[[Unit], Path]) -> tuple[Unit, Result]:
        """Wait for the next unit that ends; its result, and its evidence where `evidence` says.

        Its host keeps both until `recorded` is called, so that a collector which was killed gets them again.
        Raises InformerError where no host can run what waits.
        """
        since = time.monotonic()
        while True:
            self._tell_misfits()
            self._hand_out()
            if self._waiting and not self._flights:
                if self._places:
                    self._unfit()
                    self._tell_full()
                elif time.monotonic() - since > self._patience:
                    raise InformerError(f"hosts: none has come to {self._address} in {self._patience:.0f} s")
            try:
                key, turn, future = self._done.get(timeout=LOOK)
            except queue.Empty:
                self._look()
                if (lost := self._lost()) is not None:
                    return lost
                continue
            flight = self._flights.get(key)
            if flight is None or flight.turn != turn:
                continue  # of an earlier turn, whose host or scheduler went
            if future.status != "finished":
                # The host or the scheduler is gone; the next look says which.
                flight.missing = flight.missing or time.monotonic()
                continue
            result = msgspec.json.decode(future.result(), type=Result)
            self._futures.pop(key, None)
            if result.full:
                # Another collector was quicker.
                del self._flights[key]
                self._waiting.insert(0, flight.unit)
                self._count_others()
                continue
            if result.run is not None and not flight.unit.folder:
                folder = evidence(flight.unit)
                ready(folder, key)
                fetch(partial(self._call, flight.address, host.chunk, key), folder, flight.name)
                run = replace(result.run, folder=str(folder), mark=marks_of(folder))
                result = msgspec.structs.replace(result, run=run)
            self._results[key] = flight.address
            del self._flights[key]
            return flight.unit, result

    def _lost(self) -> tuple[Unit, Result] | None:
        """A unit that has lost more than MOST_LOST hosts: it is void."""
        for unit in self._waiting:
            if self._losses.get(unit.key, 0) > MOST_LOST:
                self._waiting.remove(unit)
                why = f"the {self._losses[unit.key]} hosts that it ran on were lost, one after another"
                return unit, Result(run=void(unit, why))
        return None
