"""agent-tui and libnmstate of a payload, in the initrd: real registry, ISOs made and read by xorriso."""

import functools
import gzip
import json
import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from installer.cli import main
from installer.common.cpio import pieces
from installer.common.iso9660 import Iso
from installer.image.iso.embed import embedded_ignition, ignition_area
from installer.image.iso.grow import add_to_initrd, embed_ignition
from installer.image.iso.overlay import Overlay
from installer.image.iso.records import records
from installer.release.agent_files import ARCHIVE, FOLDER, HOOK
from installer.testing.create import iso_kit
from installer.testing.create.image_kit import NEEDED, components, content, inputs
from installer.testing.create.iso_kit import BIG, LAYOUTS, SMALL, build, needs_xorriso, place
from installer.testing.create.registry_kit import Layer, Link, registry

needs_registry = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
bases = iso_kit.bases
needs_cpio = pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
INITRD = "images/pxeboot/initrd.img"
TUI, LIBRARY = b"\x7fELF agent-tui" * 900, b"\x7fELF nmstate" * 700
EXTRA = gzip.compress(b"".join(pieces([("agent-files/a", 0o100555, b"x" * 70_001)])), mtime=0)


def initrd_of(iso: Path) -> bytes:
    """Return the initrd, as xorriso reads it."""
    out = iso.parent / "extracted"
    for path in (INITRD, INITRD.upper()):  # how it is named depends on the layout
        out.unlink(missing_ok=True)
        command = ["xorriso", "-osirrox", "on", "-indev", str(iso), "-extract", f"/{path}", str(out)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return out.read_bytes()
    raise AssertionError(f"xorriso found no {INITRD}")


@functools.cache
def original_initrd(base: Path) -> bytes:
    return initrd_of(base)


@needs_xorriso
@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in-place"])
@pytest.mark.parametrize("big", [False, True], ids=["fits", "grows"])
@pytest.mark.parametrize("name", [name for name in LAYOUTS if not name.endswith("s390x")])
def test_added_shown_and_reset_to_the_original_bytes(bases, name, big, in_place, tmp_path, capfdbinary):
    base, out = bases(name), tmp_path / "out.iso"
    original = original_initrd(base)
    source = base
    if in_place:
        source = shutil.copyfile(base, out)
    with source.open("rb") as file:
        overlay = Overlay(file)
        assert add_to_initrd(overlay, base, EXTRA)
        embed_ignition(overlay, base, BIG if big else SMALL)
        assert overlay.in_place_possible or name == "own-length"
        if in_place and overlay.in_place_possible:
            overlay.save_in_place(out)
        else:
            overlay.save(out)
    padding = -len(original) % 4
    assert initrd_of(out) == original + bytes(padding) + EXTRA
    with out.open("rb") as file:
        iso = Iso(file, out)
        assert embedded_ignition(iso) == (BIG if big else SMALL)
        assert iso.size == out.stat().st_size
        # No record, of whichever volume, still leads to the file as it was.
        with base.open("rb") as old:
            before = place(Iso(old, base), INITRD)
        assert not [r for r in records(iso) if r.offset == before.offset]
    assert main(["iso", "show", "--json", str(out)]) == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert (shown["initrdAdded"], shown["grown"]) == (padding + len(EXTRA), big)
    assert main(["iso", "show", str(out)]) == 0
    assert f"{padding + len(EXTRA)} bytes added".encode() in capfdbinary.readouterr().out
    assert main(["iso", "reset", str(out)]) == 0
    assert out.read_bytes() == base.read_bytes()


@needs_xorriso
@pytest.mark.parametrize("length", [False, True])
def test_an_embed_area_inside_the_initrd_stays_what_it_is(tmp_path, monkeypatch, length):
    info = {"file": INITRD, "offset": 1000, **({"length": 2000} if length else {})}
    monkeypatch.setitem(LAYOUTS, "inside", (info, {}, False, True))
    base, out = build(tmp_path, "inside"), tmp_path / "out.iso"
    with base.open("rb") as file:
        overlay = Overlay(file)
        area = ignition_area(overlay.iso(base))
        assert add_to_initrd(overlay, base, EXTRA)
        moved = ignition_area(overlay.iso(out))
        assert (moved.length, overlay.iso(out).read(moved.offset, moved.length)) == (
            area.length,
            overlay.iso(base).read(area.offset, area.length),
        )
        overlay.save(out)
    assert main(["iso", "embed", "--ignition", str(_write(tmp_path, SMALL)), "--force", str(out)]) == 0
    with out.open("rb") as file:
        iso = Iso(file, out)
        assert embedded_ignition(iso) == SMALL
        assert iso.read(place(iso, INITRD).offset + 3000, len(EXTRA)) == EXTRA


def _write(folder: Path, config: bytes) -> Path:
    path = folder / "c.ign"
    path.write_bytes(config)
    return path


@needs_xorriso
def test_a_boot_image_with_its_own_initrd_is_left_alone(bases):
    base = bases("2023-07.s390x")
    with base.open("rb") as file:
        overlay = Overlay(file)
        assert add_to_initrd(overlay, base, EXTRA) is False
        overlay.seek(0)
        assert overlay.read() == base.read_bytes()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Provide a registry with three releases: with agent-tui, with an image that lacks it, and without that image."""
    folder = tmp_path_factory.mktemp("payload")
    iso = build(folder, "2023-07.x86_64")
    with registry(folder / "registry") as server:
        images = components(server, iso)
        below: Layer = {"usr/bin/agent-tui": b"old", "usr/lib64/libnmstate.so.1": b"gone", "usr/lib64/other.so.2": b"x"}
        above: Layer = {
            "usr/bin/agent-tui": TUI,
            "usr/lib64/.wh.libnmstate.so.1": b"",
            "usr/lib64/libnmstate.so.2": Link("libnmstate.so.2.2.9"),
            "usr/lib64/libnmstate.so.2.2.9": LIBRARY,
        }
        with_tui = {**images, "agent-installer-utils": server.push([below, above], "utils")}
        lacking = {**images, "agent-installer-utils": server.push([{"usr/bin/x": b"x"}], "lacking")}
        yield (
            server,
            iso,
            {
                "with": server.push_release(with_tui),
                "lacking": server.push_release(lacking, tag="lacking-release"),
                "without": server.push_release(images, tag="without"),
            },
        )


@pytest.fixture
def run(lab, tmp_path, monkeypatch):
    """Run `create TARGET` from a release; returns the asset directory."""
    server, _iso, releases = lab
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", raising=False)

    def create(target, release, install=None, agent=None):
        monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", releases[release])
        folder = tmp_path / "dir"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        inputs(folder, server, install, agent)
        assert main(["agent", "create", target, "--dir", str(folder)]) == 0
        return folder

    return create


def check_archive(packed: bytes, folder: Path) -> None:
    """Unpack the additions with cpio and compare them with the hosts' needs."""
    folder.mkdir()
    unpack = ["cpio", "-idm", "--quiet", "--no-absolute-filenames"]
    # The hook's folder is in every dracut initrd; were it in this archive, it would replace a link that may be there.
    hook, files = folder / HOOK.lstrip("/"), folder / FOLDER.lstrip("/")
    hook.parent.mkdir(parents=True)
    subprocess.run(unpack, input=gzip.decompress(packed), cwd=folder, check=True)
    assert sorted(os.listdir(files)) == ["agent-tui", "libnmstate.so.2", "libnmstate.so.2.2.9"]
    assert (files / "agent-tui").read_bytes() == TUI
    assert os.readlink(files / "libnmstate.so.2") == "libnmstate.so.2.2.9"
    assert (files / "libnmstate.so.2").read_bytes() == LIBRARY
    assert all(path.stat().st_mode & 0o777 == 0o555 for path in files.iterdir())
    assert hook.stat().st_mode & 0o111
    # The hook, as dracut runs it but for where it finds the files.
    script = hook.read_text().replace(f"{FOLDER}/", f"{files}/")
    root = folder / "newroot"
    subprocess.run(["sh", "-ec", script], env={**os.environ, "NEWROOT": str(root)}, check=True)
    assert (root / "usr/local/bin/libnmstate.so.2").read_bytes() == LIBRARY
    assert os.access(root / "usr/local/bin/agent-tui", os.X_OK)


@needs_registry
@needs_cpio
def test_create_image_adds_what_the_payload_has(lab, run, tmp_path, capsys):
    _server, base, _releases = lab
    original = original_initrd(base)
    folder = run("image", "with")
    assert "Extracting agent-tui from release payload" in capsys.readouterr().err
    iso = folder / "agent.x86_64.iso"
    initrd = initrd_of(iso)
    assert initrd.startswith(original)
    check_archive(initrd[(len(original) + 3) // 4 * 4 :], tmp_path / "unpacked")
    config, files = content(iso)
    units = {unit["name"]: unit for unit in config["systemd"]["units"]}
    for name in ("agent-interactive-console.service", "agent-interactive-console-serial@.service"):
        assert units[name]["enabled"]
        assert "ConditionPathExists=/usr/local/bin/agent-tui" in units[name]["contents"]
    assert "/etc/assisted/agent-installer.env" in files
    assert main(["iso", "reset", str(iso)]) == 0
    assert iso.read_bytes() == base.read_bytes()
    # Kept between runs, and the same again.
    capsys.readouterr()
    assert initrd_of(run("image", "with") / "agent.x86_64.iso") == initrd
    assert "Extracting agent-tui" not in capsys.readouterr().err
    assert len(list((tmp_path / "cache/agent/files_cache").glob(f"*/{ARCHIVE}"))) == 1


def archives(data: bytes) -> list[bytes]:
    """Compressed archives one behind the other, with zeros between them, unpacked."""
    unpacked = []
    while data := data.lstrip(b"\0"):
        item = zlib.decompressobj(wbits=31)
        unpacked.append(item.decompress(data))
        data = item.unused_data
    return unpacked


@needs_registry
def test_minimal_iso_and_pxe_files_carry_it_too(lab, run, capsys):
    original = original_initrd(lab[1])
    url = {"bootArtifactsBaseURL": "http://h.example/x"}
    folder = run("image", "with", agent={**url, "minimalISO": True})
    iso = folder / "agent.x86_64.iso"
    tui, networks = archives(initrd_of(iso).removeprefix(original))
    assert FOLDER.encode() in tui
    assert b"etc/assisted/network/host0/eth0.nmconnection" in networks
    with iso.open("rb") as file:
        assert Iso(file, iso).find("images/pxeboot/rootfs.img") is None
    folder = run("pxe-files", "with", agent=url)
    initrd = (folder / "boot-artifacts/agent.x86_64-initrd.img").read_bytes()
    assert initrd.startswith(original)
    again, config = archives(initrd.removeprefix(original))
    assert again == tui
    assert b"config.ign" in config
    # Nobody sits in front of Oracle's hosts.
    oci = {"platform": {"external": {"platformName": "oci", "cloudControllerManager": "External"}}}
    folder = run("image", "with", oci, url)
    assert archives(initrd_of(folder / "agent.x86_64.iso").removeprefix(original)) == [networks]


@needs_registry
@pytest.mark.parametrize("release", ["without", "lacking"])
def test_without_agent_tui_nothing_changes(lab, run, release, capsys):
    folder = run("image", release)
    assert ("has no /usr/bin/agent-tui" in capsys.readouterr().err) == (release == "lacking")
    iso = folder / "agent.x86_64.iso"
    assert initrd_of(iso) == original_initrd(lab[1])
    assert iso.stat().st_size == lab[1].stat().st_size
    assert not [unit["name"] for unit in content(iso)[0]["systemd"]["units"] if "console" in unit["name"]]
