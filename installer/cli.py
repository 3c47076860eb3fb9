"""The node0 command. Sub-commands import what they need when they run, so that --help answers at once."""

from __future__ import annotations

import argparse
import contextlib
import logging
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from installer import logs, signals
from installer.addnodes import arguments as add_nodes_arguments
from installer.common import numbers
from installer.common.commandline import add_completion, complete, print_completion, print_group_help
from installer.common.streams import with_streams
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, EXIT_INTERRUPTED, InstallerError
from installer.hub import arguments as hub_arguments
from installer.ipi import arguments as ipi_arguments
from installer.iso_tool import arguments
from installer.upi import arguments as upi_arguments

# A longer time is meant as "for ever": an error is better than a wait of a month.
LONGEST_WAIT = 30 * numbers.DAY

#: Commands that work on an asset directory, and keep their log in it.
_WITH_ASSETS = ("agent", "create", "destroy", "wait-for")

# Not by __name__, which is __main__ where this is started as a program: only loggers below `installer` are set up.
log = logging.getLogger("installer.cli")

DESCRIPTION = "Agent-based cluster installer: one ISO, booted on every host, makes them a cluster."
CREATE = {
    "agent-config-template": "Write a sample agent-config.yaml",
    "cluster-manifests": "Write the manifests made from the configs, to be edited before the image is made",
    "pxe-files": "Make the files for booting from a network",
    "config-image": "Make an ISO with one cluster's files, for hosts that boot an unconfigured image",
    "unconfigured-image": "Make an ISO that names no cluster: its hosts ask on their consoles, and a page installs",
    "unconfigured-ignition": "Make a live host's Ignition config without a cluster's files",
    "certificates": "Write the cluster's signers and kubeadmin's password",
}
WAIT_FOR = {
    "bootstrap-complete": "Wait until the cluster's temporary control plane has done its part",
    "install-complete": "Wait until the cluster is complete, then print its console URL and password",
}
#: The time-outs without --timeout (waitfor/settings.py), in words.
TIMEOUTS = {
    "bootstrap-complete": "60 minutes",
    "install-complete": (
        "60 minutes for the bootstrap, 40 for the cluster, on platform baremetal 60, and 30 for its operators"
    ),
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in the form of all other errors, behind the usage."""

    def error(self, message: str) -> NoReturn:
        """Exit code 2."""
        self.print_usage(sys.stderr)
        logs.set_up("error", None)
        log.critical("%s: %s", self.prog, message)
        self.exit(2)


class _Version(argparse.Action):
    """--version: what the command of that name prints."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(_version())


def _directory(text: str) -> Path:
    """--dir; an empty one (of a variable that is not set) is not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def _common(parser: argparse.ArgumentParser, default: Any = argparse.SUPPRESS) -> None:
    """--dir and --log-level are understood before and behind the sub-command; only the first parser has defaults."""
    parser.add_argument(
        "--dir",
        type=_directory,
        default=Path(".") if default is None else default,
        metavar="DIR",
        help="assets directory: inputs are read from it, outputs and state are written to it (default: .)",
    )
    parser.add_argument(
        "--log-level",
        type=str.lower,  # logrus takes its names in any case
        choices=tuple(logs.LEVELS),
        default="info" if default is None else default,
        help="what to print to stderr (default: info); everything goes to DIR/.openshift_install.log",
    )


def _command(parent: Any, name: str, text: str, **kwargs: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parent.add_parser(
        name,
        help=text,
        description=text + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # OpenShift's takes no abbreviated options either
        **kwargs,
    )
    _common(parser)
    return parser


def _add_create(commands: Any) -> None:
    create = _command(commands, "create", "Make the files that hosts are booted with")
    targets = create.add_subparsers(dest="target", required=True, metavar="TARGET")
    _command(
        targets,
        "image",
        "Make the bootable agent ISO",
        epilog=(
            "DIR must hold install-config.yaml, and agent-config.yaml where there are hosts, networks or a rendezvous\n"
            "IP to name. They are consumed: kept in the state file, and removed. Written are agent.x86_64.iso,\n"
            "auth/kubeconfig, auth/kubeadmin-password and rendezvousIP.\n\n"
            "environment:\n"
            "  OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE  release image to install, by digest\n"
            "  OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE       path of a base ISO to use in place of the payload's"
        ),
    )
    for name, text in CREATE.items():
        _command(targets, name, text)


def _add_wait_for(commands: Any) -> None:
    wait = _command(commands, "wait-for", "Follow an installation to its end")
    wait_targets = wait.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, text in WAIT_FOR.items():
        command = _command(
            wait_targets,
            name,
            text,
            epilog="exit codes: 0 done, 5 bootstrap failed or timed out, 6 install failed, 7 operators not stable,\n"
            "            8 interrupted",
        )
        command.add_argument(
            "--timeout",
            type=numbers.real_type(1, LONGEST_WAIT, "seconds"),
            metavar="SECONDS",
            help=f"give up after this long, 1 s to 30 days (default, as OpenShift's: {TIMEOUTS[name]})",
        )
        if name == "install-complete":
            command.add_argument(
                "--skip-password-print", action="store_true", help="say where the kubeadmin password is, not what it is"
            )


def _add_graph(commands: Any) -> None:
    graph = _command(commands, "graph", "Print what the targets of create are made from, as a DOT graph")
    graph.add_argument("--output-file", default="", metavar="FILE", help="write it here (default: standard output)")


def _add_show(commands: Any) -> None:
    show = _command(commands, "show", "Look at what an installation is made from")
    inputs = _command(
        show.add_subparsers(dest="show", required=True, metavar="WHAT"),
        "inputs",
        "Print the inputs in DIR as they are understood: decoded, defaulted and checked, without secrets",
        epilog="Nothing is written to DIR. Errors and exit codes are those of create image.",
    )
    inputs.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="form of the output (default: text)"
    )


def _add_gather(commands: Any) -> None:
    gather = _command(
        commands,
        "gather",
        "Collect what the service and every host can tell of an installation, in one archive without secrets",
        epilog=(
            "Hosts are those that the service knows (or the cluster, when node0 has left for its disk), and those\n"
            "given. They are reached as user core with a private key that belongs to install-config's sshKey."
        ),
    )
    gather.add_argument("--key", type=Path, metavar="FILE", help="private key (default: what ssh uses by itself)")
    gather.add_argument("--user", default="core", help="user to log in as: root, or one with sudo (default: core)")
    gather.add_argument(
        "--host", action="append", default=[], metavar="ADDRESS", help="a further host (may be repeated)"
    )
    gather.add_argument(
        "--ssh-option", action="append", default=[], metavar="NAME=VALUE", help="for ssh's -o, such as ProxyJump=HOST"
    )
    gather.add_argument(
        "--output", type=Path, metavar="FILE", help="the archive (default: DIR/agent-gather-TIME.tar.gz)"
    )


def _add_must_gather(commands: Any) -> None:
    gather = _command(
        commands,
        "gather",
        "Collect what an installed cluster's API can tell, in must-gather's layout, without secrets",
        epilog=(
            "Objects of the cluster and of its own namespaces, logs of their pods (those of the instance before, too)\n"
            "and what kubelets report. Neither the installer's directory nor a new pod is needed.\n\n"
            "exit codes: 0 gathered, 1 the cluster does not answer, or a limit was reached (10 minutes, 1 GiB)"
        ),
    )
    gather.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the cluster's kubeconfig")
    gather.add_argument(
        "--dest-dir", type=_directory, metavar="DIR", help="where to put it (default: must-gather.local.NUMBER)"
    )
    upi_arguments.add_gather_bootstrap(gather, _command)


def _add_service(commands: Any) -> None:
    service = _command(
        commands,
        "service",
        "Run the rendezvous service on this machine: hosts are discovered first, configured afterwards",
        epilog=(
            "DIR holds all state, and the service can be started again on it: tls/ca.crt,\n"
            "auth/{agent,user,watcher}-token, data/.\n"
            "Mirrors are read from mirror/registries.conf and mirror/ca-bundle.crt in DIR, and with\n"
            "mirror/pull-secret.json, where it is there, the release's version at the start.\n\n"
            "A browser that opens URL installs with the token in auth/user-token (docs/browser.md).\n\n"
            "first steps by the API (bash, curl, jq), with CA=DIR/tls/ca.crt and URL as the service prints it:\n"
            "  api() { curl --fail-with-body -sS --cacert $CA -H 'Content-Type: application/json' \\\n"
            "    -H @<(sed 's/^/Authorization: /' DIR/auth/user-token) ${URL}api/assisted-install/v2/$1 \"${@:2}\"; }\n"
            "  jq -n --rawfile secret pull-secret.json '{name: \"lab\", pull_secret: $secret}' |\n"
            "    api infra-envs -d @- | jq -r .download_url   # the image to boot hosts from\n\n"
            "environment:\n"
            "  OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE  release image to install, by digest\n"
            "  OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE       path of a base ISO to use in place of the payload's"
        ),
    )
    service.add_argument(
        "--listen", required=True, metavar="ADDRESS:PORT", help="where to listen: the address that the hosts reach"
    )


def _add_nmstate(commands: Any) -> None:
    nmstate = _command(commands, "nmstate", "Look at network configuration")
    gc = _command(
        nmstate.add_subparsers(dest="nmstate", required=True, metavar="COMMAND"),
        "gc",
        "Print the NetworkManager keyfiles of an NMState document",
    )
    gc.add_argument("file", nargs="?", help="the document (default: standard input)")
    gc.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the output")


def parser() -> argparse.ArgumentParser:
    """Return the whole command line."""
    top = _Parser(prog="node0", description=DESCRIPTION, allow_abbrev=False)
    top.add_argument("--version", action=_Version, nargs=0, help="as the command version")
    _common(top, default=None)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    agent = _command(commands, "agent", "Install a cluster with one ISO and no other machine's help")
    agent_commands = agent.add_subparsers(dest="agent", required=True, metavar="COMMAND")
    _add_create(agent_commands)
    _add_graph(agent_commands)
    _add_show(agent_commands)
    _add_wait_for(agent_commands)
    _add_gather(agent_commands)
    add_nodes = _command(agent_commands, "add-nodes", "Add hosts to a cluster that runs")
    add_nodes_arguments.add_commands(
        add_nodes.add_subparsers(dest="add_nodes", required=True, metavar="COMMAND"), _command
    )
    ipi_arguments.add_boot(agent_commands, _command)
    ipi_arguments.add_cluster(upi_arguments.add_create(commands, _command), _command)
    ipi_arguments.add_destroy(commands, _command)
    upi_arguments.add_wait_for(commands, _command)
    _add_service(commands)
    _add_must_gather(commands)
    _add_nmstate(commands)
    iso = _command(commands, "iso", "Look into a live ISO, and change what it carries")
    arguments.add_commands(iso.add_subparsers(dest="iso_command", required=True, metavar="COMMAND"), _command)
    hub = _command(commands, "hub", "Install clusters from custom resources that are applied to a cluster")
    hub_arguments.add_commands(hub.add_subparsers(dest="hub_command", required=True, metavar="COMMAND"), _command)
    # It has options of its own (see main).
    commands.add_parser("swarm", help="Simulate many agents against a rendezvous service, for load", add_help=False)
    _command(commands, "version", "Print this program's version, commit and release image")
    _add_graph(commands)
    helped = _command(commands, "help", "Print the help of a command")
    helped.add_argument("words", nargs="*", metavar="COMMAND", help="its words, such as agent create")
    completion = _command(
        commands, "completion", "Print a script by which a shell completes this program's command lines"
    )
    add_completion(completion, "node0")
    return top


def _create(target: str, directory: Path) -> int:
    from installer.create.outputs import sweep
    from installer.dirlock import locked

    with locked(directory) as sure:
        try:
            if sure:
                sweep(directory)
            _make(target, directory)
        finally:
            # A signal may come between any two steps, also before anything is in charge of what was begun.
            if sure:
                sweep(directory)
    return 0


def _make(target: str, directory: Path) -> None:
    if target == "image":
        from installer.create.prefetch import prefetch

        with prefetch(directory) as prefetched:
            from installer.create.image import create_image

            create_image(directory, prefetched)
    else:
        from installer.create.targets import TARGETS

        TARGETS[target](directory)


def _graph(output_file: str) -> int:
    from installer.create.graph import dot
    from installer.files import is_stream, write_whole

    if not output_file:
        print(dot(), end="")
        return 0
    path = Path(output_file)
    try:
        if is_stream(path):
            path.write_text(dot())  # a pipe, say
        else:
            write_whole(path, dot().encode(), 0o644)
    except OSError as error:
        raise InstallerError(f"{output_file}: cannot be written: {error.strerror or error}") from error
    return 0


def _service(directory: Path, listen: str, level: str) -> int:
    from installer.dirlock import locked
    from installer.errors import ConfigError
    from installer.rendezvous import standalone

    standalone.listening(listen)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror or error}") from None
    with locked(directory):
        logs.to_journal("%(asctime)s %(levelname)s %(name)s %(message)s", logs.LEVELS[level])
        return standalone.run(directory, listen)


def _version() -> int:
    from importlib.metadata import version

    from installer.create.stages.resolve import DEFAULT_RELEASE
    from installer.overrides import release_override

    override = release_override()
    print(f"node0 {version('node0')}")
    if commit := _commit():
        print(f"built from commit {commit}")
    print(f"release image {override or DEFAULT_RELEASE}")
    # That of another release is known once it is read.
    print(f"release architecture {'unknown' if override else 'amd64'}")
    return 0


def _commit() -> str:
    """Return the checkout's commit; empty where this is no checkout."""
    import subprocess

    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        return ""
    try:
        command = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), "rev-parse", "HEAD"]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _run(args: argparse.Namespace) -> int:
    if args.command == "version":
        return _version()
    if args.command == "completion":
        return print_completion("node0", args.shell)
    if args.command == "graph":
        return _graph(args.output_file)
    if args.command == "help":
        parser().error("help takes the words of a command alone: node0 help [COMMAND]...")
    if args.command == "swarm":  # without one, main has passed the error on
        parser().error("swarm takes no option in front of it: node0 swarm [OPTION]...")
    if args.command == "service":
        return _service(args.dir, args.listen, args.log_level)
    if args.command in ("create", "destroy") and args.target == "cluster":
        from installer.ipi.command import run_cluster

        return run_cluster(args)
    if args.command in ("create", "wait-for") or (args.command == "gather" and args.target):
        from installer.upi.command import run as run_upi

        return run_upi(args)
    if args.command == "gather":
        from installer.gather import mustgather

        if args.kubeconfig is None:
            parser().error("gather needs --kubeconfig FILE, or the word bootstrap: node0 gather --help")
        return mustgather.run(args.kubeconfig, args.dest_dir)
    if args.command == "nmstate":
        from installer.network.command import run_gc

        return run_gc(args.file, args.output)
    if args.command == "hub":
        from installer.hub.command import run as run_hub

        return run_hub(args)
    if args.command == "iso":
        from installer.iso_tool.command import run

        return run(args)
    if args.agent == "add-nodes":
        from installer.addnodes.command import run as run_add_nodes

        return run_add_nodes(args)
    if args.agent == "boot":
        from installer.ipi.command import run_boot

        return run_boot(args)
    if args.agent == "create":
        return _create(args.target, args.dir)
    if args.agent == "graph":
        return _graph(args.output_file)
    if args.agent == "show":
        from installer.create.show import show_inputs

        print(show_inputs(args.dir, args.output), end="")
        return 0
    if args.agent == "gather":
        from installer import gather
        from installer.gather.remote import Access

        return gather.run(args.dir, Access(args.user, args.key, args.ssh_option), args.host, args.output)
    from installer import waitfor

    quiet = getattr(args, "skip_password_print", False)
    return int(waitfor.run(args.target, args.dir, args.timeout, skip_password_print=quiet))


def _parsed(command_line: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    for word in argv:
        if word.startswith("--") and word.endswith("=--"):
            # argparse would take the -- away, and leave a list where there is to be a value.
            command_line.error(f"argument {word[:-3]}: expected one argument")
    return command_line.parse_args(argv)


def _unusable(directory: Path) -> str:
    """Return the reason why this directory cannot be the asset directory; empty if it can."""
    try:
        return "" if stat.S_ISDIR(directory.stat().st_mode) else "is not a directory"
    except FileNotFoundError:
        return "no such directory"
    except OSError as error:
        return error.strerror or str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (reference/installer.md §8.3)."""
    return with_streams("node0", lambda: _main(argv), EXIT_FATAL)


def _main(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    command_line = parser()
    complete(command_line)
    if words[:1] == ["help"] and not any(word.startswith("-") for word in words):
        words = [*words[1:], "--help"]
    if words[:1] == ["swarm"]:
        from installer.agent.swarm import command as swarm

        return swarm.main(words[1:])
    if print_group_help(command_line, words):
        return 0
    args = _parsed(command_line, words)
    directory = args.dir if args.command in _WITH_ASSETS or getattr(args, "target", None) == "bootstrap" else None
    if getattr(args, "target", None) in ("agent-config-template", "install-config"):  # need no asset directory
        with contextlib.suppress(OSError):
            args.dir.mkdir(parents=True, exist_ok=True)
    if directory is not None and (problem := _unusable(directory)):
        logs.set_up("error", None)
        log.critical("--dir %s: %s", directory, problem)
        return EXIT_FATAL
    try:
        with signals.ended_by_signals():
            if getattr(args, "show", None):
                # Nothing is made, so there is no progress to tell and no log to keep.
                logs.set_up("warning" if args.log_level == "info" else args.log_level, None)
            else:
                logs.set_up(args.log_level, directory)
            return _run(args)
    except InstallerError as error:
        # As OpenShift's: an install-config that cannot be read is an error, everything else is fatal.
        log.log(logging.ERROR if error.exit_code == EXIT_INSTALL_CONFIG else logging.CRITICAL, "%s", error)
        return error.exit_code
    except KeyboardInterrupt as error:
        log.error("interrupted%s", f" by {error}" if str(error) else "")
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
