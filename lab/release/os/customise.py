"""Second stage: a plain Debian root becomes the machine OS: own files, few services, quick boot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store

DATA = Path(__file__).parent / "data"
VENDOR_UNITS = "usr/lib/systemd/system"
ADMIN_UNITS = "etc/systemd/system"

#: What starts by default: unit -> target that wants it. Ignition of a cluster enables the rest (containerd, kubelet).
ENABLED: Mapping[str, str] = {
    "NetworkManager.service": "multi-user.target",
    "NetworkManager-wait-online.service": "network-online.target",
    "chrony.service": "multi-user.target",
    "coreos-installer.service": "multi-user.target",
    "coreos-update-ca-trust.service": "sysinit.target",
    "getty@tty1.service": "getty.target",
    "ignition-firstboot-complete.service": "multi-user.target",
    "iscsid.socket": "sockets.target",
    "multipathd.service": "sysinit.target",
    "node0-iscsi-sessions.service": "multi-user.target",
    "ssh.service": "multi-user.target",
    "sshd-keygen.service": "multi-user.target",
}

#: Other names of units, as CoreOS and D-Bus know them.
ALIASES: Mapping[str, str] = {
    "chronyd.service": "chrony.service",
    "dbus-org.freedesktop.nm-dispatcher.service": "NetworkManager-dispatcher.service",
    "sshd.service": "ssh.service",
}

#: Units that do nothing for a host that lives once or boots from an image, and cost time under emulation.
MASKED: tuple[str, ...] = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-setup.service",
    "dev-hugepages.mount",
    "dracut-shutdown.service",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "keyboard-setup.service",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "networking.service",
    "proc-sys-fs-binfmt_misc.automount",
    "remote-fs.target",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-initctl.socket",
    "systemd-journal-catalog-update.service",
    "systemd-journald-audit.socket",
    "systemd-machine-id-commit.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-repart.service",
    "systemd-rfkill.service",
    "systemd-rfkill.socket",
    "systemd-sysusers.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-update-done.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)

#: Generators that stay; every other one is a process at each boot and each reload of systemd.
GENERATORS = frozenset({"systemd-fstab-generator", "systemd-getty-generator", "systemd-debug-generator"})

#: tmpfiles.d fragments about things that are not here (X, provisioning, ...).
TMPFILES_REMOVED = ("debian", "home", "journal-nocow", "passwd", "polkitd", "provision", "systemd-pstore", "x11")


class ExtraFileError(ReleaseError):
    """A file to add to the image does not exist, or its path in the image is not absolute."""


def customise(store: Store, root: Path, extra_files: Mapping[str, Path]) -> None:
    """Change the Debian root at ``root`` in place.

    Raises:
        ExtraFileError: an extra file does not exist or would lie outside of the root.
        CommandFailed: a program in the root failed.
    """
    _services(root)
    shutil.copytree(DATA / "root", root, symlinks=True, dirs_exist_ok=True)
    (root / "etc/sudoers.d/core").chmod(0o440)
    for path in (DATA / "root").rglob("*"):
        os.chown(root / path.relative_to(DATA / "root"), 0, 0, follow_symlinks=False)
    _identity(root)
    _trust(root)
    _network(root)
    _install_program(root)
    _add(root, extra_files)
    log = store.log("os-chroot")
    useradd = ["useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo,adm,systemd-journal", "core"]
    progress.run([progress.need("chroot", "coreutils"), str(root), *useradd], label="useradd", log=log)
    depmod = ["depmod", "-a", kernel_version(root)]
    progress.run([progress.need("chroot", "coreutils"), str(root), *depmod], label="depmod", log=log)


def kernel_version(root: Path) -> str:
    """Return the one kernel's version (its ABI changes with security updates, so it is looked up)."""
    (version,) = (path.name for path in (root / "usr/lib/modules").iterdir())
    return version


def _services(root: Path) -> None:
    admin = root / ADMIN_UNITS
    shutil.rmtree(admin)
    admin.mkdir()
    _unlink(path for path in (root / VENDOR_UNITS).rglob("dracut-*") if not path.is_dir())
    _unlink(p for p in (root / "usr/lib/systemd/system-generators").iterdir() if p.name not in GENERATORS)
    _unlink(root / f"usr/lib/tmpfiles.d/{name}.conf" for name in TMPFILES_REMOVED)
    for directory in (*(root / "etc").glob("rc?.d"), root / "etc/init.d"):
        shutil.rmtree(directory, ignore_errors=True)
    for unit in MASKED:
        (admin / unit).symlink_to("/dev/null")
    for unit, target in ENABLED.items():
        wants = admin / f"{target}.wants"
        wants.mkdir(exist_ok=True)
        template = "getty@.service" if unit.startswith("getty@") else unit
        (wants / unit).symlink_to(f"/{VENDOR_UNITS}/{template}")
    for alias, unit in ALIASES.items():
        (admin / alias).symlink_to(f"/{VENDOR_UNITS}/{unit}")
    (admin / "default.target").symlink_to(f"/{VENDOR_UNITS}/multi-user.target")


def _identity(root: Path) -> None:
    """Nothing in the image that each host must have of its own: names, keys, machine id."""
    _unlink((root / "etc/ssh").glob("ssh_host_*"))
    _unlink([root / "etc/hostname", root / "etc/resolv.conf", root / "var/lib/dbus/machine-id"])
    # Empty, not "uninitialized": the latter makes systemd apply every preset at first boot.
    (root / "etc/machine-id").write_bytes(b"")
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    # iscsid's own start makes a name of it.
    (root / "etc/iscsi/initiatorname.iscsi").write_text("GenerateName=yes\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
    (root / "etc/fstab").write_text("")
    (root / "etc/default/locale").write_text("LANG=C.UTF-8\n")
    for name in ("etc/.updated", "var/.updated"):
        (root / name).touch()
    for name in ("var/log/journal", "usr/lib/node0", "etc/pki/ca-trust/source/anchors", "etc/issue.d", "etc/motd.d"):
        (root / name).mkdir(parents=True, exist_ok=True)
    with (root / "usr/lib/os-release").open("a") as release:
        release.write('VARIANT="node0 machine OS"\nVARIANT_ID=node0\n')


def _trust(root: Path) -> None:
    """One bundle of CA certificates, under the names by which Debian's, Red Hat's and Go's programs look for it."""
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    (root / "usr/share/node0").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(bundle, root / "usr/share/node0/ca-certificates.crt")
    _unlink(path for path in bundle.parent.iterdir() if path.is_symlink())
    shutil.rmtree(root / "usr/share/ca-certificates", ignore_errors=True)
    for name in (
        "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "etc/pki/tls/certs/ca-bundle.crt",
        "usr/lib/ssl/cert.pem",
    ):
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to("/etc/ssl/certs/ca-certificates.crt")


def _network(root: Path) -> None:
    """No dispatcher scripts: as long as there are none, NetworkManager starts no dispatcher."""
    for directory in ("etc/NetworkManager/dispatcher.d", "usr/lib/NetworkManager/dispatcher.d"):
        _unlink(path for path in (root / directory).rglob("*") if path.is_file() or path.is_symlink())
    (root / "etc/NetworkManager/system-connections").mkdir(parents=True, exist_ok=True)
    chrony = root / "etc/chrony/chrony.conf"
    chrony.unlink(missing_ok=True)
    chrony.symlink_to("../chrony.conf")


def _install_program(root: Path) -> None:
    target = root / "usr/bin/coreos-installer"
    shutil.copyfile(Path(__file__).with_name("coreos_installer.py"), target)
    target.chmod(0o755)


def _add(root: Path, extra_files: Mapping[str, Path]) -> None:
    for name, source in sorted(extra_files.items()):
        if not name.startswith("/") or ".." in Path(name).parts:
            raise ExtraFileError(f"extra file {name!r}: its place must be an absolute path without '..'")
        if not source.is_file():
            raise ExtraFileError(f"extra file {name!r}: {source} is no file")
        target = root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _unlink(paths: Iterable[Path]) -> None:
    for path in list(paths):
        path.unlink(missing_ok=True)
