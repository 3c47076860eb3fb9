"""The command line of `node0 agent add-nodes`; it loads quickly, since every start of node0 builds it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from installer.common import numbers

Add = Callable[..., argparse.ArgumentParser]
#: The longest time to follow hosts.
LONGEST = 30 * numbers.DAY
#: The options of a single host, by the letter that `oc adm node-image create` has for some, with what they take.
ONE_HOST: dict[str, tuple[str, str, str]] = {
    "mac-address": ("-m", "MAC", "add the host with this NIC; nodes-config.yaml is not read"),
    "cpu-architecture": ("-c", "ARCH", "its architecture (default: the cluster's)"),
    "ssh-key-path": ("-k", "FILE", "the public key to log in with (default: the cluster's)"),
    "hostname": ("", "NAME", "its name (default: what it calls itself)"),
    "root-device-hint": ("", "HINT:VALUE", "the disk to install on, such as deviceName:/dev/sda"),
    "network-config-path": ("", "FILE", "its network as an NMState document, in which the NIC is eth0"),
}
_TARGETS = {
    "image": "Make a bootable ISO that adds hosts to a running cluster",
    "pxe-files": "Make the files for booting such hosts from a network",
}


def add_commands(parent: Any, add: Add) -> None:
    """Add the sub-commands to a sub-parsers object; `add` is the CLI's own way of making one."""
    create = add(parent, "create", "Make the files that hosts are booted with")
    targets = create.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, text in _TARGETS.items():
        command = add(
            targets,
            name,
            text,
            epilog=(
                "DIR must hold nodes-config.yaml (hosts, as in agent-config.yaml; additionalNTPSources,\n"
                "cpuArchitecture, sshKey), unless --mac-address describes a single host. The file stays there.\n"
                "The result is node.ARCH.iso, or boot-artifacts/node.ARCH-*. The image's tokens expire within\n"
                "48 hours, and are kept in the cluster as Secret openshift-config/agent-auth-token. Follow the\n"
                "hosts with add-nodes monitor."
            ),
        )
        _kubeconfig(command)
        if name == "image":
            command.add_argument("-o", "--output-name", default="", metavar="FILE", help="the ISO's name in DIR")
        command.add_argument(
            "--report", action="store_true", help="write DIR/report.json (stages, result) even if nothing fails"
        )
        for option, (letter, value, help_text) in ONE_HOST.items():
            words = [letter, f"--{option}"] if letter else [f"--{option}"]
            command.add_argument(*words, default="", metavar=value, help=help_text)
    monitor = add(
        parent,
        "monitor",
        "Follow hosts that are being added until their nodes are ready",
        epilog=(
            "Requests of their kubelets for certificates are shown, and wait for you: kubectl certificate approve\n"
            "NAME, or --approve, which approves those of the hosts that are followed and no others.\n"
            "exit codes: 0 all nodes are ready, 1 failed or timed out, 8 interrupted"
        ),
    )
    _kubeconfig(monitor)
    monitor.add_argument("addresses", nargs="*", type=_address, metavar="ADDRESS", help="the hosts' addresses")
    monitor.add_argument(
        "--ip-addresses", default=[], type=_addresses, metavar="ADDRESS,…", help="the same, separated by commas"
    )
    monitor.add_argument("--approve", action="store_true", help="approve what the hosts' kubelets ask for")
    monitor.add_argument(
        "--timeout",
        type=numbers.real_type(1, LONGEST, "seconds"),
        default=5400.0,
        metavar="SECONDS",
        help="give up after this long, 1 s to 30 days (default: 90 minutes)",
    )


def _kubeconfig(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="a kubeconfig of the cluster's administrator (default: $KUBECONFIG, or else DIR/auth/kubeconfig)",
    )


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from None


def _addresses(text: str) -> list[str]:
    return [_address(part) for part in text.split(",")]


def alone(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the options of a single host that are given without --mac-address, which they need."""
    named = [option for option in ONE_HOST if getattr(arguments, option.replace("-", "_"), "")]
    return [] if "mac-address" in named else [f"--{option}" for option in named]
