"""The table of steps: what each runs (installer.md §6.3). Anything else is answered with exit code -1."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from installer.agent import containers
from installer.agent.checks import diskspeed, netchecks, webchecks
from installer.agent.containers import AgentContext
from installer.agent.errors import MediaLost, StepError
from installer.agent.host import inventory, media
from installer.agent.host.media import Watch
from installer.assisted.client import AssistedClient
from installer.assisted.enums import StepType
from installer.assisted.errors import ClientError
from installer.assisted.steparguments import (
    ApiVipRequest,
    DiskSpeedRequest,
    DomainsRequest,
    ImagesRequest,
    InstallRequest,
    LogsRequest,
    Networks,
    NtpRequest,
    Peers,
    TangRequest,
    VipRequests,
)
from installer.common.formats import jsontext
from installer.errors import InstallerError
from installer.hostsys import logs
from installer.hostsys.system import HostSystem

log = logging.getLogger("agent")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Everything that steps may need."""

    host: HostSystem
    agent: AgentContext
    client: AssistedClient
    media: Watch = field(default_factory=Watch)
    # What runs each step; simulated hosts bring their own.
    table: Mapping[str, Step] = field(default_factory=lambda: TABLE)


Step = Callable[[StepContext, list[str]], str]


def _disk_speed(ctx: StepContext, args: list[str]) -> str:
    """Return the disk as JSON, and the seconds that measuring it may take, which services before node0's left out."""
    try:
        seconds = float(args[1]) if len(args) > 1 else diskspeed.BUDGET_SECONDS
        if not math.isfinite(seconds):
            raise ValueError
    except ValueError:
        raise StepError(f"the time limit {args[1]!r} is not a number of seconds") from None
    request = argument(args[:1] if len(args) == 2 else args, DiskSpeedRequest)
    return diskspeed.disk_speed(ctx.host, request, seconds)


def argument(args: list[str], kind: type[T]) -> T:
    """Return the single argument of a step, JSON of this shape. Raises StepError, which names the field that does not
    fit."""
    if len(args) != 1:
        raise StepError(f"one argument is expected, not {len(args)}")
    try:
        # A large cluster has many peers, and the sender is our own service: values are not counted.
        return jsontext.typed(args[0], kind, counted=False)
    except msgspec.ValidationError as error:
        raise StepError(f"argument: {jsontext.in_words(error, 'it')}") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise StepError(f"argument is not JSON: {error}") from None


def gather_logs(host: HostSystem, request: LogsRequest, client: AssistedClient) -> str:
    """Run the step logs-gather: collect and upload. Raises StepError."""
    ids = (request.cluster_id, request.infra_env_id, request.host_id)
    sender = logs.Sender(client, *ids, attempt=request.installation_attempt or "")
    try:
        sender.send(host, bool(request.bootstrap))
    except (ClientError, OSError) as error:
        sender.give_up()
        raise StepError(f"logs were not uploaded: {error}") from None
    return ""


TABLE: Mapping[str, Step] = {
    StepType.INVENTORY: lambda ctx, args: inventory.collect_json(ctx.host),
    StepType.CONNECTIVITY: lambda ctx, args: netchecks.connectivity(ctx.host, argument(args, Peers)),
    StepType.FREE_ADDRESSES: lambda ctx, args: netchecks.free_addresses(ctx.host, argument(args, Networks)),
    StepType.NTP: lambda ctx, args: netchecks.ntp(ctx.host, argument(args, NtpRequest)),
    StepType.DOMAINS: lambda ctx, args: netchecks.domains(ctx.host, argument(args, DomainsRequest)),
    StepType.VERIFY_VIPS: lambda ctx, args: netchecks.verify_vips(ctx.host, argument(args, VipRequests)),
    StepType.DISK_SPEED: _disk_speed,
    StepType.IMAGES: lambda ctx, args: containers.availability(ctx.host, argument(args, ImagesRequest)),
    StepType.TANG: lambda ctx, args: webchecks.tang(argument(args, TangRequest)),
    StepType.API_VIP: lambda ctx, args: webchecks.ignition(argument(args, ApiVipRequest)),
    StepType.INSTALL: lambda ctx, args: containers.install(ctx.host, argument(args, InstallRequest), ctx.agent),
    StepType.LOGS: lambda ctx, args: gather_logs(ctx.host, argument(args, LogsRequest), ctx.client),
    StepType.STOP: lambda ctx, args: containers.stop_installation(ctx.host),
}


def run(context: StepContext, kind: str, args: list[str]) -> tuple[int, str, str]:
    """(exit code, output, error) of a step; raises nothing: whoever asked waits for an answer."""
    step = context.table.get(kind)
    if step is None:
        return -1, "", f"step type {kind} is not known to this agent"
    try:
        context.media.check(context.host)
        return 0, step(context, args), ""
    except MediaLost as error:
        return error.exit_code, "", error.reason
    except Exception as error:
        code, reason = _failure(kind, error)
    # Without its media a host fails in many ways: the lost media is reported as the cause.
    try:
        media.check(context.host)
    except MediaLost as lost:
        return lost.exit_code, "", lost.reason
    return code, "", reason


def _failure(kind: str, error: Exception) -> tuple[int, str]:
    """(exit code, reason) for what a step raised."""
    if isinstance(error, StepError):
        return error.exit_code, error.reason
    if isinstance(error, InstallerError):
        return -1, str(error)
    # What the service or the host got wrong is a StepError or an OSError: all else is our own fault.
    if not isinstance(error, OSError):
        log.error("step %s: %s", kind, error, exc_info=error)
    return -1, f"{type(error).__name__}: {error}"
