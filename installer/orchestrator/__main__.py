"""``python -m installer.orchestrator``: assisted-installer's command line (installer.md §6.3)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from installer import logs
from installer.assisted.auth import ATTEMPT_VARIABLE, Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.common import numbers
from installer.hostsys import system as hostsys
from installer.hostsys.system import HostSystem
from installer.orchestrator import disk, flow
from installer.orchestrator.controller import Controller
from installer.orchestrator.errors import OrchestratorError
from installer.orchestrator.report import Reporter


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the options of assisted-installer, as the step `install` gives them; bad usage ends with 2."""
    parser = argparse.ArgumentParser(prog="assisted-installer", description="Installs one host")
    for name in ("role", "infra-env-id", "cluster-id", "host-id", "boot-device", "url"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--control-plane-count", type=numbers.whole_type(1, 100), default=3)
    parser.add_argument("--installer-args", default="", help="JSON list for coreos-installer")
    parser.add_argument("--format-disk", action="append", default=[])
    parser.add_argument("--cacert", default="")
    parser.add_argument("--insecure", nargs="?", const="true", default="false")
    parser.add_argument("--skip-installation-disk-cleanup", nargs="?", const="true", default="false")
    # Passed by the service for other payloads' sake; this program has no use for them.
    for name in ("controller-image", "agent-image", "mco-image", "must-gather-image", "coreos-image", "service-ips"):
        parser.add_argument(f"--{name}", default="")
    for name in ("openshift-version", "http-proxy", "https-proxy", "no-proxy"):
        parser.add_argument(f"--{name}", default="")
    for name in ("check-cluster-version", "enable-skip-mco-reboot", "notify-num-reboots"):
        parser.add_argument(f"--{name}", nargs="?", const="true", default="false")
    return parser.parse_args(argv)


def prepared(args: argparse.Namespace, token: str, attempt: str, host: HostSystem) -> flow.Run:
    """Return the run that the options ask for; its reporter's client is the caller's to close.

    Raises ClientError, OrchestratorError, OSError for options that cannot be used.
    """
    ca_file = Path(args.cacert) if args.cacert else None
    service = endpoint(args.url, ca_file=ca_file, insecure=args.insecure == "true")
    client = AssistedClient(service, Scheme.AGENT, token, attempt=attempt)
    plan = flow.Plan(
        role=args.role,
        boot_device=args.boot_device,
        control_plane_count=args.control_plane_count,
        installer_args=disk.parse_args(args.installer_args),
        format_disks=args.format_disk,
        skip_cleanup=args.skip_installation_disk_cleanup == "true",
    )
    controller = Controller(
        url=args.url.rstrip("/"),
        ca_pem=Path(args.cacert).read_text() if args.cacert else "",
        insecure=args.insecure == "true",
        token=token,
        cluster_id=args.cluster_id,
        control_plane_count=args.control_plane_count,
        attempt=attempt,
    )
    reporter = Reporter(client, args.infra_env_id, args.cluster_id, args.host_id)
    return flow.Run(plan=plan, host=host, reporter=reporter, controller=controller)


def main(argv: list[str] | None = None) -> int:
    """Install; exit code 1 after a failed stage was reported."""
    args = parse_arguments(argv)
    logs.to_journal("%(asctime)s %(levelname)s %(message)s")
    token, attempt = os.environ.get("PULL_SECRET_TOKEN", ""), os.environ.get(ATTEMPT_VARIABLE, "")
    try:
        run = prepared(args, token, attempt, hostsys.detect())
    except (ClientError, OrchestratorError, OSError) as error:
        print(f"assisted-installer: {error}", file=sys.stderr)
        return 1
    try:
        return flow.execute(run)
    finally:
        run.reporter.client.close()


if __name__ == "__main__":
    sys.exit(main())
