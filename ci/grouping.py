"""How `pytest -n N --dist loadgroup` shares the fast suite out: a module stays in one worker, and so do all labs.

A module's registry, service or ISO is made once then. Labs look at what others leave on the machine, and measure.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test the group that it runs in; xdist reads it after this."""
    if getattr(config.option, "loadgroup", False):  # what xdist's workers know of --dist
        for item in items:
            item.add_marker(pytest.mark.xdist_group("labs" if item.get_closest_marker("lab") else str(item.path)))
