"""The installer's iPXE script is one that the lab's firmware boots."""

from installer.image.artifacts import ipxe_script
from lab.machines.container.firmware.loaders.ipxe import Ipxe, NetEntry


def test_the_lab_starts_what_the_installers_script_names() -> None:
    url = "http://10.0.0.1/boot"
    script = ipxe_script(url, "agent.x86_64", "rw ignition.firstboot console=ttyS0,115200n8")
    entry = Ipxe({f"{url}/agent.x86_64.ipxe": script}.__getitem__, print).boot(f"{url}/agent.x86_64.ipxe")
    root = f"coreos.live.rootfs_url={url}/agent.x86_64-rootfs.img"
    assert entry == NetEntry(
        f"{url}/agent.x86_64-vmlinuz",
        ("initrd=initrd", root, "rw", "ignition.firstboot", "console=ttyS0,115200n8"),
        (f"{url}/agent.x86_64-initrd.img",),
    )
