"""``python -m lab.release.os build [--extra /path/in/system=file]...``: build the machine OS, print its directory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.release.os.build import build_machine_os
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import default_cache


def _extra(text: str) -> tuple[str, Path]:
    target, equals, source = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} has no '=': /path/in/system=file wanted")
    return target, Path(source)


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code. The ISO's path is the only line on standard output."""
    parser = argparse.ArgumentParser(prog="python -m lab.release.os", description="The lab release's machine OS")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build it, or find it in the cache; prints the ISO's path")
    build.add_argument("--extra", action="append", default=[], type=_extra, metavar="DST=SRC", help="file to add")
    build.add_argument("--cache", type=Path, default=None, help="cache directory (default: node0's)")
    options = parser.parse_args(argv)
    try:
        machine_os = build_machine_os(options.cache or default_cache(), dict(options.extra))
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(machine_os.iso)
    return 0


if __name__ == "__main__":
    sys.exit(main())
