"""Kits of the installer's tests: fixtures, stand-ins for what is outside."""
