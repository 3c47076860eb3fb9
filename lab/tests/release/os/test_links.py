"""How udev treats network devices, by the udev of the host, which is the machine OS's (Debian 12)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.release.os.customise import DATA

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces")

OURS = DATA / "root/usr/lib/systemd/network"
# /etc comes before /usr/lib: an empty one is Debian's own state, whatever the host's administrator has there.
SCRIPT = """set -e
mount -t sysfs none /sys
mount -t tmpfs none /etc/systemd
mkdir /etc/systemd/network
if [ -n "$2" ]; then cp "$2"/*.link /etc/systemd/network; fi
ip link add known type "$1"
udevadm test-builtin net_setup_link /sys/class/net/known 2>&1
"""


def said(kind: str, links: Path | None) -> str:
    """What udev says of a new device of that kind, with the files of a directory besides Debian's own."""
    argv = ["unshare", "-mn", "sh", "-c", SCRIPT, "sh", kind, str(links or "")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if "Unknown device type" in done.stderr or "not supported" in done.stderr:
        pytest.skip(f"the host's kernel has no {kind}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_bridges_address_is_its_first_ports():
    """Bonds, which few kernels of container hosts have, are in the same line as bridges."""
    assert "Applying persistent MAC address" in said("bridge", None), "systemd's default is another one"
    ours = said("bridge", OURS)
    assert "98-default-mac-none.link is applied" in ours
    assert "persistent MAC" not in ours
    [kinds] = [line for line in (OURS / "98-default-mac-none.link").read_text().splitlines() if "Kind=" in line]
    assert {"bond", "bridge"} <= set(kinds.removeprefix("Kind=").split())


def test_other_devices_keep_systemds_default():
    assert "98-default-mac-none.link is applied" not in said("veth", OURS)


def test_the_initramfs_has_it_too():
    """Its NetworkManager makes bonds and bridges before a root file system is fetched."""
    assert "/98-default-mac-none.link " in (DATA / "dracut/90node0/module-setup.sh").read_text()
