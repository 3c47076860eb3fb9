"""The command line of `node0 create`, which needs no agent on the hosts.

It loads quickly, since every start of node0 builds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Add = Callable[..., argparse.ArgumentParser]
CREATE = {
    "install-config": "Write a sample install-config.yaml, and ask nothing",
    "manifests": "Write the manifests of install-config.yaml, to be edited before the Ignition configs are made",
    "ignition-configs": "Write the Ignition configs of the bootstrap machine, of masters and of workers",
    "single-node-ignition-config": "Write the Ignition config of a single node that bootstraps itself in place",
}


def add_create(commands: Any, add: Add) -> Any:
    """Add `create`; returns its sub-parsers object, to which further targets can be added. `add` is the CLI's own way
    of making a command."""
    create = add(commands, "create", "Make the files of a cluster whose machines you boot by yourself")
    targets = create.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, text in CREATE.items():
        add(targets, name, text)
    return targets
