"""`node0 agent gather`: from outside, all that hosts and the service know of an installation, in one archive."""

from installer.gather.command import run

__all__ = ["run"]
