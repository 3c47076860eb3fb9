"""Fixtures that tests of machines share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab.host.paths import state_dir


@pytest.fixture
def folder() -> Iterator[Path]:
    """Provide a directory where the labs' are: disks are copied by reference there."""
    with TemporaryDirectory(prefix="test-", dir=state_dir()) as beside:
        yield Path(beside)
