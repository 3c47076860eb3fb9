"""A lab as `ls`, `up` and `deploy` show it, as lines and as JSON: its machines, and where its cluster is found."""

from __future__ import annotations

import json
import time
from typing import Any

from lab.commands.terminal import describe
from lab.deploy import SERVICE_PORT, console_url
from lab.host.identity import alive
from lab.host.records import Record
from lab.layout import bracketed
from lab.topology import NodeSpec

#: The directory of the cluster's assets below a lab's, and its kubeconfig there.
ASSETS = "cluster"
KUBECONFIG = f"{ASSETS}/auth/kubeconfig"
PASSWORD = f"{ASSETS}/auth/kubeadmin-password"
RENDEZVOUS = f"{ASSETS}/rendezvousIP"
OUTPUTS = ("text", "json")


def add_output(parser: Any) -> None:
    """Add the option that chooses between lines for people and one JSON document on standard output."""
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default="text", help="lines, or one JSON document on stdout (default: text)"
    )


def print_json(document: Any) -> None:
    """Print one document."""
    print(json.dumps(document, indent=1, default=str))


def cluster(record: Record) -> dict[str, Any]:
    """Return where the parts of a lab's cluster are found that exist by now, and by which commands; empty for a lab
    without one."""
    which = f"--lab {record.id}"
    shape = record.topology
    if record.cluster == "installing":
        if not (record.root / RENDEZVOUS).exists():
            return {}  # no host leads where users boot the machines (docs/upi.md)
        url = f"https://{bracketed(shape.rendezvous_ip)}:{SERVICE_PORT}/"
        return {"page": {"url": url, "command": f"node0-lab open {which} page"}}
    if record.cluster != "installed":
        return {}
    found: dict[str, Any] = {"console": {"url": console_url(shape), "command": f"node0-lab open {which} console"}}
    if (record.root / KUBECONFIG).exists():
        found["console"] |= {"user": "kubeadmin", "passwordFile": str(record.root / PASSWORD)}
        found["kubeconfig"] = {
            "file": str(record.root / KUBECONFIG), "command": f"node0-lab kubectl {which} get nodes"
        }  # fmt: skip
    return found


def tell_cluster(record: Record, indent: str = "") -> None:
    """Print a line for each part of its cluster that exists by now."""
    for name, entry in cluster(record).items():
        if name == "kubeconfig":
            print(f"{indent}kubectl    {entry['command']}")
            print(f"{indent}kubeconfig {entry['file']} (in the lab's network: node0-lab exec --lab {record.id})")
        else:
            until = ", while the hosts install" if name == "page" else ""
            print(f"{indent}{name:<10} {entry['command']}    ({entry['url']}{until})")
            if password := entry.get("passwordFile"):
                print(f"{indent}login      user kubeadmin, password in {password}")


def document(record: Record) -> dict[str, Any]:
    """Return a lab that runs as plain data."""
    return {
        "lab": record.id,
        "topology": record.topology.name,
        "seconds": round(time.time() - record.created),
        "kept": record.kept or not alive(*record.owner),
        "directory": str(record.root),
        "evidence": record.artifacts,
        "machines": [_machine(node, record) for node in record.topology.nodes],
        "cluster": {"state": record.cluster or "none", **cluster(record)},
    }


def _machine(node: NodeSpec, record: Record) -> dict[str, Any]:
    return {
        "name": node.name,
        "role": node.role,
        "ip": node.ip,
        "mac": node.mac,
        "vcpu": node.vcpu,
        "memoryMiB": node.memory_mib,
        "disksGiB": [disk.size_gib for disk in node.all_disks],
        "firmware": node.firmware,
        "uuid": record.machines.get(node.name, ""),
    }


def tell(record: Record) -> None:
    """Print its machines and its cluster."""
    describe(record)
    tell_cluster(record, indent="  ")
