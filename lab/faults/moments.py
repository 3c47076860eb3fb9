"""Moments of an installation at which a fault begins or ends, as data.

{stage: Writing image to disk, percent: 40, host: master-1}     that stage, or a later one
{event: registered to cluster}                                  an event of the service's matches
{console: 'login:', host: master-0}                             a line on a host's console matches
{status: installing}                                            the cluster's status; with `host`, that host's
{seconds: 20}                                                   so long after the machines were powered on
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lab.errors import LabError
from lab.waiting import wait_until

POLL_SECONDS = 0.5
LONGEST_SECONDS = 24 * 3600


class Watched(Protocol):
    """An installation that can be looked at from outside."""

    def rest(self, path: str) -> Any:
        """Return the service's answer to GET, decoded. Raises OSError while it does not answer."""

    def console_log(self, host: str) -> Path:
        """Return the file with a host's console."""


class Moment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One of the forms above; exactly one of stage, event, console, status and seconds is given."""

    stage: str = ""
    event: str = ""
    console: str = ""
    status: str = ""
    seconds: float | None = None
    host: str = ""
    percent: int = 0

    def __post_init__(self) -> None:
        forms = [name for name in ("stage", "event", "console", "status") if getattr(self, name)]
        forms += ["seconds"] if self.seconds is not None else []
        if len(forms) != 1:
            raise ValueError(
                f"must be one of stage, event, console, status and seconds, is {', '.join(forms) or 'none'}"
            )
        if forms[0] in ("stage", "console") and not self.host:
            raise ValueError(f"{forms[0]}: host: missing")
        if forms[0] in ("event", "seconds") and self.host:
            raise ValueError(f"{forms[0]}: has no host")
        if self.percent and not self.stage:
            raise ValueError("percent: only a stage has it")
        if not 0 <= self.percent <= 100:
            raise ValueError("percent: want 0 to 100")
        # What is no number never comes.
        if self.seconds is not None and not 0 <= self.seconds <= LONGEST_SECONDS:
            raise ValueError(f"seconds: want 0 to {LONGEST_SECONDS}")
        for name in ("event", "console"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                raise ValueError(f"{name}: {error}") from error

    def wait(
        self,
        watched: Watched,
        began: float,
        timeout: float,
        over: threading.Event | None = None,
        *,
        poll: float = POLL_SECONDS,
    ) -> bool:
        """Return when it is here, `timeout` seconds from now at most, or `over` is set before: whether it came.

        `began` is when the machines were powered on, on the monotonic clock. Raises WaitTimeout, which says what was
        seen last.
        """
        check, ended = self._check(watched, began), over or threading.Event()
        wait_until(lambda: ended.is_set() or check(), timeout, f"the moment {self}", poll=poll)
        return not ended.is_set()

    def _check(self, watched: Watched, began: float) -> Callable[[], object]:
        if self.seconds is not None:
            end = began + self.seconds
            return lambda: time.monotonic() >= end
        if self.console:
            wanted = re.compile(self.console, re.MULTILINE)
            path = watched.console_log(self.host)
            return lambda: path.exists() and wanted.search(path.read_bytes().decode(errors="replace"))
        return lambda: self._seen(watched)

    def _seen(self, watched: Watched) -> bool:
        """Return whether the service reports this moment. Raises LabError with what it reports instead."""
        if self.event:
            messages = [str(event.get("message", "")) for event in watched.rest("events")]
            return _met(any(re.search(self.event, message) for message in messages), messages[-1:] or "no event")
        if not self.host:
            status = str(_cluster(watched.rest("clusters")).get("status"))
            return _met(status == self.status, status)
        host = _host(watched, self.host)
        if self.status:
            return _met(host.get("status") == self.status, host.get("status"))
        return _met(reached(host, self.stage, self.percent), host.get("progress"))


def _met(reached: bool, otherwise: object) -> bool:
    if not reached:
        raise LabError(str(otherwise))
    return True


def _cluster(clusters: Any) -> dict[str, Any]:
    if not clusters:
        raise LabError("the service has no cluster yet")
    cluster: dict[str, Any] = clusters[0]
    return cluster


def _host(watched: Watched, name: str) -> dict[str, Any]:
    cluster = _cluster(watched.rest("clusters"))
    hosts = cluster.get("hosts") or watched.rest(f"clusters/{cluster['id']}").get("hosts") or []
    by_name = {str(host.get("requested_hostname")): host for host in hosts}
    if name not in by_name:
        raise LabError(f"the service knows {', '.join(by_name) or 'no host'}")
    host: dict[str, Any] = by_name[name]
    return host


def reached(host: dict[str, Any], stage: str, percent: int = 0) -> bool:
    """Return whether a host, as the REST API shows it, is at this stage, so far in it, or beyond.

    Raises LabError when it never comes there.
    """
    stages = [str(name) for name in host.get("progress_stages") or []]
    progress = host.get("progress") or {}
    now = str(progress.get("current_stage") or "")
    if not now:
        return False
    if stage not in stages:
        raise LabError(f"{host.get('requested_hostname')} has no stage {stage!r} but {', '.join(stages)}")
    if now not in stages:
        return now in ("Done", "Failed")
    if stages.index(now) != stages.index(stage):
        return stages.index(now) > stages.index(stage)
    info = re.match(r"(\d+)%", str(progress.get("progress_info") or "0%"))
    return int(info[1]) >= percent if info else percent == 0
