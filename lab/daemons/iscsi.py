"""The lab's iSCSI target: tgtd, which runs in user space, with a target for each machine that has such a disk.

``python -m lab.daemons.iscsi CONFIG`` runs it until it ends. A machine's NIC learns by DHCP what to attach
(lab.daemons.dns), and keeps it attached where nothing is on it yet, so that the firmware goes on to the next medium,
whose system finds it in the firmware's table (iBFT).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.layout import ISCSI_PORT, Layout
from lab.topology import NodeSpec
from lab.topology.links import plain_address
from lab.waiting import wait_until

_LUN = 1
_SECONDS = 30.0
_POLL_SECONDS = 0.05
# An IQN names a domain that its owner had in that month (RFC 3720 §3.2.6.3.1); here that of examples.
_AUTHORITY = "iqn.2026-01.example.node0"


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine's disk: the target's name, the image, what the disk says of itself, and its initiator's addresses."""

    name: str
    image: str
    serial: str
    model: str
    vendor: str
    initiators: tuple[str, ...]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`portals` are IPv4 addresses of the lab's; `socket` is where tgtd is administered."""

    portals: tuple[str, ...]
    targets: tuple[Target, ...]
    socket: str


def target_name(node: NodeSpec) -> str:
    """Return the target that has a machine's disk."""
    return f"{_AUTHORITY}:{node.name}"


def initiator_name(node: NodeSpec) -> str:
    """Return the machine's own name."""
    return f"{_AUTHORITY}.initiator:{node.name}"


def root_paths(layout: Layout, node: NodeSpec) -> tuple[str, ...]:
    """Return a machine's disk as RFC 4173 §5 writes it, by each of its portals."""
    links = layout.topology.iscsi_links(node)
    return tuple(
        f"iscsi:{link.network.own4}:::{_LUN}:{target_name(node)}" for link in links if link.network is not None
    )


def script(layout: Layout, node: NodeSpec) -> str:
    """Write the script of a machine's iPXE where there are several portals, for which DHCP has no words: each NIC gets
    its address, and the disk is attached by all of them."""
    lines = ["#!ipxe", f"set initiator-iqn {initiator_name(node)}"]
    macs = [link.mac for link in layout.topology.iscsi_links(node)]
    # iPXE counts NICs in its own way.
    numbers = range(len(node.all_nics))
    lines += [f"iseq ${{net{number}/mac}} {mac} && dhcp net{number} ||" for number in numbers for mac in macs]
    return "\n".join([*lines, f"sanboot --keep {' '.join(root_paths(layout, node))} || exit 1"]) + "\n"


def script_name(node: NodeSpec) -> str:
    """Name that script as TFTP has it; empty for a machine that needs none."""
    return f"{node.name}.ipxe" if len(node.portals) > 1 else ""


def config(layout: Layout) -> Config | None:
    """Describe the disks of the lab's target; None where no machine has such a disk."""
    nodes = [node for node in layout.topology.nodes if node.portals]
    if not nodes:
        return None
    portals = [network for network in layout.topology.all_networks if any(network.name in n.portals for n in nodes)]
    return Config(
        portals=tuple(network.own4 for network in portals),
        targets=tuple(
            Target(
                name=target_name(node),
                image=str(layout.disk(node)),
                serial=node.serial(node.root_index),
                model=node.all_disks[node.root_index].model,
                vendor=node.all_disks[node.root_index].vendor,
                initiators=tuple(plain_address(link) for link in layout.topology.iscsi_links(node)),
            )
            for node in nodes
        ),
        socket=str(layout.root / "tgtd.sock"),
    )


def commands(served: Config) -> Iterator[list[str]]:
    """tgtadm's arguments for all of it; the portals come last: whoever reaches one finds all the rest there."""
    for number, target in enumerate(served.targets, 1):
        tid = ["--tid", str(number)]
        lun = ["--mode", "logicalunit", *tid, "--lun", str(_LUN)]
        yield ["--op", "new", "--mode", "target", *tid, "--targetname", target.name]
        yield ["--op", "new", *lun, "--backing-store", target.image]
        words = [
            f"scsi_sn={target.serial}",
            f"product_id={target.model}" if target.model else "",
            f"vendor_id={target.vendor}" if target.vendor else "",
            "thin_provisioning=1",
        ]
        yield ["--op", "update", *lun, "--params", ",".join(word for word in words if word)]
        for initiator in target.initiators:
            yield ["--op", "bind", "--mode", "target", *tid, "--initiator-address", initiator]
    for portal in served.portals:
        yield ["--op", "new", "--mode", "portal", "--param", f"portal={portal}:{ISCSI_PORT}"]


def administer(served: Config, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run tgtadm."""
    environment = os.environ | {"TGT_IPC_SOCKET": served.socket}
    line = ["tgtadm", "--lld", "iscsi", *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)


def configure(served: Config) -> None:
    """Tell a tgtd that is starting all of it. Raises WaitTimeout, LabError."""
    ask = ["--op", "show", "--mode", "sys"]
    wait_until(lambda: administer(served, ask).returncode == 0, _SECONDS, "tgtd's answer", poll=_POLL_SECONDS)
    for words in commands(served):
        completed = administer(served, words)
        if completed.returncode:
            raise LabError(f"tgtadm {' '.join(words)}: {completed.stderr.strip()}")


def main(argv: list[str]) -> None:
    """Become tgtd, which a process of its own configures: whoever stops this service stops tgtd itself."""
    served = msgspec.json.decode(Path(argv[0]).read_bytes(), type=Config)
    daemon = os.getpid()
    if child := os.fork():
        # Forked twice: the process that configures must not be a child of tgtd.
        os.waitpid(child, 0)
        # A portal on loopback: without one tgtd would listen on all addresses, before there are any targets.
        words = ["tgtd", "--foreground", "--iscsi", f"portal=127.0.0.1:{ISCSI_PORT}"]
        os.execvpe(words[0], words, os.environ | {"TGT_IPC_SOCKET": served.socket})
    if not os.fork():
        try:
            configure(served)
        except LabError as error:
            print(error, file=sys.stderr, flush=True)
            os.kill(daemon, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
