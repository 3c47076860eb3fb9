"""The command `node0 agent boot`."""

from __future__ import annotations

import argparse


def run_boot(arguments: argparse.Namespace) -> int:
    """Run the command; returns 0. Raises InstallerError."""
    from installer.ipi.boot import Options, run

    options = Options(
        plan=arguments.plan,
        force=arguments.force,
        image_urls=tuple(arguments.image_url),
        ports=(arguments.http_port, arguments.https_port),
        old_tls=arguments.old_tls,
        timeout=arguments.timeout,
    )
    return run(arguments.dir, options)
