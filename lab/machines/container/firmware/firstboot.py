"""The installed system's boot partition, which a machine in a user namespace cannot mount by itself."""

from __future__ import annotations

from pathlib import Path

from lab.machines.container.firmware.initramfs import run

UNIT = "ignition-firstboot-complete.service"
_BIN = "node0/firmware/bin"

#: The image's own program that ends the first boot mounts the partition; here it gets what is mounted already.
_MOUNT = """\
#!/bin/sh
exec /usr/bin/mount --bind /boot "$2"
"""


def mount_boot(node: Path, root: Path, run_directory: Path) -> None:
    """Mount the boot partition at the root's /boot, and have the unit that needs it find it there."""
    (root / "boot").mkdir(exist_ok=True)
    run("mount", str(node), str(root / "boot"))
    mount = run_directory / _BIN / "mount"
    mount.parent.mkdir(parents=True, exist_ok=True)
    mount.write_text(_MOUNT)
    mount.chmod(0o755)
    drop_in = run_directory / "systemd/system" / f"{UNIT}.d" / "firmware.conf"
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text(f"[Service]\nEnvironment=PATH=/run/{_BIN}:/usr/sbin:/usr/bin:/sbin:/bin\n")
