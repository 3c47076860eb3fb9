"""A firmware for tests: the root tree of the lab release's machine OS under an overlay in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import Boot, Early, Fence, MachineSpec

TREE = "NODE0_TEST_TREE"


def boot(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence) -> Boot:
    """Mount the tree that the environment names, with the machine's owners, for the overlay of `Stage`."""
    console.write(b"plain firmware\r\n")
    tree = syscalls.open_tree(os.environ[TREE])
    syscalls.set_attributes(tree, syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NODEV, users=fence.users)
    syscalls.attach(tree, str(root))
    os.close(tree)
    early = Early(stage=f"{__name__}:{Stage.__name__}", images=())
    return Boot(arguments=["console=ttyS0", spec.name], init=["/sbin/init"], early=early)


class Stage:
    """An early boot without an image: see lab.machines.container.spec.Stage."""

    def __init__(self, memory_mib: int, arguments: Sequence[str]) -> None:
        self._name = arguments[-1]

    def lay_out(self, place: Path, images: Sequence[memoryview]) -> None:
        """Mount the overlay, at `sysroot`."""
        syscalls.mount("stage", str(place), "tmpfs", data="mode=755")
        for name in ("proc", "sys", "dev", "run", "upper", "work", "sysroot"):
            (place / name).mkdir()
        options = f"lowerdir=root,upperdir={place}/upper,workdir={place}/work,userxattr"
        syscalls.mount("root", str(place / "sysroot"), "overlay", data=options)
        self.prepare(place / "sysroot")

    def prepare(self, root: Path) -> None:
        """Make of the tree, which is as Debian's packages leave it, what tests want."""
        # As the live system has it: on a file system of its own, where podman may have overlays.
        for name in ("containers", "containerd"):
            (root / "var/lib" / name).mkdir(exist_ok=True)
            syscalls.mount(name, str(root / "var/lib" / name), "tmpfs", data="mode=755")
        # It waits for a network, which these machines have not got.
        (root / "etc/systemd/system/open-iscsi.service").symlink_to("/dev/null")
        (root / "etc/hostname").write_text(f"{self._name}\n")
        (root / "etc/shadow").write_text("root::19000:0:99999:7:::\n")

    def go(self, console: BinaryIO) -> Path:
        """Return the overlay's place."""
        return Path("/sysroot")
