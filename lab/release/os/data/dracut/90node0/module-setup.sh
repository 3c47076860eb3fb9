#!/bin/bash
# dracut module: CoreOS-like early boot with Ignition's own units, NetworkManager without D-Bus, and a live root.
# Neither dracut's initqueue nor its hooks take part: systemd alone orders the boot.

check() { return 255; } # only when asked for by name

depends() { echo bash systemd systemd-initrd udev-rules; }

installkernel() {
    hostonly='' instmods -c \
        ahci ata_generic ata_piix libahci cdrom sd_mod sr_mod nvme usb_storage ehci-pci xhci-pci \
        virtio_blk virtio_net virtio_pci virtio_rng virtio_scsi qemu_fw_cfg e1000 e1000e bonding 8021q \
        ext4 crc32c_generic isofs loop nls_ascii nls_cp437 nls_iso8859-1 nls_utf8 overlay squashfs vfat
}

install() {
    local name units=$systemdsystemunitdir

    # Ignition's module wants dracut's network and url-lib; only what it installs is taken.
    (moddir=$moddir/../30ignition && . "$moddir/module-setup.sh" && install)
    rm -f "$initdir/$units/ignition-complete.target.requires/ignition-kargs.service" # not supported here
    rm -f "$initdir/$systemdutildir/system-generators/ignition-generator" # or inst_simple would keep it
    inst_simple "$moddir/ignition-generator" "$systemdutildir/system-generators/ignition-generator"
    inst_simple "$moddir/is-live-image" /usr/bin/is-live-image
    inst_simple "$moddir/setfiles" /usr/sbin/setfiles

    inst_simple "$moddir/common.sh" /usr/lib/node0/common.sh
    for name in node0-ignition-config node0-network node0-live-root node0-ignition-finish ostree-prepare-root; do
        inst_simple "$moddir/$name" "/usr/libexec/node0/$name"
        inst_simple "$moddir/$name.service" "$units/$name.service"
    done
    inst_simple "$moddir/node0-network-down" /usr/libexec/node0/node0-network-down
    inst_simple "$moddir/node0-emergency" /usr/libexec/node0/node0-emergency
    inst_simple "$moddir/emergency.service" "$units/emergency.service"
    mkdir -p "$initdir/$units/ignition-complete.target.requires"
    for name in node0-ignition-config node0-network node0-ignition-finish; do
        ln -sf "../$name.service" "$initdir/$units/ignition-complete.target.requires/$name.service"
    done

    # Nothing of this is needed before the real root, and each costs.
    inst_simple "$moddir/udev-trigger.conf" "$units/systemd-udev-trigger.service.d/node0.conf"
    rm -f "$initdir/$units"/sysinit.target.wants/{kmod-static-nodes,systemd-modules-load,systemd-sysctl,systemd-tmpfiles-setup}.service \
        "$initdir/$units"/sysinit.target.wants/systemd-ask-password-console.path \
        "$initdir/$units"/sockets.target.wants/systemd-journald-audit.socket
    inst_simple /etc/modprobe.d/node0.conf

    inst_multiple NetworkManager ip curl \
        /usr/lib/NetworkManager/nm-initrd-generator /usr/lib/NetworkManager/nm-daemon-helper
    inst_simple "$moddir/nm-initrd.conf" /etc/NetworkManager/NetworkManager.conf
    inst_simple /etc/ssl/certs/ca-certificates.crt
    inst_libdir_file 'libnss_dns.so.*' 'libnss_files.so.*'
    echo 'hosts: files dns' > "$initdir/etc/nsswitch.conf"

    inst_multiple bash blkid cat chmod cp dmesg grep journalctl ln losetup ls mkdir modprobe mount mv readlink rm sed sha256sum sleep \
        switch_root sync systemctl tail tee udevadm umount
    inst_multiple -o fsck fsck.ext4 e2fsck
    inst_rules 60-block.rules 60-cdrom_id.rules 60-persistent-storage.rules 75-net-description.rules 80-net-setup-link.rules
    inst_multiple -o /usr/lib/systemd/network/98-default-mac-none.link /usr/lib/systemd/network/99-default.link

    # systemd takes a root with this file for an initramfs.
    printf 'NAME=node0\nID=node0\nPRETTY_NAME="node0 machine OS (initramfs)"\n' > "$initdir/usr/lib/initrd-release"
    ln -sf ../usr/lib/initrd-release "$initdir/etc/initrd-release"
    ln -sf initrd-release "$initdir/usr/lib/os-release"
    ln -sf ../usr/lib/os-release "$initdir/etc/os-release"
    [[ -e $initdir/bin/sh ]] || ln -s bash "$initdir/bin/sh"
    grep -q '^root:' "$initdir/etc/passwd" || echo 'root::0:0::/root:/bin/sh' >> "$initdir/etc/passwd"
    ln -sf /proc/self/mounts "$initdir/etc/mtab"
    mkdir -p "$initdir"/{dev,proc,root,run,sys,sysroot,tmp,var/lib/NetworkManager,etc/NetworkManager/system-connections}
    rm -f "$initdir/etc/machine-id"
    : > "$initdir/etc/machine-id"
}
