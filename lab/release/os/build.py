"""The machine OS as a whole: stages, images, and what describes them."""

from __future__ import annotations

import json
import mmap
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from installer.common import cpio
from lab.release.image.layer import Compression, LayerWriter
from lab.release.os import clock
from lab.release.os.customise import DATA, customise, kernel_version
from lab.release.os.media.disk import build_disk
from lab.release.os.media.liveboot import build_iso
from lab.release.os.rootfs import build_rootfs
from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.keys import Built, File, digest_of, file_sha256, files, host_packages
from lab.release.stage.store import Store

HERE = Path(__file__).parent
ISO_NAME = "node0-machine-os.iso"
# Where the live system's install program looks for the image.
METAL_IN_LIVE = "usr/lib/node0/metal.raw"
LAYER = "layer"
# As CoreOS names it: what a fetched rootfs.img must be.
WANT_ROOTFS = "etc/coreos-live-want-rootfs"
# root.squashfs is mounted in place from rootfs.img; a page boundary keeps its blocks and the loop device's together.
SQUASHFS_ALIGN = 4096
_INITRAMFS_ALIGN = 512
# dracut wants /proc and /dev; in a mount namespace of its own nothing of them can be left.
_IN_ROOT = 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'


# What the images are made with: boot loaders whose files go into them, and makers of file systems.
_TOOLS = (
    "dosfstools",
    "e2fsprogs",
    "fdisk",
    "grub-common",
    "grub-efi-amd64-signed",
    "grub-pc-bin",
    "isolinux",
    "mtools",
    "shim-signed",
    "squashfs-tools",
    "syslinux-common",
    "xorriso",
)


class NotRootError(ReleaseError):
    """The build needs root, since the system's files belong to several users."""

    def __init__(self) -> None:
        super().__init__("building the machine OS needs root: file owners in the image are real ones")


@dataclass(frozen=True)
class MachineOS:
    """A finished machine OS. Paths lie in the cache; ``version`` names the build, ``volume_id`` the ISO."""

    version: str
    volume_id: str
    iso: Path
    iso_sha256: str
    kernel: Path
    initramfs: Path
    rootfs: Path
    stream_json: Path
    kernel_version: str
    #: The layer of the OS image that nodes are upgraded to, and the text of its os-release.
    layer: Path
    os_release: str


def build_machine_os(cache: Path, extra_files: Mapping[str, Path] | None = None) -> MachineOS:
    """Build the machine OS, or find it in the cache.

    Args:
        cache: node0's cache directory.
        extra_files: absolute path in the system -> file on this machine; executable when that is.

    Raises:
        NotRootError: called without root's rights.
        ReleaseError: a step failed; see its subclasses.
    """
    extra = dict(extra_files or {})
    store = Store(cache)
    rootfs = build_rootfs(store) if os.geteuid() == 0 else None
    if rootfs is None:
        raise NotRootError
    program = files([*((str(path.relative_to(HERE)), path) for path in _sources()), ("cpio", Path(cpio.__file__))])
    kargs = clock.kargs(clock.tsc_khz(store))
    inputs = Inputs(Built(rootfs), program, files(extra.items()), kargs, host_packages(*_TOOLS))
    return read_machine_os(store.stage("os", inputs, _build))


@dataclass(frozen=True)
class Inputs:
    """Inputs of the machine OS: the Debian root, all files of this package, files of others by their place in
    the system, kernel arguments, and the host's tools, of which some leave files of theirs in it."""

    rootfs: Built
    program: Mapping[str, File]
    extra: Mapping[str, File]
    kargs: str
    tools: Mapping[str, str]


def read_machine_os(stage: Path) -> MachineOS:
    """Return the machine OS that a finished stage holds."""
    facts = json.loads((stage / "machine-os.json").read_text())
    return MachineOS(
        version=facts["version"],
        volume_id=facts["volume_id"],
        iso=stage / ISO_NAME,
        iso_sha256=facts["iso_sha256"],
        kernel=stage / "vmlinuz",
        initramfs=stage / "initrd.img",
        rootfs=stage / "rootfs.img",
        stream_json=stage / "coreos-stream.json",
        kernel_version=facts["kernel_version"],
        layer=stage / LAYER,
        os_release=facts["os_release"],
    )


def _sources() -> list[Path]:
    """All files that this package builds from, tests and compiled files aside."""
    return [p for p in sorted(HERE.rglob("*")) if p.is_file() and not p.is_symlink() and "__pycache__" not in p.parts]


def _build(store: Store, inputs: Inputs, out: Path) -> None:
    version, kargs = digest_of(inputs)[:8], inputs.kargs
    work = store.scratch("os-root")
    root = work / "root"
    try:
        with progress.step("os: customise"):
            command = ["cp", "-a", "--reflink=auto", str(inputs.rootfs.path / "root"), str(root)]
            progress.run(command, label="copy root", log=store.log("os-copy"))
            customise(store, root, {name: file.path for name, file in inputs.extra.items()}, version)
        kernel_release = kernel_version(root)
        kernel, initramfs = out / "vmlinuz", out / "initrd.img"
        with progress.step("os: initramfs"):
            shutil.copyfile(root / "boot" / f"vmlinuz-{kernel_release}", kernel)
            build_initramfs(store, root, initramfs)
        with progress.step("os: layer"):
            _layer(store, root, work, kernel, initramfs=initramfs, out=out / LAYER)
        with progress.step("os: disk image"):
            metal = work / "metal.raw"
            build_disk(store, root, kernel, initramfs, out=metal, more_kargs=kargs)
        with progress.step("os: squashfs"):
            _squashfs(store, root, work)
            with (
                (work / "root.squashfs").open("rb") as squashfs,
                mmap.mmap(squashfs.fileno(), 0, access=mmap.ACCESS_READ) as content,
                (out / "rootfs.img").open("wb") as archive,
            ):
                archive.writelines(cpio.pieces([("root.squashfs", 0o100644, content)], SQUASHFS_ALIGN))
            add_want(initramfs, file_sha256(out / "rootfs.img"))
        volume_id = f"node0-{version}"
        with progress.step("os: ISO"):
            build_iso(
                store,
                volume_id,
                kernel=kernel,
                initramfs=initramfs,
                rootfs=out / "rootfs.img",
                out=out / ISO_NAME,
                more_kargs=kargs,
            )
        _describe(out, version, volume_id, kernel_release, os_release=(root / "usr/lib/os-release").read_text())
    finally:
        shutil.rmtree(work, ignore_errors=True)


def build_initramfs(store: Store, root: Path, out: Path) -> None:
    """Have dracut make the initramfs in ``root``, one for live system and installed disk, and write it to ``out``.

    It is in the legacy lz4 format, which the kernel unpacks fastest by far. That format has no end: zero bytes tell the
    kernel that another archive follows, the host's Ignition config (lib/decompress_unlz4.c). They also keep that one
    aligned.
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
        archive.truncate((out.stat().st_size // _INITRAMFS_ALIGN + 2) * _INITRAMFS_ALIGN)
    raw.unlink()
    out.chmod(0o644)


def add_want(initramfs: Path, sha256: str) -> None:
    """Tell the live system's initramfs which rootfs.img is its own; the installed system's has no need to know."""
    with initramfs.open("ab") as file:
        # The kernel skips zeros between two archives, and wants each to begin at a multiple of 4.
        file.write(bytes(-file.tell() % 4))
        file.writelines(cpio.pieces([(WANT_ROOTFS, 0o100644, f"{sha256}\n".encode())]))
        file.write(bytes(-file.tell() % 4))


def _squashfs(store: Store, root: Path, work: Path) -> None:
    """Pack the live root with the disk image in it.

    lz4 throughout, for the image too: the kernel unpacks it in a third of the time that zstd takes under emulation, and
    a host has nothing else to do while it writes its disk.
    """
    command = [progress.need("mksquashfs", "squashfs-tools"), str(root), str(work / "root.squashfs")]
    command += ["-comp", "lz4", "-noappend", "-quiet", "-no-progress", "-no-xattrs", "-wildcards"]
    command += ["-p", f"{METAL_IN_LIVE} f 444 0 0 cat {work}/metal.raw"]
    command += ["-e", "boot/*", "dev/*", "proc/*", "run/*", "sys/*", "tmp/*", "usr/lib/dracut"]
    progress.run(command, label="mksquashfs", log=store.log("os-squashfs"))


def _layer(store: Store, root: Path, work: Path, kernel: Path, *, initramfs: Path, out: Path) -> None:
    """Pack what a further deployment is made of: /usr, with the kernel and the initramfs where ostree has them."""
    archive = work / "usr.tar"
    tar = ["tar", "-C", str(root), "--sort=name", "--exclude=usr/lib/dracut", "-cf", str(archive), "usr"]
    progress.run(tar, label="tar", log=store.log("os-tar"))
    writer = LayerWriter()
    writer.add_tar(archive, keep=lambda _: True, directories=True)
    modules = f"usr/lib/modules/{kernel_version(root)}"
    writer.add_file(f"{modules}/vmlinuz", kernel, 0o644)
    writer.add_file(f"{modules}/initramfs.img", initramfs, 0o644)
    out.mkdir()
    writer.finish(out, Compression.ZSTD)
    archive.unlink()


def _describe(out: Path, version: str, volume_id: str, kernel_release: str, *, os_release: str) -> None:
    """Write machine-os.json for ourselves and coreos-stream.json as CoreOS's stream metadata has it."""

    def artifact(name: str) -> dict[str, str]:
        return {"location": name, "sha256": file_sha256(out / name)}

    iso = artifact(ISO_NAME)
    metal = {
        "release": version,
        "formats": {
            "iso": {"disk": iso},
            "pxe": {
                "kernel": artifact("vmlinuz"),
                "initramfs": artifact("initrd.img"),
                "rootfs": artifact("rootfs.img"),
            },
        },
    }
    stream = {"stream": "node0", "architectures": {"x86_64": {"artifacts": {"metal": metal}}}}
    (out / "coreos-stream.json").write_text(json.dumps(stream, indent=2) + "\n")
    facts = {
        "version": version,
        "volume_id": volume_id,
        "iso_sha256": iso["sha256"],
        "kernel_version": kernel_release,
        "os_release": os_release,
    }
    (out / "machine-os.json").write_text(json.dumps(facts, indent=2) + "\n")
