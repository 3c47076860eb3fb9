"""The initramfs, by dracut in the root itself. One for both: live system and installed disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.release.os.customise import DATA, kernel_version
from lab.release.stage import progress
from lab.release.stage.store import Store

ALIGN = 512
# dracut wants /proc and /dev; in a mount namespace of its own nothing of them can stay behind.
_IN_ROOT = 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'


def build_initramfs(store: Store, root: Path, out: Path) -> None:
    """Write the initramfs of ``root`` to ``out``, in the legacy lz4 format, which the kernel unpacks fastest by far.

    That format has no end: zero bytes tell the kernel that what follows, the host's Ignition config, is another
    archive (lib/decompress_unlz4.c). They also keep that one aligned.
    """
    modules = root / "usr/lib/dracut/modules.d"
    for own in sorted((DATA / "dracut").iterdir()):
        shutil.rmtree(modules / own.name, ignore_errors=True)
        shutil.copytree(own, modules / own.name)
    # dracut-network's or a package's settings would drag modules into every initramfs.
    for path in (root / "etc/dracut.conf.d").glob("*.conf"):
        path.unlink()
    raw = root / "boot" / "initramfs.cpio"
    dracut = [
        *("dracut", "--force", "--kver", kernel_version(root)),
        *("--no-hostonly", "--no-hostonly-cmdline", "--no-early-microcode", "--reproducible"),
        *("--compress", "cat", "--tmpdir", "/tmp"),
        *("--modules", "bash systemd systemd-initrd udev-rules node0 node0-luks node0-iscsi"),
        "/boot/initramfs.cpio",
    ]
    unshare = [progress.need("unshare", "util-linux"), "--mount", "--propagation", "private"]
    log = store.log("os-dracut")
    progress.run([*unshare, "sh", "-c", _IN_ROOT, "sh", str(root), *dracut], label="dracut", log=log)
    lz4 = [progress.need("lz4", "lz4"), "-l", "-9", "-f", "-q", str(raw), str(out)]
    progress.run(lz4, label="lz4", log=store.log("os-lz4-initramfs"))
    with out.open("r+b") as archive:
        archive.truncate((out.stat().st_size // ALIGN + 2) * ALIGN)
    raw.unlink()
    out.chmod(0o644)
