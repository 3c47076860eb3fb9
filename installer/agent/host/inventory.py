"""The inventory step: everything about this host in one document (installer.md §6.2)."""

from __future__ import annotations

from installer.agent.host import blockdev, hardware, network
from installer.assisted.inventory import Inventory, encode
from installer.hostsys.system import HostSystem

# Kinds of interfaces whose MAC address names a host that has no name.
NAMING = ("physical", "vlan", "bond")
# What is reported for a host without a BMC: none is asked, as a lab's BMCs cannot be seen from the host.
NO_BMC, NO_BMC_V6 = "0.0.0.0", "::/0"
PLACEHOLDERS = frozenset({"", "localhost", "localhost.localdomain", "localhost4", "localhost6"})


def hostname(host: HostSystem, macs: list[str]) -> str:
    """Return the host's own name; the first MAC with dashes when it has none of its own."""
    name = host.run("cat", "/proc/sys/kernel/hostname").strip()
    if name in PLACEHOLDERS or name.startswith("localhost"):
        return macs[0].replace(":", "-") if macs else name
    return name


def collect(host: HostSystem) -> Inventory:
    """Read everything. Raises CommandError when a program that is needed fails."""
    nics = network.interfaces(host)
    return Inventory(
        hostname=hostname(host, [nic.mac_address for nic in nics if nic.type in NAMING and nic.mac_address]),
        bmc_address=NO_BMC,
        bmc_v6address=NO_BMC_V6,
        interfaces=nics,
        disks=blockdev.disks(host),
        boot=hardware.boot(host),
        system_vendor=hardware.vendor(host),
        memory=hardware.memory(host),
        cpu=hardware.cpu(host),
        gpus=hardware.gpus(host),
        routes=network.routes(host),
        tpm_version=hardware.tpm(host),
    )


def collect_json(host: HostSystem) -> str:
    """Return the inventory as JSON."""
    return encode(collect(host))
