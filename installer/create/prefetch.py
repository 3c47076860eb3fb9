"""What `create image` can begin before it has read its inputs: copying the base ISO, and making keys.

Both leave the interpreter to others: the copy is the kernel's work, keys are OpenSSL's. On failure nothing of it stays.
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
from installer.image.copy import Ahead
from installer.release import cache

if TYPE_CHECKING:
    from installer.credentials.background import Begun

_INPUTS = ("install-config.yaml", "cluster-manifests", STATE_FILE)


@dataclass(frozen=True)
class HeadStart:
    """The copy and the credentials in the making; None where there is nothing to begin with, or no need."""

    copy: Ahead | None = None
    credentials: Begun | None = None


@contextlib.contextmanager
def head_start(directory: Path) -> Iterator[HeadStart]:
    """Begin for an asset directory; what was not used at the end of the block is given up."""
    if not any((directory / name).exists() for name in _INPUTS):
        yield HeadStart()
        return
    with contextlib.ExitStack() as stack:
        copy: Ahead | None = None
        base = cache.likely()
        if base is not None:
            with contextlib.suppress(OSError):  # said later, when it is sure that this copy is wanted
                copy = stack.enter_context(Ahead(base, directory / "agent.iso"))
        # Only now, since this imports much.
        from installer.create.secrets import known
        from installer.credentials.background import Begun

        try:
            has_secrets = known(State.load(directory))
        except StateError:
            has_secrets = True  # said later
        credentials = None if has_secrets else stack.enter_context(Begun())
        yield HeadStart(copy, credentials)
