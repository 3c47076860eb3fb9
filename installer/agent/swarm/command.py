"""``node0 swarm``: many agents in one process, each the agent's own code over a host of data.

Every host has a thread, as an agent has; what differs from a real one is what its steps answer (host.py).
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from installer import logs
from installer.agent.swarm.host import API, INGRESS, RESERVED
from installer.agent.swarm.report import cpu_of, report, summary
from installer.agent.swarm.run import Plan, Swarm
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.common.numbers import real_type, whole_type

log = logging.getLogger(__name__)

MOST_HOSTS, LONGEST = 5000, 24 * 3600.0
SPAN, RAMP = real_type(0.1, LONGEST, "seconds"), real_type(0, LONGEST, "seconds")
COUNT, CLUSTERS = whole_type(1, MOST_HOSTS), whole_type(0, MOST_HOSTS)
MS, PID = real_type(0.001, 1e6, "milliseconds"), whole_type(1, 1 << 22)
PULL_SECRET = '{"auths":{"swarm.invalid":{"auth":"c3dhcm06c3dhcm0="}}}'


def _cluster(name: str, size: int, version: str, network: IPv4Network) -> dict[str, Any]:
    """Return a cluster of ``size`` hosts: three of them control plane, or the only one."""
    common = {
        "name": name,
        "base_dns_domain": "swarm.invalid",
        "openshift_version": version,
        "pull_secret": PULL_SECRET,
        "machine_networks": [{"cidr": str(network)}],
    }
    if size == 1:
        return {**common, "control_plane_count": 1, "platform": {"type": "none"}}
    return {
        **common,
        "control_plane_count": 3,
        "platform": {"type": "baremetal"},
        "api_vips": [{"ip": str(network[API])}],
        "ingress_vips": [{"ip": str(network[INGRESS])}],
    }


def make_infra_envs(user: AssistedClient, network: IPv4Network, clusters: int = 1, size: int = 0) -> tuple[str, ...]:
    """Infra-envs, each with a cluster for ``size`` hosts; without clusters one of its own. Raises ClientError."""
    if not clusters:
        return (str(user.register_infra_env({"name": "swarm", "pull_secret": PULL_SECRET})["id"]),)
    version = next(iter(user.openshift_versions() or {"4.18.0": {}}))
    infra_envs = []
    for number in range(clusters):
        name = f"swarm-{number}"
        cluster = user.register_cluster(_cluster(name, size, version, network))
        body = {"name": name, "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]}
        infra_envs.append(str(user.register_infra_env(body)["id"]))
    return tuple(infra_envs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="node0 swarm", description="Many simulated agents against a rendezvous service"
    )
    add = parser.add_argument
    add("hosts", type=COUNT, metavar="N", help=f"number of hosts (at most {MOST_HOSTS})")
    add("--url", required=True, help="the service, for example https://192.168.111.80:8090/")
    add("--token", required=True, type=Path, metavar="FILE", help="file with the agents' token")
    add("--ca", type=Path, metavar="FILE", help="CA certificate of the service (default: the system's)")
    add(
        "--infra-env-id",
        action="append",
        default=[],
        metavar="ID",
        help="register in this infra-env; of several, as many hosts in each (default: make one for each cluster)",
    )
    add("--user-token", type=Path, metavar="FILE", help="file with the user's token, to make clusters and infra-envs")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--clusters",
        type=CLUSTERS,
        metavar="K",
        help="divide the hosts among K clusters; 0: register them in none (default: 1)",
    )
    shape.add_argument("--cluster-size", type=COUNT, metavar="S", help="make clusters of S hosts, as many as it takes")
    add(
        "--network",
        type=IPv4Network,
        default=IPv4Network("10.64.0.0/16"),
        metavar="CIDR",
        help="network of the hosts' addresses (default: %(default)s)",
    )
    add("--seconds", type=SPAN, default=60.0, metavar="S", help="stop after S seconds (default: 60)")
    add("--ramp", type=RAMP, metavar="S", help="start the hosts evenly over S seconds (default: 20 hosts a second)")
    add(
        "--p99",
        type=MS,
        metavar="MS",
        help="find the limit: add hosts until the 99th percentile of response times is above MS milliseconds",
    )
    add("--step", type=COUNT, default=250, metavar="N", help="with --p99: add N hosts at a time (default: 250)")
    add(
        "--hold",
        type=SPAN,
        default=15.0,
        metavar="S",
        help="with --p99: measure for S seconds before more are added (default: 15)",
    )
    add("--service-pid", type=PID, metavar="PID", help="process ID of the service on this machine, to report its load")
    add("--json", action="store_true", help="print the report as JSON")
    return parser


def checked_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; end the program with 2 when it makes no sense."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.hosts + RESERVED >= args.network.num_addresses:
        parser.error(f"--network {args.network} has too few addresses for {args.hosts} hosts")
    if args.clusters is not None and args.clusters > args.hosts:
        parser.error(f"--clusters must be 0 to {args.hosts}, the number of hosts")
    if not args.infra_env_id and not args.user_token:
        parser.error("give --infra-env-id, or --user-token to have one made")
    if args.infra_env_id and (args.clusters is not None or args.cluster_size is not None):
        parser.error("--clusters and --cluster-size are for clusters that are made: without --infra-env-id")
    return args


def _plan(args: argparse.Namespace) -> Plan:
    """Return the plan, its infra-envs made. Raises OSError, ClientError."""
    token = args.token.read_text().strip()
    clusters = -(-args.hosts // args.cluster_size) if args.cluster_size else args.clusters
    clusters = 1 if clusters is None else clusters
    share = args.cluster_size or -(-args.hosts // max(1, clusters))
    infra_envs = tuple(args.infra_env_id)
    if infra_envs:
        share = -(-args.hosts // len(infra_envs))
    else:
        user = AssistedClient(endpoint(args.url, ca_file=args.ca), Scheme.USER, args.user_token.read_text().strip())
        infra_envs = make_infra_envs(user, args.network, clusters, share)
        user.close()
    return Plan(
        hosts=args.hosts,
        url=args.url,
        token=token,
        ca=args.ca,
        infra_envs=infra_envs,
        network=args.network,
        seconds=args.seconds,
        rate=20.0 if args.ramp is None else args.hosts / max(args.ramp, 0.001),
        share=share,
        step=args.step if args.p99 else 0,
        hold=args.hold,
        limit=args.p99 / 1000 if args.p99 else None,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when every host registered, no request failed and p99 stayed below the limit, if there is one.

    Else 1; 2 for a wrong command line.
    """
    args = checked_arguments(argv)
    logs.to_journal("%(message)s", logging.ERROR)
    logs.set_up("error", None)
    logging.getLogger("agent").setLevel(logging.CRITICAL)
    try:
        before = cpu_of(args.service_pid) if args.service_pid else None
        swarm = Swarm(_plan(args))
        took = swarm.run()
        after = cpu_of(args.service_pid) if args.service_pid else None
    except OSError as error:
        log.critical("%s", f"{error.filename}: {error.strerror}" if error.filename else error)
        return 1
    except ClientError as error:
        log.critical("%s", error)
        return 1
    outcome = report(swarm, took, before, after)
    print(json.dumps(outcome) if args.json else summary(outcome))
    good = outcome["registered"] == args.hosts and not outcome["errors"] and not outcome["refused"]
    # Without a limit there is one step, cut off by the time: only its final counts matter.
    return 0 if good and (args.p99 is None or all(step["good"] for step in outcome["steps"])) else 1
