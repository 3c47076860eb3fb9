"""The supervisor's input as plain data, written by the lab's owner to plan.json in the lab's directory."""

from __future__ import annotations

from typing import Literal

import msgspec


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition for a service to be ready: it accepts on a TCP port or a UNIX socket, answers NTP, or answers a GET
    of `path` by HTTPS with status 200, in any server's name."""

    kind: Literal["tcp", "unix", "ntp", "https"]
    address: str
    port: int = 0
    path: str = ""


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One daemon in the foreground; `env` is added to a bare environment; `timeout` in seconds until it is ready.

    `by_request`: it starts when somebody asks for it, not with the lab. `needs`: it starts once that one is ready.
    """

    name: str
    argv: tuple[str, ...]
    ready: Ready | None = None
    env: dict[str, str] = {}
    timeout: float = 60.0
    by_request: bool = False
    needs: str = ""


class Bridge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network of the lab: a bridge with the lab's addresses (`192.0.2.1/24`)."""

    name: str
    addresses: tuple[str, ...]
    mtu: int = 1500


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole lab: what is bind-mounted where, the networks, the services in order of start.

    `after` is run when every process of the lab has ended, however that came about. `owner` is the process with which
    the lab ends (pid and start time in clock ticks) unless it has let it go before; None where there is none.
    """

    id: str
    state: str
    bridges: tuple[Bridge, ...]
    mounts: tuple[tuple[str, str], ...]
    services: tuple[Service, ...]
    owner: tuple[int, int] | None
    after: tuple[str, ...] = ()
    after_env: dict[str, str] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A report of the supervisor while it starts: `forked` (init's pid), then `up` or `failed`."""

    event: Literal["forked", "up", "failed"]
    pid: int = 0
    message: str = ""
    service: str = ""
    tail: str = ""
    seconds: dict[str, float] = {}


class _Ending(msgspec.Struct, frozen=True):
    service: str
    code: int
    time: str
    tail: str = ""


class Ended(_Ending, frozen=True, kw_only=True):
    """A part of a lab that ended unexpectedly: a service, or `the lab`. `code` is its exit code, negative for a
    signal; `time` is HH:MM:SS in UTC; `tail` holds the last lines of its log. `asked`: somebody had it killed, to see
    what comes of a lab that fails."""

    asked: bool = False


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to a running supervisor over control.sock: an operation on one service, or which of them run."""

    op: Literal["stop", "start", "pause", "resume", "kill", "status"]
    service: str = ""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer: `running` maps each service to whether it runs; those by request are there once they were asked for.
    `broken`: a service does not do what it must, which is the lab's failure; any other error is the request's."""

    error: str = ""
    running: dict[str, bool] = {}
    broken: bool = False
