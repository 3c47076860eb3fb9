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
UNKNOWN, SMBIOS = "unknown", ("sys_vendor", "product_name", "product_serial")
# VGA, 3D and other display controllers, processing accelerators.
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def cpu(host: HostSystem) -> Cpu:
    """Logical CPUs that are online."""
    text = host.read("/proc/cpuinfo")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    # Where the kernel knows no limit, the present frequency of a core says nothing.
    limit = host.read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    frequency = int(limit) / 1000 if limit.isdigit() else 0.0
    machine = platform.machine()
    return Cpu(
        count=count,
        frequency=frequency,
        flags=(fields.get("flags") or fields.get("Features") or "").split(),
        model_name=fields.get("model name", ""),
        architecture=ARCHITECTURES.get(machine, machine),
    )


def parse_dmidecode(text: str) -> int:
    """Bytes of all memory devices in ``dmidecode -t 17``."""
    sizes = re.findall(r"^\s*Size:\s*(\d+)\s*(kB|KB|MB|GB|TB)\s*$", text, re.MULTILINE)
    return sum(int(number) * UNITS[unit] for number, unit in sizes)


def _memory_blocks(host: HostSystem) -> int:
    """Bytes of all memory blocks that the kernel has online; 0 where it does not show them."""
    folder = "/sys/devices/system/memory"
    try:
        size = int(host.read(f"{folder}/block_size_bytes"), 16)
    except ValueError:
        return 0
    names = [path.name for path in host.path(folder).glob("memory[0-9]*")]
    return size * sum(host.read(f"{folder}/{name}/online") == "1" for name in names)


def memory(host: HostSystem) -> Memory:
    """Installed memory by SMBIOS, else by the kernel's memory blocks; usable memory from the kernel."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", host.read("/proc/meminfo"), re.MULTILINE)
    usable = int(match[1]) * 1024 if match else 0
    try:
        physical = parse_dmidecode(host.run("dmidecode", "-t", "17"))
    except CommandError:
        physical = 0
    if not physical and (physical := _memory_blocks(host)) >= usable:
        return Memory(physical_bytes=physical, usable_bytes=usable, physical_bytes_method="ghw")
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
    # An installed CoreOS has its root there; a system that is neither this nor live is unknown.
    installed = host.path("/sysroot/ostree").is_dir()
    pxe = re.search(r"(?:^| )BOOTIF=([0-9a-fA-F:-]+)", command_line)
    return Boot(
        current_boot_mode="uefi" if uefi else "bios",
        pxe_interface=pxe[1] if pxe else "",
        command_line=command_line,
        secure_boot_state=state,
        device_type="ephemeral" if live else "persistent" if installed else "",
    )


def _is_virtual(host: HostSystem) -> bool:
    """By systemd, where the manufacturer's name does not decide. Its program ends with 1 on a physical machine."""
    return host.run("systemd-detect-virt", "--vm", check=False).strip() not in ("", "none")


def vendor(host: HostSystem) -> SystemVendor:
    """Maker, product and serial from SMBIOS."""
    manufacturer, product, serial = (host.read(f"/sys/class/dmi/id/{name}") or UNKNOWN for name in SMBIOS)
    text = f"{manufacturer} {product}".lower()
    return SystemVendor(
        manufacturer=manufacturer,
        product_name=product,
        serial_number=serial,
        virtual=any(name in text for name in VIRTUAL) or _is_virtual(host),
    )


def gpus(host: HostSystem) -> list[Gpu]:
    """Display controllers on the PCI bus."""
    controllers = []
    for device in sorted(host.path("/sys/bus/pci/devices").glob("*")):
        base = f"/sys/bus/pci/devices/{device.name}"
        if host.read(f"{base}/class").startswith(GPU_CLASSES):
            vendor_id, device_id = host.read(f"{base}/vendor")[2:], host.read(f"{base}/device")[2:]
            controllers.append(Gpu(vendor_id=vendor_id, device_id=device_id, address=device.name))
    return controllers


def tpm(host: HostSystem) -> str:
    """Return ``none``, ``1.2`` or ``2.0``; old kernels do not say which."""
    if host.read("/sys/class/tpm/tpm0/tpm_version_major") == "2":
        return "2.0"
    return "1.2" if host.path("/sys/class/tpm/tpm0").exists() else "none"
