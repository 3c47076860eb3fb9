"""The switch's daemon: `python -m lab.daemons.switch CONFIG`. It runs in the lab's namespaces.

CONFIG has the groups as JSON. Cables come and go with their machines: at each notification of the kernel's
(rtnetlink(7)) the switch looks which there are.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from pyroute2.netlink.exceptions import NetlinkError

from lab.daemons.switch import bpf, lacp
from lab.daemons.switch.config import Group, Leg

_LINKS = 1  # RTMGRP_LINK, linux/rtnetlink.h
_SECONDS = 30


def _ip(*words: str) -> str:
    completed = subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=_SECONDS)
    return completed.stdout


class _Group:
    """One group of ports as it is now: which exist, their sockets, and which of them send frames."""

    def __init__(self, group: Group, number: int, selector: selectors.BaseSelector) -> None:
        self.group, self._selector = group, selector
        system = bytes((0x02, 0x6E, 0x30, 0, number >> 8, number & 0xFF))
        self.lacp = lacp.Aggregator(system, number + 1, len(group.ports)) if group.lacp else None
        self._lines: dict[str, socket.socket] = {}
        self._indexes: dict[str, int] = {}
        self._up: set[str] = set()
        self._done: object = None
        self._legs = {leg.name: self._make(leg) for leg in group.legs}
        self._connect()

    def _make(self, leg: Leg) -> int:
        """Make a leg: a pair of veth into its bridge; the index of the other end, which programs send to."""
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", leg.name)
        mtu = ("mtu", str(leg.mtu))
        _ip("link", "add", leg.name, *mtu, "type", "veth", "peer", "name", f"{leg.name}p", *mtu)
        _ip("link", "set", leg.name, "master", leg.bridge, "up")
        _ip("link", "set", f"{leg.name}p", "up")
        return socket.if_nametoindex(f"{leg.name}p")

    def look(self, links: dict[str, dict[str, Any]], now: float) -> None:
        """React to cables that have come or gone."""
        indexes = {name: int(links[name]["ifindex"]) for name in self.group.ports if name in links}
        up = {name for name in indexes if "LOWER_UP" in links[name]["flags"]}
        for name in self.group.ports:
            if self._indexes.get(name) != indexes.get(name):
                self._forget(name)
                if name in indexes:
                    try:
                        self._take_up(name)
                    except (OSError, NetlinkError):
                        if (indexes[name], name) in socket.if_nameindex():
                            raise
                        # A cable that has just gone, which the kernel will notify of.
                        del indexes[name]
                        up.discard(name)
            if name in self._up - up and self.lacp is not None:
                self.lacp.lost(self.group.ports.index(name), now)
        self._indexes, self._up = indexes, up
        for name in up:
            self._say(name)
        self._connect()

    def _take_up(self, name: str) -> None:
        bpf.attach(name, bpf.from_port(()))
        if self.lacp is not None:
            line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(lacp.TYPE))
            line.bind((name, lacp.TYPE))
            line.setblocking(False)
            self._lines[name] = line
            self._selector.register(line, selectors.EVENT_READ, (self, name))

    def _forget(self, name: str) -> None:
        line = self._lines.pop(name, None)
        if line is not None:
            self._selector.unregister(line)
            line.close()

    def hear(self, name: str) -> None:
        """React to what a port has received."""
        line = self._lines.get(name)
        if line is None or self.lacp is None:
            return
        try:
            data, sender = line.recvfrom(2048)
        except OSError:
            return
        # What the port itself sends is seen as well.
        if sender[2] != socket.PACKET_OUTGOING and self.lacp.hear(self.group.ports.index(name), data, time.monotonic()):
            for each in self._up:
                self._say(each)
            self._connect()

    def tick(self) -> None:
        """Do what is due each second."""
        if self.lacp is not None:
            self.lacp.look(time.monotonic())
            for name in self._up:
                self._say(name)
            self._connect()

    def _say(self, name: str) -> None:
        line = self._lines.get(name)
        if line is not None and self.lacp is not None:
            with contextlib.suppress(OSError):
                line.sendto(self.lacp.say(self.group.ports.index(name)), (name, lacp.TYPE, 0, 0, lacp.GROUP))

    def _connect(self) -> None:
        """Give the kernel the programs for the present ports."""
        carrying = [
            name
            for index, name in enumerate(self.group.ports)
            if name in self._up and (self.lacp is None or self.lacp.ports[index].carries)
        ]
        paths = (carrying, dict(self._indexes))
        if paths == self._done:
            return
        ways = [(leg.vlan, self._legs[leg.name]) for leg in self.group.legs]
        with contextlib.suppress(OSError, NetlinkError):
            # It fails for a cable that has just gone, which the kernel will notify of.
            for leg in self.group.legs:
                out = bpf.to_ports(leg.vlan, [self._indexes[name] for name in carrying])
                bpf.attach(f"{leg.name}p", out)
            for name in self._indexes:
                bpf.attach(name, bpf.from_port(ways if name in carrying else ()))
            self._done = paths
        print(f"{'+'.join(self.group.ports)}: frames pass by {', '.join(carrying) or 'none'}", flush=True)


def serve(groups: tuple[Group, ...]) -> NoReturn:
    """Run the switch, for ever."""
    selector = selectors.DefaultSelector()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as notifications:
        notifications.bind((0, _LINKS))
        notifications.setblocking(False)
        selector.register(notifications, selectors.EVENT_READ, None)
        all_groups = [_Group(group, number, selector) for number, group in enumerate(groups)]
        look, due = True, time.monotonic()
        while True:
            if look:
                links = {link["ifname"]: link for link in json.loads(_ip("-j", "link", "show"))}
                for group in all_groups:
                    group.look(links, time.monotonic())
            look = False
            for key, _ in selector.select(max(due - time.monotonic(), 0)):
                if key.data is None:
                    look = True
                    _drain(notifications)
                else:
                    group, name = key.data
                    group.hear(name)
            if time.monotonic() >= due:
                due = time.monotonic() + lacp.FAST
                for group in all_groups:
                    group.tick()


def _drain(notifications: socket.socket) -> None:
    while True:
        try:
            notifications.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            # More notifications than there was room for: the switch looks at all cables anyway.
            continue


if __name__ == "__main__":
    serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=tuple[Group, ...]))
