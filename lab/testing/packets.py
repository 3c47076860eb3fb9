"""Packets from one NIC to another: a pair of NICs in a lab's network, to see how much of what one sends reaches the
other; and two network namespaces, a lab's side and that of its machines, to see when and how it does.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.faults import Fault
from lab.host.namespaces import NamespaceThreads
from lab.host.process import clean_environment
from lab.waiting import wait_until

ROOT = Path(__file__).parents[2]
HERE, THERE, PORT = "198.51.100.1", "198.51.100.2", 5353
SECONDS = 30.0
#: A NIC by which the lab sends, and the one that is connected to it. Each knows the other: what waits for an answer to
#: ARP comes behind what is sent once that is there.
NICS = f"""
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link add lab0 address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02 netns $1
ip address add {HERE}/24 dev lab0
ip link set lab0 up
ip neigh add {THERE} lladdr 02:00:00:00:00:02 dev lab0 nud permanent
nsenter --target $1 --net sh -ec 'ip address add {THERE}/24 dev far; ip link set far up
ip neigh add {HERE} lladdr 02:00:00:00:00:01 dev far nud permanent'
"""
#: A shell script that makes a pair of NICs: 198.51.100.1 sends from fault0, and 198.51.100.2 is behind fault1.
PAIR = """
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link add fault0 type veth peer name fault1
ip link set fault1 up
ip link set fault0 up
ip address add 198.51.100.1/24 dev fault0
ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:01 dev fault0 nud permanent
"""


def received(device: str) -> int:
    """Count the packets that a NIC of this network namespace has received so far."""
    argv = ["ip", "-json", "-s", "link", "show", "dev", device]
    text = subprocess.run(argv, capture_output=True, check=True, timeout=10).stdout
    return int(json.loads(text)[0]["stats64"]["rx"]["packets"])


@contextmanager
def namespace() -> Iterator[int]:
    """Provide a process with a network of its own."""
    # A lab has a sysfs of its own, too.
    argv = ["unshare", "--net", "--mount", "sh", "-ec", "mount -t sysfs sysfs /sys; echo; read _"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield holder.pid
        holder.kill()


class Services:
    """The one daemon of the lab that is wanted here."""

    def __init__(self, near: int, sock: Path) -> None:
        self._argv = ["nsenter", "--target", str(near), "--net", "--mount", sys.executable]
        self._socket, self.held, self._runs = sock, ExitStack(), False
        self.process: subprocess.Popen[bytes]

    def running(self) -> dict[str, bool]:
        """Return whether it runs, once it has been started."""
        return {"impair": True} if self._runs else {}

    def start(self, service: str) -> None:
        """Start it, once."""
        assert service == "impair"
        if self._runs:
            return
        environment = clean_environment({"PYTHONPATH": str(ROOT)})
        self.process = self.held.enter_context(
            subprocess.Popen([*self._argv, "-m", "lab.daemons.switch.impair", str(self._socket)], env=environment)
        )
        self.held.callback(self.process.kill)
        self._runs = True
        wait_until(self._socket.exists, SECONDS, "the daemon's socket", poll=0.02)


class World:
    """A lab's side and that of its machines."""

    def __init__(self, near: int, far: int, sock: Path, held: ExitStack) -> None:
        self._near, self._far = NamespaceThreads(near), NamespaceThreads(far)
        held.callback(self._near.close)
        held.callback(self._far.close)
        services = Services(near, sock)
        held.enter_context(services.held)
        self._argv = ["nsenter", "--target", str(near), "--net", "--mount", "sh", "-ec", NICS, "sh", str(far)]
        self.lab: Any = SimpleNamespace(
            inside=self.here,
            services=services,
            layout=SimpleNamespace(
                impair=sock, topology=SimpleNamespace(all_networks=["home"]), bridge=lambda _: "lab0"
            ),
            nodes={},
        )
        self.make_nics()

    def make_nics(self) -> None:
        """Make the NICs between the two."""
        subprocess.run(self._argv, check=True, timeout=SECONDS)

    def here(self, function: Callable[..., Any], *args: Any, **words: Any) -> Any:
        """Return a function's result on the lab's side."""
        return self._near.call(function, *args, **words)

    def ip(self, words: str) -> None:
        """Run ip(8) on the lab's side."""
        self.here(subprocess.run, ["ip", *words.split()], check=True, timeout=SECONDS)

    def sent(self, numbers: Sequence[int], wanted: int, *, way: str = "to", size: int = 0) -> list[tuple[int, float]]:
        """Send a packet with each number and its time, to the other side or from it, of at least so many bytes; the
        numbers that come, with how long each took. Not before `wanted` have come, and until none comes any more."""
        sender, receiver = (self.here, self._far.call) if way == "to" else (self._far.call, self.here)
        address = THERE if way == "to" else HERE
        with receiver(_listening, address) as listening, sender(connected, address) as sending:
            for number in numbers:
                sending.send(f"{number} {time.monotonic_ns()}".encode().ljust(size))
            arrived: list[tuple[int, float]] = []
            listening.settimeout(SECONDS)
            while True:
                try:
                    text, now = listening.recv(2000).decode(), time.monotonic_ns()
                except TimeoutError:
                    return arrived
                number, begun = map(int, text.split())
                arrived.append((number, (now - begun) / 1e9))
                if len(arrived) >= wanted:
                    listening.settimeout(0.3)

    def transferred(self, content: bytes, segment: int = 0, seconds: float = SECONDS) -> bytes:
        """Return these bytes as TCP carries them, in segments of so many bytes with TCP's own options (0: as the NIC
        has it). Raises TimeoutError when nothing comes for so long."""

        def serve() -> bytes:
            with socket.create_server((THERE, PORT)) as server:
                server.settimeout(SECONDS)
                if segment:
                    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
                ready.append(1)
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as file:
                    connection.settimeout(seconds)
                    return file.read()

        def send() -> None:
            with socket.create_connection((THERE, PORT), timeout=SECONDS) as connection:
                connection.sendall(content)

        ready: list[int] = []
        with ThreadPoolExecutor(1) as pool:
            served = pool.submit(self._far.call, serve)
            wait_until(lambda: bool(ready), SECONDS, "a server", poll=0.01)
            self.here(send)
            return served.result(SECONDS)

    def wrong_checksums(self) -> int:
        """Count the UDP packets that the other side has thrown away for their checksums."""
        text: str = self._far.call(Path("/proc/thread-self/net/snmp").read_text)
        names, values = re.findall(r"^Udp: (.*)$", text, re.MULTILINE)
        return int(dict(zip(names.split(), values.split(), strict=True))["InCsumErrors"])

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[None]:
        """Provide the fault lasts while the block runs."""
        fault.begin(self.lab)
        try:
            yield
        finally:
            fault.end(self.lab)


def _listening(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.bind((address, PORT))
    return sock


def connected(address: str) -> socket.socket:
    """Return a UDP socket that sends there."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((address, PORT))
    return sock
