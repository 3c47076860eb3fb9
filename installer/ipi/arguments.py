"""The command line of `node0 agent boot`, `create cluster` and `destroy cluster`; it loads quickly."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from installer.common import numbers

Add = Callable[..., argparse.ArgumentParser]
LONGEST = 30 * numbers.DAY
#: The ports of Metal3's image server, which firewalls of provisioning hosts may know.
HTTP_PORT, HTTPS_PORT = 6180, 6183
#: Two hours: the cluster's own time-outs are shorter (waitfor/settings.py).
TIMEOUT = 7200.0


def add_boot(parent: Any, add: Add) -> None:
    """Add `boot` to the sub-parsers of `agent`; `add` is the CLI's own way of making a sub-command."""
    boot = add(
        parent,
        "boot",
        "Boot the agent ISO on all hosts by their BMCs, and take it out when they are installed",
        epilog=(
            "DIR is where agent create image has run, with BMCs in install-config.yaml\n"
            "(platform.baremetal.hosts[].bmc). This command serves the ISO to them while it runs, and ends when every\n"
            "host runs from its disk. Run again after it was killed, it goes on. wait-for may run beside it.\n\n"
            "exit codes: 0 all hosts are installed, 1 a BMC or a host failed, 8 interrupted (drives are emptied)"
        ),
    )
    boot.add_argument("--plan", action="store_true", help="look at all BMCs, print what would be done, change nothing")
    boot.add_argument(
        "--image-url",
        action="append",
        default=[],
        metavar="URL",
        help="where the same ISO is, for BMCs that read neither HTTP nor HTTPS, such as nfs://HOST/SHARE/agent.iso "
        "(may be repeated)",
    )
    _add_ports(boot)
    _add_force(boot)
    boot.add_argument(
        "--timeout",
        type=numbers.real_type(1, LONGEST, "seconds"),
        default=TIMEOUT,
        metavar="SECONDS",
        help="give up after this long, 1 s to 30 days (default: 2 hours)",
    )


def add_cluster(targets: Any, add: Add) -> None:
    """Add `cluster` to the targets of `create`."""
    command = add(
        targets,
        "cluster",
        "Install a cluster: a bootstrap machine and all hosts are driven by their BMCs",
        epilog=(
            "DIR must hold install-config.yaml with platform.baremetal, provisioningNetwork: Disabled, and hosts with\n"
            "BMCs that have virtual media. Hosts that run are not restarted, and images of others not replaced,\n"
            "unless --force is given. Run again after an interrupt, a failure or SIGKILL, it goes on: machines that\n"
            "run from our images keep them until then. There is no second bootstrap.\n\n"
            "exit codes: 0 installed, 1 a BMC failed, 5 bootstrap failed or timed out, 6 install failed,\n"
            "            7 operators not stable, 8 interrupted"
        ),
    )
    _add_bootstrap(command)
    _add_force(command)
    _add_ports(command)


def add_destroy(commands: Any, add: Add) -> None:
    """Add `destroy`."""
    destroy = add(commands, "destroy", "Take down what create cluster has made")
    command = add(
        destroy.add_subparsers(dest="target", required=True, metavar="TARGET"),
        "cluster",
        "Switch off all machines that create cluster has started, and empty their virtual CD drives",
        epilog="Disks are left as they are. Drives that hold images of others are, too.",
    )
    _add_bootstrap(command)
    _add_tls(command)


def _add_bootstrap(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bootstrap",
        type=Path,
        metavar="FILE",
        help="the bootstrap machine: bmc, bootMACAddress and networkConfig, as an entry of platform.baremetal.hosts",
    )


def _add_force(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--force", action="store_true", help="also restart hosts that run, and replace images that others have inserted"
    )


def _add_ports(command: argparse.ArgumentParser) -> None:
    for name, port in (("--http-port", HTTP_PORT), ("--https-port", HTTPS_PORT)):
        command.add_argument(
            name,
            type=numbers.whole_type(1, 65535),
            default=port,
            metavar="PORT",
            help=f"port of the image server (default: {port})",
        )
    _add_tls(command)


def _add_tls(command: argparse.ArgumentParser) -> None:
    command.add_argument("--tls-1.1", dest="old_tls", action="store_true", help="also speak TLS 1.1 with BMCs")
