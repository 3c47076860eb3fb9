"""The installer's iPXE script is one that container machines of the lab boot."""

from installer.image.artifacts import ipxe_script
from lab.machines.container.firmware.entry import Entry
from lab.machines.container.firmware.net import listed


def test_the_lab_starts_what_the_installers_script_names() -> None:
    url = "http://10.0.0.1/boot"
    script = ipxe_script(url, "agent.x86_64", "rw ignition.firstboot console=ttyS0,115200n8")
    root = f"coreos.live.rootfs_url={url}/agent.x86_64-rootfs.img"
    assert listed(f"{url}/agent.x86_64.ipxe", script) == Entry(
        f"{url}/agent.x86_64-vmlinuz",
        ("initrd=initrd", root, "rw", "ignition.firstboot", "console=ttyS0,115200n8"),
        (f"{url}/agent.x86_64-initrd.img",),
    )
