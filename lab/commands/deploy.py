"""`node0-lab deploy DIR`: options, progress, and what to do next."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import get_args

from installer.common.numbers import DAY, real_type, whole_type
from lab.cleanup import afterwards
from lab.commands.liveview import LiveView, last_time, note_time
from lab.commands.terminal import describe
from lab.deploy import Deployment, inputs, read, topology_for
from lab.errors import TopologyError
from lab.evidence import summary
from lab.host import records
from lab.host.budget import MEMORY_MIB
from lab.host.paths import cache_dir, labs_dir, state_dir
from lab.host.unsupported import unsupported
from lab.inputs import ztp
from lab.lab import Lab
from lab.subject.options import OPTIONS, add_options, choose
from lab.topology import Bmc, MachineKind, Topology, changed

KINDS = get_args(MachineKind)
BMCS = get_args(Bmc)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    add(
        "directory",
        type=Path,
        metavar="DIR",
        help="directory with install-config.yaml and agent-config.yaml, or cluster-manifests/; it is not changed",
    )
    add(
        "--iso",
        type=Path,
        metavar="FILE",
        help="boot this image instead of creating one; DIR still describes the machines",
    )
    add_options(add)
    add("--firmware", choices=("uefi", "bios"), default="uefi", help="firmware of the machines (default: uefi)")
    add("--machines", choices=KINDS, default="vm", help="run the machines as VMs or as containers (default: vm)")
    add("--bmc", choices=BMCS, help="vendor of the machines' BMCs, see docs/bmcs.md (default: the lab's own)")
    memory = whole_type(256, MEMORY_MIB)
    add("--memory", type=memory, metavar="MIB", help="memory of each machine (default: as in the presets)")
    add("--vcpu", type=whole_type(1, 64), metavar="N", help="virtual CPUs of each machine (default: as in the presets)")
    add(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a field of the lab's topology, for example nodes[0].disk_gib=40; VALUE is YAML. May be "
        "given again; applied in order after all other options, and each must leave a valid topology",
    )
    add("--plan", action="store_true", help="print the lab as a topology file for `node0-lab up`, and start nothing")
    add_lab_options(parser)
    add(
        "--lab-keep",
        choices=("always", "on-failure", "never"),
        default="always",
        help="whether the lab keeps running after the installation (default: always)",
    )


def add_lab_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that bring up a lab."""
    parser.add_argument(
        "--artifacts",
        type=Path,
        metavar="DIR",
        help="directory for logs, screens and journals (default: below ~/.local/state/node0)",
    )
    parser.add_argument(
        "--wait",
        type=real_type(0, 7 * DAY, "seconds"),
        default=600,
        metavar="S",
        help="wait up to S seconds for other labs to leave enough memory (default: 600)",
    )


class _Elapsed(logging.Formatter):
    """Minutes and seconds since the start before every line."""

    def format(self, record: logging.LogRecord) -> str:
        minutes, seconds = divmod(int(record.relativeCreated / 1000), 60)
        return f"[{minutes:02d}:{seconds:02d}] {super().format(record)}"


def run(arguments: argparse.Namespace) -> int:
    """Install, and print what to do next; 0 when the cluster is installed. Raises LabError, DriverError, OSError."""
    if arguments.iso is not None and not arguments.iso.is_file():
        raise FileNotFoundError(f"{arguments.iso}: no such image")
    topology = topology_for(
        arguments.directory,
        installer=[arguments.installer] if arguments.installer else (),
        firmware=arguments.firmware,
        memory_mib=arguments.memory,
        vcpu=arguments.vcpu,
    )
    topology = changed(topology.with_machines(arguments.machines).with_bmcs(arguments.bmc), arguments.set)
    if arguments.plan and any(_asked(arguments, name) for name in OPTIONS):
        # Machines are as large as what is to be installed demands.
        topology = choose(lambda name: _asked(arguments, name)).sized(topology)
    lines = [*unsupported(topology), *ztp.check(arguments.directory, topology)]
    if arguments.plan:
        # A plan that this host cannot make is printed with the reasons: it may be for another host, or be edited.
        print(topology.dump(), end="")
        if lines:
            raise TopologyError(str(arguments.directory), lines)
        return 0
    if topology.boot == "discovery-iso" and arguments.iso is None:
        lines.append("boot: discovery-iso, whose image is made by a service and not by the installer; give it as --iso")
    if lines:
        raise TopologyError(str(arguments.directory), lines)
    chosen = choose(lambda name: _asked(arguments, name))
    skip = (labs_dir(), state_dir(), cache_dir(), arguments.artifacts or state_dir() / "artifacts")
    inputs(arguments.directory, skip)
    if arguments.iso is None and not ztp.is_ztp(arguments.directory):
        # node0 also shows inputs that it has consumed, of which there is nothing to copy.
        read(arguments.directory)
    lab = Lab(chosen.sized(topology), arguments.artifacts, chosen.subject, wait_for_memory=arguments.wait)
    kind = f"{len(topology.nodes)} {topology.machine}, {topology.boot}"
    begin, durations = time.monotonic(), cache_dir() / "deployments.json"
    with _progress(arguments, topology, last_time(durations, kind)) as view, lab:
        work = Deployment(lab, chosen.installer, chosen.subject)
        describe(records.read(lab.id))
        if view is not None:
            view.machines, view.events = list(lab.nodes), work.directory / "logs/events.json"
        done = False

        def keep() -> None:
            if arguments.lab_keep == "always" or (arguments.lab_keep == "on-failure" and not done):
                lab.keep()
                _tell_how_to_go_on(work, installed=done and work.kubeconfig.exists())

        with afterwards(
            ("keep what the installer left", work.keep_evidence),
            ("collect the evidence", lab.collect),
            ("publish the summary", lambda: summary.publish(lab.artifacts)),
            ("keep the lab", keep),
            ("say where the evidence is", lambda: print(f"evidence   {lab.artifacts}")),
        ):
            work.prepare(arguments.directory, adapt=arguments.iso is None, skip=skip)
            if arguments.iso is None:
                work.create_image()
            work.boot(image=arguments.iso)
            if work.kubeconfig.exists():
                work.wait()
                note_time(durations, kind, time.monotonic() - begin)
            lab.check()
            done = True
    return 0


def _progress(
    arguments: argparse.Namespace, topology: Topology, expected: float | None
) -> AbstractContextManager[LiveView | None]:
    """Choose how the deployment is shown: compact on a terminal, as a log elsewhere and with --verbose."""
    logging.getLogger().setLevel(logging.INFO)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not arguments.verbose:
        count = len(topology.nodes)
        return LiveView(f"{topology.name}: {count} {topology.machine}{'s' * (count > 1)}", expected)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Elapsed("%(message)s"))
    return nullcontext()


def _asked(arguments: argparse.Namespace, option: str) -> str | None:
    value: str | None = vars(arguments)[option.replace("-", "_")]
    return value


def _tell_how_to_go_on(work: Deployment, *, installed: bool) -> None:
    which = f"--lab {work.lab.id}"
    if installed:
        print(
            f"console    {work.console_url} (user kubeadmin, password in {work.kubeconfig.parent}/kubeadmin-password)"
        )
        print(f"browser    node0-lab open {which} console")
        print(f"kubectl    node0-lab kubectl {which} get nodes")
    print(f"shell      node0-lab ssh {which} {next(iter(work.lab.nodes))}")
    print(f"end it     node0-lab down {which}")
