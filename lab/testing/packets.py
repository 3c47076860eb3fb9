"""A pair of cards in a lab's network, to see how much of what one sends reaches the other."""

from __future__ import annotations

import json
import subprocess

#: A shell script that makes them: 198.51.100.1 sends from fault0, and 198.51.100.2 is behind fault1.
PAIR = """
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link add fault0 type veth peer name fault1
ip link set fault1 up
ip link set fault0 up
ip address add 198.51.100.1/24 dev fault0
ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:01 dev fault0 nud permanent
"""


def received(device: str) -> int:
    """How many packets a card of this network namespace has received so far."""
    argv = ["ip", "-json", "-s", "link", "show", "dev", device]
    text = subprocess.run(argv, capture_output=True, check=True, timeout=10).stdout
    return int(json.loads(text)[0]["stats64"]["rx"]["packets"])
