"""What a host says of its hardware, from files as a kernel has them and a dmidecode that runs."""

from __future__ import annotations

import platform

import pytest

from installer.agent.host import hardware
from installer.assisted.inventory import Gpu
from installer.testing.orchestrator_kit import Site

CPUINFO = """processor\t: 0
model name\t: First CPU
cpu MHz\t\t: 2100.5
flags\t\t: fpu sse

processor\t: 1
model name\t: Second CPU
cpu MHz\t\t: 99
flags\t\t: other
"""
EFIVAR = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def put(site: Site, name: str, content: str | bytes = "") -> None:
    path = site.host.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_the_first_cpu_speaks_for_all(site: Site) -> None:
    put(site, "/proc/cpuinfo", CPUINFO)
    cpu = hardware.cpu(site.host)
    assert (cpu.count, cpu.model_name, cpu.frequency, cpu.flags) == (2, "First CPU", 0.0, ["fpu", "sse"])
    put(site, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3400000\n")
    assert hardware.cpu(site.host).frequency == 3400.0


def test_an_arm_cpu_and_none_at_all(site: Site) -> None:
    put(site, "/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n")
    cpu = hardware.cpu(site.host)
    assert (cpu.count, cpu.model_name, cpu.frequency, cpu.flags) == (1, "", 0.0, ["fp", "asimd"])
    put(site, "/proc/cpuinfo")
    cpu = hardware.cpu(site.host)
    assert (cpu.count, cpu.flags) == (0, [])


@pytest.mark.parametrize(("machine", "name"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("s390x", "s390x")])
def test_architectures_have_the_services_names(
    site: Site, monkeypatch: pytest.MonkeyPatch, machine: str, name: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert hardware.cpu(site.host).architecture == name


def test_memory_by_smbios(site: Site) -> None:
    put(site, "/proc/meminfo", "MemFree: 1 kB\nMemTotal:       1000000 kB\n")
    devices = "1 kB", "1 KB", "1 MB", "1 GB", "1 TB", "No Module Installed", "Unknown"
    site.programs.says("dmidecode", "".join(f"\tSize: {size}\n" for size in devices) + "\tMaximum Size: 9 TB\n")
    memory = hardware.memory(site.host)
    assert site.timeline.argv("dmidecode") == [["-t", "17"]]
    assert memory.physical_bytes == 2 * 1024 + 1024**2 + 1024**3 + 1024**4
    assert (memory.usable_bytes, memory.physical_bytes_method) == (1000000 * 1024, "dmidecode")


@pytest.mark.parametrize("code", [0, 1])
def test_memory_where_smbios_says_too_little_or_nothing(site: Site, code: int) -> None:
    put(site, "/proc/meminfo", "MemTotal: 2048 kB\n")
    site.programs.says("dmidecode", "\tSize: 1 MB\n", code)
    memory = hardware.memory(site.host)
    assert (memory.physical_bytes, memory.usable_bytes) == (2048 * 1024, 2048 * 1024)
    assert memory.physical_bytes_method == "meminfo"


def test_memory_that_is_all_usable_and_memory_that_nobody_knows(site: Site) -> None:
    site.programs.says("dmidecode", "\tSize: 1 MB\n")
    assert hardware.memory(site.host).usable_bytes == 0
    put(site, "/proc/meminfo", "MemTotal: 1024 kB\n")
    assert hardware.memory(site.host).physical_bytes_method == "dmidecode"


def test_a_bios_with_a_disk(site: Site) -> None:
    put(site, "/proc/cmdline", "root=/dev/vda noBOOTIF=aa\n")
    boot = hardware.boot(site.host)
    assert (boot.current_boot_mode, boot.secure_boot_state, boot.device_type) == ("bios", "NotSupported", "")
    assert (boot.command_line, boot.pxe_interface) == ("root=/dev/vda noBOOTIF=aa", "")


@pytest.mark.parametrize(
    ("value", "state"),
    [(None, "Unknown"), (b"\6\0\0\0\1", "Enabled"), (b"\6\0\0\0\0", "Disabled"), (b"\1\1\1\1", "Disabled")],
)
def test_secure_boot(site: Site, value: bytes | None, state: str) -> None:
    site.host.path("/sys/firmware/efi").mkdir(parents=True)
    if value is not None:
        put(site, EFIVAR, value)
    boot = hardware.boot(site.host)
    assert (boot.current_boot_mode, boot.secure_boot_state) == ("uefi", state)


@pytest.mark.parametrize(
    ("line", "interface"), [("a BOOTIF=01-52:AA-f0 b", "01-52:AA-f0"), ("BOOTIF=00", "00"), ("xBOOTIF=00", "")]
)
def test_the_interface_that_booted(site: Site, line: str, interface: str) -> None:
    put(site, "/proc/cmdline", line)
    assert hardware.boot(site.host).pxe_interface == interface


@pytest.mark.parametrize("line", ["coreos.liveiso=fedora", "coreos.live.rootfs_url=http://x", None])
def test_a_live_system(site: Site, line: str | None) -> None:
    put(site, "/run/ostree-live" if line is None else "/proc/cmdline", line or "")
    assert hardware.boot(site.host).device_type == "ephemeral"


@pytest.mark.parametrize(
    ("maker", "product", "virtual"),
    [
        *(("QEMU", "x", True), ("Red Hat", "KVM", True), ("VMware, Inc.", "x", True), ("innotek", "VirtualBox", True)),
        *(
            ("Microsoft", "Virtual Machine", True),
            ("x", "Bochs", True),
            ("Xen", "HVM domU", True),
            ("x", "BHYVE", True),
        ),
        *(("x", "Standard PC (Q35)", True), ("Dell Inc.", "PowerEdge R640", False), ("", "", False)),
    ],
)
def test_vendors(site: Site, maker: str, product: str, virtual: bool) -> None:
    for name, text in (("sys_vendor", maker), ("product_name", product), ("product_serial", "S1")):
        put(site, f"/sys/class/dmi/id/{name}", text)
    site.programs.says("systemd-detect-virt", "none\n", 1)
    vendor = hardware.vendor(site.host)
    names = (maker or "unknown", product or "unknown", "S1")
    assert (vendor.manufacturer, vendor.product_name, vendor.serial_number) == names
    assert vendor.virtual is virtual


def test_display_controllers_only(site: Site) -> None:
    for address, kind in (("0000:02:00.0", "0x030200"), ("0000:01:00.0", "0x030000"), ("0000:00:00.0", "0x020000")):
        base = f"/sys/bus/pci/devices/{address}"
        for name, text in (("class", kind), ("vendor", "0x10de"), ("device", f"0x1{address[6]}")):
            put(site, f"{base}/{name}", text)
    assert hardware.gpus(site.host) == [
        Gpu(vendor_id="10de", device_id="11", address="0000:01:00.0"),
        Gpu(vendor_id="10de", device_id="12", address="0000:02:00.0"),
    ]


def test_tpm(site: Site) -> None:
    assert hardware.tpm(site.host) == "none"
    site.host.path("/sys/class/tpm/tpm0").mkdir(parents=True)
    assert hardware.tpm(site.host) == "1.2"
    for major, version in (("2", "2.0"), ("1", "1.2")):
        put(site, "/sys/class/tpm/tpm0/tpm_version_major", major)
        assert hardware.tpm(site.host) == version
