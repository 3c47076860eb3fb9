"""The fixture of all checks of the repository's sources."""

from collections.abc import Iterator

import pytest

from ci import syntax


@pytest.fixture(scope="package", autouse=True)
def sources_are_read_once() -> Iterator[None]:
    """Keep what is parsed from the first of these tests to the last; `--dist` seldom splits them between workers."""
    with syntax.kept():
        yield
