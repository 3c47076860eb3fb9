"""Parts of the machine OS: Debian packages, kernel modules, and what of a package is left out."""

from __future__ import annotations

SUITE = "bookworm"

#: Packages by purpose. Dependencies come along, recommendations do not.
PACKAGES: dict[str, tuple[str, ...]] = {
    # The full kernel flavour: the cloud one knows no AHCI, and the emulated CD is a SATA drive.
    "boot": ("linux-image-amd64", "dracut", "ignition", "kmod", "udev", "systemd", "systemd-sysv", "dbus"),
    "network": (
        "network-manager",
        "chrony",
        "openssh-server",
        "iproute2",
        "iputils-ping",
        "iputils-arping",
        "ethtool",
        "libnss-myhostname",
        "nftables",
        "iptables",
        "conntrack",
    ),
    "containers": ("podman", "catatonit", "crun", "runc", "containerd", "containernetworking-plugins"),
    "disks": ("gdisk", "e2fsprogs", "dosfstools", "efibootmgr", "lvm2", "multipath-tools", "open-iscsi", "zstd"),
    # What Ignition's LUKS volumes and the service's MachineConfigs for them need: keys in a TPM 2 or with Tang, XFS.
    "encryption": ("clevis-luks", "clevis-tpm2", "cryptsetup-bin", "xfsprogs"),
    "tools": (
        "ca-certificates",
        "curl",
        "dmidecode",
        "jq",
        "less",
        "openssl",
        "procps",
        "python3",
        "sudo",
        "xz-utils",
    ),
}

#: Kernel modules that stay, as paths below /lib/modules/<version>/kernel; of the rest nothing is unpacked.
KERNEL_MODULES: tuple[str, ...] = (
    "arch/x86/crypto",
    "block",  # t10-pi: sd_mod and nvme need it
    "crypto",
    "lib",
    "drivers/acpi/button.ko",
    "drivers/ata",
    "drivers/block",
    "drivers/cdrom",
    "drivers/char/hw_random",
    "drivers/char/ipmi",
    "drivers/firmware/iscsi_ibft.ko",
    "drivers/firmware/qemu_fw_cfg.ko",
    "drivers/hid/hid.ko",
    "drivers/hid/hid-generic.ko",
    "drivers/hid/usbhid",
    "drivers/input/evdev.ko",
    "drivers/input/keyboard",
    "drivers/input/serio",
    "drivers/md",
    "drivers/net/bonding",
    "drivers/net/dummy.ko",
    "drivers/net/ethernet/intel/e1000",
    "drivers/net/ethernet/intel/e1000e",
    "drivers/net/ethernet/realtek",
    "drivers/net/geneve.ko",
    "drivers/net/ipvlan",
    "drivers/net/macvlan.ko",
    "drivers/net/mdio.ko",
    "drivers/net/mii.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/tap.ko",
    "drivers/net/team",
    "drivers/net/tun.ko",
    "drivers/net/veth.ko",
    "drivers/net/virtio_net.ko",
    "drivers/net/vmxnet3",
    "drivers/net/vrf.ko",
    "drivers/net/vxlan",
    "drivers/nvme/common",
    "drivers/nvme/host",
    "drivers/scsi/device_handler",
    "drivers/scsi/iscsi_*.ko",
    "drivers/scsi/libiscsi*.ko",
    "drivers/scsi/scsi_*.ko",
    "drivers/scsi/sd_mod.ko",
    "drivers/scsi/sr_mod.ko",
    "drivers/scsi/virtio_scsi.ko",
    "drivers/usb/common",
    "drivers/usb/core",
    "drivers/usb/host",
    "drivers/usb/storage",
    "drivers/virtio",
    "fs/autofs",
    "fs/configfs",
    "fs/efivarfs",
    "fs/ext4",
    "fs/fat",
    "fs/fscache",
    "fs/fuse",
    "fs/isofs",
    "fs/jbd2",
    "fs/mbcache.ko",
    "fs/nls",
    "fs/overlayfs",
    "fs/squashfs",
    "fs/xfs",
    "net/802",
    "net/8021q",
    "net/bridge",
    "net/core",
    "net/ipv4",
    "net/ipv6",
    "net/llc",
    "net/netfilter",
    "net/netlink",
    "net/packet",
    "net/psample",
    "net/sched",
    "net/tls",
    "net/unix",
    "net/xfrm",
)

#: Files of packages that nothing in the machine OS reads.
LEFT_OUT: tuple[str, ...] = (
    "/boot/System.map*",
    "/usr/share/bash-completion/*",
    "/usr/share/bug/*",
    "/usr/share/doc/*",
    "/usr/share/fish/*",
    "/usr/share/i18n/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/usr/share/zsh/*",
    "/usr/lib/cni/dhcp",
    "/usr/lib/udev/hwdb.bin",
    # A dictionary of characters for xfs_scrub, and one of file types for a dictionary of passwords.
    "/usr/lib/file/*",
    "/usr/lib/x86_64-linux-gnu/libicu*",
    "/usr/sbin/xfs_*",
    # Programs for trials, not for use.
    "/usr/bin/containerd-shim",
    "/usr/bin/containerd-shim-runc-v1",
    "/usr/bin/containerd-stress",
    "/usr/bin/ignition-validate",
)


#: Removed after the packages are configured, since their own set-up still reads them.
REMOVED: tuple[str, ...] = (
    "usr/lib/udev/hwdb.d",
    # Rules for devices that no host here has; udev reads and tries all of them for each event, twice a boot.
    *(
        f"usr/lib/udev/rules.d/{name}.rules"
        for name in (
            # Volume groups of other systems are seen and can be removed; nothing activates them.
            "55-scsi-sg3_id",
            "58-scsi-sg3_symlink",
            "56-lvm",
            "69-lvm",
            "60-drm",
            "60-fido-id",
            "60-infiniband",
            "60-tpm-udev",
            "60-persistent-alsa",
            "60-persistent-storage-tape",
            "60-persistent-v4l",
            "60-sensor",
            "64-btrfs",
            "68-del-part-nodes",
            "70-camera",
            "70-iscsi-network-interface",
            "70-joystick",
            "70-memory",
            "70-mouse",
            "70-touchpad",
            "75-probe_mtd",
            "78-sound-card",
            "85-hwclock",
            "90-nm-thunderbolt",
            "96-e2scrub",
        )
    ),
    # Loads what multipathd loads for itself, on hosts that have no such disks too.
    "usr/lib/modules-load.d/multipath.conf",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/python3*/test",
    "usr/lib/python3*/turtledemo",
)


def package_names() -> tuple[str, ...]:
    """All packages asked for, sorted, each once."""
    return tuple(sorted({name for names in PACKAGES.values() for name in names}))


def dpkg_filters() -> tuple[str, ...]:
    """Return the lists above as dpkg's path filters; in dpkg the last filter that matches a path decides."""
    kept = []
    for module in KERNEL_MODULES:
        tail = module if module.endswith(".ko") else f"{module}/*"
        kept.append(f"path-include=/lib/modules/*/kernel/{tail}")
    left_out = (f"path-exclude={path}" for path in LEFT_OUT)
    licences = "path-include=/usr/share/doc/*/copyright"
    tests = "path-exclude=/lib/modules/*/kernel/lib/test_*"
    return (*left_out, licences, "path-exclude=/lib/modules/*/kernel/*", *kept, tests)
