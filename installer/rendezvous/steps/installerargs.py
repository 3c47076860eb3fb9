"""Arguments for coreos-installer: the user's own, and what the host's disk and network call for.

The rules are those of assisted-service's internal/host/hostcommands/install_cmd.go.
"""

from __future__ import annotations

from ipaddress import ip_address

from installer.assisted.inventory import Disk, Interface, Inventory
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations import disks, networks
from installer.rendezvous.validations.hostview import HostView

_KEEP = ("--save-partlabel", "--save-partindex")


def keeps_partitions(host: Host) -> bool:
    """Did the user ask coreos-installer to leave partitions of the installation disk as they are?"""
    return any(arg.startswith(_KEEP) for arg in host.installer_args.value or [])


def arguments(view: HostView) -> list[str]:
    """All arguments for this host; what the user gave comes first and is not repeated.

    A network that the user set up, by NMState, by ``ip=`` arguments or on the host's console, is left as it is; else
    the NICs in the machine network ask a DHCP server.
    """
    args = list(view.host.installer_args.value or [])
    inventory = view.inventory
    if inventory is None:
        return args
    own_network = any(arg.startswith("ip=") for arg in args)
    disk = disks.installation(view.host, inventory)
    if disk is not None:
        _add(args, _disk_arguments(disk, inventory, own_network))
    copied = bool({"-n", "--copy-network"}.intersection(args))
    if view.infra_env is not None and view.infra_env.static_network_config:
        args += [] if copied else ["--copy-network"]
    elif not own_network and not copied:
        _add(args, _dhcp(view, inventory))
    return args


def _add(args: list[str], kernel: list[str]) -> None:
    for argument in kernel:
        if argument not in args:
            args += ["--append-karg", argument]


def _disk_arguments(disk: Disk, inventory: Inventory, own_network: bool) -> list[str]:
    """Kernel arguments without which the root file system on such a disk is not found."""
    if disk.drive_type == "RAID":
        return ["rd.md=1", "rd.auto=1"]
    if disk.drive_type == "iSCSI":
        return _iscsi(disk, inventory, own_network)
    if disk.drive_type != "Multipath":
        return []
    kernel = ["rw", "rd.multipath=default"]
    for path in disks.paths_of(disk, inventory, "iSCSI"):
        kernel += _iscsi(path, inventory, own_network)
    return kernel


def _iscsi(disk: Disk, inventory: Inventory, own_network: bool) -> list[str]:
    """Return the firmware's own configuration, and DHCP on the NIC that the session runs over."""
    kernel = ["rd.iscsi.firmware=1"]
    if own_network or disk.iscsi is None or not disk.iscsi.host_ip_address:
        return kernel
    address = ip_address(disk.iscsi.host_ip_address)
    for nic in inventory.interfaces:
        if any(item.ip == address for item in networks.addresses((*nic.ipv4_addresses, *nic.ipv6_addresses))):
            return [*kernel, _named(nic, "dhcp6" if address.version == 6 else "dhcp")]
    return kernel


def _dhcp(view: HostView, inventory: Inventory) -> list[str]:
    """``ip=<MAC address>:dhcp`` for each NIC with an address in the first machine network."""
    cidrs = view.machine_cidrs
    if not cidrs:
        return []
    families = {networks.network_of(cidr).version for cidr in cidrs}
    first = networks.network_of(cidrs[0])
    autoconf = "dhcp,dhcp6" if len(families) == 2 else "dhcp6" if first.version == 6 else "dhcp"
    return [
        _named(nic, autoconf)
        for nic in inventory.interfaces
        if any(
            networks.in_any(item.ip, cidrs[:1])
            for item in networks.addresses(nic.ipv6_addresses if first.version == 6 else nic.ipv4_addresses)
        )
    ]


def _named(nic: Interface, way: str) -> str:
    return f"ip={nic.mac_address.replace(':', '-')}:{way}"
