"""Kernel arguments of an image: appended, replaced, deleted, in the areas that the image has for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.errors import BadRequest
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.errors import ConfigError, EmbedTooBig
from installer.image.artifacts import LiveChanges, write_iso, write_pxe
from installer.image.iso.embed import operated
from installer.rendezvous.discovery.images import kernel_arguments
from installer.rendezvous.resources import infra_envs
from installer.rendezvous.resources.requests.hosts import InfraEnvParams
from installer.rendezvous.resources.requests.params import decoded
from installer.rendezvous.store.model import InfraEnv
from installer.testing.create.iso_kit import build

TEXT = 'coreos.liveiso=x ignition.firstboot console=tty0 console=ttyS0 quiet name="a b"'
names = st.sampled_from(["a", "b", "c"])
arguments = st.lists(st.tuples(names, st.sampled_from(["", "=1", "=2", '="x y"'])).map("".join), max_size=6)


def op(operation: str, value: str) -> dict[str, str]:
    return {"operation": operation, "value": value}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], TEXT),
        ([op("append", "a=1"), op("append", "a=2")], f"{TEXT} a=1 a=2"),
        ([op("replace", "console=hvc0")], 'coreos.liveiso=x ignition.firstboot console=hvc0 quiet name="a b"'),
        ([op("delete", "console=tty0")], 'coreos.liveiso=x ignition.firstboot console=ttyS0 quiet name="a b"'),
        ([op("delete", "console")], 'coreos.liveiso=x ignition.firstboot quiet name="a b"'),
        ([op("delete", "quiet"), op("append", "quiet")], TEXT.replace(" quiet", "") + " quiet"),
        ([op("append", "a=1"), op("replace", 'a="c d"'), op("delete", 'a="c d"')], TEXT),
        ([op("delete", 'name="a b"')], TEXT.removesuffix(' name="a b"')),
    ],
)
def test_operations_in_turn(operations: list[dict[str, str]], expected: str) -> None:
    assert operated(TEXT, operations) == expected


@pytest.mark.parametrize(
    ("operation", "value", "says"),
    [
        ("replace", "nosmt=force", "nosmt=force cannot be replaced: the image has coreos.liveiso=x"),
        ("delete", "console=ttyS1", "cannot be deleted"),
        ("delete", "quie", "cannot be deleted"),
        ("delete", "ignition.firstboot", "the image needs its own ignition.firstboot"),
        ("replace", "coreos.liveiso=y", "the image needs its own coreos.liveiso"),
    ],
)
def test_operations_that_cannot_be_applied(operation: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        operated(TEXT, [op(operation, value)])


@given(arguments, names, st.sampled_from(["=1", "=3"]))
def test_append_replace_and_delete_of_the_same_argument(before: list[str], name: str, value: str) -> None:
    text = " ".join(before)
    with_it = operated(text, [op("append", name + value)])
    replaced = operated(with_it, [op("replace", name + value)])
    kept = [word for word in before if word.partition("=")[0] != name]
    assert operated(replaced, [op("delete", name)]) == " ".join(kept)
    assert operated(replaced, [op("replace", name + value)]) == replaced
    assert operated(with_it, [op("delete", name)]) == operated(replaced, [op("delete", name)])


def kargs_of(path: Path) -> str:
    with path.open("rb") as file:
        iso = Iso(file, path)
        area = kargs_area(iso)
        assert area is not None
        return current_kargs(iso, area)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_iso(build(folder, "2023-07.x86_64"), folder / "quiet.iso", LiveChanges(b"{}", ("quiet",)))
    return folder / "quiet.iso"


def test_the_areas_of_full_and_minimal_images(base: Path, tmp_path: Path) -> None:
    assert kargs_of(base).endswith(" quiet")

    def edit(text: str) -> str:
        # What a network boot is given begins with the defaults of the image.
        return operated(f"{text} quiet", [op("delete", "quiet"), op("append", "added=1")])

    for name, url in (("full", ""), ("minimal", "https://192.0.2.1/rootfs.img")):
        write_iso(base, tmp_path / name, LiveChanges(b"{}", edit), rootfs_url=url)
        words = kargs_of(tmp_path / name).split()
        assert "quiet" not in words
        assert words[-1] == "added=1"
        assert any(word.startswith("coreos.live.rootfs_url=") for word in words) is bool(url)
    (tmp_path / "pxe").mkdir()
    text = write_pxe(base, tmp_path / "pxe", "x86_64", LiveChanges(b"{}", edit))
    assert "quiet" not in text.split()
    assert "added=1" in text.split()
    with pytest.raises(EmbedTooBig):
        write_iso(base, tmp_path / "big", LiveChanges(b"{}", lambda text: text + "x" * 4096))


def infra_env(*operations: dict[str, str]) -> InfraEnv:
    fields = {"id": "i", "name": "n", "created_at": "", "updated_at": "", "pull_secret": "{}"}
    return msgspec.convert({**fields, "kernel_arguments": operations}, InfraEnv)


def test_arguments_that_cannot_be_applied_are_a_bad_request() -> None:
    assert kernel_arguments(infra_env(op("delete", "quiet")), TEXT) == TEXT.replace(" quiet", "")
    with pytest.raises(BadRequest, match="kernel_arguments: kernel argument nosmt cannot be deleted"):
        kernel_arguments(infra_env(op("delete", "nosmt")), TEXT)


@pytest.mark.parametrize(
    "item",
    [
        {"operation": "add", "value": "a"}, {"operation": "append"}, op("append", "a b"), op("append", 'a="b'), "quiet",
        op("delete", ""), op("replace", ""),
    ],
)  # fmt: skip
def test_malformed_arguments_are_a_bad_request(item: Any) -> None:
    with pytest.raises(BadRequest, match="kernel_arguments"):
        infra_envs.stored_fields(decoded({"kernel_arguments": [item]}, InfraEnvParams))
    good = {"kernel_arguments": [op("append", 'a="b c"')]}
    assert infra_envs.stored_fields(decoded(good, InfraEnvParams))["kernel_arguments"]
