"""Replacements, for the length of a replay, of all in the installer's own code that is not deterministic.

Clocks, random numbers, ids, threads, sockets and programs are looked up in their modules when they are used, so they
are replaced there. Defaults of parameters were looked up when the module was read: those that are clocks are exchanged
in the functions that have them, whichever they are.
"""

from __future__ import annotations

import os
import random
import secrets
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from jwt import api_jwt

from installer.agent import loop as agent_loop
from installer.hostsys import commands
from installer.rendezvous import clock
from installer.testing.replay.turns import Lock, Workers

# The wall clock at the start (s since the epoch): 2026-01-01.
EPOCH = 1767225600.0
# Long enough that nothing subtracts itself below zero.
BOOTED = 1000.0


class Thread:
    """In the place of threading.Thread in the agent: a worker of the host that starts it."""

    workers: Workers

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], name: str, daemon: bool) -> None:
        self._work, self._name = lambda: target(*args), name

    def start(self) -> None:
        """Start it."""
        self.workers.start(self._name, self.workers.me().host, self._work)


def _installer_functions() -> Iterator[FunctionType]:
    """Yield the functions and methods of all modules of the installer that have been read."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("installer.") or not isinstance(module, ModuleType):
            continue
        for value in tuple(vars(module).values()):
            if isinstance(value, FunctionType) and value.__module__ == name:
                yield value
            elif isinstance(value, type) and value.__module__ == name:
                yield from (item for item in vars(value).values() if isinstance(item, FunctionType))


@contextmanager
def _defaults(exchanged: dict[Any, Any]) -> Iterator[None]:
    before: list[tuple[FunctionType, Any, Any]] = []

    def new(value: Any) -> Any:
        return exchanged.get(value, value) if isinstance(value, type(time.monotonic)) else value

    try:
        for function in _installer_functions():
            plain, named = function.__defaults__, function.__kwdefaults__
            if any(new(value) is not value for value in (*(plain or ()), *(named or {}).values())):
                before.append((function, plain, named))
                function.__defaults__ = plain and tuple(map(new, plain))
                function.__kwdefaults__ = named and {key: new(value) for key, value in named.items()}
        yield
    finally:
        for function, plain, named in before:
            function.__defaults__, function.__kwdefaults__ = plain, named


@contextmanager
def replaced(
    seed: str,
    workers: Workers,
    *,
    connect: Callable[..., Any],
    run: Callable[..., commands.Completed],
    wall: Callable[[], float],
) -> Iterator[None]:
    """Provide virtual clocks (``wall`` is what may be set), seeded numbers, and this network and these programs."""
    loop = workers.loop

    def monotonic() -> float:
        return BOOTED + loop.moment

    class Datetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.fromtimestamp(wall(), tz)

    class WorkersThread(Thread):
        pass

    WorkersThread.workers = workers
    threads = SimpleNamespace(Thread=WorkersThread, Lock=lambda: Lock(workers))
    ids = random.Random(f"{seed} ids")
    state = random.getstate()
    patches: tuple[tuple[Any, str, Any], ...] = (
        (time, "time", wall),
        (time, "monotonic", monotonic),
        (time, "sleep", workers.sleep),
        (clock, "datetime", Datetime),
        (api_jwt, "datetime", Datetime),
        (os, "urandom", ids.randbytes),
        (secrets, "_sysrand", ids),
        (agent_loop, "threading", threads),
        (socket, "create_connection", connect),
        (select, "poll", Poll),
        (commands, "run", run),
    )
    with ExitStack() as stack:
        stack.enter_context(_defaults({time.monotonic: monotonic, time.sleep: workers.sleep}))
        for place, name, value in patches:
            stack.enter_context(mock.patch.object(place, name, value))
        stack.callback(random.setstate, state)
        random.seed(seed)
        yield


class Poll:
    """In the place of select.poll: has a virtual socket something to read, or ended?"""

    def __init__(self) -> None:
        self._watched: Any = None

    def register(self, watched: Any, events: int) -> None:
        """Watch it."""
        self._watched = watched

    def poll(self, timeout: float) -> list[tuple[Any, int]]:
        """List it when it is readable now."""
        return [(self._watched, select.POLLIN)] if self._watched.is_readable() else []
