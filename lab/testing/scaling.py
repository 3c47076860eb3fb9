"""A kit for tests with real members of etcd."""

from collections.abc import Iterable
from pathlib import Path

from lab.release.cluster.installconfig import parse
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.pod import RESOURCES

CONFIG = parse(
    """
apiVersion: v1
metadata: {name: c}
baseDomain: d.example
controlPlane: {replicas: 3}
compute: [{name: worker, replicas: 1}]
networking: {machineNetwork: [{cidr: 127.77.0.0/24}]}
platform: {baremetal: {apiVIPs: [127.77.0.5], ingressVIPs: [127.77.0.4]}}
pullSecret: '{"auths":{}}'
"""
)


def etcd_argv(command: Iterable[str], place: Path, address: str) -> list[str]:
    """Return the command line of etcd's pod with this host's paths, for one address of the loopback, and ten times as
    fast."""
    replaced = {
        RESOURCES: str(place),
        staticpods.ETCD_DATA: str(place / "data"),
        "0.0.0.0": address,
        "--heartbeat-interval=750": "--heartbeat-interval=50",
        "--election-timeout=7500": "--election-timeout=500",
        "http://127.0.0.1:2381": f"http://{address}:2381",
    }
    words = list(command)
    for old, new in replaced.items():
        words = [word.replace(old, new) for word in words]
    return [*words, "--strict-reconfig-check=false"]  # which refuses members in the first 5 s
