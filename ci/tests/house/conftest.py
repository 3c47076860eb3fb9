"""The fixture of all checks of the repository's sources."""

from collections.abc import Iterator

import pytest

from ci import syntax


@pytest.fixture(scope="package", autouse=True)
def sources_are_read_once() -> Iterator[None]:
    """From the first of these tests to the last, which `ci/grouping.py` gives to one worker."""
    with syntax.kept():
        yield
