"""A root on a LUKS volume: Ignition makes it at the first boot; later the machine's TPM opens it, and no other's does,
or the lab's Tang server, without which nothing does."""

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab import topology
from lab.lab import Lab
from lab.machines.node import Node
from lab.testing.installed import boot, boot_twice, copy, telling
from lab.tests.machines import kit
from lab.tests.machines.container.firmware import kit as live

SHAPE = topology.load_text("""
name: luks
nodes:
  - &node
    {name: master-0, role: master, memory_mib: 2560, disk_gib: 8, secure_boot: true, tpm: true,
     mac: "52:54:00:6e:64:00", ip: 192.168.111.80}
  - {<<: *node, name: master-1, mac: "52:54:00:6e:64:01", ip: 192.168.111.81}
""")
BOUND = topology.load_text("""
name: tang
addressing: dhcp
tang: true
nodes:
  - {name: master-0, role: master, memory_mib: 2560, disk_gib: 8, mac: "52:54:00:6e:64:00", ip: 192.168.111.80}
""")
# As the service has them: where a host asks for its address, and what its MachineConfig for Tang adds.
ASKING = ("ip=52-54-00-6e-64-00:dhcp", "rd.neednet=1")
pytestmark = [pytest.mark.lab, pytest.mark.long]
# Emulated, on a busy host: the root is read, kept in memory, and written through the cipher.
SECONDS = 1500
SAYS = (
    'echo "root: $(findmnt -no SOURCE,FSTYPE /) $(getcap /usr/bin/ping)'
    ' failed: $(systemctl --failed --no-legend --plain)."'
)
LINE = "root: /dev/mapper/root xfs /usr/bin/ping cap_net_raw=ep failed: ."
UNOPENED = "neither TPM nor Tang opens the LUKS volume"


def config_with(clevis: dict[str, Any]) -> dict[str, Any]:
    """Define the volume as assisted-service does (installer/rendezvous/prepare/diskencryption.py), opened by these
    keys, and a service by which the booted system says where its root is."""
    config: dict[str, Any] = json.loads(json.dumps(live.CONFIG))
    config["ignition"]["version"] = "3.2.0"
    volume = {
        "name": "root",
        "device": "/dev/disk/by-partlabel/root",
        "clevis": clevis,
        "options": ["--cipher", "aes-cbc-essiv:sha256"],
        "wipeVolume": True,
    }
    filesystem = {"device": "/dev/mapper/root", "format": "xfs", "wipeFilesystem": True, "label": "root"}
    config["storage"] |= {"luks": [volume], "filesystems": [filesystem]}
    config["systemd"]["units"].append(telling(SAYS))
    return config


def stops_unopened(machine: Node) -> None:
    """Boot, and hold that nothing opens the volume."""
    assert UNOPENED in boot(machine, "BOOT STOPPED end of report", SECONDS)


@pytest.fixture
def machine_os(monkeypatch, request):
    """Provide the machine OS is one that has this file."""
    monkeypatch.setattr(live, "machine_os", partial(Path, live.machine_os(request.param)))


@kit.needs_lab(SHAPE)
@pytest.mark.skipif(shutil.which("swtpm") is None, reason="swtpm is not installed")
@pytest.mark.parametrize("machine_os", ["91node0-luks"], indirect=True)
def test_live_the_tpm_that_it_was_made_with_opens_the_root_and_no_other(tmp_path, folder, machine_os):
    disk = live.installed(folder, config_with({"tpm2": True}))
    with Lab(SHAPE, artifacts=tmp_path) as lab:
        mine, other = lab.nodes["master-0"], lab.nodes["master-1"]
        copy(disk, lab.layout.disk(mine.spec))
        boot_twice(mine, LINE, SECONDS)
        completed = subprocess.run(["grep", "-aqF", live.PROOF, lab.layout.disk(mine.spec)], timeout=300, check=False)
        assert completed.returncode == 1, "what Ignition wrote can be read without the key"
        copy(lab.layout.disk(mine.spec), lab.layout.disk(other.spec))
        stops_unopened(other)


@kit.needs_lab(BOUND)
@pytest.mark.parametrize("machine_os", ["node0-network-down"], indirect=True)
def test_live_the_tang_server_opens_the_root_and_nobody_when_it_is_gone(tmp_path, folder, machine_os):
    with Lab(BOUND, artifacts=tmp_path) as lab:
        machine = lab.nodes["master-0"]
        servers = json.loads(lab.access.tang_servers)
        copy(live.installed(folder, config_with({"tang": servers}), kargs=ASKING), lab.layout.disk(machine.spec))
        boot_twice(machine, LINE, SECONDS)
        lab.services.stop("tang")
        stops_unopened(machine)
