"""A second DHCP server on a bridge: what it offers, from where, and what is left of it. Needs root and dnsmasq."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lab.daemons.switch import rogue
from lab.host.namespaces import NamespaceThreads
from lab.host.process import clean_environment
from lab.waiting import wait_until

ROOT = Path(__file__).parents[4]
SECONDS = 30.0
BRIDGE = """
mount -t sysfs sysfs /sys
ip link add lab0 type bridge forward_delay 0
ip link set lab0 up
ip link add host type veth peer name port
ip link set port master lab0 up
ip link set host up
echo
read _
"""
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("dnsmasq", path="/usr/sbin"), reason="needs root and dnsmasq"
)


@pytest.fixture
def network() -> Iterator[int]:
    """Provide a process whose network has a bridge and a NIC, `host`, in it."""
    argv = ["unshare", "--net", "--mount", "sh", "-ec", BRIDGE]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield holder.pid
        holder.kill()


def offered() -> tuple[dict[int, bytes], str, float]:
    """Return the options and the address of the first offer to a client of `host` (RFC 2131 §2), and how long it
    took."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"host")
        sock.bind(("", 68))
        sock.settimeout(SECONDS)
        mac = bytes.fromhex("5254006e7701")
        head = struct.pack("!BBBBIHHIIII16s192x", 1, 1, 6, 0, 7, 0, 0x8000, 0, 0, 0, 0, mac)
        began = time.monotonic()
        sock.sendto(head + bytes.fromhex("63825363350101ff"), ("255.255.255.255", 67))
        answer = sock.recv(2000)
    options, rest = {}, answer[240:]
    while rest and rest[0] != 255:
        options[rest[0]], rest = rest[2 : 2 + rest[1]], rest[2 + rest[1] :]
    return options, socket.inet_ntoa(answer[16:20]), time.monotonic() - began


@pytest.mark.parametrize("late", [0, 2])
def test_it_offers_addresses_of_its_own_network_and_itself(network: int, tmp_path: Path, late: int) -> None:
    sock = tmp_path / "sock"
    config = rogue.Config(
        bridge="lab0", network="192.168.1.0/24", seconds=late, leases=str(tmp_path / "leases"), socket=str(sock)
    )
    (tmp_path / "config").write_bytes(msgspec.json.encode(config))
    argv = [sys.executable, "-m", "lab.daemons.switch.rogue", str(tmp_path / "config")]
    environment = clean_environment({"PYTHONPATH": str(ROOT)}) | {"PATH": f"{os.environ['PATH']}:/usr/sbin"}
    with subprocess.Popen(
        ["nsenter", "--target", str(network), "--net", "--mount", *argv],
        env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as daemon:  # fmt: skip
        threads = NamespaceThreads(network)
        try:
            wait_until(sock.exists, SECONDS, "the server to be up", poll=0.02)
            options, address, seconds = threads.call(offered)
            assert address.startswith("192.168.1.")
            router = socket.inet_aton("192.168.1.1")
            # Router, name server, and who says so (RFC 2132 §3.5, §3.8, §9.7).
            assert (options[3], options[6], options[54]) == (router, router, router)
            assert seconds >= late
            nics = threads.call(subprocess.run, ["ip", "link"], capture_output=True, text=True).stdout
            assert f": {rogue.PORT}@" in nics
            assert rogue.NIC not in nics.replace(f"{rogue.PORT}@{rogue.NIC}", "")
        finally:
            # As the lab's first process does.
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait(SECONDS)

        def gone() -> bool:
            nics = threads.call(subprocess.run, ["ip", "link"], capture_output=True, text=True).stdout
            return f": {rogue.PORT}@" not in nics

        wait_until(gone, SECONDS, "its cable to go", poll=0.05)
        threads.close()
