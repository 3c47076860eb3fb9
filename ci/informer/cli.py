"""`node0-ci`: informers on the command line."""

from __future__ import annotations

import argparse
import io
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence

from ci.informer.commands import after, hosts, imported, judging, nightly, runs
from ci.informer.commands.common import BAD_INPUT, shown
from ci.informer.errors import InformerError
from installer.common.commandline import add_completion, complete, print_completion, print_group_help
from installer.common.streams import output_is_lost, with_streams
from lab.errors import LabError

_EPILOG = """\
To begin with:

  node0-ci load artifacts --payload 4.20.1       remember what pytest scenarios/ left
  node0-ci load *.xml --payload 4.20.1 --job e2e     or the JUnit files of a run elsewhere
  node0-ci run sno-ipv4-static-uefi -n 3 --machines container --release quay.example/ocp/release:4.20.1-x86_64
  node0-ci status                                how the jobs are
  node0-ci verdict 4.20.1                        accepted or rejected, and why
  node0-ci triage                                whose fault the red runs are, and which are the same
  node0-ci page public                           all of it as static pages
  node0-ci simulate --nights 365 --seed 1        what the judge finds in a year that is made up

Several machines:

  openssl req -x509 -newkey ed25519 -nodes -days 365 -subj /CN=node0-ci -keyout DIR/key.pem -out DIR/cert.pem
  node0-ci scheduler 10.0.0.1:8786 --tls DIR     on one of them
  node0-ci worker 10.0.0.1:8786 --tls DIR        on each that runs labs
  node0-ci run ... --scheduler 10.0.0.1:8786 --tls DIR
  node0-ci resume --scheduler 10.0.0.1:8786 --tls DIR   after the run was killed or interrupted

Every night:

  node0-ci nightly --hours 4 --plan              what a night would run, and why; without --plan it does
  node0-ci serve                                 the pages at http://127.0.0.1:8080, as they become
  node0-ci prune artifacts --gib 50              old evidence goes, runs stay in the history

A job is SCENARIO@KIND-OF-MACHINES. The history is one file: --history, $NODE0_HISTORY, or history.db below
~/.local/state/node0.

exit codes: 0 fine or accepted, 1 rejected or red, 2 bad input, 3 undecided (more runs would tell, or all were
invalid), 130 Ctrl-C, 141 its output is no longer read
"""


def _add_history(parser: argparse.ArgumentParser, default: str | None) -> None:
    """--history is understood before and after the command; only the first parser has a default."""
    history_help = "the history (default: $NODE0_HISTORY, else history.db in the labs' state directory)"
    parser.add_argument("--history", type=_file, metavar="FILE", default=default, help=history_help)


def _file(value: str) -> str:
    """Return an argument that names a file."""
    if not value:
        raise argparse.ArgumentTypeError("must be a file, not ''")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="node0-ci",
        description="Says what broke, how sure it is of that, and what to do about it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_history(parser, None)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        _add_history(sub, argparse.SUPPRESS)
        sub.set_defaults(run=function)
        return sub

    for module in (runs, nightly, judging, after, imported, hosts):
        module.add(command)
    completion = command(
        "completion",
        lambda arguments: print_completion("node0-ci", arguments.shell),
        "print a script by which a shell completes this program's command lines",
    )
    add_completion(completion, "node0-ci")
    return parser


def _said(error: Exception) -> str:
    """Return an error without the number that Python puts before it."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; exit codes as in --help."""
    return with_streams("node0-ci", lambda: _main(argv), BAD_INPUT)


def _main(argv: Sequence[str] | None) -> int:
    parser = _parser()
    complete(parser)
    if print_group_help(parser, sys.argv[1:] if argv is None else argv):
        return 0
    arguments = parser.parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a name is no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read it has seen enough (`node0-ci history | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (InformerError, LabError, OSError, sqlite3.Error) as error:
        if isinstance(error, OSError) and output_is_lost():
            raise
        for line in _said(error).splitlines():
            print(f"node0-ci: {shown(line)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
