"""Machines as containers: power, console, cables, restarts; and what a kill leaves."""

import os
import time
from pathlib import Path

import pytest

from drivers.errors import MediaError, NotFoundError, PowerError, ScreenshotError
from drivers.protocols import BootDevice, PowerState
from lab.testing.containers.kit import PATIENCE
from lab.waiting import wait_until

pytestmark = pytest.mark.lab


def test_it_boots_to_its_login_and_its_console_takes_what_is_typed(world, machine):
    console = world.console(machine)
    assert machine.state() is PowerState.ON
    assert machine.look().running
    console.wait_for(r"login: ", PATIENCE)
    console.send("root\n")
    console.wait_for(r"root@m0:~# ", PATIENCE)
    console.send("echo $((6*7)) is-the-answer\n")
    console.wait_for(r"^42 is-the-answer", PATIENCE)


def test_its_hardware_is_as_asked_for(world, machine):
    look = """lsblk -dno NAME,SIZE,SERIAL,TYPE
    cat /sys/class/dmi/id/product_uuid /sys/class/net/enp1s0/address
    cat /sys/class/net/enp1s0/device/vendor /sys/class/net/enp1s0/carrier
    readlink /dev/disk/by-id/virtio-m0-vda; grep MemTotal /proc/meminfo; cat /sys/class/block/*/dev | wc -l"""
    lines = world.run(machine, look).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["vda", "1G", "m0-vda", "disk"],
        [machine.look().uuid],
        ["52:54:00:6e:77:00"],
        ["0x1af4"],
        ["1"],
        ["../../vda"],
        ["MemTotal:", str(1024 << 10), "kB"],
        ["1"],
    ]


def test_units_start_as_on_a_machine(world, machine):
    failed = world.run(machine, "systemctl list-units --failed --no-legend --plain").stdout
    # Nobody answers DHCP here.
    assert [line for line in failed.splitlines() if not line.startswith("NetworkManager-wait-online")] == []


def test_podman_runs_containers(world, machine):
    script = """set -e
    mkdir -p /root/img/bin; cp /bin/sh /root/img/bin/
    for l in $(ldd /bin/sh | grep -o '/lib[^ ]*'); do mkdir -p /root/img$(dirname $l); cp $l /root/img$l; done
    tar -C /root/img -c . | podman import -q - localhost/tiny:1 >/dev/null
    podman run --rm localhost/tiny:1 /bin/sh -c 'echo own-network'
    podman run --rm --privileged --pid host --network host -v /:/host localhost/tiny:1 \\
        /bin/sh -c 'echo /host/dev/vd* /sys/block/*'
    podman save -q localhost/tiny:1 -o /root/t.tar; ctr -n k8s.io image import /root/t.tar >/dev/null
    ctr -n k8s.io run --rm localhost/tiny:1 c1 /bin/sh -c 'echo by-containerd'
    """
    done = world.run(machine, script, timeout=PATIENCE)
    assert done.stdout.split() == ["own-network", "/host/dev/vda", "/sys/block/vda", "by-containerd"], done.stderr


def test_partitions_appear_when_the_table_is_read_again_and_can_be_mounted(world, machine):
    script = """set -e
    sgdisk -n 1:2048:+64M -c 1:boot -n 2:0:+128M /dev/vda >/dev/null
    lsblk -nx NAME -o NAME /dev/vda
    mkfs.ext4 -q -L data /dev/vda2
    mkdir -p /mnt/x; mount -o noatime /dev/vda2 /mnt/x; echo kept > /mnt/x/file; chown 1000:1000 /mnt/x/file
    findmnt -no FSTYPE,SOURCE /mnt/x
    blockdev --rereadpt /dev/vda 2>/dev/null && echo reread || echo busy
    umount /mnt/x; blockdev --rereadpt /dev/vda && ls /dev/disk/by-label/
    mount /dev/disk/by-label/data /mnt/x; stat -c '%u %g' /mnt/x/file; umount /mnt/x
    """
    done = world.run(machine, script)
    assert done.stdout.split() == ["vda", "vda1", "vda2", "ext4", "/dev/vda2", "busy", "data", "1000", "1000"], (
        done.stderr
    )


def test_a_cable_can_be_pulled(world, machine):
    link = machine.link("52:54:00:6e:77:00")
    carrier = "cat /sys/class/net/enp1s0/carrier"
    assert link.is_up()
    link.set_up(False)
    assert not link.is_up()
    assert world.run(machine, carrier).stdout.strip() == "0"
    link.set_up(True)
    assert world.run(machine, carrier).stdout.strip() == "1"
    with pytest.raises(NotFoundError):
        machine.link("52:54:00:00:00:00").is_up()


def test_it_stands_still_and_goes_on_where_it_was(world, machine):
    ticking = "systemd-run --unit ticks sh -c 'while :; do echo >> /run/ticks; sleep 0.01; done'"
    assert world.run(machine, ticking).returncode == 0
    ticks = Path(f"/proc/{world.init(machine)}/root/run/ticks")
    seen = [-1]

    def stands():
        seen.append(ticks.stat().st_size)
        return seen[-1] == seen[-2]

    wait_until(ticks.exists, PATIENCE, "its first tick", poll=0.05)
    machine.suspend()
    wait_until(stands, PATIENCE, "it to stand still", poll=0.5)
    assert machine.state() is PowerState.ON
    machine.resume()
    wait_until(lambda: not stands(), PATIENCE, "it to go on", poll=0.5)
    world.run(machine, "systemctl stop ticks")


def test_it_is_left_hardly_any_processor(world, machine):
    quota = next(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/m0/cpu.cfs_quota_us"), None)
    if quota is None:
        pytest.skip("cgroup v1's cpu is not here")

    def throttled():
        lines = quota.with_name("cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["nr_throttled"])

    machine.limit_cpu(5)
    assert quota.read_text() == "5000\n"
    before = throttled()
    world.run(machine, "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done")
    assert throttled() > before
    machine.limit_cpu(None)
    usual = -1 if len(os.sched_getaffinity(0)) <= 1 else 100_000
    assert int(quota.read_text()) == usual


def test_boot_order_and_drive_are_kept(world, machine, tmp_path):
    assert machine.first() is BootDevice.DISK
    machine.set_first(BootDevice.CD)
    assert machine.first() is BootDevice.CD
    image = tmp_path / "x.iso"
    image.touch()
    machine.insert(image.as_uri())
    assert machine.inserted() == image.as_uri()
    machine.eject()
    assert machine.inserted() is None
    with pytest.raises(MediaError):
        machine.insert((tmp_path / "none.iso").as_uri())
    with pytest.raises(ScreenshotError):
        machine.png()
    with pytest.raises(NotFoundError):
        world.machines.machine("nobody").look()


def test_a_restart_is_the_same_machine_with_another_boot_id(world, machine):
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = world.run(machine, boot_id).stdout
    console = world.console(machine)
    console.mark()
    world.run(machine, "systemctl --no-block reboot")
    console.wait_for(r"login: ", PATIENCE)
    assert machine.state() is PowerState.ON
    after = world.run(machine, boot_id).stdout
    assert len(after) == len(before) == 37
    assert before != after


def test_it_powers_itself_off(world, machine):
    machine.ask("shutdown")
    wait_until(lambda: machine.state() is PowerState.OFF, PATIENCE, "its end", world.console(machine).tail, poll=0.1)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}"))
    machine.on()
    machine.off()
    assert machine.state() is PowerState.OFF


def test_one_that_stands_still_can_be_powered_off_and_one_that_is_off_does_not_stand_still(world, machine):
    console = world.console(machine)
    console.mark()
    machine.on()
    console.wait_for(r"login: ", PATIENCE)
    machine.suspend()
    machine.off()
    assert machine.state() is PowerState.OFF
    for ask in (machine.suspend, lambda: machine.limit_cpu(5)):
        with pytest.raises(PowerError, match="nothing in it runs"):
            ask()
    machine.resume()
    machine.limit_cpu(None)
    assert machine.state() is PowerState.OFF


def test_a_machine_that_froze_itself_can_be_switched_off(world):
    """cgroup v1 kills nothing that is frozen."""
    victim = world.boot(6)
    freezer = Path(f"/sys/fs/cgroup/freezer/node0/{world.lab}/{victim.name}/machine")
    if not freezer.exists():
        pytest.skip("with cgroup2 alone what is frozen can be killed")
    world.run(victim, "systemd-run --no-block sh -c 'sleep 1; echo FROZEN > /sys/fs/cgroup/freezer/freezer.state'")
    state = freezer / "freezer.state"
    wait_until(lambda: state.read_text().strip() == "FROZEN", PATIENCE, "it to freeze", poll=0.1)
    begun = time.monotonic()
    victim.off()
    assert time.monotonic() - begun < 20
    assert not freezer.exists()
