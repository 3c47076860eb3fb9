"""oc, as openshift-install calls it, against a real registry; and the machines of OpenShift's sizes."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab import seam
from lab.release.image.layer import Compression, LayerWriter
from lab.release.image.oci import Image, Layout
from lab.release.registry import loopback_registry, push
from lab.seam.oc import layers, main, mirrored
from lab.subject.contents import extract

TUI, LIBRARY = b"#!/bin/sh\necho tui\n", b"a library"


def _layer(folder, files, links=None, compression=Compression.GZIP):
    folder.mkdir(parents=True)
    writer = LayerWriter()
    for name, data in files.items():
        writer.add_bytes(name, data)
    for name, target in (links or {}).items():
        writer.add_link(name, target)
    return writer.finish(folder, compression)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Yield (address, digests by tag) of a registry with a release, an image of two layers, and one packed with
    zstd."""
    top = tmp_path_factory.mktemp("oc")
    below = _layer(top / "a", {"usr/bin/agent-tui": b"old", "usr/lib64/libnmstate.so.1": b"gone", "usr/lib64/x": b"x"})
    above = _layer(
        top / "b",
        {"usr/bin/agent-tui": TUI, "usr/lib64/.wh.libnmstate.so.1": b"", "usr/lib64/libnmstate.so.2.2": LIBRARY},
        {"usr/lib64/libnmstate.so.2": "libnmstate.so.2.2"},
    )
    packed = _layer(top / "c", {"coreos/coreos-x86_64.iso": b"iso" * 1000}, compression=Compression.ZSTD)
    layout = Layout(top / "oci")
    utils, system = layout.write([Image("utils", (below, above)), Image("system", (packed,))])
    tags = [
        {"name": name, "from": {"kind": "DockerImage", "name": f"source.example/release@{image.digest}"}}
        for name, image in (("agent-installer-utils", utils), ("machine-os-images", system))
    ]
    references = {"kind": "ImageStream", "spec": {"tags": tags}}
    bare = _layer(top / "d", {"release-manifests/image-references": json.dumps(references)})
    multi = _layer(
        top / "e",
        {"release-manifests/release-metadata": '{"metadata": {"release.openshift.io/architecture": "multi"}}'},
    )
    written = layout.write(
        [
            Image("utils", (below, above)),
            Image("system", (packed,)),
            Image("bare", (bare,)),
            Image("multi", (bare, multi)),
        ]
    )
    with loopback_registry(top / "storage", top / "work") as address:
        for image in written:
            push(layout.root, image.tag, address, remote_tag=image.tag, log=top / "push.log")
        yield address, {image.tag: image.digest for image in written}


@pytest.fixture
def run(capsys):
    """Run oc with these words: exit code, output, errors."""

    def oc(*words):
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return oc


def _name(registry, tag):
    address, digests = registry
    return f"{address}/node0/lab-release@{digests[tag]}"


@pytest.fixture
def policy(tmp_path, registry):
    """Mirrors as openshift-install hands them over: the name of the source cannot be resolved."""
    file = tmp_path / "icsp"
    mirrors = [{"source": "source.example/release", "mirrors": [f"{registry[0]}/node0/lab-release"]}]
    file.write_text(json.dumps({"kind": "ImageContentSourcePolicy", "spec": {"repositoryDigestMirrors": mirrors}}))
    return f"--icsp-file={file}"


def test_a_part_of_a_release_by_its_tag(run, registry, policy):
    name = f"source.example/release@{registry[1]['bare']}"
    words = ["adm", "release", "info", "--image-for=machine-os-images", "--filter-by-os=linux/amd64", "--insecure=true"]
    assert run(*words, policy, name) == (0, f"source.example/release@{registry[1]['system']}\n", "")
    error = f'error: no image tag "none-such" exists in the release image {name}\n'
    words[3] = "--image-for=none-such"
    assert run(*words, policy, name) == (1, "", error)


@pytest.mark.parametrize(("tag", "architecture"), [("bare", "amd64"), ("multi", "multi")])
def test_the_architecture_of_a_release(run, registry, tag, architecture):
    template = '-o=go-template={{index . "metadata" "metadata" "release.openshift.io/architecture"}}'
    words = ["adm", "release", "info", _name(registry, tag), template, "--insecure=true"]
    assert run(*words) == (0, f"{architecture}\n", "")


def test_another_image_is_no_release(run, registry):
    code, _, errors = run("adm", "release", "info", "--image-for=x", "--insecure=true", _name(registry, "utils"))
    assert code == 1
    assert errors.startswith("error: ")
    assert "is no release image" in errors


def test_files_of_an_image_by_pattern(run, registry, tmp_path, policy):
    words = ["image", "extract", "--insecure=true", "--confirm"]
    for pattern in ("/usr/bin/agent-tui", "/usr/lib64/libnmstate.so.*"):
        assert run(*words, f"--path={pattern}:{tmp_path}", _name(registry, "utils")) == (0, "", "")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name != "icsp"} == {
        "agent-tui": TUI,
        "libnmstate.so.2": LIBRARY,
        "libnmstate.so.2.2": LIBRARY,
    }
    name = f"source.example/release@{registry[1]['system']}"
    assert run(*words, f"--path=/coreos/coreos-x86_64.iso:{tmp_path}", policy, name) == (0, "", "")
    assert (tmp_path / "coreos-x86_64.iso").read_bytes() == b"iso" * 1000


def test_an_image_that_nobody_has_names_each_place_that_was_asked(run, registry, policy, tmp_path):
    name = f"source.example/release@sha256:{'0' * 64}"
    code, _, errors = run("image", "extract", f"--path=/x:{tmp_path}", "--insecure=true", policy, name)
    assert code == 1
    assert f"{registry[0]}/node0/lab-release@" in errors
    assert "; source.example/release@" in errors


def test_the_longest_source_has_the_mirrors():
    entries = [{"source": "a.example", "mirrors": ["m1"]}, {"source": "a.example/x/", "mirrors": ["m2/y", "m3"]}]
    policy = {"spec": {"repositoryDigestMirrors": entries}}
    assert mirrored("a.example/x/z@sha256:1", policy) == ["m2/y/z@sha256:1", "m3/z@sha256:1", "a.example/x/z@sha256:1"]
    assert mirrored("a.example/xy@sha256:1", policy) == ["m1/xy@sha256:1", "a.example/xy@sha256:1"]
    # Mirrors are for digests alone.
    assert mirrored("a.example/x:tag", policy) == ["a.example/x:tag"]
    assert mirrored("b.example/x@sha256:1", {}) == ["b.example/x@sha256:1"]


def test_an_upper_layer_stands_for_a_lower_one_and_an_opaque_folder_for_all(tmp_path):
    digests = []
    for number, files in enumerate([{"d/a": b"1", "d/b": b"1"}, {"d/.wh..wh..opq": b"", "d/b": b"2"}]):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(f"./{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        (tmp_path / str(number)).write_bytes(buffer.getvalue())
        digests.append({"digest": f"sha256:{number}"})
    (tmp_path / "manifest.json").write_text(json.dumps({"layers": digests}))
    out = tmp_path / "out"
    out.mkdir()
    assert [(p.name, p.read_bytes()) for p in extract(layers(tmp_path), "/d/*", out)] == [("b", b"2")]


def test_the_programs_run_from_anywhere(tmp_path):
    seam.write_programs(tmp_path / "bin", [sys.executable, "-m", "installer"])
    environment = {**os.environ, **seam.environment(tmp_path / "bin", tmp_path / "cache")}
    completed = subprocess.run(
        ["oc", "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert "adm" in completed.stdout
    document = tmp_path / "host-config"
    document.write_text("interfaces: [{name: eth0, type: ethernet, state: up}]\n")
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    argv = ["nmstatectl", "gc", str(document)]
    completed = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (completed.returncode, "[connection]" in completed.stdout) == (0, True), completed.stderr
