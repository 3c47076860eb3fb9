"""Routes to the pods of all other nodes, by way of their nodes, and the masquerade of what leaves the cluster network.

Between pods nothing is translated: a pod sees the address of the pod that it hears from. All nodes are neighbours in
one network, so a route by way of a node's own address is all that it takes.
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from lab.release.cluster.errors import NetworkError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.network.podnetworks import overlaps, parts, taken_twice

log = logging.getLogger(__name__)

#: By which the kernel's routes of this process are known (rtnetlink's protocol number; nobody else has it).
PROTOCOL = "148"
CHAIN = "NODE0-MASQUERADE"
MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}
IPTABLES = {4: "iptables", 6: "ip6tables"}
#: Between two looks whether the kernel still has it all, and after a failure.
REPAIR_SECONDS = 60.0
RETRY_SECONDS = 5.0
PROGRAM_SECONDS = 60.0


def _version(address: str) -> int:
    """Return an address's version of IP; 0 for any other text, which the API takes as a node's address too."""
    try:
        return ip_address(address).version
    except ValueError:
        return 0


def wanted(nodes: Sequence[Object], own: str) -> dict[str, str]:
    """Network to gateway: the pod networks of all nodes but ``own``, by their node's address of the same family.

    Left out is a network that an older node has too, and one that overlaps with the node's own.
    """
    mine = [part for node in nodes if node["metadata"]["name"] == own for part in parts(node)]
    twice = taken_twice(nodes)
    found = {}
    for node in nodes:
        name = node["metadata"]["name"]
        listed = (node.get("status") or {}).get("addresses") or []
        internal = [str(entry["address"]) for entry in listed if entry["type"] == "InternalIP"]
        gateways = {_version(text): text for text in reversed(internal)}
        for part in parts(node):
            gateway = gateways.get(ip_network(part).version)
            if name != own and name not in twice and gateway and not overlaps(part, mine):
                found[part] = gateway
    return found


def changes(want: Mapping[str, str], have: Mapping[str, str]) -> list[list[str]]:
    """Arguments of `ip route` for what is to be set and, after that, for what is to go."""
    new = [["replace", part, "via", want[part]] for part in want if have.get(part) != want[part]]
    return [*new, *(["del", part] for part in have if part not in want)]


def masquerade(version: int, networks: Iterable[str]) -> str:
    """Return the chain for what pods send, as iptables-restore reads it: what stays in ``networks``, and multicasts,
    keep their source."""
    kept = [*(text for text in networks if ip_network(text).version == version), MULTICAST[version]]
    rules = [f"-A {CHAIN} -d {network} -j RETURN" for network in kept]
    return "\n".join(["*nat", f":{CHAIN} - [0:0]", *rules, f"-A {CHAIN} -j MASQUERADE --random-fully", "COMMIT", ""])


def _run(*argv: str, text: str = "", may_fail: bool = False) -> str | None:
    """Return what a program prints; None where it failed and may. Raises NetworkError."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NetworkError(" ".join(argv), str(error)) from error
    if done.returncode == 0:
        return done.stdout
    if may_fail:
        return None
    raise NetworkError(" ".join(argv), done.stderr.strip())


class Routes:
    """The loop; `step` makes the kernel's routes and rules what they ought to be, `run` repeats it."""

    def __init__(self, kube: Kube, node: str, networks: Sequence[str]) -> None:
        self._kube = kube
        self._node = node
        self._networks = networks
        self._nodes: list[Object] = []
        self._changed = threading.Event()

    def _watch(self, stop: threading.Event) -> None:
        for nodes in self._kube.watch("v1", "Node", stop):
            self._nodes = list(nodes.values())
            self._changed.set()

    def step(self, nodes: Sequence[Object]) -> None:
        """Set what is missing, in each family by itself, and remove what is left over. Raises NetworkError."""
        want = wanted(nodes, self._node)
        failed = []
        for version in (4, 6):
            listing = json.loads(_run("ip", f"-{version}", "-json", "route", "show", "proto", PROTOCOL) or "[]")
            have = {str(ip_network(route["dst"])): str(route.get("gateway")) for route in listing}
            of_family = {part: gateway for part, gateway in want.items() if ip_network(part).version == version}
            for arguments in changes(of_family, have):
                try:
                    _run("ip", f"-{version}", "route", *arguments, "proto", PROTOCOL)
                    log.info("Route: %s", " ".join(arguments))
                except NetworkError as error:
                    failed.append(error)
        for part in (part for node in nodes if node["metadata"]["name"] == self._node for part in parts(node)):
            self._masquerade(part)
        if failed:
            raise failed[0]

    def _masquerade(self, part: str) -> None:
        version = ip_network(part).version
        rule = ("POSTROUTING", "-s", part, "-j", CHAIN)
        if _run(IPTABLES[version], "-w", "-t", "nat", "-C", *rule, may_fail=True) is None:
            _run(f"{IPTABLES[version]}-restore", "--wait", "--noflush", text=masquerade(version, self._networks))
            _run(IPTABLES[version], "-w", "-t", "nat", "-A", *rule)
            log.info("Masquerade: from %s to networks other than %s", part, ", ".join(self._networks))

    def run(self, stop: threading.Event) -> None:
        """Repeat it until ``stop``: at each change of a node, and each minute, since others may change the kernel's."""
        threading.Thread(target=self._watch, args=(stop,), name="nodes", daemon=True).start()
        pause = REPAIR_SECONDS
        while not stop.is_set():
            self._changed.wait(pause)
            self._changed.clear()
            pause = REPAIR_SECONDS
            if not self._nodes:
                continue
            try:
                self.step(self._nodes)
            except NetworkError as error:
                log.error("pod routes: %s", error)
                pause = RETRY_SECONDS
