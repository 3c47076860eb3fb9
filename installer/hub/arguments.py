"""The command line of `node0 hub`; it loads quickly, since every start of node0 builds it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from installer.common import numbers

Add = Callable[..., argparse.ArgumentParser]
#: Resources that `wait-for` knows, with their short names.
WAITED_FOR = {
    "clusterdeployment": ("cd", "spec.installed is true"),
    "agentclusterinstall": ("aci", "condition Completed is True"),
    "infraenv": ("", "condition ImageCreated is True"),
    "agent": ("", "condition Installed is True"),
    "baremetalhost": ("bmh", "state provisioned"),
}


def add_commands(parent: Any, add: Add) -> None:
    """Add the sub-commands to a sub-parsers object; `add` is the CLI's own way of making one."""
    install = add(
        parent,
        "install",
        "Prepare a cluster to be a hub: custom resource definitions, namespace node0-hub, roles",
        epilog=(
            "What is there already and not of an earlier install is left as it is. Repeat it after an upgrade.\n"
            "With --image the operator runs in the cluster, too, on the node that has the address of --listen, and\n"
            "keeps its service in /var/lib/node0-hub there; without, start node0 hub run."
        ),
    )
    install.add_argument("--image", metavar="IMAGE", help="an image with node0: run the operator as a Deployment")
    install.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="with --image: where its service listens, an address of one node"
    )
    run = add(
        parent,
        "run",
        "Run the operator, which makes the cluster's custom resources true, until it is stopped",
        epilog=(
            "DIR holds the operator's name and, unless --service names a running one, the rendezvous service\n"
            "(DIR/service). Everything else is in the cluster: the operator can be started again at any time, and of\n"
            "several one acts. Afterwards apply a pull secret, ClusterImageSet, ClusterDeployment,\n"
            "AgentClusterInstall and InfraEnv, and see what becomes of them:\n"
            "  node0 hub wait-for infraenv/NAME -n NAMESPACE\n"
            "  node0 hub wait-for clusterdeployment/NAME -n NAMESPACE"
        ),
    )
    run.add_argument("--listen", metavar="ADDRESS:PORT", help="where its own service listens: what the hosts reach")
    run.add_argument("--service", metavar="URL", help="use this service (node0 service) in place of its own")
    run.add_argument("--token", type=Path, metavar="FILE", help="with --service: its auth/user-token")
    run.add_argument("--ca", type=Path, metavar="FILE", help="with --service: its tls/ca.crt (default: the system's)")
    run.add_argument("--metrics", metavar="ADDRESS:PORT", help="serve metrics at http://ADDRESS:PORT/metrics")
    run.add_argument(
        "--bmc-ca",
        type=Path,
        metavar="FILE",
        help="certificates of the authorities that have signed those of BMCs (default: the system's)",
    )
    run.add_argument(
        "--webhook",
        metavar="ADDRESS:PORT",
        help="have the API server ask here what it may store, so that what is wrong is refused at once; an address "
        "that it reaches (default: what is wrong is stored, and its conditions say so)",
    )
    uninstall = add(
        parent,
        "uninstall",
        "Remove from a cluster what install has made",
        epilog="Installed clusters are left alone. A definition that install did not make stays.",
    )
    uninstall.add_argument(
        "--with-resources",
        action="store_true",
        help="also when there are custom resources: they are removed without waiting for the operator, and their "
        "clusters, infra-envs and hosts stay in its service; to leave nothing, delete them while it runs "
        "(default: refuse)",
    )
    wait = add(
        parent,
        "wait-for",
        "Follow a resource until it is done, or cannot go on by itself",
        epilog="done means:\n"
        + "".join(
            f"  {name + (f' ({short})' if short else ''):<28} {text}\n" for name, (short, text) in WAITED_FOR.items()
        )
        + "exit codes: 0 done, 5 not done in time, 8 interrupted,\n"
        "            6 blocked: for 15 s its conditions have said that somebody has to change something",
    )
    wait.add_argument("resource", metavar="RESOURCE", help="kind and name, such as clusterdeployment/edge-1")
    wait.add_argument("-n", "--namespace", default="default", help="its namespace (default: default)")
    wait.add_argument(
        "--timeout",
        type=numbers.real_type(1, 30 * numbers.DAY, "seconds"),
        default=5400.0,
        metavar="SECONDS",
        help="give up after this long (default: 90 minutes)",
    )
    render = add(
        parent,
        "render",
        "Write the resources of SiteConfigs and ClusterInstances, as their generators name and fill them",
        epilog=(
            "Needs no cluster. What is wrong in the files is refused all at once; what their generators make and a\n"
            "hub does not use (ManagedCluster...) is left out and named. The Secrets are yours:\n"
            "  node0 hub render site.yaml -o DIR && kubectl apply -k DIR"
        ),
    )
    render.add_argument("files", nargs="+", type=Path, metavar="FILE", help="YAML, one or several documents")
    render.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write a file a resource, and kustomization.yaml, into DIR: a new one, an empty one, or that of an "
        "earlier render (default: all to standard output)",
    )
    for command in (install, run, uninstall, wait):
        command.add_argument(
            "--kubeconfig",
            type=Path,
            metavar="FILE",
            help="of the hub's cluster (default: the service account of the pod that this runs in)",
        )
