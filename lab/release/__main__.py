"""Build the lab release, or a part of it, and print where it is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from installer.common.numbers import real_type
from installer.common.streams import with_streams
from lab.release.build import Release, build_release, latest_release
from lab.release.images import machine_os
from lab.release.kubernetes import build_kubernetes
from lab.release.prune import prune
from lab.release.signing import signature_config_map
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store, default_cache
from lab.release.variants import NEXT, REAL_AGENT, VARIANTS
from lab.release.verify import verify_images

HOURS = real_type(1, 24 * 3650, "hours")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(prog="python -m lab.release", description=__doc__)
    top.add_argument("--cache", type=Path, default=None, help="cache directory (default: $NODE0_CACHE, then XDG)")
    commands = top.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build and push what changed; prints the release's pullspec")
    build.add_argument("--no-machine-os", action="store_true", help="leave out machine-os-images")
    build.add_argument(
        "--variant",
        choices=[*VARIANTS, *NEXT, REAL_AGENT],
        help="broken on purpose: "
        + "; ".join(f"{name}: {variant.text}" for name, variant in VARIANTS.items()).replace("%", "%%")
        + f"; {REAL_AGENT}: OpenShift's own agent, from --agent; to upgrade to: "
        + "; ".join(f"{name}: {variant.text}" for name, variant in NEXT.items()),
    )
    build.add_argument(
        "--agent", type=Path, metavar="DIR", help="the folder of OpenShift's built agent, for real-agent"
    )
    sign = commands.add_parser(
        "sign", help="sign a release; prints the ConfigMap by which a cluster of this machine lets it in"
    )
    sign.add_argument("pullspec", metavar="PULLSPEC", help="the release by digest, as build prints it")
    commands.add_parser("kubernetes", help="build the Kubernetes binaries; prints their directory")
    commands.add_parser("machine-os", help="build the machine OS; prints the ISO's path")
    commands.add_parser("path", help="print the registry storage directory of the release built last")
    commands.add_parser("verify", help="start the built images' programs in a chroot; needs root")
    pruning = commands.add_parser(
        "prune", help="remove stages, images and releases that have not been used for a while"
    )
    pruning.add_argument(
        "--hours",
        type=HOURS,
        default=48.0,
        help="remove what has not been used for this long (default: 48, at least 1)",
    )
    commands.add_parser("show", help="list the release built last: tags, sizes, digests")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 with one line on standard error otherwise."""
    options = parser().parse_args(argv)
    try:
        cache = options.cache or default_cache()
        match options.command:
            case "kubernetes":
                print(build_kubernetes(cache))
            case "machine-os":
                print(machine_os(Store(cache), build_kubernetes(cache)).iso)
            case "build":
                release = build_release(
                    cache, machine_os=not options.no_machine_os, variant=options.variant, agent=options.agent
                )
                print(release.pullspec)
            case "sign":
                print(signature_config_map(Store(cache), options.pullspec), end="")
            case "path":
                print(latest_release(cache).registry_storage)
            case "verify":
                problems = verify_images(Store(cache))
                for problem in problems:
                    print(problem)
                return 1 if problems else 0
            case "prune":
                print(f"{prune(Store(cache), options.hours) / 1e6:.0f} MB removed")
            case "show":
                show(latest_release(cache))
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def show(release: Release) -> None:
    """Print a table of the release's images."""
    sizes = json.loads(release.record.read_text())["sizes"]
    table = Table(title=f"lab release {release.version}")
    table.add_column("tag")
    table.add_column("MB", justify="right")
    table.add_column("pullspec")
    specs = {**release.components, "release": release.pullspec}
    for tag, spec in sorted(specs.items()):
        table.add_row(tag, f"{sizes[tag] / 1e6:.1f}", spec)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)


if __name__ == "__main__":
    sys.exit(with_streams("lab.release", main))
