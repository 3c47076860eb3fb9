"""The commands `node0 agent boot`, `node0 create cluster` and `node0 destroy cluster`."""

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


def run_cluster(arguments: argparse.Namespace) -> int:
    """Run `create cluster` or `destroy cluster`; returns 0. Raises InstallerError."""
    from installer.ipi import cluster

    options = cluster.Options(
        bootstrap=arguments.bootstrap,
        force=getattr(arguments, "force", False),
        ports=(getattr(arguments, "http_port", 0), getattr(arguments, "https_port", 0)),
        old_tls=arguments.old_tls,
    )
    act = cluster.destroy if arguments.command == "destroy" else cluster.create
    return act(arguments.dir, options)
