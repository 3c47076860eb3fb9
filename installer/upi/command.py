"""`node0 create`, `node0 wait-for` and `node0 gather bootstrap`, once the command line is read."""

from __future__ import annotations

import argparse

from installer.create.outputs import sweep
from installer.dirlock import locked
from installer.upi.create import create


def run(arguments: argparse.Namespace) -> int:
    """Run one of them; the exit code. Raises InstallerError."""
    with locked(arguments.dir) as sure:
        if sure:
            sweep(arguments.dir)
        try:
            create(arguments.target, arguments.dir)
        finally:
            if sure:
                sweep(arguments.dir)
    return 0
