"""Virtual time: an event loop whose clock jumps to the next timer, and threads of which at most one runs at a time.

The service is asyncio and runs on the loop. Agents and orchestrators block, so each has a thread; the loop hands it the
turn and stands still until the thread sleeps, asks the network or ends. So the order of everything is that of the loop,
which is that of its timers, and nothing depends on how fast this machine is.

Tried first: looptime 0.9 moves a loop's clock when it is idle, and aiotools' VirtualClock does so in fewer lines; but
with both the threads of executors run beside the loop in real time, and code that blocks is outside of it. What remains
for a library to do is one method, ``VirtualLoop.select``. Greenlets would do for threads, and be one more package.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

# How long (s of real time) a thread may hold the turn: one that blocks on anything else would hold it for ever.
STUCK = 120.0
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stopped(BaseException):
    """The thread's host has lost its power. No Exception: an agent survives those."""


class Idle(Exception):
    """Nothing is scheduled any more, so what is waited for will never come."""


class _Selector(selectors.SelectSelector):
    """No descriptor is waited for: time passes instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Idle("nothing is scheduled any more")
        self.loop.moment += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds since its start are ``moment``. What the loop gives to threads is done at a time drawn from a seed."""

    def __init__(self, seed: str) -> None:
        self.moment = 0.0
        #: How long it takes (s) what the service has threads of its own for.
        self.slow_seconds: Callable[[], float] = lambda: 0.0
        self._random = random.Random(f"{seed} executors")
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Return the seconds since the start."""
        return self.moment

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call ``func`` when a thread would have come to its end."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self._random.expovariate(500.0) if executor is None else self.slow_seconds(), work)
        return future


class Worker:
    """A thread that runs while the loop stands still. ``host``: whose it is; all of a host's stop together."""

    def __init__(self, name: str, host: str, function: Callable[[], None]) -> None:
        self.name, self.host, self.stopped = name, host, False
        self.go = threading.Semaphore(0)
        self._function = function
        self.error: BaseException | None = None
        self.ended: Callable[[], None] = lambda: None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.stopped:
                self._function()
        except Stopped:
            pass
        except BaseException as error:
            # The loop raises it: a thread's own end would not be noticed.
            self.error = error
        self.ended()


class Workers:
    """Hands the turn to one thread at a time. Its methods are called by whoever has the turn, a worker or the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.current: Worker | None = None
        self._back = threading.Semaphore(0)
        self._alive: dict[Worker, None] = {}

    def start(self, name: str, host: str, function: Callable[[], None]) -> Worker:
        """Start a thread, which gets its first turn soon. Raises Stopped when the caller's own host has stopped."""
        if self.current is not None and self.current.stopped:
            raise Stopped
        worker = Worker(name, host, function)

        def ended() -> None:
            del self._alive[worker]
            self._back.release()

        worker.ended = ended
        self._alive[worker] = None
        worker.thread.start()
        self.loop.call_soon(self.run, worker)
        return worker

    def run(self, worker: Worker) -> None:
        """Give a worker the turn until it waits or ends; nothing when it has ended. From the loop alone."""
        if worker not in self._alive:
            return
        self.current = worker
        worker.go.release()
        if not self._back.acquire(timeout=STUCK):
            raise RuntimeError(f"{worker.name} of {worker.host} has had the turn for {STUCK:.0f} s")
        self.current = None
        if worker.error is not None:
            raise worker.error

    def me(self) -> Worker:
        """Return the worker that has the turn."""
        if self.current is None:
            raise RuntimeError("the loop itself must not wait")
        return self.current

    def pause(self) -> None:
        """Give the turn back until somebody calls ``run``. Raises Stopped."""
        worker = self.me()
        if not worker.stopped:
            self._back.release()
            worker.go.acquire()
        if worker.stopped:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time. Raises Stopped."""
        timer = self.loop.call_later(max(0.0, seconds), self.run, self.me())
        try:
            self.pause()
        finally:
            timer.cancel()

    def of(self, host: str) -> list[Worker]:
        """List the threads of a host, oldest first."""
        return [worker for worker in self._alive if worker.host == host]

    def stop(self, workers: Iterable[Worker]) -> None:
        """End threads wherever they wait, as a power cut does. From the loop alone."""
        for worker in workers:
            worker.stopped = True
            self.run(worker)

    def stop_all(self) -> None:
        """End all threads. From the loop alone, or after it."""
        while self._alive:
            self.stop(tuple(self._alive))


class Lock:
    """In the place of threading.Lock among workers: first come, first served."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._held = False
        self._waiting: deque[Worker] = deque()

    def __enter__(self) -> None:
        if self._workers.current is None:
            return  # the loop's own calls hold nothing: no worker runs meanwhile
        while self._held:
            self._waiting.append(self._workers.me())
            self._workers.pause()
        self._held = True

    def __exit__(self, *error: object) -> None:
        if self._workers.current is None:
            return
        self._held = False
        if self._waiting:
            self._workers.loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        # A worker whose host has stopped meanwhile no longer wants it.
        while self._waiting and not self._held:
            self._workers.run(self._waiting.popleft())
