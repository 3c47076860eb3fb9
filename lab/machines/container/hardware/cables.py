"""A machine's NICs: pairs of veth, one end in the machine, the other a port of a bridge of the lab's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from lab.machines.container.spec import Nic


def port(mac: str) -> str:
    """Name the bridge's end of a NIC with that MAC address; at most 15 characters."""
    return f"nv{mac.replace(':', '')}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


def plug(nics: Iterable[Nic], pid: int, pulled: Iterable[str]) -> None:
    """Make the NICs in the network namespace of process `pid`; those whose MAC address is in `pulled` without link."""
    out = frozenset(pulled)
    for nic in nics:
        end = port(nic.mac)
        subprocess.run(["ip", "link", "del", end], check=False, capture_output=True, timeout=30)
        peer = ("peer", "name", nic.name, "address", nic.mac, "mtu", str(nic.mtu), "netns", str(pid))
        _ip("link", "add", end, "mtu", str(nic.mtu), "type", "veth", *peer)
        bridge = ("master", nic.network) if nic.network else ()
        if words := [*bridge, *([] if nic.mac in out else ["up"])]:
            _ip("link", "set", end, *words)


def unplug(nics: Iterable[Nic]) -> None:
    """Remove them. An end may be gone already, with the machine's namespace."""
    for nic in nics:
        subprocess.run(["ip", "link", "del", port(nic.mac)], check=False, capture_output=True, timeout=30)


def set_link(nic: Nic, up: bool) -> None:
    """Plug in or pull out a cable. Raises subprocess.CalledProcessError when the machine is off."""
    _ip("link", "set", port(nic.mac), "up" if up else "down")
