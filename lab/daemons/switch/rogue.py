"""A second DHCP server in a lab, a router that somebody has plugged in: `python -m lab.daemons.switch.rogue CONFIG`.

It is a host of its own, with a network namespace, a NIC in a bridge of the lab's and an address, and runs dnsmasq
without DNS. It leases addresses of its own network, and names itself as gateway and DNS server, which it is not. All of
it ends with this process.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from lab.waiting import wait_until

# The bridge's end of its cable, and the router's.
PORT, NIC = "rogue", "rogue-lan"
_SECONDS = 30.0
# /proc/net/udp: a local port, 67.
_LISTENS = ":0043 "
_ROUTER = """
echo
read -r _
ip link set lo up
ip address add "$1" dev "$2"
ip link set "$2" up
shift 2
exec "$@"
"""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bridge that it is plugged into, its network, after how many seconds it answers, where its files lie, and the
    socket that tells that it is up."""

    bridge: str
    network: str
    seconds: int
    leases: str
    socket: str


def arguments(config: Config) -> list[str]:
    """dnsmasq's command line."""
    network = IPv4Network(config.network)
    router, hosts = network[1], network.num_addresses
    options = [
        "port=0",
        f"interface={NIC}",
        "bind-interfaces",
        "user=root",
        "conf-file=",
        "pid-file=",
        "log-facility=-",
        "log-dhcp",
        "no-ping",
        f"dhcp-leasefile={config.leases}",
        f"dhcp-range={network[hosts // 2]},{network[-2]},{network.netmask},1h",
        f"dhcp-option=option:router,{router}",
        f"dhcp-option=option:dns-server,{router}",
        *([f"dhcp-reply-delay={config.seconds}"] if config.seconds else []),
    ]
    return ["dnsmasq", "--keep-in-foreground", *(f"--{option}" for option in options)]


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, timeout=_SECONDS)


def main(file: Path) -> int:
    """Run until killed; returns how dnsmasq ended."""
    config = msgspec.json.decode(file.read_bytes(), type=Config)
    network = IPv4Network(config.network)
    address = f"{network[1]}/{network.prefixlen}"
    argv = ["unshare", "--net", "sh", "-ec", _ROUTER, "sh", address, NIC, *arguments(config)]
    with ExitStack() as held:
        _ip(f"link add {PORT} type veth peer name {NIC}")
        _ip(f"link set {PORT} master {config.bridge} up")
        router = held.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        held.callback(router.kill)
        assert router.stdin is not None
        assert router.stdout is not None
        router.stdout.readline()
        _ip(f"link set {NIC} netns {router.pid}")
        router.stdin.write(b"\n")
        router.stdin.flush()

        def listens() -> bool:
            assert router.poll() is None, f"dnsmasq ended with {router.returncode}"
            return _LISTENS in Path(f"/proc/{router.pid}/net/udp").read_text()

        wait_until(listens, _SECONDS, "dnsmasq to listen", poll=0.02)
        Path(config.socket).unlink(missing_ok=True)
        server = held.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(config.socket)
        server.listen()
        return router.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
