"""A host is the same client to a DHCP server before and after its disk is written: installer and machine OS agree."""

import configparser
from pathlib import Path

from installer.ignition.livesystem import CLIENT_ID

DATA = Path(__file__).parents[3] / "lab/release/os/data"
CONFIGS = ("root/etc/NetworkManager/NetworkManager.conf", "dracut/90node0/nm-initrd.conf")


def connection(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return dict(parser["connection"])


def test_live_system_initramfs_and_installed_system_are_one_client():
    live = connection(CLIENT_ID.content.decode())
    assert live["ipv6.dhcp-duid"] == "ll"
    for name in CONFIGS:
        assert connection((DATA / name).read_text()) == live, name
