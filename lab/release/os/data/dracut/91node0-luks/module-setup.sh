#!/bin/bash
# dracut module: a root that Ignition makes anew on a LUKS volume, which a TPM 2 or Tang opens.
# As in the module node0, systemd alone orders the boot; of clevis' own dracut modules, which want hooks, nothing is here.

check() { return 255; } # only when asked for by name

depends() { echo node0; }

installkernel() {
    hostonly='' instmods -c dm-mod dm-crypt xfs \
        essiv cbc xts aes_generic sha256_generic sha512_generic af_alg algif_skcipher algif_hash
}

install() {
    local name units=$systemdsystemunitdir

    for name in node0-root-keep node0-root-renew node0-root-open; do
        inst_simple "$moddir/$name" "/usr/libexec/node0/$name"
        inst_simple "$moddir/$name.service" "$units/$name.service"
    done
    mkdir -p "$initdir/$units"/{ignition-diskful.target.requires,initrd-root-device.target.wants}
    for name in node0-root-keep node0-root-renew; do
        ln -sf "../$name.service" "$initdir/$units/ignition-diskful.target.requires/$name.service"
    done
    ln -sf ../node0-root-open.service "$initdir/$units/initrd-root-device.target.wants/node0-root-open.service"

    # A TPM takes its time under emulation: systemd is to wait for the root as long as the real root's does for its own.
    inst_simple /etc/systemd/system.conf.d/10-node0.conf

    # Ignition's module brings what binds a volume to a TPM or Tang; this is what opens it.
    inst_multiple cryptsetup dmsetup jq jose clevis clevis-decrypt clevis-decrypt-sss clevis-decrypt-tang clevis-decrypt-tpm2 \
        tpm2 tpm2_createprimary tpm2_createpolicy tpm2_create tpm2_flushcontext tpm2_load tpm2_pcrread tpm2_unseal \
        awk cut dd findmnt head mktemp od sort tr uname wc
    inst_libdir_file 'libtss2-tcti-device.so*' 'libcryptsetup-token-*.so'
    inst_rules 55-dm.rules 60-persistent-storage-dm.rules 95-dm-notify.rules
    # What udev knows of mapped devices has to outlive the initramfs: they are not told of anew, and have no links without.
    inst_rules "$moddir/../90dm/11-dm.rules"
}
