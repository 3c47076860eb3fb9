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
    poll: float = POLL_SECONDS,
) -> None:
    """Poll ``check`` every ``poll`` seconds until it is true, for at most ``timeout`` seconds.

    An exception in ``check`` counts as "not yet" and is what was last seen, but for that of a lab that itself failed.
    Raises WaitTimeout, naming ``what`` and ``last_seen()`` or the last value or exception.
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
        except LabBrokenError:  # nothing will come
            raise
        except Exception as error:  # the thing waited for may be down: that is what the wait is about
            seen = f"{type(error).__name__}: {error}"
        if time.monotonic() - start >= timeout:
            raise WaitTimeout(what=what, timeout=timeout, last_seen=str(seen))
        time.sleep(poll)
