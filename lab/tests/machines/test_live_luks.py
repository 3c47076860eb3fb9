"""A root on a LUKS volume: Ignition makes it at the first boot, the machine's TPM opens it later, no other's does."""

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from lab import topology
from lab.host import preflight
from lab.lab import Lab
from lab.tests.machines.container.firmware import kit as live

SHAPE = topology.load_text("""
name: luks
nodes:
  - &node
    {name: master-0, role: master, memory_mib: 2560, disk_gib: 8, secure_boot: true, tpm: true,
     mac: "52:54:00:6e:64:00", ip: 192.168.111.80}
  - {<<: *node, name: master-1, mac: "52:54:00:6e:64:01", ip: 192.168.111.81}
""")
PROBLEMS = preflight.problems(SHAPE, Path("/"), "")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
    pytest.mark.skipif(shutil.which("swtpm") is None, reason="swtpm is not installed"),
]
# Emulated, on a busy host: the root is read, kept in memory, and written through the cipher.
SECONDS = 1500
# As assisted-service has it (installer/rendezvous/prepare/diskencryption.py), and what the booted system says.
VOLUME = {
    "luks": [
        {
            "name": "root",
            "device": "/dev/disk/by-partlabel/root",
            "clevis": {"tpm2": True},
            "options": ["--cipher", "aes-cbc-essiv:sha256"],
            "wipeVolume": True,
        }
    ],
    "filesystems": [{"device": "/dev/mapper/root", "format": "xfs", "wipeFilesystem": True, "label": "root"}],
}
SAYS = (
    "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo \"root: $(findmnt -no SOURCE,FSTYPE /) $(getcap /usr/bin/ping)"
    " failed: $(systemctl --failed --no-legend --plain).\" > /dev/console'\n[Install]\nWantedBy=multi-user.target\n"
)


@pytest.fixture
def luks_os(monkeypatch):
    """The machine OS is one that knows LUKS volumes."""
    monkeypatch.setattr(live, "machine_os", partial(Path, live.machine_os("91node0-luks")))


def test_live_the_tpm_that_it_was_made_with_opens_the_root_and_no_other(tmp_path, folder, luks_os):
    config = json.loads(json.dumps(live.CONFIG))
    config["ignition"]["version"] = "3.2.0"
    config["storage"] |= VOLUME
    config["systemd"]["units"].append({"name": "says.service", "enabled": True, "contents": SAYS})
    disk = live.installed(folder, config)
    with Lab(SHAPE, artifacts=tmp_path) as lab:
        mine, other = lab.nodes["master-0"], lab.nodes["master-1"]
        copy = ["cp", "--reflink=auto", "--sparse=always"]
        subprocess.run([*copy, disk, lab.layout.disk(mine.spec)], check=True, timeout=300)
        for ignition_ran in (True, False):
            mine.console.mark()
            before = len(mine.console.text())
            mine.power.on()
            mine.console.wait_for("failed: .", SECONDS)
            text = mine.console.text()[before:]
            assert ("the root is on /dev/mapper/root from now on" in text) is ignition_ran
            assert "root: /dev/mapper/root xfs /usr/bin/ping cap_net_raw=ep failed: ." in text
            mine.power.off()
        found = subprocess.run(["grep", "-aqF", live.PROOF, lab.layout.disk(mine.spec)], timeout=300, check=False)
        assert found.returncode == 1, "what Ignition wrote can be read without the key"
        subprocess.run([*copy, lab.layout.disk(mine.spec), lab.layout.disk(other.spec)], check=True, timeout=300)
        other.power.on()
        other.console.wait_for("BOOT STOPPED end of report", SECONDS)
        assert "neither TPM nor Tang opens the LUKS volume" in other.console.text()
