"""Secure boot: firmware with Microsoft's keys starts what Debian signed, and nothing else."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from lab import topology
from lab.host import preflight
from lab.host.paths import state_dir
from lab.lab import Lab
from lab.testing.containers.kit import tree
from lab.tests.firmware import kit as live
from lab.tests.machines import kit

SHAPE = topology.load_text("""
name: secure
nodes:
  - {name: master-0, role: master, memory_mib: 512, vcpu: 1, secure_boot: true, mac: "52:54:00:6e:63:00",
     ip: 192.168.111.80}
""")
PROBLEMS = preflight.problems(SHAPE, Path("/"), "")
NEEDED = (kit.SHIM, kit.GRUB)
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
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


def test_live_the_machine_os_comes_up_to_its_login(tmp_path):
    """The ISO that clusters are installed from, with a config in it."""
    [node] = SHAPE.nodes
    shape = msgspec.structs.replace(SHAPE, nodes=(msgspec.structs.replace(node, memory_mib=3072, vcpu=2),))
    with TemporaryDirectory(prefix="test-", dir=state_dir()) as beside, Lab(shape, artifacts=tmp_path) as lab:
        machine = lab.nodes["master-0"]
        machine.boot_image(live.iso_with(Path(beside), live.CONFIG))
        machine.console.wait_for("proven login:", LOGIN_SECONDS)
        assert f"proof: {live.PROOF}" in machine.console.text()


def test_live_what_debian_signed_runs_and_an_unsigned_kernel_or_loader_is_refused(tmp_path):
    with TemporaryDirectory(prefix="test-", dir=state_dir()) as beside, Lab(SHAPE, artifacts=tmp_path) as lab:
        node, folder = lab.nodes["master-0"], Path(beside)

        def said(until: str, name: str, **changes: object) -> str:
            (folder / name).mkdir()
            before = len(node.console.text())
            node.console.mark()
            node.boot_image(kit.build_uefi(tree(), folder / name, SCRIPT, **changes))
            node.console.wait_for(until, SECONDS)
            return node.console.text()[before:]

        text = said("SCRIPT ENDED", "signed")
        assert "Secure boot enabled" in text
        text = said("bad shim signature", "kernel", signed_kernel=False)
        assert "GRUB RUNS" in text
        assert "SCRIPT ENDED" not in text
        text = said("Access Denied", "loader", shim=UNSIGNED_SHIM)
        assert "GRUB RUNS" not in text
