"""`node0-lab deploy DIR`: options, progress, and what to do next."""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import get_args

from drivers.console import strip_control
from installer.common.numbers import DAY, real_type, whole_type
from lab.bmcs.recorded import problem
from lab.cleanup import afterwards
from lab.commands import interrupts, liveview, places
from lab.commands.liveview import last_time, note_time
from lab.commands.places import add_output
from lab.commands.terminal import describe
from lab.deploy import Deployment, inputs, read, read_install, stood_in, topology_for, without_stand_ins
from lab.errors import TopologyError
from lab.evidence import summary
from lab.evidence.phases import Phases
from lab.host import records
from lab.host.budget import MEMORY_MIB
from lab.host.paths import cache_dir, labs_dir, state_dir
from lab.host.unsupported import unsupported
from lab.inputs import ztp
from lab.lab import Lab
from lab.subject import hardware
from lab.subject.options import OPTIONS, Chosen, add_options, choose
from lab.topology import Bmc, MachineKind, Topology, changed, written
from lab.upi import UserProvisioned

KINDS = get_args(MachineKind)
BMCS = get_args(Bmc)


def bmc(text: str) -> str:
    """Return a profile's name, or the absolute path of a recorded Redfish tree. Raises ArgumentTypeError."""
    name = str(Path(text).absolute()) if "/" in text else text
    if wrong := problem(name):
        raise argparse.ArgumentTypeError(wrong)
    return name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    add(
        "directory",
        type=Path,
        metavar="DIR",
        help="directory with install-config.yaml and agent-config.yaml, or cluster-manifests/, or install-config.yaml "
        "alone, for a cluster with a bootstrap machine (docs/upi.md); it is not changed",
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
    add(
        "--bmc",
        type=bmc,
        metavar="NAME",
        help=f"the machines' BMCs: {', '.join(BMCS)}, or the path of a recorded Redfish tree, see docs/bmcs.md "
        "(default: the lab's own)",
    )
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
    add(
        "--plan",
        action="store_true",
        help="check the files as `create image` does, print the lab as a topology file for `node0-lab up`, and start "
        "nothing",
    )
    add(
        "--as-is",
        action="store_true",
        help="change nothing that the files say: the lab adds its registry's mirror, credentials and CA, and a key, "
        "and answers at no address that they name for another server",
    )
    add_output(parser)
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


_EXPORT = re.compile("To access the cluster as the system:admin user|export KUBECONFIG=")


class _Elapsed(logging.Formatter):
    """Minutes and seconds since the start before every line."""

    def format(self, record: logging.LogRecord) -> str:
        minutes, seconds = divmod(int(record.relativeCreated / 1000), 60)
        return f"[{minutes:02d}:{seconds:02d}] {super().format(record)}"


def run(arguments: argparse.Namespace) -> int:
    """Install, and print what to do next; 0 when the cluster is installed. Raises LabError, DriverError, OSError."""
    if arguments.iso is not None and not arguments.iso.is_file():
        raise FileNotFoundError(f"{arguments.iso}: no such image")
    wanted = topology_for(
        arguments.directory,
        installer=[arguments.installer] if arguments.installer else (),
        firmware=arguments.firmware,
        memory_mib=arguments.memory,
        vcpu=arguments.vcpu,
    )
    others = stood_in(wanted) if arguments.as_is else []
    if arguments.as_is:
        wanted = without_stand_ins(wanted)
    wanted = changed(wanted.with_machines(arguments.machines).with_bmcs(arguments.bmc), arguments.set)
    lines = [*unsupported(wanted), *ztp.check(arguments.directory, wanted)]
    if arguments.plan:
        return _plan(arguments, wanted, lines)
    if wanted.boot == "discovery-iso" and arguments.iso is None:
        lines.append("boot: discovery-iso, whose image is made by a service and not by the installer; give it as --iso")
    if wanted.bootstrap and arguments.iso is not None:
        lines.append(
            "--iso is one image for all machines, and a directory without agent-config.yaml makes one for each"
        )
    if lines:
        raise TopologyError(str(arguments.directory), lines)
    chosen = choose(lambda name: _asked(arguments, name))
    skip = _skipped(arguments)
    inputs(arguments.directory, skip)
    if arguments.iso is None and not ztp.is_ztp(arguments.directory):
        # node0 also shows inputs that it has consumed, of which there is nothing to copy.
        (read_install if wanted.bootstrap else read)(arguments.directory)
    topology = chosen.sized(wanted)
    lab = Lab(topology, arguments.artifacts, chosen.subject, wait_for_memory=arguments.wait)
    notes = [f"machines: {line}" for line in hardware.raised(wanted, topology)]
    silent = [text for text in others if text not in stood_in(wanted)]
    if topology.bootstrap:
        notes.append("machines: no agent-config.yaml, so a bootstrap machine is added (docs/upi.md)")
    notes += [
        f"network: nothing answers at {text}, which the files name as a router or server; if yours does, --set "
        f"'aliases=[{text}]'"
        for text in silent
    ]
    return _Installation(arguments, lab, chosen, notes).run(skip)


def _plan(arguments: argparse.Namespace, wanted: Topology, lines: list[str]) -> int:
    """Print the lab; 0. Raises TopologyError with the reasons why there can be no such lab here, which may be for
    another host, or be edited."""
    topology = wanted
    if any(_asked(arguments, name) for name in OPTIONS):
        # Machines are as large as what is to be installed demands.
        topology = choose(lambda name: _asked(arguments, name)).sized(wanted)
    inputs(arguments.directory, _skipped(arguments))
    if arguments.output == "json":
        places.print_json(written(topology))
    else:
        print(topology.dump(), end="")
    for line in hardware.raised(wanted, topology):
        print(f"node0-lab: machines: {line}", file=sys.stderr)
    if lines:
        raise TopologyError(str(arguments.directory), lines)
    return 0


def _skipped(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Return the folders of labs, which may lie below the user's directory."""
    return labs_dir(), state_dir(), cache_dir(), arguments.artifacts or state_dir() / "artifacts"


class _Installation:
    """One deployment in a lab that is not up yet, and what it says on standard output: lines as things come to exist,
    or all of it as one document at the end."""

    def __init__(self, arguments: argparse.Namespace, lab: Lab, chosen: Chosen, notes: Sequence[str]) -> None:
        self.arguments, self.lab, self.chosen = arguments, lab, chosen
        self.as_json = arguments.output == "json"
        self.notes, self.adapted = list(notes), list[str]()
        self.up = self.collecting = self.done = False
        self.interruptions = 0
        self.begin = self.came_up = time.monotonic()

    def run(self, skip: Sequence[Path]) -> int:
        """Bring up the lab and install; returns 0. Raises LabError, DriverError, OSError."""
        lab, topology = self.lab, self.lab.topology
        kind, durations = f"{len(topology.nodes)} {topology.machine}, {topology.boot}", cache_dir() / "deployments.json"
        with (
            interrupts.announced(self._consequence),
            _progress(self.arguments, topology, last_time(durations, kind)) as view,
            lab,
        ):
            self.up, self.came_up = True, time.monotonic()
            kind_of = UserProvisioned if topology.bootstrap else Deployment
            work = kind_of(lab, self.chosen.installer, self.chosen.subject)
            if view is not None:
                view.machines, view.events = list(lab.nodes), work.directory / "logs/events.json"
            with afterwards(
                ("keep what the installer left", work.keep_evidence),
                ("collect the evidence", self._collect),
                ("publish the summary", lambda: summary.publish(lab.artifacts)),
                ("keep the lab", self._keep),
                ("say how to go on", self._tell),
            ):
                if not self.as_json:
                    describe(records.read(lab.id))
                self._install(work, skip)
                if work.kubeconfig.exists():
                    # Without the wait for other labs.
                    note_time(durations, kind, time.monotonic() - self.came_up)
                lab.check()
                self.done = True
        return 0

    def _install(self, work: Deployment, skip: Sequence[Path]) -> None:
        image, as_is = self.arguments.iso, self.arguments.as_is
        others = stood_in(self.lab.topology)
        self.notes += [
            f"network: the lab answers at {text} too, in the place of that router or server" for text in others
        ]
        self.adapted = work.prepare(self.arguments.directory, adapt=image is None, as_is=as_is, skip=skip)
        if not self.as_json:
            for label, lines in (("lab", self.notes), ("adapted", self.adapted)):
                for line in lines:
                    print(f"{label:<10} {line}")
            _pass_on()
        if image is None:
            work.create_image()
        work.boot(image=image)
        if not work.kubeconfig.exists():
            return
        self.lab.note_cluster("installing")
        if not self.as_json:
            places.tell_cluster(records.read(self.lab.id))
            _pass_on()
        work.wait()
        self.lab.note_cluster("installed")

    def _collect(self) -> None:
        if self.interruptions > 1:
            return
        self.collecting = True
        # The evidence has phases.json, to which this phase does not belong.
        with Phases(self.lab.artifacts / "phases.json", lambda: False).phase("collect the evidence"):
            self.lab.collect()

    @property
    def _stays(self) -> bool:
        keep = self.arguments.lab_keep
        return keep == "always" or (keep == "on-failure" and not self.done)

    def _keep(self) -> None:
        if self._stays:
            self.lab.keep()

    def _consequence(self) -> str:
        lab_id = self.lab.id
        if not self.up:
            return f"lab {lab_id} is taken down"
        after = (
            f"lab {lab_id} stays (end it: node0-lab down --lab {lab_id})" if self._stays else "the lab is taken down"
        )
        self.interruptions += 1
        if self.collecting or self.interruptions > 1:
            return f"evidence is left out, {after}"
        return f"the installer is ended, evidence is collected (a second interrupt leaves it out), then {after}"

    def _tell(self) -> None:
        """Say how to go on; it is called while the error that ended the deployment is handled."""
        record = records.read(self.lab.id)
        if self.as_json:
            document = {
                **places.document(record),
                "installed": self.done,
                "kept": self._stays,
                "notes": self.notes,
                "adapted": self.adapted,
                "seconds": round(time.monotonic() - self.begin),
            }
            if (error := sys.exception()) is not None:
                document["error"] = strip_control(str(error) or type(error).__name__)
            if not self._stays:
                # Its places are gone with it.
                document["cluster"] = {"state": record.cluster or "none"}
                del document["directory"]
            places.print_json(document)
            return
        if self._stays:
            if self.done:
                places.tell_cluster(record)
            print(f"shell      node0-lab ssh --lab {self.lab.id} {next(iter(self.lab.nodes))}")
            print(f"end it     node0-lab down --lab {self.lab.id}")
        print(f"evidence   {self.lab.artifacts}")


def _pass_on() -> None:
    """Flush what was printed, which a pipe would have at the end only. An installation goes on without a reader, and
    says at its end that there is none."""
    with suppress(OSError):
        sys.stdout.flush()


def _progress(
    arguments: argparse.Namespace, topology: Topology, expected: float | None
) -> AbstractContextManager[liveview.LiveView | None]:
    """Choose how the deployment is shown: compact on a terminal, as a log elsewhere and with --verbose."""
    logging.getLogger().setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Elapsed("%(message)s"))
        handler.addFilter(_works_here)
    return liveview.of(topology, expected, verbose=arguments.verbose)


def _works_here(record: logging.LogRecord) -> bool:
    """Leave out the installer's advice to export KUBECONFIG: it works in the lab's network alone, and the command that
    works here follows it."""
    return not _EXPORT.search(record.getMessage())


def _asked(arguments: argparse.Namespace, option: str) -> str | None:
    value: str | None = vars(arguments)[option.replace("-", "_")]
    return value
