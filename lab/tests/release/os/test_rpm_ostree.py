"""Deployments on a folder in the place of a node's disk: laid out, merged, booted as grub.cfg says, judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.machines.container.firmware import disk, grub
from lab.release.os import rpm_ostree
from lab.release.os.customise import DATA
from lab.release.os.rpm_ostree import DeployError, Deployment, System

CONFIG = (DATA / "boot/grub.cfg").read_text()
NAMES = ("a", "b", "d/c")
TREES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["1", "2", "3"]))


def write(root: Path, files: dict[str, str]) -> Path:
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@settings(max_examples=40, deadline=None)
@given(TREES, TREES, TREES)
def test_what_the_node_changed_stays_and_all_else_is_the_new_default(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], now: dict[str, str], after: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("etc")
    for name, files in (("0", before), ("1", now), ("2", after)):
        write(root / name, files)
    rpm_ostree.merge(root / "0", root / "1", root / "2", root / "3")
    for name in NAMES:
        wanted = after.get(name) if before.get(name) == now.get(name) else now.get(name)
        found = root / "3" / name
        assert (found.read_text() if found.exists() else None) == wanted, name


def test_types_modes_and_links_are_changes_too(tmp_path: Path) -> None:
    before, after = (write(tmp_path / name, {"a": "1", "b": "1", "c/x": "1"}) for name in ("0", "2"))
    now = write(tmp_path / "1", {"a": "1", "c": "is a file"})
    (now / "a").chmod(0o600)
    (now / "b").symlink_to("a")
    rpm_ostree.merge(before, now, after, tmp_path / "3")
    assert (tmp_path / "3/a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "3/b").readlink() == Path("a")
    assert (tmp_path / "3/c").read_text() == "is a file"


class Disk(System):
    """A disk whose boot partition is a folder, and whose grub.cfg the container machines' firmware reads."""

    def power_on(self) -> None:
        """Boot what grub.cfg chooses."""

        def read(path: str) -> str | None:
            place = self.root / "boot" / path.lstrip("/")
            return CONFIG if path == disk.CONFIG else place.read_text() if place.exists() else None

        def save(path: str, block: bytes) -> None:
            (self.root / "boot" / path.lstrip("/")).write_bytes(block)

        entry = disk.listed(read, save)
        self.arguments = entry.arguments
        assert (self.root / "boot" / entry.initrds[0].lstrip("/")).exists()

    @contextlib.contextmanager
    def boot(self) -> Iterator[Path]:
        yield self.root / "boot"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Make a node as installed, and a registry whose images are one and the same folder."""
    root = tmp_path / "root"
    write(root / "boot", {"initrd.img": "0", "vmlinuz": "0", "grub/x": ""})
    write(root / "usr", {"lib/os-release": 'OSTREE_VERSION="1"\n', "etc/a": "1"})
    write(root / "etc", {"a": "1", "own": "mine"})
    image = {"lib/os-release": "OSTREE_VERSION=2\n", "etc/a": "2"}
    image |= dict.fromkeys(("lib/modules/6/vmlinuz", "lib/modules/6/initramfs.img"), "2")
    write(tmp_path / "image/usr", image)
    real = rpm_ostree.run

    def run(*command: str) -> str:
        if command[0] != "podman":
            return real(*command)
        return str(tmp_path / "image") if command[1:3] == ("image", "mount") else ""

    monkeypatch.setattr(rpm_ostree, "run", run)
    return Disk(root, ("boot=x",))


def booted(node: Disk) -> tuple[object, ...]:
    [row] = [row for row in rpm_ostree.status(node) if row["booted"]]
    return row["version"], row["container-image-reference"]


def check(node: Disk, code: int) -> None:
    """Let the node's health check end with a code."""
    place = node.root / rpm_ostree.CHECKS[1]
    place.mkdir(parents=True, exist_ok=True)
    (place / "10-own.sh").write_text(f"echo it is {code}\nexit {code}\n")


def test_a_deployment_proves_itself_and_stays(node: Disk) -> None:
    assert rpm_ostree.rebase(node, "ostree-unverified-registry:r/n@sha256:1") == "2"
    node.power_on()
    assert booted(node) == ("1", ""), "staged alone, it is not booted"
    rpm_ostree.finalize(node)
    node.power_on()
    assert booted(node) == ("2", "ostree-unverified-registry:r/n@sha256:1")
    [new] = [d for d in node.load() if d.id]
    assert (node.root / new.folder.lstrip("/") / "etc/a").read_text() == "2"
    assert (node.root / new.folder.lstrip("/") / "etc/own").read_text() == "mine"
    check(node, 0)
    assert not rpm_ostree.greenboot(node)
    for _ in range(5):
        node.power_on()
    assert booted(node)[0] == "2"


def test_a_deployment_that_does_not_prove_itself_is_left_after_three_boots(node: Disk) -> None:
    rpm_ostree.rebase(node, "r/n@sha256:1")
    rpm_ostree.finalize(node)
    check(node, 3)
    for _ in range(3):
        node.power_on()
        assert booted(node)[0] == "2"
        assert rpm_ostree.greenboot(node), "once more"
    node.power_on()
    assert booted(node) == ("1", "")
    assert not rpm_ostree.greenboot(node), "the one before is not judged"
    assert [row["failed"] for row in rpm_ostree.status(node)] == ["", "3 boots in vain: 10-own.sh: it is 3"]
    node.power_on()
    assert booted(node) == ("1", "")
    rpm_ostree.rebase(node, "r/n@sha256:1")
    rpm_ostree.finalize(node)
    check(node, 0)
    node.power_on()
    assert (booted(node)[0], rpm_ostree.greenboot(node)) == ("2", False), "tried anew"
    assert len(list((node.root / rpm_ostree.DEPLOYMENTS).iterdir())) == 1, "what failed is gone"


def test_two_deployments_and_the_installed_one_are_kept(node: Disk) -> None:
    check(node, 0)
    for number in range(4):
        rpm_ostree.rebase(node, f"r/n@sha256:{number}")
        rpm_ostree.finalize(node)
        node.power_on()
        rpm_ostree.greenboot(node)
    assert booted(node)[1] == "ostree-unverified-registry:r/n@sha256:3"
    assert len(list((node.root / rpm_ostree.DEPLOYMENTS).iterdir())) == 2


def test_an_image_that_is_no_machine_os_changes_nothing(node: Disk, tmp_path: Path) -> None:
    (tmp_path / "image/usr/lib/modules/6/vmlinuz").unlink()
    with pytest.raises(DeployError, match="has 0 kernels"):
        rpm_ostree.rebase(node, "r/n@sha256:1")
    assert list((node.root / rpm_ostree.DEPLOYMENTS).iterdir()) == []
    assert node.load() == [Deployment(version="1")]
    with pytest.raises(DeployError, match="no staged deployment"):
        rpm_ostree.finalize(node)


def test_the_block_is_grub_s(tmp_path: Path) -> None:
    (tmp_path / "grub").mkdir()
    rpm_ostree.write_environment(tmp_path, {"a": "1", "b": ""})
    assert (tmp_path / "grub/grubenv").read_bytes() == grub.block({"a": "1", "b": ""})
    with pytest.raises(DeployError, match="1024 bytes"):
        rpm_ostree.write_environment(tmp_path, {"a": "1" * 1024})
    assert rpm_ostree.read_environment(tmp_path) == {"a": "1", "b": ""}
