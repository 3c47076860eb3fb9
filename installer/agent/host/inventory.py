"""The inventory step: everything about this host in one document (installer.md §6.2)."""

from __future__ import annotations

from installer.agent.host import blockdev, hardware, network
from installer.assisted.inventory import Inventory, encode
from installer.hostsys.system import HostSystem

# Of these interfaces one gives a host without a name its own.
NAMING = ("physical", "vlan", "bond")
# What is told where no BMC can be asked from the host: none is asked, as a lab's are not to be seen from there.
NO_BMC, NO_BMC_V6 = "0.0.0.0", "::/0"
PLACEHOLDERS = frozenset({"", "localhost", "localhost.localdomain", "localhost4", "localhost6"})


def hostname(host: HostSystem, macs: list[str]) -> str:
    """The host's own name; the first MAC with dashes when it has none of its own."""
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
    """The inventory as JSON."""
    return encode(collect(host))
