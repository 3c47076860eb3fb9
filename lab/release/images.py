"""From components to OCI images: every layer a cached stage, shared by all images that have it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.release.components import (
    COMPONENTS,
    INSTALL_MODULE,
    INSTALLER_TAG,
    MACHINE_OS_TAG,
    OS_TAG,
    PACKAGES,
    POD_TAG,
    VERSION_OPERATOR,
    Component,
)
from lab.release.image import code
from lab.release.image.debian import Packages, base, package_layers
from lab.release.image.layer import Compression, Layer, LayerWriter
from lab.release.image.oci import Image
from lab.release.image.wheels import wheels
from lab.release.kubernetes import INFO, build_kubernetes
from lab.release.os import MachineOS, build_machine_os
from lab.release.stage import progress
from lab.release.stage.keys import File, Unkeyed, host_packages
from lab.release.stage.store import Store

PAUSE_SOURCE = Path(__file__).with_name("pause.c")


@dataclass(frozen=True)
class Layers:
    """The layers that components are put together from."""

    base: Layer
    wheels: Layer
    packages: Mapping[str, Layer]
    code: Mapping[str, Layer]
    kubernetes: Path


def shared_layers(store: Store, more: Mapping[str, Packages]) -> Layers:
    """Build, or find built, everything that more than one image may hold; ``more``: packages of a variant."""
    return Layers(
        kubernetes=build_kubernetes(store.cache),
        base=Layer.load(base(store)),
        wheels=Layer.load(wheels(store)),
        packages={**package_layers(store, PACKAGES), **(package_layers(store, more) if more else {})},
        code={
            "installer": code.code_layer(store, "code-installer", code.INSTALLER),
            "cluster": code.code_layer(store, "code-cluster", code.CLUSTER),
        },
    )


@dataclass(frozen=True)
class LayerInputs:
    """A layer by what is in it, and the writer that has it."""

    contents: Mapping[str, tuple[str, int, int, int, str]]
    compression: Compression
    writer: Unkeyed[LayerWriter]


def layer_stage(store: Store, name: str, compression: Compression, fill: Callable[[LayerWriter], None]) -> Layer:
    """Return a cached layer that ``fill`` puts the entries into; it is known by these entries."""
    writer = LayerWriter()
    fill(writer)
    inputs = LayerInputs(writer.contents(), compression, Unkeyed(writer))
    return Layer.load(store.stage(name, inputs, _write_layer))


def _write_layer(_store: Store, inputs: LayerInputs, out: Path) -> None:
    inputs.writer.value.finish(out, inputs.compression)


def component_image(store: Store, component: Component, shared: Layers) -> Image:
    """Return the image of one row of the table."""
    layers = [shared.base, *(shared.packages[name] for name in component.packages)]
    if component.code:
        layers += [
            Layer.load(wheels(store, name=f"wheels-{component.tag}", more=component.wheels))
            if component.wheels
            else shared.wheels,
            *(shared.code[name] for name in component.code),
        ]
    if component.binaries:
        layers.append(_binaries(store, component, shared.kubernetes))
    if own := _own_files(store, component):
        layers.append(own)
    return Image(component.tag, tuple(layers), component.entrypoint, component.cmd)


def missing_modules() -> list[str]:
    """Modules that a command of some image starts and that this checkout does not have."""
    modules = {module for part in (*COMPONENTS, VERSION_OPERATOR) for module in part.commands.values()}
    return sorted(module for module in {*modules, INSTALL_MODULE} if not code.module_exists(module))


def _binaries(store: Store, component: Component, kubernetes: Path) -> Layer:
    digests = json.loads((kubernetes / INFO).read_text())["sha256"]

    def fill(writer: LayerWriter) -> None:
        for name in component.binaries:
            writer.add_file(f"usr/bin/{name}", kubernetes / name, 0o755, digests[name])

    return layer_stage(store, f"binaries-{component.tag}", Compression.ZSTD, fill)


def _own_files(store: Store, component: Component) -> Layer | None:
    texts = {path: code.launcher(module) for path, module in component.commands.items()}
    if not (texts or component.files or component.programs or component.links or component.built):
        return None

    def fill(writer: LayerWriter) -> None:
        for path, text in texts.items():
            writer.add_bytes(path, text, 0o755)
        for path, text in component.files.items():
            writer.add_bytes(path, text)
        for path, text in component.programs.items():
            writer.add_bytes(path, text, 0o755)
        for path, target in component.links.items():
            writer.add_link(path, target)
        for path, program in component.built.items():
            writer.add_file(path, program, 0o755)

    return layer_stage(store, f"files-{component.tag}", Compression.GZIP, fill)


@dataclass(frozen=True)
class PauseInputs:
    """Inputs of the pause program; the compiler and the C library, which is linked in, by version."""

    source: File
    tools: Mapping[str, str]


def pod_image(store: Store) -> Image:
    """Return the pause image: one static program and nothing else."""
    inputs = PauseInputs(File.of(PAUSE_SOURCE), host_packages("gcc", "libc6-dev"))
    return Image(POD_TAG, (Layer.load(store.stage("pause", inputs, _pause)),), ("/pause",))


def _pause(store: Store, inputs: PauseInputs, out: Path) -> None:
    program = out / "pause"
    argv = [progress.need("gcc", "gcc libc6-dev"), "-static", "-Os", "-s", "-Wall", "-Werror", "-Wl,--build-id=none"]
    argv += ["-o", str(program), str(inputs.source.path)]
    progress.run(argv, label="pause", log=store.log("pause"))
    writer = LayerWriter()
    writer.add_file("pause", program, 0o755)
    writer.finish(out, Compression.GZIP)


def installer_image(store: Store, shared: Layers) -> Image:
    """Return the image that the service takes /usr/bin/openshift-install from; it also runs by itself."""
    app = code.zipapp(store, INSTALL_MODULE, code.CLUSTER)
    layer = layer_stage(
        store,
        "files-installer",
        Compression.GZIP,
        lambda writer: writer.add_file("usr/bin/openshift-install", app, 0o755),
    )
    return Image(INSTALLER_TAG, (shared.base, shared.wheels, layer), ("/usr/bin/openshift-install",))


def machine_os(store: Store, kubernetes: Path) -> MachineOS:
    """Return the machine OS with this release's kubelet in it."""
    return build_machine_os(store.cache, {"/usr/bin/kubelet": kubernetes / "kubelet"})


def machine_os_image(store: Store, system: MachineOS) -> Image:
    """Return the image that carries the live ISO (cluster.md §1.5); its .sha256 is bare hex, without even a newline."""
    stream = system.stream_json.read_text()

    def fill(writer: LayerWriter) -> None:
        writer.add_file("coreos/coreos-x86_64.iso", system.iso, 0o644, system.iso_sha256)
        writer.add_bytes("coreos/coreos-x86_64.iso.sha256", system.iso_sha256)
        writer.add_bytes("coreos/coreos-stream.json", stream)

    layer = layer_stage(store, "files-machine-os", Compression.STORED, fill)
    return Image(MACHINE_OS_TAG, (layer,))


def os_image(store: Store, system: MachineOS, version: str, programs: Mapping[str, str]) -> Image:
    """Return the image of the machine OS that nodes are upgraded to; of a release of another ``version``, or with other
    ``programs`` (texts by path), a thin layer lies over the machine OS."""
    own = Layer.load(system.layer)
    if version == system.version and not programs:
        return Image(OS_TAG, (own,))

    def fill(writer: LayerWriter) -> None:
        text = system.os_release.replace(f"OSTREE_VERSION={system.version}\n", f"OSTREE_VERSION={version}\n")
        writer.add_bytes("usr/lib/os-release", text)
        for path, program in programs.items():
            writer.add_bytes(path, program, 0o755)

    return Image(OS_TAG, (own, layer_stage(store, f"files-{OS_TAG}", Compression.GZIP, fill)))
