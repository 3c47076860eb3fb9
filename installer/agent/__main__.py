"""``python -m installer.agent``: the discovery agent (flags of installer.md §6.1)."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from pathlib import Path

from installer import logs
from installer.agent.containers import AgentContext
from installer.agent.errors import Refused
from installer.agent.host import hostid
from installer.agent.loop import Agent
from installer.agent.steps import StepContext
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.common import numbers
from installer.errors import InstallerError
from installer.hostsys import system as hostsys

INTERVAL = numbers.real_type(0.1, numbers.DAY, "seconds")


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the agent's options, as the agent's unit gives them (installer.md §6.1); bad usage ends with 2."""
    parser = argparse.ArgumentParser(prog="agent", description="Discovery agent")
    parser.add_argument("--url", required=True, help="the rendezvous service, https://IP:8090/")
    parser.add_argument("--infra-env-id", required=True)
    parser.add_argument("--agent-version", default="", help="image reference of this agent")
    parser.add_argument("--insecure", nargs="?", const="true", default="false", help="do not verify the certificate")
    parser.add_argument("--cacert", default="", help="CA of the service")
    parser.add_argument("--interval", type=INTERVAL, default=10.0, help="seconds between tries to register")
    parser.add_argument("--host-id", default="", help="instead of the one from the hardware")
    parser.add_argument("--inventory", action="store_true", help="print this host's inventory and end")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Serve for ever. Exit code 1 with one line for a wrong URL or CA."""
    args = parse_arguments(argv)
    logs.to_journal("%(asctime)s %(levelname)s %(name)s %(message)s")
    host = hostsys.detect()
    if args.inventory:
        from installer.agent.host import inventory

        try:
            print(inventory.collect_json(host))
        except InstallerError as error:
            print(f"agent: {error}", file=sys.stderr)
            return 1
        return 0
    token = os.environ.get("PULL_SECRET_TOKEN", "")
    if not token:
        logging.warning("PULL_SECRET_TOKEN is empty: the service will refuse this agent")
    insecure = args.insecure.lower() == "true"
    try:
        ca_file = Path(args.cacert) if args.cacert else None
        service = endpoint(args.url, ca_file=ca_file, insecure=insecure)
        client = AssistedClient(service, Scheme.AGENT, token)
    except ClientError as error:
        print(f"agent: {error}", file=sys.stderr)
        return 1
    identity = args.host_id or hostid.host_id(host)
    context = AgentContext(
        url=args.url,
        infra_env_id=args.infra_env_id,
        host_id=identity,
        token=token,
        ca_file=args.cacert,
        insecure=insecure,
        agent_image=args.agent_version,
    )
    try:
        Agent(StepContext(host=host, agent=context, client=client), args.interval).run()
    except Refused as error:
        # A restart would only be refused again: stay, as upstream does, until somebody acts.
        logging.error("%s; this agent stops asking", error)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
