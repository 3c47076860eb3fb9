"""Secure boot: firmware with Microsoft's keys starts what Debian signed, and nothing else."""

import shutil
from functools import partial
from pathlib import Path

import msgspec
import pytest

from installer.common.iso9660 import Iso
from lab import topology
from lab.host.paths import cache_dir
from lab.lab import Lab
from lab.release.os.build import ISO_NAME
from lab.release.os.media import efi
from lab.testing.containers.kit import tree
from lab.testing.installed import copy
from lab.tests.machines import kit
from lab.tests.machines.container.firmware import kit as live

SHAPE = topology.load_text("""
name: secure
nodes:
  - {name: master-0, role: master, memory_mib: 512, vcpu: 1, secure_boot: true, mac: "52:54:00:6e:63:00",
     ip: 192.168.111.80}
""")
NEEDED = (kit.SHIM, kit.GRUB)
pytestmark = [
    pytest.mark.lab,
    kit.needs_lab(SHAPE),
    pytest.mark.skipif(tree() is None, reason="no release was built here: there is no kernel to boot"),
    pytest.mark.skipif(
        not all(file.exists() for file in NEEDED) or shutil.which("sbattach") is None,
        reason="shim-signed, grub-efi-amd64-signed or sbsigntool is not installed",
    ),
]
# Emulated, on a busy host.
SECONDS, LOGIN_SECONDS = 400, 1200
SCRIPT = "dmesg\n"
UNSIGNED_SHIM = Path("/usr/lib/shim/shimx64.efi")


@pytest.fixture
def signed_os(monkeypatch):
    """Provide the newest machine OS of the cache whose loaders are Debian's: others may be of older code."""
    for iso in sorted(cache_dir().glob(f"release/os/*/{ISO_NAME}"), key=lambda path: -path.stat().st_mtime):
        with iso.open("rb") as image:
            if Iso(image, iso).find(efi.CD_MARK) is not None:
                monkeypatch.setattr(live, "machine_os", partial(Path, iso))
                return
    pytest.skip("the release that was built here has no signed boot loaders: build it anew")


def _large():
    """Give the machine the size that its OS needs."""
    [node] = SHAPE.nodes
    return msgspec.structs.replace(SHAPE, nodes=(msgspec.structs.replace(node, memory_mib=3072, vcpu=2, disk_gib=8),))


def test_live_the_machine_os_comes_up_to_its_login(tmp_path, folder, signed_os):
    """The ISO that clusters are installed from, with a config in it."""
    with Lab(_large(), artifacts=tmp_path) as lab:
        machine = lab.nodes["master-0"]
        machine.boot_image(live.iso_with(folder, live.CONFIG))
        machine.console.wait_for("proven login:", LOGIN_SECONDS)
        assert f"proof: {live.PROOF}" in machine.console.text()


def test_live_what_was_installed_on_a_disk_comes_up_too(tmp_path, folder, signed_os):
    disk = live.installed(folder, live.CONFIG)
    with Lab(_large(), artifacts=tmp_path) as lab:
        machine = lab.nodes["master-0"]
        copy(disk, lab.layout.disk(machine.spec))
        machine.power.on()
        machine.console.wait_for("proven login:", LOGIN_SECONDS)
        assert f"proof: {live.PROOF}" in machine.console.text()


def test_live_what_debian_signed_runs_and_an_unsigned_kernel_or_loader_is_refused(tmp_path, folder):
    with Lab(SHAPE, artifacts=tmp_path) as lab:
        node = lab.nodes["master-0"]

        def console_of(until: str, name: str, **changes: object) -> str:
            (folder / name).mkdir()
            before = len(node.console.text())
            node.console.mark()
            node.boot_image(kit.build_uefi(tree(), folder / name, SCRIPT, **changes))
            node.console.wait_for(until, SECONDS)
            return node.console.text()[before:]

        text = console_of("SCRIPT ENDED", "signed")
        assert "Secure boot enabled" in text
        text = console_of("bad shim signature", "kernel", signed_kernel=False)
        assert "GRUB RUNS" in text
        assert "SCRIPT ENDED" not in text
        text = console_of("Access Denied", "loader", shim=UNSIGNED_SHIM)
        assert "GRUB RUNS" not in text
