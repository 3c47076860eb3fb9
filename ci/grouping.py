"""How `pytest -n N --dist loadfile` distributes the fast suite: a module stays in one worker, and so do all labs.

So a module's registry, service or ISO is made once; and tests of real labs, which check what others leave on the
machine, and measure, do not run side by side. (xdist's own loadgroup has no effect with pytest 9: it renames tests in a
way that pytest no longer sees.)
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadFileScheduling

#: Modules of real labs: named for it, or in the folder of container machines.
LABS = re.compile(r"lab/tests/(?:[\w/]+/)?test_live_|lab/tests/containers/test_")


class Grouping(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """By file, the modules of labs together."""

    def _split_scope(self, nodeid: str) -> str:
        return "labs" if LABS.match(nodeid) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Grouping | None:
    """None leaves other ways than loadfile to xdist."""
    return Grouping(config, log) if config.getvalue("dist") == "loadfile" else None
