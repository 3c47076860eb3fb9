"""The package list, and dpkg's filters: the last one that matches decides."""

from __future__ import annotations

import fnmatch

import pytest

from lab.release.os import packages


def kept(path: str) -> bool:
    """Return whether dpkg keeps a path."""
    verdict = True
    for rule in packages.dpkg_filters():
        kind, _, pattern = rule.partition("=")
        if fnmatch.fnmatchcase(path, pattern):
            verdict = kind == "path-include"
    return verdict


def test_names_are_sorted_and_unique():
    names = packages.package_names()
    assert list(names) == sorted(set(names))


@pytest.mark.parametrize(
    "name",
    [
        "linux-image-amd64",
        "ignition",
        "network-manager",
        "podman",
        "crun",
        "containerd",
        "runc",
        "conntrack",
        "chrony",
        "lvm2",
        "multipath-tools",
        "open-iscsi",
        "clevis-luks",
        "clevis-tpm2",
        "cryptsetup-bin",
    ],
)
def test_needed_by_the_installer_or_the_cluster(name):
    assert name in packages.package_names()


@pytest.mark.parametrize(
    "module",
    [
        "block/t10-pi.ko",  # of sd_mod and nvme
        "drivers/ata/ahci.ko",
        "drivers/firmware/iscsi_ibft.ko",
        "drivers/md/dm-multipath.ko",
        "drivers/scsi/iscsi_boot_sysfs.ko",  # of iscsi_ibft
        "drivers/scsi/iscsi_tcp.ko",
        "drivers/scsi/libiscsi_tcp.ko",
        "drivers/net/bonding/bonding.ko",
        "drivers/net/veth.ko",
        "drivers/net/vmxnet3/vmxnet3.ko",
        "drivers/net/virtio_net.ko",
        "drivers/net/vxlan/vxlan.ko",
        "fs/overlayfs/overlay.ko",
        "fs/squashfs/squashfs.ko",
        "fs/xfs/xfs.ko",  # what the service asks for on an encrypted root
        "net/bridge/br_netfilter.ko",
        "net/ipv4/netfilter/iptable_nat.ko",
        "net/netfilter/nf_conntrack.ko",
        "net/netfilter/nft_chain_nat.ko",
    ],
)
def test_modules_that_stay(module):
    assert kept(f"/lib/modules/6.1.0-1-amd64/kernel/{module}")


@pytest.mark.parametrize(
    "path",
    [
        "/lib/modules/6.1.0-1-amd64/kernel/drivers/gpu/drm/drm.ko",
        "/lib/modules/6.1.0-1-amd64/kernel/lib/test_bpf.ko",
        "/usr/share/doc/curl/changelog.gz",
    ],
)
def test_paths_that_go(path):
    assert not kept(path)


def test_licences_and_module_lists_stay():
    assert kept("/usr/share/doc/curl/copyright")
    assert kept("/lib/modules/6.1.0-1-amd64/modules.order")
