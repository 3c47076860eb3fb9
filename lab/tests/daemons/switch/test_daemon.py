"""The switch's daemon between a machine's cables and two networks. Needs root."""

import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.daemons.switch import lacp
from lab.daemons.switch.config import Group, Leg
from lab.host.namespaces import NamespaceThreads
from lab.host.process import clean_environment
from lab.waiting import wait_until

ROOT = Path(__file__).parents[4]
SECONDS = 30.0
CABLE = "ip link add port{0} type veth peer name nic{0}; ip link set port{0} up; ip link set nic{0} up"
NETWORK = """
ip link add lab{0} type bridge forward_delay 0
ip link add host{0} type veth peer name plug{0}
ip link set plug{0} master lab{0} up
ip link set lab{0} up
ip link set host{0} up
"""
SETUP = "\n".join(
    [
        "sysctl -qw net.ipv6.conf.default.disable_ipv6=1",
        *(NETWORK.format(number) for number in range(2)),
        *(CABLE.format(number) for number in range(3)),
        "echo; read _",
    ]
)
#: A cable of the first network; and two that are one, of both networks, the second of them tagged.
GROUPS = (
    Group(("port2",), (Leg("leg2", "lab0", 0, 1500),)),
    Group(("port0", "port1"), (Leg("leg0", "lab0", 0, 1500), Leg("leg1", "lab1", 7, 1400)), lacp=True),
)
# linux/if_packet.h: SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID; an EtherType for experiments.
_PACKET, _AUXDATA, _TAGGED, _TYPE = 263, 8, 1 << 4, b"\x88\xb5"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Wires:
    """NICs of a network namespace, and a machine that speaks LACP by two of them."""

    def __init__(self, holder: int, output: Any, held: ExitStack) -> None:
        self._threads, self._output, self._held, self._said = NamespaceThreads(holder), output, held, b""
        held.callback(self._threads.close)
        self._raw = {name: self.open(name, socket.SOCK_RAW, 3) for name in ("host0", "host1", "nic0", "nic1", "nic2")}
        self.machine = lacp.Aggregator(bytes.fromhex("5254006e6000"), 15, 2)
        self._lacp = [self.open(f"nic{number}", socket.SOCK_DGRAM, lacp.TYPE) for number in range(2)]

    def run(self, script: str) -> str:
        """Run a shell script among them; what it prints."""
        argv = ["sh", "-ec", script]
        completed = self._threads.call(subprocess.run, argv, capture_output=True, text=True, check=True)
        return str(completed.stdout)

    def open(self, name: str, kind: socket.SocketKind, protocol: int) -> socket.socket:
        """Open a packet socket of a NIC's."""
        line: socket.socket = self._held.enter_context(
            self._threads.call(socket.socket, socket.AF_PACKET, kind, socket.htons(protocol))
        )
        line.bind((name, protocol))
        line.setblocking(False)
        line.setsockopt(_PACKET, _AUXDATA, 1)
        return line

    def replug(self, number: int) -> None:
        """Take a cable out, and put another one in."""
        self.run(f"ip link del port{number}")
        self.says("port0+port1: frames pass by port0")
        self.run(CABLE.format(number))
        self._raw[f"nic{number}"] = self.open(f"nic{number}", socket.SOCK_RAW, 3)
        self._lacp[number] = self.open(f"nic{number}", socket.SOCK_DGRAM, lacp.TYPE)

    def says(self, line: str) -> None:
        """Wait until that is the daemon's last line, and speak LACP meanwhile."""

        def said() -> bool:
            for number, wire in enumerate(self._lacp):
                self._speak(number, wire)
            while select.select([self._output], [], [], 0)[0]:
                self._said += os.read(self._output.fileno(), 4096)
            return self._said.decode().splitlines()[-1:] == [line]

        wait_until(said, SECONDS, line, poll=0.02)

    def _speak(self, number: int, wire: socket.socket) -> None:
        try:
            wire.sendto(self.machine.say(number), (f"nic{number}", lacp.TYPE, 0, 0, lacp.GROUP))
            while True:
                data, sender = wire.recvfrom(2048)
                if sender[2] != socket.PACKET_OUTGOING:
                    self.machine.hear(number, data, time.monotonic())
        except OSError:
            return

    def passes(self, source: str, text: bytes, tag: int = 0) -> dict[str, tuple[int, bytes]]:
        """Send a frame by a NIC; which NICs get it, with the tag that it has."""
        vlan = b"\x81\x00" + tag.to_bytes(2, "big") if tag else b""
        self._raw[source].send(b"\xff" * 6 + bytes.fromhex("020000000001") + vlan + _TYPE + text.ljust(46))
        found: dict[str, tuple[int, bytes]] = {}
        lines = {line: name for name, line in self._raw.items() if name != source}
        while ready := select.select(list(lines), [], [], 0.1)[0]:
            for line in ready:
                try:
                    data, control, _, sender = line.recvmsg(2048, 256)
                except OSError:  # a NIC without link says so once
                    continue
                if sender[2] != socket.PACKET_OUTGOING and data[12:14] == _TYPE:
                    status, tci = struct.unpack("I12xH", control[0][2][:18])
                    found[lines[line]] = (tci if status & _TAGGED else 0, data[14:].strip())
        return found


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[Wires]:
    """Provide the daemon's cables, with it."""
    config = tmp_path / "config"
    config.write_bytes(msgspec.json.encode(GROUPS))
    argv = ["unshare", "--net", "sh", "-ec", SETUP]
    environment = clean_environment({"PYTHONPATH": str(ROOT)})
    with ExitStack() as held:
        holder = held.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        held.callback(holder.kill)
        assert holder.stdout is not None
        holder.stdout.readline()
        argv = [
            "nsenter",
            "--target",
            str(holder.pid),
            "--net",
            sys.executable,
            "-m",
            "lab.daemons.switch",
            str(config),
        ]
        daemon = held.enter_context(subprocess.Popen([*argv, str(config)], env=environment, stdout=subprocess.PIPE))
        held.callback(daemon.kill)
        yield Wires(holder.pid, daemon.stdout, held)
        assert daemon.poll() is None


def test_frames_pass_by_the_cables_that_agree_and_no_others(wires: Wires) -> None:
    wires.says("port0+port1: frames pass by port0, port1")
    assert {(port.partner.system, port.partner.key) for port in wires.machine.ports} == {(b"\x02n0\0\0\1", 2)}
    assert wires.passes("nic1", b"plain") == {"host0": (0, b"plain"), "nic2": (0, b"plain")}
    assert wires.passes("nic1", b"tagged", 7) == {"host1": (0, b"tagged")}
    assert wires.passes("nic1", b"stray", 8) == {}
    assert wires.passes("nic2", b"tagged", 7) == {}
    [(name, found)] = wires.passes("host1", b"back").items()
    assert (name[:3], found) == ("nic", (7, b"back"))
    assert sorted(name[:3] for name in wires.passes("host0", b"back")) == ["nic", "nic"]
    assert "mtu 1400" in wires.run("ip link show leg1")
    # No link: neither LACP nor a time-out is waited for.
    wires.run("ip link set nic1 down")
    wires.says("port0+port1: frames pass by port0")
    assert wires.passes("host1", b"one way") == {"nic0": (7, b"one way")}
    wires.run("ip link set nic1 up")
    wires.says("port0+port1: frames pass by port0, port1")
    wires.replug(1)
    wires.says("port0+port1: frames pass by port0, port1")
    assert wires.passes("nic1", b"again", 7) == {"host1": (0, b"again")}
    wires.run("ip link del port2")
    wires.says("port2: frames pass by none")
