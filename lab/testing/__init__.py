"""Kits of the lab's tests."""
