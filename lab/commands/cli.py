"""`node0-lab`: labs by hand."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from drivers.console import strip_control
from drivers.errors import DriverError
from drivers.protocols import PowerState
from installer.common.commandline import add_completion, print_completion, print_group_help
from installer.common.numbers import whole_type
from installer.common.streams import discard_output, output_is_lost
from lab import topology
from lab.bmcs.recorded import profile_of
from lab.cleanup import finish
from lab.commands import access, completion, interrupts, liveview, places
from lab.commands import conformance as conformance_command
from lab.commands import deploy as deploy_command
from lab.commands import fault as fault_command
from lab.commands import offer as offer_command
from lab.commands.deploy import BMCS, KINDS, bmc
from lab.commands.places import add_output
from lab.commands.terminal import connect_console, describe, describe_networks
from lab.errors import LabError, PreflightError, SubjectError, TopologyError, UnknownLabError
from lab.host import budget, records
from lab.host.identity import alive
from lab.host.namespaces import enter_argv
from lab.host.paths import budget_file, check_environment, labs_dir
from lab.host.unsupported import unsupported
from lab.hub.controlplane import ADMIN
from lab.lab import Lab
from lab.machines import containers
from lab.machines.node import Node
from lab.subject.installer import default_installer
from lab.subject.options import add_options, choose
from lab.supervisor import watch

_DOWN_SECONDS = 60.0
_EPILOG = """\
A lab is one process with its own namespaces: its network, names and addresses exist inside it only, and when it ends
it leaves nothing behind. To begin with:

  node0-lab deploy DIR               install the cluster of DIR/install-config.yaml and DIR/agent-config.yaml in a lab
  node0-lab up sno --iso my.iso      bring up one machine and boot it from an ISO, through its BMC
  node0-lab ls                       which labs run, and their machines
  node0-lab console master-0         its serial line (leave with Ctrl-])
  node0-lab ssh master-0             a shell on it, as user core
  node0-lab kubectl get nodes        the cluster that was deployed in it
  node0-lab open console             its console in this machine's browser, through a proxy
  node0-lab exec -- curl -k https://api.ostest.test.node0.example:6443/readyz
  node0-lab down                     end it

With more than one lab, say which: --lab ID. Topologies are presets or YAML files:
"""


@cache
def parser() -> argparse.ArgumentParser:
    """Make the command line, once a process, which takes 20 ms."""
    parser = argparse.ArgumentParser(
        prog="node0-lab",
        description="Virtual bare metal: machines behind Redfish BMCs, with DNS, DHCP, NTP and a registry.",
        epilog=_EPILOG + f"  {topology.PATTERN}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbose = "log more; also after up and deploy"
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)
    parser.add_argument("--lab", metavar="ID", help="which lab, if several run; also after the command")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    up = command("up", _up, "bring up a lab and leave it running")
    up.add_argument("topology", metavar="TOPOLOGY", help="a preset, for example sno, or a YAML file (docs/topology.md)")
    up.add_argument(
        "--machines", choices=KINDS, help="run the machines as VMs or as containers (default: the topology's)"
    )
    up.add_argument(
        "--bmc",
        type=bmc,
        metavar="NAME",
        help=f"the machines' BMCs: {', '.join(BMCS)}, or the path of a recorded Redfish tree, see docs/bmcs.md "
        "(default: the topology's)",
    )
    up.add_argument(
        "--hub", action="store_true", help="with a Kubernetes API server to apply clusters to (docs/topology.md)"
    )
    up.add_argument("--iso", type=Path, metavar="FILE", help="boot every machine from this image")
    up.add_argument(
        "--release",
        nargs="?",
        const="",
        metavar="PULLSPEC",
        help="serve this release from the registry (without PULLSPEC the lab release, built if needed)",
    )
    add_options(up.add_argument, only=("release-dir", "pull-secret", "ca"))
    deploy_command.add_lab_options(up)
    add_output(up)
    deploy = command("deploy", deploy_command.run, "install a cluster from its config files, in a lab made to fit them")
    deploy_command.add_arguments(deploy)
    for sub in (up, deploy):
        sub.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="log more")
    add_output(command("ls", _ls, "list the labs that run, their machines, and where their clusters are found"))
    node = "the machine's name, for example master-0"
    ssh = command("ssh", _ssh, "open a shell on a machine, or run one command there")
    ssh.add_argument("node", metavar="NODE", help=node)
    words = ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="run this instead of a shell")
    # argparse would name it beside NODE where both are missing.
    words.required = False
    execute = command("exec", _exec, "run a command in the lab's network")
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run (default: a shell)")
    console = command("console", _console, "use a machine's serial console; Ctrl-] leaves")
    console.add_argument("node", metavar="NODE", help=node)
    console.add_argument("--log", action="store_true", help="print its output so far, and exit")
    opened = command("open", _open, "reach a cluster's page or console from this machine's browser, until Ctrl-C")
    opened.add_argument("what", choices=("page", "console"), help="the installation's page, or the cluster's console")
    opened.add_argument("--port", type=whole_type(0, 65535), default=0, help="the proxy's port (default: any)")
    kubectl = command("kubectl", _kubectl, "run kubectl against the cluster that was deployed in a lab, or its hub")
    kubectl.add_argument("--hub", action="store_true", help="the lab's hub, also where there is a cluster")
    kubectl.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="kubectl's arguments")
    conformance = command(
        "conformance", _conformance, "run Kubernetes' own conformance suite against the cluster of a lab"
    )
    conformance_command.add_arguments(conformance)
    offer = command("offer", _offer, "offer releases that the cluster of a lab can be upgraded to")
    offer_command.add_arguments(offer)
    shot = command("shot", _shot, "take a picture of a virtual machine's screen")
    shot.add_argument("node", metavar="NODE", help=node)
    shot.add_argument("file", type=Path, metavar="FILE", help="PNG file to write")
    collect = command("collect", _collect, "gather logs, screens and journals of a lab")
    collect.add_argument("directory", type=Path, metavar="DIR", help="directory to write them to")
    down = command("down", _down, "end a lab")
    down.add_argument("--all", action="store_true", help="end every lab")
    swarm = command("swarm", _swarm, "load-test a rendezvous service with simulated agents")
    swarm.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="arguments of node0 swarm; `node0-lab swarm -- --help` lists them",
    )
    fault = command("fault", _fault, "break a running lab, and mend it")
    fault_command.add_arguments(fault, _add_lab)
    command("gc", _gc, "remove what crashed labs left behind")
    for sub in (ssh, execute, console, opened, kubectl, conformance, offer, shot, collect, down, fault):
        _add_lab(sub)
    completed = command(
        "completion",
        lambda arguments: print_completion("node0-lab", arguments.shell),
        "print a script by which a shell completes this program's command lines",
    )
    add_completion(completed, "node0-lab")
    return parser


def _add_lab(parser: argparse.ArgumentParser) -> None:
    # Without a default, which would hide what stands before the command.
    text = "which lab, if several run (see node0-lab ls)"
    parser.add_argument("--lab", metavar="ID", default=argparse.SUPPRESS, help=text)
    parser.set_defaults(of_a_lab=parser)


def _parsed(commands: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments. One too many may be meant to say which lab: then the error says how that is done."""
    arguments, unknown = commands.parse_known_args(argv)
    if unknown and arguments.command == "kubectl":
        # argparse keeps options before the first word apart from the rest.
        arguments.words, unknown = [*unknown, *arguments.words], []
    if unknown:
        unrecognized = f"unrecognized arguments: {' '.join(unknown)}"
        if arguments.lab is None and (of_a_lab := getattr(arguments, "of_a_lab", None)):
            of_a_lab.error(f"{unrecognized} (which lab is said with --lab ID)")
        commands.error(unrecognized)
    if arguments.lab is not None and not hasattr(arguments, "of_a_lab"):
        commands.error(f"argument --lab: {arguments.command} is not about one lab")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 after an error (one line each on stderr), the installer's where it refused
    its inputs, 130 after Ctrl-C, and 143 after SIGTERM where that ends a lab.

    Raises OSError when its output cannot be written.
    """
    commands = parser()
    completion.offer(commands, _chosen)
    if print_group_help(commands, sys.argv[1:] if argv is None else argv):
        return 0
    arguments = _parsed(commands, argv)
    level = logging.INFO if arguments.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    try:
        check_environment()
        _expect_no_lab(arguments)
        code: int = arguments.run(arguments)
    except PreflightError as error:
        for problem in error.problems:
            print(f"node0-lab: {problem}", file=sys.stderr)
        return 1
    except (LabError, DriverError, OSError) as error:
        if isinstance(error, OSError) and output_is_lost():
            raise
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            error.add_note("labs belong to root: run it as root")
        for line in str(error).splitlines() if isinstance(error, TopologyError) else [str(error)]:
            # A machine, or a peer, may have said it.
            print(f"node0-lab: {strip_control(line)}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"node0-lab: also, {strip_control(note)}", file=sys.stderr)
        return error.exit_code if isinstance(error, TopologyError) else 1
    except interrupts.Interrupted as error:
        print(f"node0-lab: ended by {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return code


def _chosen(wanted: str | None) -> records.Record:
    if wanted:
        return records.read(wanted)
    running = [r for r in records.all_labs() if r.runs]
    if len(running) == 1:
        return running[0]
    names = ", ".join(r.id for r in running)
    raise UnknownLabError(f"several labs run; say which with --lab: {names}" if running else "no lab runs")


def _expect_no_lab(arguments: argparse.Namespace) -> None:
    """Raise UnknownLabError where a lab's name stands in the place of a machine's, or before a command."""
    if arguments.lab is not None or not hasattr(arguments, "of_a_lab"):
        return
    name = getattr(arguments, "node", None) or next(iter(getattr(arguments, "words", ())), None)
    if name is not None and any(name == lab_dir.id for lab_dir in records.look()):
        raise UnknownLabError(f"{name} is a lab; which lab is said with --lab {name}")


def _attached(arguments: argparse.Namespace) -> Lab:
    return Lab.attach(_chosen(arguments.lab).id)


def _entered(arguments: argparse.Namespace) -> records.Record:
    """Return the lab to enter. Raises where it has ended: its first process' pid may be another's by now."""
    return watch.running(_chosen(arguments.lab).id)


def _running(lab: Lab, name: str) -> Node:
    node = lab.nodes[name]
    if lab.hypervisor.machine(node.name).state() is PowerState.OFF:
        raise LabError(f"{name} is off; `node0-lab console --log {name}` shows its output so far")
    return node


def _up(arguments: argparse.Namespace) -> int:
    shape = (
        topology.load(arguments.topology)
        .with_machines(arguments.machines)
        .with_bmcs(arguments.bmc)
        .with_hub(arguments.hub)
    )
    if lines := unsupported(shape):
        raise TopologyError(arguments.topology, lines)
    if arguments.iso is not None and not arguments.iso.is_file():
        raise FileNotFoundError(f"{arguments.iso}: no such image")
    release = None
    for name in ("pull_secret", "ca"):
        if vars(arguments)[name] and arguments.release is None and arguments.release_dir is None:
            raise SubjectError(f"--{name.replace('_', '-')}", "has no use without --release or --release-dir")
    if arguments.release is not None or arguments.release_dir is not None:
        release = choose(lambda name: vars(arguments).get(name.replace("-", "_")) or None).subject
    begin = time.monotonic()
    lab = Lab(shape, arguments.artifacts, release, keep=True, wait_for_memory=arguments.wait)
    # The lab is kept once the block ends, before anything is printed: that may fail.
    with (
        interrupts.announced(lambda: f"lab {lab.id} is taken down"),
        liveview.of(shape, None, verbose=arguments.verbose),
        lab,
    ):
        try:
            if arguments.iso is not None:
                with lab.phase("insert media, power on"):
                    for node in lab.nodes.values():
                        node.boot_image(arguments.iso)
            lab.check()
        except BaseException as error:
            finish(("end the lab", lab.stop), cause=error)
            raise
    try:
        if arguments.output == "json":
            places.print_json({**places.document(records.read(lab.id)), **_services(lab)})
        else:
            _describe_all(lab, time.monotonic() - begin)
        sys.stdout.flush()
    except OSError as error:
        # What was asked for is done, and its name has to be known.
        print(f"node0-lab: lab {lab.id} is up; standard output: {error.strerror}", file=sys.stderr)
        discard_output()
    return 0


def _services(lab: Lab) -> dict[str, object]:
    """Return the lab's own addresses as plain data; passwords stay in their file."""
    return {
        "networks": [network.name for network in lab.topology.all_networks],
        "bmc": {"url": lab.layout.bmc_url, "secrets": str(lab.layout.secrets)},
        "registry": lab.layout.registry,
    }


def _describe_all(lab: Lab, seconds: float) -> None:
    print(f"lab {lab.id} is up after {seconds:.1f} s")
    describe(records.read(lab.id))
    describe_networks(lab.layout)
    print(f"  BMC       {lab.layout.bmc_url} (user and password: {lab.layout.secrets})")
    for spec in lab.topology.nodes:
        if (kind := lab.topology.bmc_of(spec)) != "lab":
            print(f"  BMC       {lab.layout.bmc_url_of(spec)} of {spec.name}, as {profile_of(kind).title}")
    print(f"  registry  {lab.layout.registry}")
    if lab.topology.hub:
        print(f"  hub       node0-lab kubectl --lab {lab.id} get crds ({lab.layout.hub / ADMIN})")
    print(f"  files     {lab.layout.root}")
    print(f"a command in its network: node0-lab exec --lab {lab.id} -- COMMAND")
    print(f"end it with: node0-lab down --lab {lab.id}")


def _ls(arguments: argparse.Namespace) -> int:
    labs = records.look()
    running = [f.record for f in labs if f.state is records.State.RUNS and f.record is not None]
    ledger = budget.Ledger(budget_file(), budget.capacity(labs_dir()))
    entries, foreign = ledger.entries(), ledger.foreign()
    if arguments.output == "json":
        failed = {lab_dir.id: [watch.described(note) for note in watch.noted(lab_dir.root)] for lab_dir in labs}
        document = {
            "labs": [places.document(record) for record in running],
            "failed": {name: notes for name, notes in failed.items() if notes},
            "ended": [lab_dir.id for lab_dir in labs if lab_dir.state is records.State.ENDED],
            "unclear": {lab_dir.id: lab_dir.line for lab_dir in labs if lab_dir.line},
            "waiting": [{"lab": e.lab, "pid": e.pid, **_amount(e.amount)} for e in entries if e.waiting],
            "free": _amount(ledger.free(entries)),
        }
        places.print_json(document)
        return 0
    for lab_dir in labs:
        if lab_dir.line:
            print(f"{lab_dir.id}  {lab_dir.line}")
        _tell_what_ended(lab_dir)
        if lab_dir.state is records.State.ENDED:
            print(f"{lab_dir.id}  has ended unexpectedly; `node0-lab gc` removes its remains")
    for record in running:
        age = int(time.time() - record.created)
        owner = "kept" if record.kept or not alive(*record.owner) else f"pid {record.owner[0]}"
        print(f"{record.id}  {record.topology.name}, up {age // 60} min {age % 60} s, {owner}")
        places.tell(record)
    if foreign:
        print(f"{foreign} entry(ies) of {budget_file()} are another version's, and are not counted")
    for entry in entries:
        if entry.waiting:
            print(f"{entry.lab}  waits for {entry.amount} (pid {entry.pid})")
    print(f"{sum(f.state is records.State.RUNS for f in labs)} lab(s); free: {ledger.free(entries)}")
    return 0


def _amount(amount: budget.Amount) -> dict[str, int]:
    return {"memoryMiB": amount.mib, "vcpu": amount.vcpu, "diskGiB": amount.disk_gib}


def _tell_what_ended(lab_dir: records.LabDirectory) -> None:
    """Print a lab's daemons that have ended unexpectedly."""
    for note in watch.noted(lab_dir.root):
        last = note.tail.splitlines()[-1:] or ["it logged nothing"]
        print(f"{lab_dir.id}  FAILED: {watch.described(note)}: {strip_control(last[0])}")


def _words(arguments: argparse.Namespace) -> list[str]:
    """Return the command after the other arguments, with or without `--` before it."""
    return [word for index, word in enumerate(arguments.words) if (index, word) != (0, "--")]


def _ssh(arguments: argparse.Namespace) -> int:
    if arguments.words[:1] == ["--lab"] and len(arguments.words) > 1:
        # After the machine's name, argparse takes it for a part of the command.
        arguments.lab, arguments.words = arguments.words[1], arguments.words[2:]
    record = _entered(arguments)
    with Lab.attach(record.id) as lab:
        spec = _running(lab, arguments.node).spec
    argv = ["ssh", "-F", str(record.root / "ssh_config"), spec.ip, *_words(arguments)]
    return _replace(enter_argv(record.init, argv))


def _exec(arguments: argparse.Namespace) -> int:
    words = _words(arguments) or [os.environ.get("SHELL", "/bin/sh")]
    return _replace(enter_argv(_entered(arguments).init, words, cwd=os.getcwd()))


def _swarm(arguments: argparse.Namespace) -> int:
    return _replace([*default_installer(), "swarm", *_words(arguments)])


def _replace(argv: list[str]) -> int:
    os.execvp(argv[0], argv)


def _console(arguments: argparse.Namespace) -> int:
    lab = _attached(arguments)
    with lab:
        if arguments.log:
            print(lab.nodes[arguments.node].console.text(), end="")
            return 0
        console = _running(lab, arguments.node).console
        if console.input_socket is None:
            raise LabError(f"{arguments.node} has no serial line to type on")
        return connect_console(console.input_socket, console.raw()[-2000:])


def _open(arguments: argparse.Namespace) -> int:
    record = _chosen(arguments.lab)
    if arguments.what == "page" and record.cluster == "installed":
        raise LabError("the installation has ended, and its page with it; `node0-lab open console` is the cluster's")
    # The proxy says itself when its lab ends.
    with Lab.attach(record.id, watched=False) as lab:
        return access.serve(lab, arguments.what, arguments.port)


def _kubectl(arguments: argparse.Namespace) -> int:
    record = _entered(arguments)
    config = access.kubeconfig_for(record.root, hub=arguments.hub)
    if record.cluster == "installing" and config == record.root / places.KUBECONFIG:
        print("node0-lab: the cluster is not installed yet: its API may not answer", file=sys.stderr)
    words = ["kubectl", f"--kubeconfig={config}", *_words(arguments)]
    return _replace(enter_argv(record.init, words, cwd=os.getcwd()))


def _conformance(arguments: argparse.Namespace) -> int:
    return conformance_command.run(arguments, None if arguments.list or arguments.build else _entered(arguments))


def _offer(arguments: argparse.Namespace) -> int:
    return offer_command.run(arguments, _entered(arguments))


def _shot(arguments: argparse.Namespace) -> int:
    lab = _attached(arguments)
    with lab:
        _running(lab, arguments.node).screenshot(arguments.file)
    print(arguments.file)
    return 0


def _collect(arguments: argparse.Namespace) -> int:
    lab = _attached(arguments)
    # A machine that does not answer costs half a minute.
    logging.getLogger("lab.evidence").setLevel(logging.INFO)
    with lab:
        missing = lab.collect(arguments.directory)
    for line in missing:
        print(f"could not collect: {strip_control(line)}", file=sys.stderr)
    print(arguments.directory)
    return 0


def _fault(arguments: argparse.Namespace) -> int:
    return fault_command.run(arguments, _entered(arguments))


def _down(arguments: argparse.Namespace) -> int:
    # Labs of every version: all versions share what it takes to end one.
    running = [lab_dir.id for lab_dir in records.look() if lab_dir.state is records.State.RUNS]
    chosen = running if arguments.all else [arguments.lab or _chosen(None).id]
    for lab_id in chosen:
        begin = time.monotonic()
        records.end(lab_id, _DOWN_SECONDS)
        print(f"lab {lab_id} is down after {time.monotonic() - begin:.1f} s")
    return 0


def _gc(_arguments: argparse.Namespace) -> int:
    for lab_dir in records.look():
        _tell_what_ended(lab_dir)
    lines = containers.reap()
    for line in (*lines, *records.unclear()):
        print(line)
    print(f"{len(lines)} dead lab(s) removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
