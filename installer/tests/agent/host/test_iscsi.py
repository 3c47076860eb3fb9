"""iSCSI disks as sysfs tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from installer.agent.host import iscsi
from installer.testing.agent_kit import Host

TARGET = "iqn.2026-11.example:root"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    result = Host(tmp_path)
    device = result.write("/sys/devices/platform/host2/session1/target2:0:0/2:0:0:1/state", "running\n").parent
    (device / "block/sda").mkdir(parents=True)
    (device / "block/sda/device").symlink_to("../..")
    result.path("/sys/block").mkdir(parents=True)
    result.path("/sys/block/sda").symlink_to("../devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sda")
    result.write("/sys/class/iscsi_host/host2/ipaddress", "192.0.2.9\n")
    result.write("/sys/class/iscsi_session/session1/targetname", f"{TARGET}\n")
    result.write(f"{iscsi.IBFT}/target0/target-name", f"{TARGET}\n")
    return result


def test_a_disk_that_the_firmware_knows(host: Host) -> None:
    assert iscsi.host_address(host, "sda") == "192.0.2.9"
    assert iscsi.reasons(host, "sda") == []


def test_what_speaks_against_it(host: Host) -> None:
    host.write(f"{iscsi.IBFT}/target0/target-name", "another")
    assert iscsi.reasons(host, "sda") == ["iSCSI disk is missing from iBFT"]
    host.write("/sys/block/sda/device/state", "blocked")
    host.path(iscsi.IBFT).rename(host.path("/gone"))
    assert iscsi.reasons(host, "sda") == ["iSCSI disk is not in running state", "iBFT firmware is missing"]
    host.write("/sys/class/iscsi_session/session1/targetname", "")
    assert iscsi.reasons(host, "sda")[1:] == ["Cannot find iSCSI target name"]
    assert iscsi.reasons(host, "sdb") == ["Failed to read state of iSCSI disk", "Cannot find iSCSI session"]
    assert iscsi.host_address(host, "sdb") == ""
