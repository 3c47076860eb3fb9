"""The words of a failed early boot on the console; the journal is a stand-in."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.release.os import build

EMERGENCY = Path(build.__file__).parent / "data/dracut/90node0/node0-emergency"
# What units of each pattern have said.
JOURNAL = """#!/bin/sh
case "$*" in
*node0-*)
    echo "<info>  [1.5] NetworkManager starts"
    echo "Cannot find device eth1"
    echo "node0: node0-iscsi, line 49: ip link set: code 1" ;;
*ignition-*)
    echo "INFO     : parsed config: hunter2"
    echo "    hunter2"
    echo "CRITICAL : Ignition failed: no disk" ;;
esac
"""


def test_our_own_units_are_told_in_full_and_of_ignition_its_errors_alone(tmp_path: Path) -> None:
    for name, text in {"journalctl": JOURNAL, "systemctl": "#!/bin/sh\necho node0-iscsi.service failed\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    completed = subprocess.run(
        ["bash", EMERGENCY], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert completed.stdout.splitlines() == [
        "node0: BOOT STOPPED in the initramfs. Failed units:",
        "node0-iscsi.service failed",
        "node0: last words of Ignition and of the root's set-up:",
        "CRITICAL : Ignition failed: no disk",
        "Cannot find device eth1",
        "node0: node0-iscsi, line 49: ip link set: code 1",
        "node0: BOOT STOPPED end of report",
    ]
