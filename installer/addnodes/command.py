"""The command `node0 agent add-nodes`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from installer.addnodes.arguments import ONE_HOST, alone
from installer.addnodes.nodesconfig import OneHost
from installer.create.outputs import sweep
from installer.dirlock import locked
from installer.errors import ConfigError


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns 0. Raises InstallerError."""
    kubeconfig = _kubeconfig(arguments)
    if arguments.add_nodes == "monitor":
        from installer.addnodes.monitor import Following, monitor

        addresses = tuple(dict.fromkeys([*arguments.addresses, *arguments.ip_addresses]))
        if not addresses:
            raise ConfigError("no host to follow: give its address, or several by --ip-addresses")
        following = Following(kubeconfig, addresses, approve=arguments.approve, timeout=arguments.timeout)
        monitor(following, arguments.dir)
        return 0
    from installer.addnodes.create import Wanted, create

    if lonely := alone(arguments):
        raise ConfigError(f"{', '.join(lonely)}: valid only with --mac-address")
    options = {option.replace("-", "_"): getattr(arguments, option.replace("-", "_")) for option in ONE_HOST}
    wanted = Wanted(
        arguments.target,
        arguments.dir,
        kubeconfig,
        options=OneHost(**options),
        output_name=getattr(arguments, "output_name", ""),
        report=arguments.report,
    )
    with locked(arguments.dir) as sure:
        try:
            if sure:
                sweep(arguments.dir)
            create(wanted)
        finally:
            if sure:
                sweep(arguments.dir)
    return 0


def _kubeconfig(arguments: argparse.Namespace) -> Path:
    """Return the kubeconfig: the option's, the environment's, or the asset directory's. Raises ConfigError."""
    own: Path = arguments.dir / "auth/kubeconfig"
    named = arguments.kubeconfig or (Path(text) if (text := os.environ.get("KUBECONFIG", "")) else own)
    if not named.is_file():
        hint = "" if named != own else "; name the cluster's by --kubeconfig, or in KUBECONFIG"
        raise ConfigError(f"kubeconfig {named}: no such file{hint}")
    return Path(named)
