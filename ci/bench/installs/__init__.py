"""Measurements of installations and of what installed machines cost."""
