"""Bugs that are planted to see whether replays find them: a line of the real code each, exchanged at run time."""

from __future__ import annotations
import __future__ as future

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from installer.assisted.enums import HostStatus, Role
from installer.rendezvous.states import cluster as cluster_states
from installer.rendezvous.states import host as host_states


@dataclass(frozen=True)
class Line:
    """A piece of a function's text, and what stands there instead. ``function``: with its class, if it has one."""

    module: str
    function: str
    right: str
    wrong: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Exchange it for the length of the block, for all that have imported the function as well."""
        function: Any = importlib.import_module(f"installer.{self.module}")
        for name in self.function.split("."):
            function = getattr(function, name)
        text = textwrap.dedent(inspect.getsource(function))
        if text.count(self.right) != 1:
            raise LookupError(f"{self.module}.{self.function} does not have {self.right!r} once")
        flags = future.annotations.compiler_flag
        place: dict[str, Any] = {}
        exec(compile(text.replace(self.right, self.wrong), self.module, "exec", flags), function.__globals__, place)
        other = place[function.__name__]
        right = function.__code__
        function.__code__ = other.__code__
        try:
            yield
        finally:
            function.__code__ = right


@dataclass(frozen=True)
class Rows:
    """A state table, and what is done to its rows."""

    states: Any
    change: Callable[[Any], Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Exchange the table for the length of the block."""
        rows = tuple(row for row in map(self.change, self.states.TABLE) if row is not None)
        if rows == self.states.TABLE:
            raise LookupError(f"{self.states.__name__}: no row has changed")
        with mock.patch.object(self.states, "TABLE", rows):
            yield


def _without(*guards: Any) -> Callable[[Any], Any]:
    return lambda row: None if any(guard in row.guards for guard in guards) else row


def _one_master(row: Any) -> Any:
    wrong = cluster_states.ClusterGuard(lambda facts: facts.count(Role.MASTER, HostStatus.INSTALLED) >= 1)
    guards = tuple(wrong if guard is cluster_states.INSTALLED else guard for guard in row.guards)
    return cluster_states.Row(row.trigger, row.sources, row.to, row.info, guards)


AUTH = "assisted.auth"
#: By what is wrong.
BUGS: dict[str, tuple[Line | Rows, ...]] = {
    "state table: no stage of a host times out": (
        Rows(host_states, _without(host_states.STAGE_TIMEOUT)),
    ),
    "state table: a cluster's failure does not reach its hosts": (
        Rows(host_states, _without(host_states.CLUSTER_ERROR)),
    ),
    "state table: a cluster is finalizing with its first master": (
        Rows(cluster_states, _one_master),
    ),
    "stages: a late report takes a host back": (
        Line("rendezvous.resources.hosts", "progress", "ordered.index(stage) < ordered.index(old.current_stage)", "0"),
    ),
    "attempts: requests of an attempt that is over are taken": (
        Line("rendezvous.resources.clusters", "check_attempt", "attempt != attempt", "attempt is None"),
    ),
    "attempts: what was prepared for an earlier attempt is installed": (
        Line("rendezvous.resources.clusters", "finish_preparation", " or cluster.attempt != attempt", ""),
        Line("rendezvous.api.context", "Service.start_preparations", "if attempt not in wanted", "if False"),
    ),
    "attempts: an orchestrator goes on when it is no longer wanted": (
        Line("orchestrator.report", "Reporter._retry", "self._check_wanted()", "pass"),
    ),
    "retries: a step that was lost is not asked for again": (
        Line("rendezvous.steps.instructions", "plan", "ONCE_RETRY.get(kind, 10**9)", "10**9"),
    ),
    "retries: an orchestrator gives up its reports at the first error": (
        Line("orchestrator.report", "Reporter._retry", "not error.is_passing or", "True or"),
    ),
    "store: the last host of a change is not written": (
        Line("rendezvous.store.database", "Store._flush", "in self._open_hosts", "in list(self._open_hosts)[:-1]"),
    ),
    "tokens: they are good for ever once they were": (
        Line(AUTH, "Authenticator._scheme_of", "time.time() >= proof[1]", "False"),
        Line(AUTH, "Authenticator.recognized", " and time.time() < seen[1]", ""),
    ),
    "clock: a wall clock that is set counts as time that has passed": (
        Line("rendezvous.reconcile.timekeeping", "Timekeeper.look", "self._move(jump, jump)", "pass"),
    ),
}  # fmt: skip


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the installer suffer from a bug for the length of the block."""
    with ExitStack() as stack:
        for piece in BUGS[name]:
            stack.enter_context(piece.planted())
        yield
