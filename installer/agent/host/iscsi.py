"""iSCSI disks: by which of the host's addresses they are reached, and whether the firmware finds them again."""

from __future__ import annotations

import re

from installer.hostsys.system import HostSystem

# Where the firmware lists the targets that it has a session with (ACPI's iBFT).
IBFT = "/sys/firmware/ibft"
# As in /sys/devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sda.
SESSION_PATH = re.compile(r"/(host\d+)/(session\d+)/")


def _session(host: HostSystem, name: str) -> tuple[str, str]:
    """(host adapter, session) of a disk; empty texts when it has none."""
    try:
        match = SESSION_PATH.search(str(host.path(f"/sys/block/{name}").readlink()))
    except OSError:
        return "", ""
    return (match[1], match[2]) if match else ("", "")


def host_address(host: HostSystem, name: str) -> str:
    """Return the host's own address of the session that a disk is reached by; empty when it is not known."""
    adapter, _ = _session(host, name)
    return host.read(f"/sys/class/iscsi_host/{adapter}/ipaddress") if adapter else ""


def reasons(host: HostSystem, name: str) -> list[str]:
    """Reasons not to install on a disk, in the words of OpenShift's agent."""
    objections = []
    state = host.read(f"/sys/block/{name}/device/state")
    if not state:
        objections.append("Failed to read state of iSCSI disk")
    elif state != "running":
        objections.append("iSCSI disk is not in running state")
    _, session = _session(host, name)
    target = host.read(f"/sys/class/iscsi_session/{session}/targetname") if session else ""
    if not session:
        objections.append("Cannot find iSCSI session")
    elif not target:
        objections.append("Cannot find iSCSI target name")
    elif not host.path(IBFT).is_dir():
        objections.append("iBFT firmware is missing")
    elif target not in {host.read(f"{IBFT}/{path.name}/target-name") for path in host.path(IBFT).glob("*target*")}:
        objections.append("iSCSI disk is missing from iBFT")
    return objections
