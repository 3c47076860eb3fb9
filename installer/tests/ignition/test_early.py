"""The archive that gives a minimal image's initramfs its network."""

import gzip
import os
import subprocess
from pathlib import Path

from installer.ignition.config import File
from installer.ignition.early import HOOK, network_archive

MAC = "52:54:00:6e:30:00"
KEYFILE = "[connection]\nid=eth0\ninterface-name=eth0\n"
FILES = [
    File.text("/etc/assisted/hostconfig/one/role", "master"),
    File.text("/etc/assisted/network/host0/eth0.nmconnection", KEYFILE, 0o600),
    File.text("/etc/assisted/network/host0/mac_interface.ini", f"{MAC}=eth0\n", 0o600),
]


def test_no_archive_without_a_static_network():
    assert network_archive(FILES[:1]) == b""


def test_the_hook_gives_coreos_the_files_of_this_host(tmp_path: Path):
    """As dracut runs it: sourced by a shell that goes on, more than once."""
    (tmp_path / HOOK).parent.mkdir(parents=True)
    unpack = ["cpio", "-idm", "--quiet", "--no-absolute-filenames"]
    subprocess.run(unpack, input=gzip.decompress(network_archive(FILES)), cwd=tmp_path, check=True)
    assert not (tmp_path / "etc/assisted/hostconfig").exists()
    assert (tmp_path / "etc/assisted/network/host0/eth0.nmconnection").stat().st_mode & 0o777 == 0o600
    (tmp_path / "etc/initrd-release").touch()
    nic = tmp_path / "sys/class/net/enp1s0"
    nic.mkdir(parents=True)
    (nic / "address").write_text(f"{MAC}\n")
    hook = (tmp_path / HOOK).read_text().replace(" /etc/", f" {tmp_path}/etc/")
    script = tmp_path / "hook.sh"
    script.write_text(hook)
    environment = {**os.environ, "PATH_PREFIX": str(tmp_path)}
    keyfile = tmp_path / "etc/coreos-firstboot-network/enp1s0.nmconnection"
    for content in (KEYFILE.replace("eth0\n", "enp1s0\n", 2).replace("id=eth0", "id=enp1s0"), "changed"):
        run = ["sh", "-ec", f". {script}; echo went on"]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.endswith("went on\n"), done.stderr
        assert keyfile.read_text() == content
        keyfile.write_text("changed")
