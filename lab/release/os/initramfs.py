"""The initramfs, by dracut in the root itself. One for both: live system and installed disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.release import progress
from lab.release.os.customise import DATA, kernel_version
from lab.release.store import Store

# dracut wants /proc and /dev; in a mount namespace of its own nothing of them can stay behind.
_IN_ROOT = 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'


def build_initramfs(store: Store, root: Path, out: Path) -> None:
    """Write the initramfs of ``root`` to ``out``, zstd compressed.

    Not lz4: the kernel's unpacker loses the archive that follows an lz4 one, which is the host's Ignition config.
    """
    modules = root / "usr/lib/dracut/modules.d"
    shutil.rmtree(modules / "90node0", ignore_errors=True)
    shutil.copytree(DATA / "dracut" / "90node0", modules / "90node0")
    # dracut-network's or a package's settings would drag modules into every initramfs.
    for path in (root / "etc/dracut.conf.d").glob("*.conf"):
        path.unlink()
    raw = root / "boot" / "initramfs.cpio"
    dracut = [
        *("dracut", "--force", "--kver", kernel_version(root)),
        *("--no-hostonly", "--no-hostonly-cmdline", "--no-early-microcode", "--reproducible"),
        *("--compress", "cat", "--tmpdir", "/tmp"),
        *("--modules", "bash systemd systemd-initrd udev-rules node0"),
        "/boot/initramfs.cpio",
    ]
    unshare = [progress.need("unshare", "util-linux"), "--mount", "--propagation", "private"]
    log = store.log("os-dracut")
    progress.run([*unshare, "sh", "-c", _IN_ROOT, "sh", str(root), *dracut], label="dracut", log=log)
    zstd = [progress.need("zstd", "zstd"), "-q", "-f", "-3", "-T0", str(raw), "-o", str(out)]
    progress.run(zstd, label="zstd", log=store.log("os-zstd-initramfs"))
    raw.unlink()
    out.chmod(0o644)
