"""The root of what ci/ raises on purpose."""


class CiError(Exception):
    """Base of everything that programs in ci/ raise on purpose; each room's own are in its errors.py."""
