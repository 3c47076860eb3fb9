"""Fixtures that several modules use."""

from installer.testing.engine.store_kit import store  # noqa: F401 - a fixture
