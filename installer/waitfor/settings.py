"""Times and ports of waiting, in one place so that a test can shorten them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from installer.observe.service import Reach

Target = Literal["bootstrap-complete", "install-complete"]


@dataclass(frozen=True, kw_only=True)
class Settings(Reach):
    """All times in seconds (reference/installer.md §8.1, §8.2; cluster.md §5.4)."""

    ssh_port: int = 22
    interval: float = 2.0
    # While nothing changes: each look costs the hosts' processors, which have an installation to do.
    interval_quiet: float = 5.0
    quiet_after: float = 15.0
    bootstrap: float = 3600.0
    # Without a service (`node0 wait-for`), as openshift-install's (reference/upi.md §2).
    api: float = 1200.0
    bootstrapping: float = 2700.0
    bootstrapping_baremetal: float = 3600.0
    initialize: float = 2400.0
    initialize_baremetal: float = 3600.0
    operators: float = 1800.0
    stable_for: float = 30.0
    operators_interval: float = 1.0
    console: float = 120.0
    # A failing set of validations must stay as it is this long before it counts. Agents report every 60 s
    # (installer.md §5.5), so what a later report may put right gets the time for one more report.
    failing_for: float = 5.0
    failing_for_remeasured: float = 75.0
    ready_limit: float = 60.0
    notice_every: float = 15.0
    # A host that boots a little more slowly than the others is no news; who waits is to know within a minute.
    missing_after: float = 55.0
    unreachable_after: float = 45.0
    lost_after: float = 30.0
    # An installation reports something within minutes; only the reboot of a large machine may take as long.
    unchanged_for: float = 300.0
    logs_wait: float = 120.0
    print_password: bool = True


def until(seconds: float) -> str:
    """Return how long something may take, and until when."""
    return f"{duration(round(seconds))} (until {datetime.now(UTC) + timedelta(seconds=seconds):%H:%M:%S} UTC)"


def duration(seconds: float) -> str:
    """3600 -> 1h0m0s, 1800 -> 30m0s, 2.5 -> 2.5s: the way OpenShift's installer writes durations."""
    whole, fraction = divmod(max(seconds, 0.0), 1)
    minutes, rest = divmod(int(whole), 60)
    hours, minutes = divmod(minutes, 60)
    tail = f"{rest + fraction:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail
