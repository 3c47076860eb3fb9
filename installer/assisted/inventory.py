"""A host's inventory as JSON carries it (installer.md §6.2); the agent writes it, the service reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from installer.common.formats import jsontext


class Interface(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One network interface; addresses carry their prefix length."""

    name: str = ""
    mac_address: str = ""
    ipv4_addresses: list[str] = []
    ipv6_addresses: list[str] = []
    mtu: int = 0
    speed_mbps: int = 0
    has_carrier: bool = False
    flags: list[str] = []
    vendor: str = ""
    product: str = ""
    biosdevname: str = ""
    client_id: str = ""
    type: str = ""


class IoPerf(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Worst 99th percentile of a synced write, in ms."""

    sync_duration: int = 0


class Eligibility(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A disk's fitness to be installed on, with the reasons against it."""

    eligible: bool = False
    not_eligible_reasons: list[str] = []


class Iscsi(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The iSCSI session's own address."""

    host_ip_address: str = ""


class Disk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One disk; size in bytes, ``id`` the most stable name that the host has for it.

    ``aliases`` and ``serials``: further names and serial numbers, which OpenShift's agents do not report.
    """

    id: str = ""
    name: str = ""
    path: str = ""
    by_path: str = ""
    by_id: str = ""
    aliases: list[str] = []
    hctl: str = ""
    drive_type: str = "Unknown"
    vendor: str = ""
    model: str = ""
    serial: str = ""
    serials: list[str] = []
    wwn: str = ""
    size_bytes: int = 0
    bootable: bool = False
    removable: bool = False
    is_installation_media: bool = False
    partition_types: str = msgspec.field(default="", name="partitionTypes")
    has_uuid: bool = False
    smart: str = ""
    holders: str = ""
    io_perf: IoPerf | None = None
    iscsi: Iscsi | None = None
    installation_eligibility: Eligibility = Eligibility()


class Cpu(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Logical processors; frequency in MHz."""

    count: int = 0
    frequency: float = 0.0
    flags: list[str] = []
    model_name: str = ""
    architecture: str = ""


class Memory(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Bytes installed and bytes that the kernel can use."""

    physical_bytes: int = 0
    usable_bytes: int = 0
    physical_bytes_method: str = "meminfo"


class Boot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The start of the live system."""

    current_boot_mode: str = ""
    pxe_interface: str = ""
    command_line: str = ""
    secure_boot_state: str = "Unknown"
    device_type: str = ""


class SystemVendor(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The maker's names from SMBIOS."""

    manufacturer: str = ""
    product_name: str = ""
    serial_number: str = ""
    virtual: bool = False


class Gpu(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One display controller on the PCI bus."""

    vendor: str = ""
    vendor_id: str = ""
    device_id: str = ""
    name: str = ""
    address: str = ""


class Route(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One route; family is the kernel's number (2 IPv4, 10 IPv6)."""

    interface: str = ""
    gateway: str = ""
    destination: str = ""
    family: int = 2
    metric: int = 0


class Truncation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Set when the inventory had to be cut to fit: ``partial`` or ``full``."""

    type: str = "partial"
    reasons: list[str] = []


class Inventory(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=False):
    """Everything the agent knows of its host."""

    hostname: str = ""
    bmc_address: str = ""
    bmc_v6address: str = ""
    interfaces: list[Interface] = []
    disks: list[Disk] = []
    boot: Boot = Boot()
    system_vendor: SystemVendor = SystemVendor()
    memory: Memory = Memory()
    cpu: Cpu = Cpu()
    gpus: list[Gpu] = []
    routes: list[Route] = []
    tpm_version: str = "none"
    truncation: Truncation | None = None


# The parts that a host always has: upstream's service crashes on an inventory in which one of them is null.
_ALWAYS = frozenset({"boot", "cpu", "memory", "system_vendor"})


def decode(text: str | bytes) -> Inventory:
    """Inventory from JSON. A null counts as absent, except in place of a whole part of the host.

    Upstream's agent writes null for each list that is empty, as Go's encoder does.

    Raises msgspec.DecodeError: the text is no JSON; its subclass msgspec.ValidationError, when it is no inventory.
    """
    try:
        return jsontext.typed(text, Inventory)
    except msgspec.ValidationError:
        if "null" not in (text if isinstance(text, str) else text.decode("latin-1")):
            raise
    try:
        value = jsontext.parsed(text)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    return msgspec.convert(_without_nulls(value), Inventory)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None or key in _ALWAYS}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def encode(inventory: Inventory) -> str:
    """JSON of an inventory, without members that are null, and further names only where there are any."""
    data = msgspec.to_builtins(inventory)
    if data.get("truncation") is None:
        data.pop("truncation", None)
    for disk in data["disks"]:
        for key in ("io_perf", "iscsi", "aliases", "serials"):
            if not disk.get(key):
                disk.pop(key, None)
    return msgspec.json.encode(data).decode()
