"""A disk that the image's coreos-installer writes, on a kernel that may know no partition tables.

    unshare --mount python -m lab.tests.machines.container.firmware.install FOLDER SQUASHFS DISK CONFIG [KARG...]

What a kernel does for it is done here: partitions as devices, and what blkid asks sysfs about them.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from lab.machines.container.firmware.partitions import read_table
from lab.machines.container.kernel import loops
from lab.release.os import coreos_installer


def main(folder: str, squashfs: str, disk: str, config: str, *kargs: str) -> int:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True, timeout=30)
    lower, drive = Path(folder) / "lower", Path(folder) / "vda"
    lower.mkdir()
    subprocess.run(["mount", "-t", "squashfs", "-o", "ro", squashfs, str(lower)], check=True, timeout=30)
    whole = loops.attach(Path(disk))
    os.mknod(drive, stat.S_IFBLK | 0o600, whole.rdev)
    partitions: list[loops.Loop] = []
    plain_run = coreos_installer.run

    def reread(device: str) -> None:
        while partitions:
            partitions.pop().close()
        table = read_table(Path(device))
        assert table is not None
        for partition in table.partitions:
            partitions.append(loops.attach(Path(device), offset=partition.start, size=partition.size))
            node = Path(coreos_installer.partition(device, partition.number))
            node.unlink(missing_ok=True)
            os.mknod(node, stat.S_IFBLK | 0o600, partitions[-1].rdev)

    def run(*command: str) -> str:
        if command[:3] == ("blkid", "-p", "-s"):
            table = read_table(drive)
            assert table is not None
            named = {coreos_installer.partition(str(drive), p.number): p.uuid for p in table.partitions}
            return named[command[-1]]
        return plain_run(*command)

    coreos_installer.reread, coreos_installer.run = reread, run
    image = str(lower / "usr/lib/node0/metal.raw")
    more = [f"--append-karg={word}" for word in kargs]
    return coreos_installer.main(["install", "--image-file", image, "--ignition-file", config, *more, str(drive)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
