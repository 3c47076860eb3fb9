"""Machines that are switched on: from the CD to the login, from a disk that was installed, and what falls through."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from installer.common import cpio
from lab.machines.container.firmware.disk import slices
from lab.machines.container.firmware.partitions import Partition, Table
from lab.machines.container.spec import Nic
from lab.tests.machines.container.firmware import kit
from lab.tests.machines.container.firmware.medium_kit import bootable

#: They boot the machine OS of the cache, which only the lane of labs builds before: elsewhere they would be skipped.
pytestmark = pytest.mark.lab


def test_the_live_system_comes_up_with_what_ignition_wrote(tmp_path: Path) -> None:
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    with kit.powered(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso))) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        text = machine.wait_for("proven login:")
    assert "Command line: BOOT_IMAGE=/images/pxeboot/vmlinuz coreos.liveiso=" in text
    assert text.index("not a bootable disk") < text.index("Finished Ignition (files).") < text.index("login:")


def test_an_installed_disk_boots_and_ignition_runs_once(tmp_path: Path) -> None:
    disk = kit.installed(tmp_path, kit.CONFIG)
    machine_spec = kit.spec(tmp_path, disks=kit.disks(vda=disk))
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        machine.wait_for("Mark the first boot as complete.")
        text = machine.wait_for("proven login:")
    assert " ignition.firstboot" in text
    assert "Finished Ignition (files)." in text
    # The power was cut; the journal of the root is replayed.
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        text = machine.wait_for("proven login:")
    assert "ignition.firstboot" not in text
    assert "Ignition (" not in text


_NAMED = {
    "ignition": {"version": "3.3.0"},
    "storage": {"files": [file for file in kit.CONFIG["storage"]["files"] if file["path"] != "/etc/hostname"]},
    "systemd": kit.CONFIG["systemd"],
}


@pytest.mark.parametrize("config", [True, False], ids=["a config for the live system", "none"])
def test_a_live_system_installs_itself_as_its_arguments_say(tmp_path: Path, config: bool) -> None:
    target = {"path": "/etc/target.ign", "contents": {"source": "data:," + quote(json.dumps(_NAMED))}}
    iso = kit.iso_with(tmp_path, {"ignition": {"version": "3.3.0"}, "storage": {"files": [target]}})
    url = "file:///etc/target.ign" if config else "skip"
    network = "ip=192.168.7.2::192.168.7.1:255.255.255.0:named:eth0:none nameserver=192.168.7.1"
    kit.set_kargs(iso, lambda text: f"{text} coreos.inst.install_dev=vda coreos.inst.ignition_url={url} {network}")
    if not config:
        kit.reset(iso)
    disk = tmp_path / "disk.img"
    with disk.open("wb") as file:
        file.truncate(8 << 30)
    machine_spec = kit.spec(tmp_path, cdrom=str(iso), disks=kit.disks(vda=disk))
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        machine.wait_for("Install complete.")
        text = machine.wait_for("Reached target reboot.target")
    assert f"coreos-installer install /dev/vda{' --ignition-file ' if config else ''}" in text
    assert f"--firstboot-args rd.neednet=1 {network}" in text
    if not config:
        return
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        # The network of the arguments stays, and the name in it.
        text = machine.wait_for("named login:")
    assert "coreos.liveiso" not in text


_FIRST = {
    "name": "first.service",
    "enabled": True,
    "contents": "[Unit]\nConditionKernelCommandLine=ignition.firstboot\nBefore=ignition-firstboot-complete.service\n"
    "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo ran >> /var/lib/first; sync /var/lib/first'\n"
    "[Install]\nWantedBy=multi-user.target\n",
}
_COUNT = {
    "name": "count.service",
    "enabled": True,
    "contents": "[Unit]\nAfter=first.service\n[Service]\nType=oneshot\n"
    "ExecStart=/bin/sh -c 'echo first boots: $(wc -l < /var/lib/first). > /dev/console'\n"
    "[Install]\nWantedBy=multi-user.target\n",
}


@pytest.mark.parametrize(
    ("cut", "may_be"),
    [
        # In the initramfs, with the root half written: nothing of the first boot has run.
        ("Finished Ignition (files).", {1}),
        # While the first boot is marked as complete: it is, or all of it runs again.
        ("Mark the first boot as complete", {1, 2}),
        ("login:", {1, 2}),
    ],
)
def test_a_first_boot_that_loses_its_power_ends_as_one(tmp_path: Path, cut: str, may_be: set[int]) -> None:
    # Ignition refuses to write a file again that does not say so; clusters' files do.
    files = [file | {"overwrite": True} for file in kit.CONFIG["storage"]["files"]]
    config = {**kit.CONFIG, "storage": {"files": files}, "systemd": {"units": [_FIRST, _COUNT]}}
    disk = kit.installed(tmp_path, config)
    machine_spec = kit.spec(tmp_path, disks=kit.disks(vda=disk))
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        assert " ignition.firstboot" in machine.wait_for(cut)
    with kit.powered(tmp_path / "m", machine_spec) as machine:
        text = machine.wait_for("proven login:")
        if " ignition.firstboot" in text:
            # The unit's name and, after it, what it does: as it starts, and as it is done.
            machine.wait_for("Mark the first boot as complete.")
        counted = machine.wait_for("first boots: ").partition("first boots: ")[2]
    assert int(counted[0]) in may_be
    for _ in range(2):
        with kit.powered(tmp_path / "m", machine_spec) as machine:
            machine.wait_for("proven login:")
            text = machine.wait_for(f"first boots: {counted[0]}.")
        assert "ignition.firstboot" not in text
        assert "Ignition (" not in text


@pytest.fixture(scope="module")
def iso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    iso = kit.iso_with(tmp_path_factory.mktemp("iso"), kit.CONFIG)
    yield iso
    iso.unlink()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    disk_image = kit.installed(tmp_path_factory.mktemp("disk"), {"ignition": {"version": "3.3.0"}})
    yield disk_image
    disk_image.unlink()


@pytest.fixture(autouse=True)
def _no_images_left(tmp_path: Path) -> Iterator[None]:
    """They are large, and pytest keeps directories of several runs."""
    yield
    for path in (*tmp_path.glob("*.iso"), *tmp_path.glob("*.img")):
        path.unlink()


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "empty.img"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    return path


LOOK = """
cd "$1" && ls etc/systemd/system/multi-user.target.wants
cat etc/proof && echo && stat -c '%a %u %g %n' etc/proof
grep -E "$1(/| )" /proc/self/mountinfo | sed 's/^.* - //'
df --output=size,target run/node0/live/memory run
ls run/media/iso/images/pxeboot && cat run/node0/firmware/early.log | grep -c config
stat -c '%a %n' run/node0/firmware/early.log
"""


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_the_live_root_is_laid_out_as_the_image_does(tmp_path: Path, iso: Path, empty: Path, firmware: str) -> None:
    machine = kit.spec(tmp_path, firmware=firmware, cdrom=str(iso), memory_mib=1000, disks=kit.disks(vda=empty))
    console, seen = kit.booted(tmp_path / "m", machine, LOOK)
    assert "not a bootable disk" in console
    assert "init: /sbin/init BOOT_IMAGE=/images/pxeboot/vmlinuz " in console
    assert f"{kit.PROOF}\n600 0 0 etc/proof\n" in seen
    assert "proof.service" in seen
    assert "instance@of.service" in seen
    # Memory is the machine's: nine tenths for the live root, a fifth for /run.
    assert "921600 " in seen
    assert "204800 " in seen
    # The agent looks for the medium by its device.
    assert "erofs /dev/sr0 " in seen or "iso9660 /dev/sr0 " in seen
    assert "upperdir=/run/node0/live/memory/upper" in seen
    assert "rootfs.img" in seen
    assert "600 run/node0/firmware/early.log" in seen
    assert kit.PROOF not in console


def test_the_order_of_devices(tmp_path: Path, iso: Path, disk: Path) -> None:
    """A disk that boots wins over the CD, and once the CD over it."""
    devices = kit.disks(vda=disk)
    console, seen = kit.booted(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso), disks=devices), LOOK)
    assert "init: /sbin/init BOOT_IMAGE=/vmlinuz root=PARTUUID=" in console
    assert "QEMU DVD-ROM" not in console
    assert "ext4 /dev/vda4 rw" in seen
    console, _ = kit.booted(tmp_path / "b", kit.spec(tmp_path, firmware="bios", disks=devices))
    assert "Booting from Hard Disk..." in console
    assert "init: /sbin/init BOOT_IMAGE=/vmlinuz root=PARTUUID=" in console
    once = kit.spec(tmp_path, cdrom=str(iso), disks=devices, boot_once="cdrom")
    console, seen = kit.booted(tmp_path / "n", once, LOOK)
    assert "init: /sbin/init BOOT_IMAGE=/images/pxeboot/vmlinuz" in console
    assert "Misc Device" not in console
    # Inserted, but not bootable: on to the disk.
    (tmp_path / "bad.iso").write_bytes(bytes(100_000))
    bad = kit.spec(tmp_path, cdrom=str(tmp_path / "bad.iso"), disks=devices, boot=("cdrom", "hd"))
    console, _ = kit.booted(tmp_path / "o", bad)
    assert console.index("Could not read from CDROM (code 0004)") < console.index(
        "init: /sbin/init BOOT_IMAGE=/vmlinuz"
    )


def _stick(folder: Path, iso: Path) -> Path:
    stick = folder / "stick.img"
    subprocess.run(["cp", "--reflink=auto", "--sparse=always", str(iso), str(stick)], check=True, timeout=120)
    with stick.open("r+b") as file:
        file.truncate(8 << 30)
    return stick


@pytest.mark.parametrize("firmware", ["uefi", "bios"])
def test_a_usb_stick_boots_and_what_is_in_the_drive_can_be_read(
    tmp_path: Path, iso: Path, empty: Path, firmware: str
) -> None:
    """The config image of an appliance is in the drive."""
    config = tmp_path / "config.iso"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.gz").write_text("of the cluster")
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", "agent_configimage", "-o", str(config)]
    subprocess.run([*command, str(tmp_path / "config")], check=True, timeout=60)
    devices = kit.disks(vda=empty, sda=_stick(tmp_path, iso))
    devices = (devices[0], msgspec.structs.replace(devices[1], bus="usb", serial="STICK"))
    machine = kit.spec(tmp_path, disks=devices, boot_disks=("vda",), stick="sda", cdrom=str(config), firmware=firmware)
    look = (
        "findmnt -no FSTYPE,SOURCE /run/media/iso; cat /etc/proof; ls -l /dev/disk/by-label;"
        "mkdir /run/c; mount -t iso9660 /dev/sr0 /run/c && cat /run/c/config.gz; findmnt -no SOURCE /run/c"
    )
    console, seen = kit.booted(tmp_path / "m", machine, look)
    assert "coreos.liveiso=" in console
    assert "of the cluster" in seen
    assert kit.PROOF in seen
    assert "/dev/sda\n" in seen
    assert "/dev/sr0\n" in seen
    assert "agent_configimage -> ../../sr0" in seen


def test_a_stick_that_is_no_disk_is_passed_over(tmp_path: Path, iso: Path) -> None:
    """Written for CDs alone, without a partition table; or empty."""
    stick = _stick(tmp_path, iso)
    with stick.open("r+b") as file:
        file.write(bytes(512))
    disks = (msgspec.structs.replace(kit.disks(sda=stick)[0], bus="usb"),)
    machine = kit.spec(tmp_path, disks=disks, stick="sda", boot=("usb",))
    console, _ = kit.booted(tmp_path / "m", machine)
    assert "NotBootable: usb: not a bootable disk" in console


# ---- surprises: media left in, entries of what is gone


def test_a_cd_that_comes_first_installs_again_over_a_disk_that_is_not_empty(
    tmp_path: Path, iso: Path, disk: Path
) -> None:
    """A user who put the CD first and left it in gets the live system, not the one that was installed."""
    machine = kit.spec(tmp_path, cdrom=str(iso), disks=kit.disks(vda=disk), boot=("cdrom", "hd"))
    console, seen = kit.booted(tmp_path / "m", machine, LOOK)
    assert "init: /sbin/init BOOT_IMAGE=/images/pxeboot/vmlinuz coreos.liveiso=" in console
    assert kit.PROOF in seen
    # Ejected, the disk is what is left; an ISO that is inserted after the disk changes nothing.
    ejected = msgspec.structs.replace(machine, cdrom=None)
    console, _ = kit.booted(tmp_path / "n", ejected)
    assert "Could not read from CDROM (code 0003)" in console
    assert "init: /sbin/init BOOT_IMAGE=/vmlinuz root=PARTUUID=" in console


def test_entries_of_devices_that_are_gone_are_passed_over(tmp_path: Path, iso: Path, disk: Path, empty: Path) -> None:
    """A boot order that was made for other hardware: an empty stick, nothing in the drive, a disk that was wiped."""
    devices = kit.disks(vda=empty, vdb=disk, sda=empty)
    order = ("usb", "cdrom", "network", "hd")
    machine = kit.spec(tmp_path, disks=devices, boot=order, boot_disks=("vda", "vdb"), stick="sda", boot_once="cdrom")
    console, _ = kit.booted(tmp_path / "m", machine)
    places = [console.index(text) for text in ("QEMU DVD-ROM", "QEMU USB HARDDRIVE", "PXEv4", "Misc Device")]
    assert places == sorted(places)
    assert "init: /sbin/init BOOT_IMAGE=/vmlinuz root=PARTUUID=" in console


def test_the_root_is_the_device_that_the_machine_knows(tmp_path: Path, disk: Path) -> None:
    """A file system that two devices mount is soon broken."""
    look = "stat -c %d / && stat -c %Hr:%Lr /dev/vda4 && cat /sys/class/block/vda4/dev && ls /boot"
    _, seen = kit.booted(tmp_path / "m", kit.spec(tmp_path, disks=kit.disks(vda=disk)), look)
    root, node, device, *boot = seen.splitlines()
    assert os.makedev(*map(int, device.split(":"))) == int(root)
    assert node == device
    # As on any machine, nobody has mounted it.
    assert boot == []


def test_partitions_are_those_of_the_size_that_the_table_says(tmp_path: Path) -> None:
    device = tmp_path / "part"
    device.write_bytes(bytes(4096))
    parts = [Partition(1, 0, 4096, "kind", uuid="uuid"), Partition(2, 4096, 8192, "kind", uuid="uuid")]
    table = Table("gpt", (*parts, Partition(3, 12288, 4096, "kind", uuid="uuid")), boot_code=True)
    with device.open("rb") as file:
        on_disk = slices("vda", dict.fromkeys(("vda", "vda1", "vda2"), file.fileno()), table)
    assert [part.partition.number for part in on_disk] == [1]


@pytest.mark.parametrize(
    ("firmware", "last"), [("bios", "No bootable device."), ("uefi", "No bootable option or device")]
)
def test_nothing_boots(tmp_path: Path, empty: Path, firmware: str, last: str) -> None:
    machine = kit.spec(tmp_path, firmware=firmware, disks=kit.disks(vda=empty))
    console, _ = kit.booted(tmp_path / "m", machine)
    assert last in console
    end = console.partition("NotBootable: ")[2].splitlines()
    assert end[0] == "hd: not a bootable disk"
    assert end[1] == "cdrom: Could not read from CDROM (code 0003)"
    assert end[2] == "network: there is no NIC"


def test_a_disk_whose_writing_was_cut_short_is_passed_over(tmp_path: Path, disk: Path) -> None:
    """coreos-installer writes the first MiB last; and a disk without a loader for this firmware starts nothing."""
    with disk.open("r+b") as file:
        first = file.read(1 << 20)
        try:
            for broken in (bytes(1 << 20), first[:510] + bytes(2) + first[512:]):
                file.seek(0)
                file.write(broken)
                file.flush()
                console, _ = kit.booted(tmp_path / "m", kit.spec(tmp_path, disks=kit.disks(vda=disk)))
                assert "NotBootable: hd: not a bootable disk" in console
        finally:
            file.seek(0)
            file.write(first)


def test_a_live_boot_without_a_config_stops_and_says_so(tmp_path: Path) -> None:
    iso = tmp_path / "machine.iso"
    iso.symlink_to(kit.machine_os())
    console, _ = kit.booted(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso)))
    assert "node0: BOOT STOPPED in the initramfs. Failed units:\nnode0-ignition-config.service" in console
    assert "the embed area of the medium (images/ignition.img) is empty" in console
    assert "BootStopped: node0-ignition-config.service failed" in console


@pytest.mark.parametrize(
    ("initrd", "why"),
    [
        (b"no archive", "Initramfs unpacking failed: byte 0: neither a cpio archive nor a known compression"),
        (cpio.pack({"x": b""}), "Kernel panic - not syncing: VFS: Unable to mount root fs"),
        (cpio.pack({"init": b""}), "Failed to switch root: Specified switch root path '/sysroot'"),
    ],
    ids=["broken", "no init", "nothing else"],
)
def test_an_initrd_that_starts_nothing_is_told_in_one_line(tmp_path: Path, initrd: bytes, why: str) -> None:
    listed = {"default": "", "size": 16, "files": [{"path": "isolinux.cfg"}]}
    files = {"images/pxeboot/vmlinuz": b"", "images/pxeboot/initrd.img": initrd, "images/ignition.img": bytes(4)}
    files |= {"isolinux.cfg": b"a\n".ljust(16, b"#"), "coreos/kargs.json": json.dumps(listed).encode()}
    iso = bootable(tmp_path, files, uefi=True)
    console, _ = kit.booted(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso), memory_mib=512))
    assert why in console
    assert "Traceback" not in console


def test_a_config_that_ignition_refuses_stops_the_boot_and_is_not_shown(tmp_path: Path) -> None:
    config = {**kit.CONFIG, "passwd": {"users": [{"name": "core", "groups": ["absent"]}]}}
    console, _ = kit.booted(tmp_path / "m", kit.spec(tmp_path, cdrom=str(kit.iso_with(tmp_path, config))))
    assert "CRITICAL : Ignition failed: failed to create users/groups" in console
    assert "BootStopped: ignition-files.service failed" in console
    assert kit.PROOF not in console
    assert kit.PROOF.replace(" ", "%20") not in console


def test_a_minimal_image_fetches_its_root_over_the_machines_network(tmp_path: Path) -> None:
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    address = "ip=192.168.7.2::192.168.7.1:255.255.255.0::eth0:none"
    more = ["coreos.live.rootfs_url=http://192.168.7.1:8080/rootfs.img", address]

    def minimal(kargs: str) -> str:
        return " ".join([*(word for word in kargs.split() if not word.startswith("coreos.liveiso=")), *more])

    kit.set_kargs(iso, minimal)
    serve = kit.machine_os().parent
    machine = kit.spec(tmp_path, cdrom=str(iso), nics=(Nic(name="eth0", mac="52:54:00:00:00:01", network="lab"),))
    look = f"{LOOK}\nip -brief address show eth0"
    console, seen = kit.booted(tmp_path / "m", machine, look, serve)
    assert "init: /sbin/init BOOT_IMAGE=/images/pxeboot/vmlinuz" in console
    assert console.index("Finished Network of the initramfs.") < console.index("Finished Live root on /sysroot.")
    assert kit.PROOF in seen
    # What the initramfs set up is taken down for the machine's own NetworkManager.
    assert "eth0@" in seen
    assert "192.168.7.2/24" not in seen
    # Another root than the one that this initramfs was built with is refused.
    (tmp_path / "www").mkdir()
    (tmp_path / "www/rootfs.img").write_bytes(b"070701" + bytes(4096))
    console, _ = kit.booted(tmp_path / "n", machine, serve=tmp_path / "www")
    assert "has the SHA-256 sum" in console
    assert "BootStopped: node0-live-root.service failed" in console


def test_what_was_appended_to_an_initrd_takes_part(tmp_path: Path) -> None:
    """Keyfiles that come with the medium end in the live system, as the image's scripts have it."""
    keyfiles = tmp_path / "etc/coreos-firstboot-network"
    keyfiles.mkdir(parents=True)
    (keyfiles / "nic.nmconnection").write_text("[connection]\nid=nic\ntype=ethernet\n")
    listed = b"etc\netc/coreos-firstboot-network\netc/coreos-firstboot-network/nic.nmconnection\n"
    command = ["cpio", "-o", "-H", "newc", "--quiet"]
    more = subprocess.run(command, cwd=tmp_path, input=listed, capture_output=True, check=True, timeout=30).stdout
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    kit.embed(iso, kit.CONFIG, more)
    look = 'cd "$1/etc/NetworkManager/system-connections" && stat -c "%a %n" * && cat *'
    _, seen = kit.booted(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso)), look)
    assert seen.startswith("600 nic.nmconnection\n[connection]\nid=nic\n")
