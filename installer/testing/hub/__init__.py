"""Kits for tests of the hub."""
