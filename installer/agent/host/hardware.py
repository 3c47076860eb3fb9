"""CPU, memory, firmware, vendor, GPUs, TPM of the host, in the inventory's shapes (installer.md §6.2)."""

from __future__ import annotations

import platform
import re

from installer.assisted.inventory import Boot, Cpu, Gpu, Memory, SystemVendor
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

VIRTUAL = ("qemu", "kvm", "vmware", "virtualbox", "virtual machine", "bochs", "xen", "bhyve", "standard pc")
UNITS = {"kB": 1024, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DISPLAY_CLASS = "0x03"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def cpu(host: HostSystem) -> Cpu:
    """Logical CPUs that are online."""
    text = host.read("/proc/cpuinfo")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    limit = host.read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    frequency = int(limit) / 1000 if limit.isdigit() else _number(fields.get("cpu MHz", ""))
    machine = platform.machine()
    return Cpu(
        count=count,
        frequency=frequency,
        flags=(fields.get("flags") or fields.get("Features") or "").split(),
        model_name=fields.get("model name", ""),
        architecture=ARCHITECTURES.get(machine, machine),
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def parse_dmidecode(text: str) -> int:
    """Bytes of all memory devices in ``dmidecode -t 17``."""
    sizes = re.findall(r"^\s*Size:\s*(\d+)\s*(kB|KB|MB|GB|TB)\s*$", text, re.MULTILINE)
    return sum(int(number) * UNITS[unit] for number, unit in sizes)


def memory(host: HostSystem) -> Memory:
    """Installed memory by SMBIOS, where it tells; usable memory from the kernel."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", host.read("/proc/meminfo"), re.MULTILINE)
    usable = int(match[1]) * 1024 if match else 0
    try:
        physical = parse_dmidecode(host.run("dmidecode", "-t", "17"))
    except CommandError:
        physical = 0
    # A virtual machine's SMBIOS may leave the devices out, or say less than the kernel sees.
    if physical < usable:
        return Memory(physical_bytes=usable, usable_bytes=usable, physical_bytes_method="meminfo")
    return Memory(physical_bytes=physical, usable_bytes=usable, physical_bytes_method="dmidecode")


def boot(host: HostSystem) -> Boot:
    """Firmware mode, command line, secure boot, and whether the system is live."""
    command_line = host.read("/proc/cmdline")
    uefi = host.path("/sys/firmware/efi").is_dir()
    state = "NotSupported"
    if uefi:
        try:
            # Four bytes of attributes come before the value.
            state = "Enabled" if host.path(SECURE_BOOT).read_bytes()[4:5] == b"\x01" else "Disabled"
        except OSError:
            state = "Unknown"
    live = "coreos.liveiso=" in command_line or "coreos.live.rootfs_url=" in command_line
    live = live or host.path("/run/ostree-live").exists()
    pxe = re.search(r"(?:^| )BOOTIF=([0-9a-fA-F:-]+)", command_line)
    return Boot(
        current_boot_mode="uefi" if uefi else "bios",
        pxe_interface=pxe[1] if pxe else "",
        command_line=command_line,
        secure_boot_state=state,
        device_type="ephemeral" if live else "persistent",
    )


def vendor(host: HostSystem) -> SystemVendor:
    """Maker, product and serial from SMBIOS."""
    manufacturer = host.read("/sys/class/dmi/id/sys_vendor")
    product = host.read("/sys/class/dmi/id/product_name")
    text = f"{manufacturer} {product}".lower()
    return SystemVendor(
        manufacturer=manufacturer,
        product_name=product,
        serial_number=host.read("/sys/class/dmi/id/product_serial"),
        virtual=any(name in text for name in VIRTUAL),
    )


def gpus(host: HostSystem) -> list[Gpu]:
    """Display controllers on the PCI bus."""
    controllers = []
    for device in sorted(host.path("/sys/bus/pci/devices").glob("*")):
        base = f"/sys/bus/pci/devices/{device.name}"
        if host.read(f"{base}/class").startswith(DISPLAY_CLASS):
            vendor_id, device_id = host.read(f"{base}/vendor")[2:], host.read(f"{base}/device")[2:]
            controllers.append(Gpu(vendor_id=vendor_id, device_id=device_id, address=device.name))
    return controllers


def tpm(host: HostSystem) -> str:
    """``none``, ``1.2`` or ``2.0``."""
    version = host.read("/sys/class/tpm/tpm0/tpm_version_major")
    if version == "2":
        return "2.0"
    return "1.2" if version == "1" or host.path("/sys/class/tpm/tpm0").exists() else "none"
