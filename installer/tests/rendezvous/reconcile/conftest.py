"""Fixtures that several modules use."""

from installer.testing.engine.clock_kit import installing  # noqa: F401 - a fixture
