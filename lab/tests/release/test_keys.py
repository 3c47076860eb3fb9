"""Keys of stages: each thing that a stage is built with is in its key, and what does not count is not."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.release import images, kubernetes, payload
from lab.release.image import code, debian, layer, wheels
from lab.release.image.layer import Compression, LayerWriter
from lab.release.os import build as os_build
from lab.release.os import packages, rootfs
from lab.release.os.media import disk
from lab.release.stage import keys, progress
from lab.release.stage.keys import Built, File, Unkeyed, canonical, digest_of, stage_key
from lab.release.stage.store import Store

RELEASE = Path(keys.__file__).parents[1]


def builders() -> Iterator[tuple[str, Callable[..., None]]]:
    """Yield the builders that any module of the release hands to a stage, by module and name: the third argument of
    every `.stage(`."""
    # Each worker collects this, and of a hundred modules a few have stages.
    sources = {path: text for path in RELEASE.rglob("*.py") if ".stage(" in (text := path.read_text())}
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr="stage"), args=[_, _, builder]):
                    assert isinstance(builder, ast.Name), f"{path}: a builder that is no plain function"
                    name = str(path.relative_to(RELEASE).with_suffix("")).replace("/", ".")
                    module = importlib.import_module(f"lab.release.{name}")
                    yield f"{name}.{builder.id.lstrip('_')}", getattr(module, builder.id)


BUILDERS = dict(builders())


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case str():
            return value + "x"
        case Compression():
            return Compression.GZIP if value is Compression.ZSTD else Compression.ZSTD
        case Built():
            return Built(value.path.with_name("other"))
        case File():
            return File(value.path, "0" * 64)
        case Mapping():
            name = next(iter(value))
            return {**value, name: changed(value[name])}
        case tuple():
            return (changed(value[0]), *value[1:])
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            first = dataclasses.fields(value)[0].name
            return dataclasses.replace(value, **{first: changed(getattr(value, first))})
    raise AssertionError(f"how is a {type(value).__name__} changed?")


@pytest.fixture
def declared(tmp_path: Path) -> dict[str, tuple[Any, Callable[..., None]]]:
    """Provide the inputs of every stage, with its builder."""
    file = tmp_path / "file"
    file.write_text("x")
    tools = {"tool": "1"}
    base = Built(Path("base/0123"))
    group = debian.Packages(("a",), ("b",))
    writer = LayerWriter()
    writer.add_bytes("etc/x", "1")
    contents = writer.contents()
    return {
        "kubernetes": (kubernetes.Inputs.now(kubernetes.BINARIES), BUILDERS["kubernetes.build"]),
        "base": (debian.BaseInputs("suite", ("a",), tools), BUILDERS["image.debian.build_base"]),
        "debs": (debian.DebInputs(base, {"g": group}), BUILDERS["image.debian.download"]),
        "packages": (debian.PackageInputs("g", base, group, Unkeyed({})), BUILDERS["image.debian.package_layer"]),
        "wheels": (wheels.Inputs(("a",), {"a": "1"}, "00", Unkeyed(file)), BUILDERS["image.wheels.build"]),
        "code": (code.CodeInputs({"a": File.of(file)}, "00", "m", "3"), BUILDERS["image.code.code_layer"]),
        "zipapp": (code.CodeInputs({"a": File.of(file)}, "00", "m", "3"), BUILDERS["image.code.zipapp"]),
        "pause": (images.PauseInputs(File.of(file), tools), BUILDERS["images.pause"]),
        "layer": (images.LayerInputs(contents, Compression.GZIP, Unkeyed(writer)), BUILDERS["images.write_layer"]),
        "os-rootfs": (rootfs.Inputs("s", ("a",), ("f",), ("r",), tools), BUILDERS["os.rootfs.bootstrap"]),
        "os": (
            os_build.Inputs(Built(Path("os-rootfs/0")), {"a": File.of(file)}, {"/b": File.of(file)}, "k", tools),
            BUILDERS["os.build.build"],
        ),
    }


def test_every_stage_is_looked_at_here(declared):
    assert {build for _, build in declared.values()} == set(BUILDERS.values())


def test_each_input_of_each_stage_wants_another_key(declared):
    for name, (inputs, build) in declared.items():
        key = stage_key(inputs, build)
        assert key == stage_key(dataclasses.replace(inputs), build), name
        for field in dataclasses.fields(inputs):
            value = getattr(inputs, field.name)
            if isinstance(value, Unkeyed):
                continue
            other = dataclasses.replace(inputs, **{field.name: changed(value)})
            assert stage_key(other, build) != key, f"{name}: {field.name}"


def test_what_is_not_in_a_key_is_little(declared):
    fields = {
        f"{name}.{field.name}"
        for name, (inputs, _) in declared.items()
        for field in dataclasses.fields(inputs)
        if isinstance(getattr(inputs, field.name), Unkeyed)
    }
    assert fields == {"packages.all_groups", "wheels.constraints", "layer.writer"}


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        (kubernetes, {"kubernetes"}),
        (wheels, {"wheels", "code", "zipapp"}),
        (layer, {"base", "debs", "packages", "wheels", "code", "zipapp", "layer", "pause"}),
        (disk, {"os"}),
        (packages, {"os", "os-rootfs"}),
        (progress, set()),
    ],
)
def test_the_bytes_of_all_modules_that_take_part_count(module, stages, declared, monkeypatch):
    """Whoever changes a module need not think of keys; how a build is shown and stored is in none."""
    before = {stage: stage_key(*declared[stage]) for stage in declared}
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (str(path) == module.__file__))
    after = {stage: stage_key(*declared[stage]) for stage in declared}
    different = {stage for stage in declared if after[stage] != before[stage]}
    assert stages <= different, different
    assert module is not progress or not different


class Asked(Exception):
    """A stage was asked for."""


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Return the key of the first stage that a call needs: asked(call) -> key."""
    seen: list[str] = []

    class Spy(Store):
        def stage(self, name, inputs, build):
            seen.append(stage_key(inputs, build))
            raise Asked

    monkeypatch.setattr(kubernetes, "Store", Spy)
    monkeypatch.setattr(os_build, "Store", Spy)

    def call(function: Callable[..., object], *arguments: object) -> str:
        with pytest.raises(Asked):
            function(*arguments)
        return seen.pop()

    call.store = Spy(tmp_path)
    return call


@pytest.mark.parametrize(
    ("owner", "name", "function"),
    [
        (kubernetes, "CHANGES", lambda store: kubernetes.build_kubernetes(store.cache)),
        (kubernetes, "ENVIRONMENT", lambda store: kubernetes.build_kubernetes(store.cache)),
        (debian, "BASE_PACKAGES", debian.base),
        (debian, "SUITE", debian.base),
        (wheels, "WHEELS", wheels.wheels),
        (packages, "PACKAGES", rootfs.build_rootfs),
        (packages, "KERNEL_MODULES", rootfs.build_rootfs),
        (packages, "LEFT_OUT", rootfs.build_rootfs),
        (packages, "REMOVED", rootfs.build_rootfs),
        (packages, "SUITE", rootfs.build_rootfs),
    ],
)
def test_lists_that_stages_are_asked_for_with(owner, name, function, asked, monkeypatch):
    monkeypatch.setattr(
        wheels, "read_constraints", lambda _text: dict.fromkeys(("x", *map(str.lower, wheels.WHEELS)), "1")
    )
    first = asked(function, asked.store)
    assert asked(function, asked.store) == first
    value = getattr(owner, name)
    if name == "WHEELS":
        monkeypatch.setattr(owner, name, ("x", *value))
    else:
        monkeypatch.setattr(owner, name, changed(value))
    assert asked(function, asked.store) != first


@pytest.mark.parametrize("variable", ["PATH", "GOFLAGS", "CGO_ENABLED", "KUBE_GIT_VERSION", "MAKEFLAGS"])
def test_kubernetes_is_not_built_with_the_callers_environment(variable, monkeypatch, tmp_path):
    environment: dict[str, str] = {}
    inputs = kubernetes.Inputs.now(kubernetes.BINARIES)
    monkeypatch.setenv(variable, "/callers/own")
    monkeypatch.setattr(kubernetes.progress, "run", lambda *_a, env, **_kw: environment.update(env))
    (tmp_path / "work/tree/_output/bin").mkdir(parents=True)
    for name in inputs.programs:
        (tmp_path / "work/tree/_output/bin" / name).touch()
    kubernetes._make(Store(tmp_path), inputs, tmp_path / "work", tmp_path / "work/tree")
    assert environment["GOPATH"]
    assert "/callers/own" not in environment.values()


def test_a_layer_is_known_by_what_is_in_it(tmp_path):
    def key(fill: Callable[[LayerWriter], None]) -> str:
        writer = LayerWriter()
        writer.add_bytes("etc/always", "1")
        fill(writer)
        return digest_of(images.LayerInputs(writer.contents(), Compression.GZIP, Unkeyed(writer)))

    file = tmp_path / "f"
    file.write_text("1")
    seen = [
        key(lambda w: w.add_file("x", file)),
        key(lambda w: w.add_file("y", file)),
        key(lambda w: w.add_file("x", file, 0o755)),
        key(lambda w: w.add_bytes("x", "2")),
        key(lambda w: w.add_link("x", "1")),
        key(lambda w: w.add_link("x", "2")),
        key(lambda w: w.add_directory("x")),
        key(lambda w: w.add_directory("x", 0o700)),
    ]
    assert len(set(seen)) == len(seen)
    assert key(lambda w: w.add_bytes("x", "1")) == seen[0]
    digest = keys.file_sha256(file)
    assert key(lambda w: w.add_file("x", file, sha256=digest)) == seen[0]


def test_a_releases_version_follows_everything_in_it(monkeypatch, tmp_path):
    store = Store(tmp_path)
    operator = images.Image("cluster-version-operator", ())

    def version(machine_os: str = "1", digests: Mapping[str, str] | None = None, base: str = "4.18.0") -> str:
        contents = payload.Contents({"x.yaml": ""}, base, machine_os)
        return payload.release_image(store, operator, "sha256:0", digests or {"cli": "sha256:1"}, contents=contents)[0]

    first = version()
    assert version() == first
    assert version(digests={"cli": "sha256:2"}) != first
    digests = {"rhel-coreos": "sha256:1"}
    assert version("1", digests) != version("2", digests)
    assert version(base="4.19.0").removeprefix("4.19.0") == first.removeprefix("4.18.0")
    monkeypatch.setattr(payload, "release_metadata", lambda _version: {"kind": "other"})
    assert version() != first


def test_a_builder_that_knows_more_than_its_inputs_is_refused(tmp_path):
    secret = "x"
    with pytest.raises(TypeError, match="closure"):
        Store(tmp_path).stage("s", {}, lambda _store, _inputs, out: (out / secret).touch())


@pytest.mark.parametrize("value", [Path("/x"), object(), {"a": Path("/x")}, [object()]])
def test_what_does_not_say_what_it_is_is_no_input(value):
    with pytest.raises(TypeError, match="cannot be part of a key"):
        canonical(value)


def test_kinds_of_values_do_not_collide():
    values = [None, 0, False, "", (), {}, b"", "0", (0,), {"a": None}]
    assert len({digest_of({"v": value}) for value in values}) == len(values)
