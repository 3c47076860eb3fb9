"""`node0 create`, `node0 wait-for` and `node0 gather bootstrap`, once the command line is read."""

from __future__ import annotations

import argparse

from installer.create.outputs import sweep
from installer.dirlock import locked
from installer.upi.create import create
from installer.waitfor.settings import Settings


def run(arguments: argparse.Namespace) -> int:
    """Run one of them; the exit code. Raises InstallerError."""
    if arguments.command == "wait-for":
        from installer.upi.wait import wait

        quiet = getattr(arguments, "skip_password_print", False)
        return wait(arguments.target, arguments.dir, arguments.timeout, Settings(print_password=not quiet))
    if arguments.command == "gather":
        from installer.gather.command import run_hosts
        from installer.gather.remote import Access

        names = {arguments.bootstrap: "bootstrap", **dict.fromkeys(arguments.master, "master")}
        return run_hosts(arguments.dir, Access(key=arguments.key), names)
    with locked(arguments.dir) as sure:
        if sure:
            sweep(arguments.dir)
        try:
            create(arguments.target, arguments.dir)
        finally:
            if sure:
                sweep(arguments.dir)
    return 0
