"""The command line of `node0 create`, `wait-for` and `gather bootstrap`, which need no agent on the hosts.

It loads quickly, since every start of node0 builds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from installer.common import numbers

Add = Callable[..., argparse.ArgumentParser]
#: The longest time to wait for a cluster (s).
LONGEST = 30 * numbers.DAY
CREATE = {
    "install-config": "Write a sample install-config.yaml, and ask nothing",
    "manifests": "Write the manifests of install-config.yaml, to be edited before the Ignition configs are made",
    "ignition-configs": "Write the Ignition configs of the bootstrap machine, of masters and of workers",
    "single-node-ignition-config": "Write the Ignition config of a single node that bootstraps itself in place",
}
WAIT_FOR = {
    "bootstrap-complete": "Wait until the bootstrap machine has done its part and can be removed",
    "install-complete": "Wait until the cluster is complete, then print its console URL and password",
}
_TIMEOUTS = {"bootstrap-complete": "20 minutes for the API, then 45", "install-complete": "40 minutes, then 30"}


def add_create(commands: Any, add: Add) -> Any:
    """Add `create`; returns its sub-parsers object, to which further targets can be added. `add` is the CLI's own way
    of making a command."""
    create = add(commands, "create", "Make the files of a cluster whose machines you boot by yourself")
    targets = create.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, text in CREATE.items():
        add(targets, name, text)
    return targets


def add_wait_for(commands: Any, add: Add) -> None:
    """Add `wait-for`, which looks at the cluster's API alone."""
    wait = add(commands, "wait-for", "Wait for a cluster whose machines you boot by yourself")
    targets = wait.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, text in WAIT_FOR.items():
        command = add(
            targets,
            name,
            text,
            epilog="exit codes: 0 done, 5 bootstrap failed or timed out, 6 install failed, 7 operators not stable,\n"
            "            8 interrupted",
        )
        command.add_argument(
            "--timeout",
            type=numbers.real_type(1, LONGEST, "seconds"),
            metavar="SECONDS",
            help=f"give up after this long, 1 s to 30 days (default, as OpenShift's: {_TIMEOUTS[name]})",
        )
        if name == "install-complete":
            command.add_argument(
                "--skip-password-print", action="store_true", help="say where the kubeadmin password is, not what it is"
            )


def add_gather_bootstrap(gather: argparse.ArgumentParser, add: Add) -> None:
    """Add `bootstrap` to the command `gather`, which does without a sub-command as well."""
    targets = gather.add_subparsers(dest="target", required=False, metavar="TARGET")
    command = add(targets, "bootstrap", "Collect logs of a bootstrap machine and of masters, in one archive")
    command.add_argument("--bootstrap", required=True, metavar="ADDRESS", help="the bootstrap machine")
    command.add_argument("--master", action="append", default=[], metavar="ADDRESS", help="a master (may be repeated)")
    command.add_argument("--key", type=Path, metavar="FILE", help="private key (default: what ssh uses by itself)")
