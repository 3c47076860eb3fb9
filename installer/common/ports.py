"""Ports for programs that listen on a port which somebody else has to choose for them."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

LOWEST = 10000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port of that kind that nobody uses.

    It lies below those that the kernel hands out: a port from there may be any connection's own by the time that the
    program binds it. Raises OSError when a hundred ports are in use.
    """
    end = int(_RANGE.read_text().split()[0])
    for _ in range(100):
        port = LOWEST + secrets.randbelow(end - LOWEST)
        try:
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("", port))
        except OSError:
            continue
        return port
    raise OSError(f"no free port between {LOWEST} and {end}")
