"""Tests of a host's hardware in the agent's words, from files and programs as they are on machines of many kinds."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from installer.agent.host import hardware, hostid, inventory
from installer.assisted import inventory as inv
from installer.hostsys.errors import CommandError
from installer.testing.agent_kit import Host, Programs, hasten, programs_in

MIB, GIB = 1024**2, 1024**3


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return programs_in(tmp_path / "bin", monkeypatch)


CPU = "processor\t: {}\nmodel name\t: A CPU\ncpu MHz\t\t: 2400.500\nflags\t\t: fpu vmx\n\n"


def test_processors(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
    assert hardware.cpu(host) == inv.Cpu(count=0, frequency=0.0, flags=[], model_name="", architecture="x86_64")
    host.write("/proc/cpuinfo", CPU.format(0) + CPU.format(1).replace("A CPU", "Another").replace("fpu", "sse"))
    cpu = hardware.cpu(host)
    assert (cpu.count, cpu.frequency, cpu.flags, cpu.model_name) == (2, 0.0, ["fpu", "vmx"], "A CPU")
    host.write("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3100000\n")
    assert hardware.cpu(host).frequency == 3100.0
    host.write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\ncpu MHz\t: unknown\n")
    host.write("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "")
    for machine, name in (("arm64", "aarch64"), ("amd64", "x86_64"), ("s390x", "s390x")):
        monkeypatch.setattr(hardware.platform, "machine", lambda machine=machine: machine)
        cpu = hardware.cpu(host)
        assert (cpu.architecture, cpu.flags, cpu.frequency) == (name, ["fp", "asimd"], 0.0)


DMI = "Memory Device\n\tSize: {}\n\tVolatile Size: 8 GB\nMemory Device\n\tSize: No Module Installed\n"


@pytest.mark.parametrize(
    ("dmi_memory", "physical", "method"),
    [
        ("8 GB", 8 * GIB, "dmidecode"),
        ("2048 MB", 2 * GIB, "dmidecode"),
        ("1048576 kB", GIB, "meminfo"),
        ("1 TB", 1024 * GIB, "dmidecode"),
        ("1500000 kB", 1_500_000 * 1024, "dmidecode"),
        ("Unknown", 0, "meminfo"),
    ],
)
def test_memory(host: Host, programs: Programs, dmi_memory: str, physical: int, method: str) -> None:
    usable = 1_500_000 * 1024
    host.write("/proc/meminfo", "MemTotal:        1500000 kB\nMemFree: 1 kB\n")
    programs.put("dmidecode", f"cat <<'END'\n{DMI.format(dmi_memory)}END")
    memory = hardware.memory(host)
    assert (memory.physical_bytes, memory.usable_bytes) == (physical if method == "dmidecode" else usable, usable)
    assert memory.physical_bytes_method == method
    assert programs.calls("dmidecode") == ["-t 17"]


@pytest.mark.parametrize("script", ["exit 1", "sleep 1000"])
def test_memory_without_smbios(host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    hasten(monkeypatch, dmidecode=120.0)
    programs.put("dmidecode", script)
    assert hardware.memory(host).physical_bytes == 0
    host.write("/proc/meminfo", "MemTotal: 2048 kB\n")
    assert hardware.memory(host) == inv.Memory(
        physical_bytes=2 * MIB, usable_bytes=2 * MIB, physical_bytes_method="meminfo"
    )
    folder = "/sys/devices/system/memory"
    host.write(f"{folder}/block_size_bytes", "8000000\n")
    for number, online in ((0, "1"), (1, "1"), (32, "0")):
        host.write(f"{folder}/memory{number}/online", f"{online}\n")
    assert hardware.memory(host) == inv.Memory(
        physical_bytes=256 * MIB, usable_bytes=2 * MIB, physical_bytes_method="ghw"
    )
    host.write("/proc/meminfo", "MemTotal: 262144 kB\n")
    assert hardware.memory(host).physical_bytes_method == "ghw"
    host.write("/proc/meminfo", "MemTotal: 262145 kB\n")
    assert hardware.memory(host).physical_bytes_method == "meminfo"
    host.write("/proc/meminfo", "")
    assert hardware.memory(host).usable_bytes == 0


def test_modules_of_memory_are_added_up() -> None:
    sizes = "1 TB", "4 GB", "512 MB", "16 KB", "1 kB"
    text = "".join(f"\tSize: {size}\n" for size in sizes)
    assert hardware.parse_dmidecode(text) == 1028 * GIB + 512 * MIB + 17 * 1024
    assert hardware.parse_dmidecode("\tMaximum Size: 4 GB\n\tSize: 4 PB\n\tSize: x GB\n") == 0


def test_how_a_host_was_booted(host: Host) -> None:
    boot = hardware.boot(host)
    assert (boot.current_boot_mode, boot.secure_boot_state, boot.device_type) == ("bios", "NotSupported", "")
    assert boot.pxe_interface == ""
    host.path("/sysroot/ostree").mkdir(parents=True)
    assert hardware.boot(host).device_type == "persistent"
    host.write("/proc/cmdline", "a coreos.liveiso=x BOOTIF=01-52-54-00-aa-bb-cc b\n")
    boot = hardware.boot(host)
    assert (boot.device_type, boot.pxe_interface) == ("ephemeral", "01-52-54-00-aa-bb-cc")
    assert boot.command_line == "a coreos.liveiso=x BOOTIF=01-52-54-00-aa-bb-cc b"
    host.write("/proc/cmdline", "BOOTIF=52:AA-f0 coreos.live.rootfs_url=http://x NOBOOTIF=1")
    boot = hardware.boot(host)
    assert (boot.device_type, boot.pxe_interface) == ("ephemeral", "52:AA-f0")
    host.write("/proc/cmdline", "NOBOOTIF=52")
    assert hardware.boot(host).pxe_interface == ""
    host.write("/run/ostree-live", "")
    assert hardware.boot(host).device_type == "ephemeral"


@pytest.mark.parametrize(
    ("value", "state"),
    [(b"\6\0\0\0\1", "Enabled"), (b"\6\0\0\0\0", "Disabled"), (b"\6\0\0\0", "Disabled"), (b"\1\1\1\1", "Disabled")],
)
def test_secure_boot(host: Host, value: bytes, state: str) -> None:
    host.path("/sys/firmware/efi").mkdir(parents=True)
    boot = hardware.boot(host)
    assert (boot.current_boot_mode, boot.secure_boot_state) == ("uefi", "Unknown")
    host.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", value)
    assert hardware.boot(host).secure_boot_state == state


@pytest.mark.parametrize(
    ("maker", "product", "virtual"),
    [
        ("QEMU", "x", True),
        ("x", "Standard PC (Q35 + ICH9, 2009)", True),
        ("innotek", "VirtualBox", True),
        ("Microsoft", "Virtual Machine", True),
        ("x", "Bochs", True),
        ("Xen", "HVM domU", True),
        ("x", "BHYVE", True),
        ("Red Hat", "KVM", True),
        ("VMware, Inc.", "VMware7,1", True),
        ("Dell Inc.", "PowerEdge R650", False),
        ("", "", False),
    ],
)
def test_the_maker(host: Host, programs: Programs, maker: str, product: str, virtual: bool) -> None:
    programs.put("systemd-detect-virt", "echo none; exit 1")
    host.write("/sys/class/dmi/id/sys_vendor", maker)
    host.write("/sys/class/dmi/id/product_name", product)
    host.write("/sys/class/dmi/id/product_serial", "S1\n")
    wanted = inv.SystemVendor(
        manufacturer=maker or "unknown", product_name=product or "unknown", serial_number="S1", virtual=virtual
    )
    assert hardware.vendor(host) == wanted
    programs.put("systemd-detect-virt", '[ "$1" = --vm ] && echo kvm')
    assert hardware.vendor(host).virtual


def test_display_controllers(host: Host) -> None:
    assert hardware.gpus(host) == []
    for bus, kind in enumerate(("0x020000", "0x030000", "0x030100", "0x030200", "0x038000", "0x120000")):
        base = f"/sys/bus/pci/devices/0000:0{bus}:00.0"
        host.write(f"{base}/class", kind)
        host.write(f"{base}/vendor", "0x10de")
        host.write(f"{base}/device", f"0x20b{bus}")
    assert hardware.gpus(host) == [
        inv.Gpu(vendor_id="10de", device_id=f"20b{bus}", address=f"0000:0{bus}:00.0") for bus in (1, 3, 4, 5)
    ]


def test_the_tpm(host: Host) -> None:
    assert hardware.tpm(host) == "none"
    host.path("/sys/class/tpm/tpm0").mkdir(parents=True)
    assert hardware.tpm(host) == "1.2"
    for version, name in (("1", "1.2"), ("2", "2.0")):
        host.write("/sys/class/tpm/tpm0/tpm_version_major", f"{version}\n")
        assert hardware.tpm(host) == name


def test_the_hosts_name(host: Host, programs: Programs) -> None:
    macs = ["52:54:00:00:00:01", "52:54:00:00:00:02"]
    for name in ("localhost", "localhost.localdomain", "localhost6", "", "localhost-live"):
        programs.put("cat", f"echo '{name}'")
        assert inventory.hostname(host, macs) == "52-54-00-00-00-01"
        assert inventory.hostname(host, []) == name
    programs.put("cat", "echo master-0.example")
    assert inventory.hostname(host, macs) == "master-0.example"
    assert programs.calls("cat")[0] == "/proc/sys/kernel/hostname"
    # A host that cannot say its name for a moment is not called otherwise.
    programs.put("cat", "exit 1")
    with pytest.raises(CommandError):
        inventory.hostname(host, macs)


def test_the_identity_from_the_lowest_mac_of_a_device(host: Host) -> None:
    for name, mac, device in (
        ("a", "52:54:00:00:00:02", True),
        ("b", "52:54:00:00:00:01", True),
        ("c", "00:00", False),
        ("d", "00:00:00:00:00:00", True),
    ):
        host.write(f"/sys/class/net/{name}/address", mac)
        if device:
            host.path(f"/sys/class/net/{name}/device").mkdir()
    assert hostid.host_id(host) == hostid.md5_uuid("52:54:00:00:00:01")
    for bad in (*map(str, hostid.SHARED), str(UUID(int=0)), str(UUID(int=2**128 - 1)), "no uuid"):
        host.write("/sys/class/dmi/id/product_uuid", bad)
        assert hostid.host_id(host) == hostid.md5_uuid("52:54:00:00:00:01")
    host.write("/sys/class/dmi/id/product_uuid", "12345678-0000-4000-8000-000000000001")
    for bad in (
        "", "Unspecified Base Board Serial Number", "UNSPECIFIED something", "To be filled by O.E.M.", "0", "-",
        "(none)", "None", "  ", "....", "00000000", "XXXXXXX", "ffffffff", "N/A", "Not Specified", "<none>",
        "PCA_number.ACC", "Default string", "default string.", "To Be Filled By O.E.M", "123456789", "0123456789", "#",
        "MB-1234567890", "BSN12345678901234567", "012345", "Unknown", "INVALID", "System Serial Number", "O.E.M.",
        "Not Applicable", "Unknow", "Type2 - Board Serial Number", "123456", "12345678", "01234567", "0x00000000",
        "Filled By O.E.M.", "INVALID SERIAL", "Baseboard S/N", "BaseBoard SerialNumber", "SN0000000", "Empty SN",
        "Type1ProductSerial", "S/N", "Mother Board SN", "serial", "Serial#", "Chassis Serial Number",
    ):  # fmt: skip
        host.write("/sys/class/dmi/id/board_serial", bad)
        assert hostid.host_id(host) == "12345678-0000-4000-8000-000000000001", bad
    host.write("/sys/class/dmi/id/board_serial", "B1")
    assert hostid.host_id(host) == "c9512565-ef61-94ca-664d-c41ec0de7a53"  # the MD5 of the serial number
    for serial in (".ABC1234.CNFCP0012300AB.", "NM1234567", "None1", "PWVNS0CRHBN0UG", "/1234567/", "Z10", "SN10"):
        assert hostid.identifies(serial), serial


LINK = {"ifname": "ens3", "link_type": "ether", "address": "52:54:00:AA:00:01", "mtu": 1500}
DISK = {"name": "vda", "kname": "vda", "path": "/dev/vda", "type": "disk", "size": 100}


def test_the_whole_inventory(host: Host, programs: Programs) -> None:
    # What is made on the host gives it no name.
    made = {**LINK, "ifname": "veth0", "address": "52:54:00:AA:00:00", "linkinfo": {"info_kind": "veth"}}
    programs.put("ip", "case \"$2\" in -d) cat <<'END'\n" + json.dumps([made, LINK]) + "\nEND\n;; *) echo '[]' ;; esac")
    programs.put("lsblk", f"echo '{json.dumps({'blockdevices': [DISK]})}'")
    programs.put("cat", '[ "$1" = /proc/sys/kernel/hostname ] && echo localhost || exec /bin/cat "$@"')
    programs.put("dmidecode", "exit 1")
    host.path("/sys/class/net/ens3/device").mkdir(parents=True)
    reported = inv.decode(inventory.collect_json(host))
    assert reported.hostname == "52-54-00-aa-00-01"
    assert [nic.name for nic in reported.interfaces] == ["veth0", "ens3"]
    assert [each.path for each in reported.disks] == ["/dev/vda"]
    assert (reported.boot.current_boot_mode, reported.tpm_version) == ("bios", "none")
    assert (reported.gpus, reported.routes) == ([], [])
