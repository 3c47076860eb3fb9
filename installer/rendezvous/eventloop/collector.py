"""The garbage collector, kept from stopping the service: a full collection looks at what is new only.

With 2,000 hosts and their connections it would go through half a million objects, for a tenth of a second, to find a
few that a closed connection has left. So what has survived is set aside, and looked at again only now and then. New
objects are looked at early: by itself the collector waits until there are a quarter more objects than last time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping

# A closed connection that was set aside costs about 3 KiB until then (s).
THOROUGH = 6 * 3600.0
# No full look unless objects set aside have grown by this factor. (Counting them means going through them all.)
GROWTH = 1.25
# How often (s) is checked whether many objects are new, and how many collections of the middle generation mean that:
# each is of 7,000 objects more, by the collector's own thresholds.
PERIOD = 0.25
MIDDLE = 2


def set_aside(phase: str, info: Mapping[str, int]) -> None:
    """What has survived a full collection is not looked at by the next one (a callback of the collector)."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _middle() -> int:
    return int(gc.get_stats()[1]["collections"])


async def freeze_survivors() -> None:
    """Set aside what survives, and look through all of it now and then, for ever."""
    gc.freeze()
    gc.callbacks.append(set_aside)
    try:
        frozen, collections_before, due = gc.get_freeze_count(), _middle(), time.monotonic() + THOROUGH
        while True:
            await asyncio.sleep(min(PERIOD, THOROUGH))
            if _middle() - collections_before >= MIDDLE:
                gc.collect()
                collections_before = _middle()
            if time.monotonic() >= due:
                due = time.monotonic() + THOROUGH
                if gc.get_freeze_count() > GROWTH * frozen:
                    gc.unfreeze()
                    gc.collect()
                    frozen = gc.get_freeze_count()
    finally:
        gc.callbacks.remove(set_aside)
        gc.unfreeze()
