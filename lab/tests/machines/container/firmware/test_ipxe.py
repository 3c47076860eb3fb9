"""iPXE's scripts, the installer's and others'."""

from __future__ import annotations

import pytest

from lab.machines.container.firmware.errors import NoEntry
from lab.machines.container.firmware.loaders.ipxe import Ipxe, NetEntry

HERE = "http://10.0.0.1/boot/first.ipxe"


def booted(text: str, lines: list[str] | None = None, **more: str) -> NetEntry:
    scripts = {HERE: text} | {f"http://10.0.0.1/boot/{name}.ipxe": other for name, other in more.items()}

    def fetch(url: str) -> str:
        if url not in scripts:
            raise NoEntry(f"{url}: 404 Not Found")
        return scripts[url]

    variables = {"mac": "52:54:00:00:00:01", "platform": "efi"}
    return Ipxe(fetch, (lines if lines is not None else []).append, variables).boot(HERE)


def test_a_script_like_the_installers_starts_what_it_names() -> None:
    """ci/tests/halves has the installer's own."""
    url = "http://10.0.0.1/boot"
    root = f"coreos.live.rootfs_url={url}/agent.x86_64-rootfs.img"
    entry = booted(
        f"#!ipxe\ninitrd --name initrd {url}/agent.x86_64-initrd.img\n"
        f"kernel {url}/agent.x86_64-vmlinuz initrd=initrd {root} rw ignition.firstboot console=ttyS0,115200n8\nboot\n"
    )
    assert entry.kernel == f"{url}/agent.x86_64-vmlinuz"
    assert entry.initrds == (f"{url}/agent.x86_64-initrd.img",)
    assert entry.arguments == (
        "initrd=initrd", f"coreos.live.rootfs_url={url}/agent.x86_64-rootfs.img", "rw", "ignition.firstboot",
        "console=ttyS0,115200n8",
    )  # fmt: skip


def test_a_script_of_the_field_with_variables_labels_and_a_second_script() -> None:
    lines: list[str] = []
    text = """#!ipxe
# a comment
set base http://10.0.0.2/${platform}
iseq ${platform} pcbios && goto bios ||
isset ${absent} || set word quiet
chain --autofree rest.ipxe || goto rest
:bios
echo never said
exit
:rest
kernel ${base}/vmlinuz ${word} a=${mac}
initrd --name main ../initrd.img
imgfetch -n more ${base}/more.img
echo starting ${net0/none}now
boot || echo failed
"""
    entry = booted(text, lines, rest="#!ipxe\nno-such-command\n")
    assert entry == NetEntry(
        "http://10.0.0.2/efi/vmlinuz",
        ("quiet", "a=52:54:00:00:00:01"),
        ("http://10.0.0.1/initrd.img", "http://10.0.0.2/efi/more.img"),
    )
    assert lines == [
        "no-such-command: command not found",
        "http://10.0.0.1/boot/rest.ipxe: no-such-command: failed",
        "starting now",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kernel vmlinuz\nboot\n", "no iPXE script"),
        ("#!ipxe\nkernel vmlinuz\n", "boots nothing"),
        ("#!ipxe\nboot\n", "boot: failed"),
        ("#!ipxe\nshell\nkernel vmlinuz\nboot\n", "shell: failed"),
        ("#!ipxe\nexit\nkernel vmlinuz\nboot\n", "ended with exit"),
        ("#!ipxe\ngoto nowhere\n", "no label nowhere"),
        ("#!ipxe\n:again\ngoto again\n", "has no end"),
        ("#!ipxe\nchain first.ipxe\n", "chain each other without end"),
        ("#!ipxe\nchain absent.ipxe\n", "404 Not Found"),
        ("", "no iPXE script"),
    ],
)
def test_a_script_that_starts_nothing_says_why(text: str, why: str) -> None:
    with pytest.raises(NoEntry, match=why):
        booted(text)
