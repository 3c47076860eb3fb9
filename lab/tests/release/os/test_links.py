"""Network devices as udev treats them, by the udev of the host, which is the machine OS's (Debian 12), and how the
initramfs gives them back to the real root, where programs are stand-ins that note their words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.release.os.customise import DATA

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces")

OURS = DATA / "root/usr/lib/systemd/network"
UNITS = DATA / "dracut"
# /etc comes before /usr/lib: an empty one is Debian's own state, whatever the host's administrator has there.
SCRIPT = """set -e
mount -t sysfs none /sys
mount -t tmpfs none /etc/systemd
mkdir /etc/systemd/network
if [ -n "$2" ]; then cp "$2"/*.link /etc/systemd/network; fi
ip link add known type "$1"
udevadm test-builtin net_setup_link /sys/class/net/known 2>&1
"""


def udev_report(kind: str, links: Path | None) -> str:
    """Return udev's report on a new device of that kind, with the files of a directory besides Debian's own."""
    argv = ["unshare", "-mn", "sh", "-c", SCRIPT, "sh", kind, str(links or "")]
    completed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if "Unknown device type" in completed.stderr or "not supported" in completed.stderr:
        pytest.skip(f"the host's kernel has no {kind}")
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_a_bridges_address_is_its_first_ports():
    """Bonds, which few kernels of container hosts have, are in the same line as bridges."""
    assert "Applying persistent MAC address" in udev_report("bridge", None), "systemd's default is another one"
    ours = udev_report("bridge", OURS)
    assert "98-default-mac-none.link is applied" in ours
    assert "persistent MAC" not in ours
    [kinds] = [line for line in (OURS / "98-default-mac-none.link").read_text().splitlines() if "Kind=" in line]
    assert {"bond", "bridge"} <= set(kinds.removeprefix("Kind=").split())


def test_other_devices_keep_systemds_default():
    assert "98-default-mac-none.link is applied" not in udev_report("veth", OURS)


def test_the_initramfs_has_it_too():
    """Its NetworkManager makes bonds and bridges before a root file system is fetched."""
    assert "/98-default-mac-none.link " in (DATA / "dracut/90node0/module-setup.sh").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Provide a machine with two NICs, the root behind one of them, and a bond."""
    for name in ("eth0", "eth1"):
        (tmp_path / "net" / name / "device").mkdir(parents=True)
    for name in ("lo", "bond0", "bonding_masters", "../kept", "../nm", "../bin"):
        (tmp_path / "net" / name).mkdir()
    (tmp_path / "kept/eth1").touch()
    (tmp_path / "bin/ip").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n')
    (tmp_path / "bin/ip").chmod(0o755)
    return tmp_path


def run(place: Path) -> list[str]:
    environment = {"NM": f"{place}/nm", "NET": f"{place}/net", "KEPT": f"{place}/kept"}
    environment |= {"PATH": f"{place}/bin:/usr/bin:/bin"}
    subprocess.run(["bash", UNITS / "90node0/node0-network-down"], check=True, timeout=60, env=environment)
    log = place / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_nics_lose_their_addresses_and_what_was_made_is_gone_but_what_the_root_is_behind(place: Path) -> None:
    assert run(place) == ["link delete dev bond0", "address flush dev eth0", "link set dev eth0 down"]
    assert not (place / "nm").exists()


def test_without_a_network_nothing_is_done(place: Path) -> None:
    (place / "nm").rmdir()
    assert run(place) == []


def test_a_volume_that_is_opened_has_a_network_first_where_the_kernel_was_told_to() -> None:
    opens = (UNITS / "91node0-luks/node0-root-open.service").read_text().splitlines()
    assert "Wants=node0-network.service" in opens
    [after] = [line for line in opens if line.startswith("After=")]
    assert "node0-network.service" in after.removeprefix("After=").split()
    network = (UNITS / "90node0/node0-network.service").read_text().splitlines()
    # One of those with a bar has to hold.
    assert "ConditionKernelCommandLine=|rd.neednet=1" in network
