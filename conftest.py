"""The thin root of the pytest wiring: everything else is in the rooms' own conftest.py."""
