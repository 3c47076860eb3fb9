#!/bin/bash
# dracut module: a root on an iSCSI disk that the firmware booted from, which its table (iBFT) tells of.

check() { return 255; } # only when asked for by name

depends() { echo node0; }

installkernel() {
    hostonly='' instmods -c iscsi_tcp iscsi_ibft crc32c_generic dm-multipath dm-service-time dm-round-robin
}

install() {
    local name units=$systemdsystemunitdir

    for name in node0-iscsi node0-multipath; do
        inst_simple "$moddir/$name" "/usr/libexec/node0/$name"
        inst_simple "$moddir/$name.service" "$units/$name.service"
    done
    mkdir -p "$initdir/$units"/initrd-root-device.target.wants "$initdir/$units/initrd.target.wants"
    ln -sf ../node0-iscsi.service "$initdir/$units/initrd-root-device.target.wants/node0-iscsi.service"
    ln -sf ../node0-multipath.service "$initdir/$units/initrd.target.wants/node0-multipath.service"
    inst_multiple iscsistart ip multipath kpartx tr /usr/lib/udev/kpartx_id /usr/lib/udev/scsi_id
    inst_multiple -o /usr/lib/multipath/*.so
    inst_rules 56-dm-mpath.rules 56-dm-parts.rules 60-persistent-storage-dm.rules
}
