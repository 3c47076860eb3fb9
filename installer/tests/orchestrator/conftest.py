"""Fixtures that several modules use."""

from installer.testing.machine_kit import machine  # noqa: F401 - a fixture
