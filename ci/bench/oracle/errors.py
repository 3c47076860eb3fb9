"""How one of openshift-install's scripts ends, run with node0."""

from __future__ import annotations

from ci.errors import CiError


class Failed(CiError):
    """A line of a script does not hold; or, as `Skipped`, the script is not to be run."""


class Skipped(Failed):
    """The script says that it is not to be run."""
