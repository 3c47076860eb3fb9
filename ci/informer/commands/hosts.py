"""Commands for several hosts: scheduler, worker, hosts."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

from ci.informer import text
from ci.informer.commands.common import ACCEPTED, Adder, name, say
from ci.informer.engine import tls
from ci.informer.engine.announce import CONTAINER, GIB, KVM, MIB, RELEASE, VCPU, VERSION, announced, releases
from installer.common.numbers import whole_type
from lab.host.budget import MEMORY_MIB, Amount


def _scheduler(arguments: argparse.Namespace) -> int:
    from ci.informer.engine import host

    host.scheduler(*tls.checked(arguments.address, arguments.tls), say)
    return ACCEPTED


def _worker(arguments: argparse.Namespace) -> int:
    from ci.informer.engine import host

    address, security = tls.checked(arguments.address, arguments.tls)
    most = Amount(arguments.memory or MEMORY_MIB, arguments.vcpu or 1 << 16, 1 << 30)
    host.worker(address, security, arguments.name, {**announced(most), **releases()}, say=say)
    return ACCEPTED


def _hosts(arguments: argparse.Namespace) -> int:
    from ci.informer.engine.engine import Engine

    address, security = tls.checked(arguments.address, arguments.tls)
    with Engine(lambda line: None, address=address, security=security, patience=10) as engine:
        hosts = engine.hosts()
    heads = ("host", "memory MiB", "vCPUs", "disk GiB", "containers", "KVM", "releases", "version")
    rows = [
        [
            host,
            *(f"{has.get(what, 0):.0f}" for what in (MIB, VCPU, GIB)),
            *("yes" if has.get(what) else "no" for what in (CONTAINER, KVM)),
            str(sum(label.startswith(RELEASE) for label in has)),
            next((label.removeprefix(VERSION) for label in has if label.startswith(VERSION)), ""),
        ]
        for host, has in sorted(hosts.items())
    ]
    for line in text.columns(heads, rows):
        print(line)
    return ACCEPTED


def add(command: Adder) -> None:
    """Add these commands."""
    scheduler = command("scheduler", _scheduler, "hand the runs of node0-ci run out to workers, until Ctrl-C")
    worker = command("worker", _worker, "make runs on this machine for a scheduler, until Ctrl-C")
    worker.add_argument(
        "--name", type=name, default=socket.gethostname(), help="name of this host (default: its host name)"
    )
    worker.add_argument(
        "--memory", type=whole_type(1, MEMORY_MIB), metavar="MIB", help="memory that labs may use (default: all)"
    )
    worker.add_argument(
        "--vcpu", type=whole_type(1, 1 << 16), metavar="N", help="virtual CPUs that labs may use (default: all)"
    )
    hosts = command("hosts", _hosts, "list a scheduler's hosts, and what each has")
    for sub, what in ((scheduler, "address to listen on"), (worker, "the scheduler"), (hosts, "the scheduler")):
        sub.add_argument("address", metavar="HOST:PORT", help=what)
        sub.add_argument(
            "--tls",
            type=Path,
            metavar="DIR",
            help="directory with cert.pem and key.pem; needed unless HOST is this machine",
        )
