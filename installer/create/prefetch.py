"""Work of `create image` before it has read its inputs: copying the base ISO, and making keys.

Neither holds the interpreter's lock: the kernel copies, OpenSSL makes keys. On failure nothing of it stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from installer.config.state import FILE as STATE_FILE
from installer.config.state import State
from installer.errors import StateError
from installer.image.copy import IMAGE_MODE, PrefetchedCopy
from installer.release import image_cache

if TYPE_CHECKING:
    from installer.credentials.background import BackgroundCredentials

_INPUTS = ("install-config.yaml", "cluster-manifests", STATE_FILE)


@dataclass(frozen=True)
class Prefetched:
    """The copy that is under way, the credentials that are being made, and the state; each None where there is none
    or it is not needed."""

    copy: PrefetchedCopy | None = None
    credentials: BackgroundCredentials | None = None
    state: State | None = None


@contextlib.contextmanager
def prefetch(directory: Path) -> Iterator[Prefetched]:
    """Begin both for an asset directory; what was not used at the end of the block is discarded."""
    if not any((directory / name).exists() for name in _INPUTS):
        yield Prefetched()
        return
    with contextlib.ExitStack() as stack:
        copy: PrefetchedCopy | None = None
        base = image_cache.likely()
        if base is not None:
            with contextlib.suppress(OSError):  # reported later, when it is sure that this copy is wanted
                copy = stack.enter_context(PrefetchedCopy(base, directory / "agent.iso", IMAGE_MODE))
        state: State | None = None
        credentials: BackgroundCredentials | None = None
        with contextlib.suppress(StateError):  # reported later
            state = State.load(directory)
            if not state.has_secrets:
                # Imported only here, since this imports much.
                from installer.credentials.background import BackgroundCredentials

                credentials = stack.enter_context(BackgroundCredentials())
        yield Prefetched(copy, credentials, state)
