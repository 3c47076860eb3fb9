"""A firmware for tests: the root tree of the lab release's machine OS under an overlay in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import Boot, Fence, MachineSpec

TREE = "NODE0_TEST_TREE"


def boot(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence) -> Boot:
    """Return an overlay over the tree that the environment names."""
    console.write(b"plain firmware\r\n")
    memory = root.parent / "memory"
    memory.mkdir()
    syscalls.mount("memory", str(memory), "tmpfs", 0, data="mode=755")
    for name in ("upper", "work"):
        (memory / name).mkdir()
    options = f"lowerdir={os.environ[TREE]},upperdir={memory}/upper,workdir={memory}/work"
    syscalls.mount("overlay", str(root), "overlay", 0, data=options)
    # As the live system has it: on a file system of its own, where podman may have overlays.
    syscalls.mount("var", str(root / "var"), "tmpfs", 0, data="mode=755")
    tree = Path(os.environ[TREE])
    subprocess.run(["cp", "-a", f"{tree}/var/.", f"{root}/var/"], check=True)
    # The tree is as Debian's packages leave it; this one waits for a network, which these machines have not got.
    (root / "etc/systemd/system/open-iscsi.service").symlink_to("/dev/null")
    (root / "etc/shadow").write_text("root::19000:0:99999:7:::\n")
    (root / "etc/hostname").write_text(f"{spec.name}\n")
    return Boot(arguments=["console=ttyS0"], init=["/sbin/init"])
