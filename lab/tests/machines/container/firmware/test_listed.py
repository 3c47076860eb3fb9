"""The kernel, initrds and arguments that disks, media and scripts list, as their makers write it."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.machines.container.firmware import disk, grub, live, net
from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry
from lab.release.os import coreos_installer
from lab.release.os.customise import DATA
from lab.release.os.media import liveboot
from lab.tests.machines.container.firmware.medium_kit import bootable

#: Kernel arguments as they may stand in a karg area: no blanks but within quotes.
WORDS = st.lists(
    st.from_regex(r'[a-z][a-z0-9._-]{0,12}(=([A-Za-z0-9:/,._=-]{1,20}|"[a-z /]*"))?', fullmatch=True), max_size=12
)


@settings(max_examples=20, deadline=None)
@given(WORDS)
def test_what_stands_in_the_areas_is_what_the_kernel_gets(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    files = liveboot.boot_files(" ".join(words))
    content = {file.path.lstrip("/"): file.content for file in files}
    content["coreos/kargs.json"] = liveboot.kargs_json(" ".join(words), files).encode()
    content |= dict.fromkeys((path.lstrip("/") for path in (live.KERNEL, *live.INITRDS)), b"x")
    image = bootable(tmp_path_factory.mktemp("iso"), content, bios=True, uefi=True).read_bytes()
    medium = live.Medium(io.BytesIO(image))
    for firmware in ("bios", "uefi"):
        assert live.entry(medium, firmware) == Entry(live.KERNEL, (f"BOOT_IMAGE={live.KERNEL}", *words), live.INITRDS)
    assert (live.KERNEL, live.INITRDS) == (liveboot.KERNEL_PATH, (liveboot.INITRD_PATH, liveboot.IGNITION_PATH))


CONFIG = (DATA / "boot/grub.cfg").read_text().replace("@@KARGS@@", "console=ttyS0 quiet")


def boot(files: dict[str, str]) -> Entry:
    """Return what a boot partition with these files starts; its environment block may be another one afterwards."""

    def save(path: str, block: bytes) -> None:
        files[path] = block.decode()

    return disk.listed(lambda path: files.get(path), save)


def started(config: str, *, installed: str | None = None, stamp: str | None = None) -> Entry:
    """Return what a boot partition starts that nothing has been written to since the installation."""
    files = {disk.CONFIG: config, "/grub/installed.cfg": installed, "/ignition.firstboot": stamp}
    return boot({path: text for path, text in files.items() if text is not None})


def test_a_deployment_has_three_boots_and_then_the_one_before_is_booted() -> None:
    files = {disk.CONFIG: CONFIG}
    values = {"kernel": "/ostree/b", "ostree": "/d/b", "rollback_kernel": "", "rollback_ostree": ""}
    files["/grub/grubenv"] = grub.block({**values, "boot_counter": "3", "boot_success": "0"}).decode()
    seen = []
    for _ in range(5):
        entry = boot(files)
        assert len(files["/grub/grubenv"]) == grub.BLOCK_BYTES
        assert entry.initrds == (entry.kernel.replace("vmlinuz", "initrd.img"),)
        seen.append((entry.kernel, "ostree=/d/b" in entry.arguments))
    assert seen == [("/ostree/b/vmlinuz", True)] * 3 + [("/vmlinuz", False)] * 2
    assert grub.read_block(files["/grub/grubenv"])["boot_counter"] == "-1"
    files["/grub/grubenv"] = grub.block({**values, "boot_success": "1"}).decode()
    before = files["/grub/grubenv"]
    assert boot(files).kernel == "/ostree/b/vmlinuz"
    assert files["/grub/grubenv"] == before, "a deployment that has proven itself is not counted"


def test_branches_words_and_quotes_are_those_of_grub() -> None:
    script = grub.Script({"/a": "set c=9"}.get, lambda path, block: None)
    script.run(
        'set a="1 2"; set b="" # a comment\nif [ -n "${b}" ]; then set d=1; if [ "1" = "1" ]; then set e=1; fi\n'
        'elif [ -f /a ]; then source /a\nelif [ -f /a ]; then set f=1; else set g=1; fi\nlinux /k x=${a} "${a}" ${b}'
    )
    assert script.values == {"a": "1 2", "b": "", "c": "9"}
    assert script.linux == ["/k", "x=1", "2", "1 2"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("", "it starts no kernel"),
        ("menuentry x {\n  linux /vmlinuz a\n}", "menuentry"),
        ("linux /vmlinuz a\nboot", "it starts no kernel"),
        ("source grub/grub.cfg", "source grub/grub.cfg"),
        ("fi", "fi"),
    ],
)
def test_a_disk_of_somebody_else_is_for_virtual_machines(config: str, why: str) -> None:
    with pytest.raises(BootStopped, match=rf"grub/grub\.cfg is not the machine OS's: {why}.* use virtual machines"):
        boot({disk.CONFIG: config})


def test_the_disk_as_the_image_comes() -> None:
    arguments = ("BOOT_IMAGE=/vmlinuz", "root=LABEL=root", "rw", "boot=LABEL=boot", "console=ttyS0", "quiet")
    assert started(CONFIG) == Entry("/vmlinuz", arguments, ("/initrd.img",))
    assert started(CONFIG, stamp="").arguments == (*arguments, "ignition.firstboot")


def test_the_disk_as_coreos_installer_leaves_it() -> None:
    values = coreos_installer.installed_cfg(
        "1-2", "3-4", append=["a b=c"], delete=["quiet"], default="console=ttyS0 quiet"
    )
    stamp = coreos_installer.firstboot_stamp("ip=dhcp rd.neednet=1")
    kargs = ("BOOT_IMAGE=/vmlinuz", "root=PARTUUID=1-2", "rw", "boot=PARTUUID=3-4", "console=ttyS0", "a", "b=c")
    assert started(CONFIG, installed=values, stamp=stamp).arguments == (
        *kargs,
        "ignition.firstboot",
        "ip=dhcp",
        "rd.neednet=1",
    )
    assert started(CONFIG, installed=values).arguments == kargs


URL = "http://10.0.0.1/boot/agent.ipxe"


def test_a_script_of_what_to_boot() -> None:
    """Addresses may be relative to the script's, and an initrd may have no name."""
    lines = (
        "#!ipxe",
        "# a",
        "",
        "initrd --name i initrd.img",
        "initrd http://b/c",
        "kernel /vmlinuz initrd=i a=b",
        "boot",
    )
    initrds = ("http://10.0.0.1/boot/initrd.img", "http://b/c")
    assert net.listed(URL, "\n".join(lines)) == Entry("http://10.0.0.1/vmlinuz", ("initrd=i", "a=b"), initrds)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        *((line, line.split()[0]) for line in ("dhcp", "chain http://b/c", "kernel", "goto x", "set a b", "boot x")),
        ("kernel --name k a", "kernel"),
        ("kernel a b || shell", "||"),
        ("initrd a && boot", "&&"),
        ("kernel a mac=${net0/mac}", "mac=${net0/mac}"),
    ],
)
def test_a_script_that_does_more_is_for_virtual_machines(line: str, word: str) -> None:
    with pytest.raises(BootStopped, match=f": {re.escape(word)}: .* use virtual machines"):
        net.listed(URL, f"#!ipxe\nkernel a\n{line}\nboot\n")


@pytest.mark.parametrize(
    "script", ["", "kernel a\nboot\n", "#!ipxe\n", "#!ipxe\nboot\nkernel a\n", "#!ipxe\nkernel http://[::1/a\nboot\n"]
)
def test_a_script_that_boots_nothing_is_passed_over(script: str) -> None:
    with pytest.raises(NoEntry):
        net.listed(URL, script)
