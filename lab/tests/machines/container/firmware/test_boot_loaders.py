"""Boot loaders' files, from the image's own and from those of others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.loaders import grub, isolinux
from lab.machines.container.firmware.loaders.entry import Entry
from lab.release.os import coreos_installer
from lab.release.os.customise import DATA
from lab.release.os.media import liveboot

KERNEL = "/images/pxeboot/vmlinuz"
INITRDS = ("/images/pxeboot/initrd.img", "/images/ignition.img")


def grub_boot(text: str, lines: list[str] | None = None, **files: str) -> Entry:
    have = {"/grub.cfg": text, "/vmlinuz": "kernel", KERNEL: "kernel"}
    have |= {f"/{name.replace('__', '/').replace('_', '.')}": content for name, content in files.items()}
    return grub.Grub(lambda path: have[path].encode() if path in have else None, (lines or []).append).boot("/grub.cfg")


def linux(text: str) -> tuple[str, ...]:
    return grub_boot(f"{text}\nlinux /vmlinuz $x ${{y}}\nboot").arguments[1:]


#: Kernel arguments as they may stand in a karg area: no blanks within, nothing that quotes.
WORDS = st.lists(st.from_regex(r"[a-z][a-z0-9._-]{0,12}(=[A-Za-z0-9:/,._=-]{0,20})?", fullmatch=True), max_size=12)


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_what_stands_in_the_areas_is_what_the_kernel_gets(words: list[str]) -> None:
    efi, bios = liveboot.boot_files(" ".join(words))
    assert grub_boot(efi.content.decode()) == Entry(KERNEL, (f"BOOT_IMAGE={KERNEL}", *words), INITRDS)
    initrd = f"initrd={','.join(INITRDS)}"
    last = next((word[7:] for word in reversed(words) if word.startswith("initrd=")), ",".join(INITRDS))
    assert isolinux.parse(bios.content.decode()) == Entry(
        KERNEL, (f"BOOT_IMAGE={KERNEL}", initrd, *words), tuple(part for part in last.split(",") if part)
    )


def test_quotes_stay_with_isolinux_and_go_with_grub() -> None:
    """Which the image's scripts know."""
    efi, bios = liveboot.boot_files('coreos.live.rootfs_url="http://a/b" quiet')
    assert grub_boot(efi.content.decode()).arguments[1] == "coreos.live.rootfs_url=http://a/b"
    assert isolinux.parse(bios.content.decode()).arguments[2] == 'coreos.live.rootfs_url="http://a/b"'


def installed(**files: str) -> Entry:
    text = (DATA / "boot/grub.cfg").read_text().replace("@@KARGS@@", "console=ttyS0 quiet")
    return grub_boot(text, **files)


def test_the_disk_as_the_image_comes() -> None:
    assert installed().arguments[1:] == ("root=LABEL=root", "rw", "boot=LABEL=boot", "console=ttyS0", "quiet")
    assert installed().initrds == ("/initrd.img",)


def test_the_disk_as_coreos_installer_leaves_it() -> None:
    configured = coreos_installer.installed_cfg(
        "1-2", "3-4", append=["a b=c"], delete=["quiet"], default="console=ttyS0 quiet"
    )
    stamp = coreos_installer.firstboot_stamp("ip=dhcp rd.neednet=1")
    entry = installed(grub__installed_cfg=configured, ignition_firstboot=stamp)
    kargs = ("root=PARTUUID=1-2", "rw", "boot=PARTUUID=3-4", "console=ttyS0", "a", "b=c")
    assert entry.arguments[1:] == (*kargs, "ignition.firstboot", "ip=dhcp", "rd.neednet=1")
    assert installed(grub__installed_cfg=configured).arguments[1:] == kargs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('set x="a b"', ("a", "b")),
        ("set x='a b' # and no more", ("a", "b")),
        ('set y=1\nset x="[$y]"', ("[1]", "1")),
        ("set y=1\nset x='[$y]'", ("[$y]", "1")),
        (r'set x="\"\\[\a"', (r"\"\\[\\a",)),
        ('set x="a\\\nb"', ("ab",)),
        (r"set x=a\ b", ("a", "b")),
        ("set x=a; set y=b", ("a", "b")),
        ("x=a", ("a",)),
        ("set x=a\nunset x", ()),
        ("if [ -f /vmlinuz ]; then set x=yes; else set x=no; fi", ("yes",)),
        ("if [ ! -e /vmlinuz ]; then\nset x=yes\nelse\nset x=no\nfi", ("no",)),
        ("if false; then set x=1; elif [ a = a ]; then set x=2; else set x=3; fi", ("2",)),
        ("if [ a = a ]; then if [ a != a ]; then set x=1; else set x=2; fi; set y=3; fi", ("2", "3")),
        ('if [ -n "$no" ]; then set x=1; fi', ()),
        ("if test -z $no; then set x=1; fi", ("1",)),
        ("function f { set x=1; }\nset y=2", ("2",)),
    ],
)
def test_words_variables_and_conditions(text: str, expected: tuple[str, ...]) -> None:
    assert linux(text) == expected


def test_an_argument_with_blanks_reaches_the_kernel_in_quotes() -> None:
    assert grub_boot('linux /vmlinuz "a=b c" d').arguments[1:] == ('"a=b c"', "d")


MENU = """
set default={default}
menuentry 'First' --class os --id one {{
  linux /vmlinuz first
}}
menuentry "Second" --id two {{ linux /vmlinuz second; initrd /a /b }}
"""


@pytest.mark.parametrize(
    ("default", "chosen"), [("0", "first"), ("1", "second"), ("Second", "second"), ("two", "second"), ("9", "first")]
)
def test_the_menus_default(default: str, chosen: str) -> None:
    assert grub_boot(MENU.format(default=default)).arguments[1:] == (chosen,)


def test_what_grub_would_stop_at() -> None:
    lines: list[str] = []
    for text in ("", "set x=1", "menuentry 'x' { true }", "linux /absent a", "menuentry 'open' {"):
        with pytest.raises(BootStopped, match="need to load the kernel first"):
            grub_boot(text, lines)
    with pytest.raises(BootStopped, match=r"/grub\.cfg' not found"):
        grub.Grub(lambda path: None).boot("/grub.cfg")


def test_what_grub_says_and_goes_on() -> None:
    console_lines = ["here"]
    assert grub_boot("nonsense a b\nlinux /vmlinuz a\necho 'Loading' ...", console_lines).arguments[1:] == ("a",)
    assert console_lines[1:] == ["error: can't find command `nonsense'.", "Loading ..."]


def test_a_file_that_sources_itself_ends() -> None:
    assert grub_boot("linux /vmlinuz a\nsource /grub.cfg").arguments[1:] == ("a",)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab $\"'{};#\\\n=[]iftheneles", max_size=60))
def test_no_configuration_raises_anything_else(text: str) -> None:
    with pytest.raises(BootStopped):
        grub_boot(text)


ISOLINUX = """
# comment
DEFAULT vesamenu.c32
timeout 600
append common
label one
  menu label ^One
  kernel /k1
label two
  MENU DEFAULT
  linux /k2
  initrd /i1,/i2
  append a   b
"""


def test_isolinux_labels() -> None:
    assert isolinux.parse(ISOLINUX) == Entry("/k2", ("BOOT_IMAGE=/k2", "initrd=/i1,/i2", "a", "b"), ("/i1", "/i2"))
    plain = ISOLINUX.replace("MENU DEFAULT", "")
    assert isolinux.parse(plain) == Entry("/k1", ("BOOT_IMAGE=/k1", "common"), ())
    assert isolinux.parse(plain.replace("vesamenu.c32", "two")).kernel == "/k2"


@pytest.mark.parametrize("text", ["", "default x", "label a\n append b", "default b\nlabel a\nkernel /k"])
def test_isolinux_without_a_kernel(text: str) -> None:
    with pytest.raises(BootStopped):
        isolinux.parse(text)
    with pytest.raises(BootStopped, match="No configuration file found"):
        isolinux.boot(lambda path: None, "isolinux/isolinux.cfg")
