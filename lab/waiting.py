"""Waiting with a deadline: every wait says what it waited for and what it last saw."""

import time
from collections.abc import Callable

from lab.errors import LabBrokenError, WaitTimeout

POLL_SECONDS = 1.0


def wait_until(
    check: Callable[[], object],
    timeout: float,
    what: str,
    last_seen: Callable[[], object] | None = None,
    *,
    poll: float = POLL_SECONDS,
) -> None:
    """Poll ``check`` every ``poll`` seconds until it is true, for at most ``timeout`` seconds.

    An exception in ``check`` counts as "not yet" and as what was last seen, except LabBrokenError, which is raised at
    once. Raises WaitTimeout with ``what`` and with ``last_seen()``, or else the last value or exception.
    """
    start = time.monotonic()
    while True:
        seen: object
        try:
            seen = check()
            if seen:
                return
            if last_seen is not None:
                seen = last_seen()
        except LabBrokenError:  # waiting on is pointless
            raise
        except Exception as error:  # what is being waited for may not answer yet
            seen = f"{type(error).__name__}: {error}"
        if time.monotonic() - start >= timeout:
            raise WaitTimeout(what=what, timeout=timeout, last_seen=str(seen))
        time.sleep(poll)
