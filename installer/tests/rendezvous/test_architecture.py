"""Discovery images by architecture: each infra-env gets its own architecture's, or an error that there is none."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.errors import BadRequest
from installer.release.access import registries_conf
from installer.rendezvous import architectures, catalogue
from installer.rendezvous.client import manifests as client_manifests
from installer.rendezvous.discovery import payload
from installer.rendezvous.discovery.images import DiscoveryImages
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv, KernelArgument
from installer.testing.create.image_kit import COMPONENTS
from installer.testing.create.iso_kit import build, needs_xorriso
from installer.testing.create.registry_kit import MISSING, Registry, registry
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET

# In each ISO somewhere, to be known by.
MARKS = {"x86_64": b"\0mark-of-x86_64\0", "aarch64": b"\0mark-of-aarch64\0"}


@dataclass(frozen=True)
class Place:
    server: Registry
    releases: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Releases: ``both`` for several architectures, ``one`` for x86_64, ``bare`` says several and has one's ISO."""
    if MISSING or shutil.which("xorriso") is None:
        pytest.skip("skopeo, docker-registry or xorriso are not installed")
    folder = tmp_path_factory.mktemp("architectures")
    plain = build(folder, "2023-07.x86_64").read_bytes()
    isos = {}
    for name, mark in MARKS.items():
        iso = plain + mark.ljust(2048, b"\0")
        isos[f"coreos/coreos-{name}.iso"] = iso
        isos[f"coreos/coreos-{name}.iso.sha256"] = hashlib.sha256(iso).hexdigest().encode()
    first = {name: content for name, content in isos.items() if "x86_64" in name}
    with registry(folder / "registry") as server:
        images = {name: server.push([{name: b"x"}], name) for name in COMPONENTS}
        both = {**images, "machine-os-images": server.push([isos], "mos-both", "zstd")}
        single = {**images, "machine-os-images": server.push([first], "mos-one", "zstd")}
        releases = {
            "both": push(server, both, "both", "multi"),
            # An x86_64 release whose image happens to hold the other's ISO: its programs would not run there.
            "one": push(server, both, "one", ""),
            "bare": push(server, single, "bare", "multi"),
        }
        yield Place(server, releases)


def push(server: Registry, components: dict[str, str], tag: str, architecture: str) -> str:
    tags = [{"name": name, "from": {"kind": "DockerImage", "name": spec}} for name, spec in components.items()]
    stream = {"kind": "ImageStream", "metadata": {"name": "4.18.0"}, "spec": {"tags": tags}}
    metadata: dict[str, Any] = {"kind": "cincinnati-metadata-v0", "version": "4.18.0"}
    if architecture:
        metadata["metadata"] = {"release.openshift.io/architecture": architecture}
    files = {
        "release-manifests/image-references": json.dumps(stream).encode(),
        "release-manifests/release-metadata": json.dumps(metadata).encode(),
    }
    return server.push([{"x": b"x"}, files], f"release-{tag}")


@pytest.fixture
def standalone(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make settings and image maker of a service of one of the releases."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "registries.conf").write_text(registries_conf(place.server.sources))
    (tmp_path / "ca-bundle.crt").write_text(place.server.ca_pem)
    (tmp_path / "ca.crt").write_text(place.server.ca_pem)

    def images_for(release: str) -> tuple[Settings, DiscoveryImages]:
        settings = Settings(
            work_dir=tmp_path,
            release_image=place.releases[release],
            registries_conf=tmp_path / "registries.conf",
            mirror_ca_file=tmp_path / "ca-bundle.crt",
            ca_file=tmp_path / "ca.crt",
        )
        return settings, DiscoveryImages(
            lambda _: settings, "token", lambda env: "https://x/rootfs.img", lambda new: None
        )

    return images_for


def env(place: Place, architecture: str) -> InfraEnv:
    return InfraEnv(
        id=f"env-{architecture}", name="e", cpu_architecture=architecture, pull_secret=place.server.pull_secret
    )


@needs_xorriso
@pytest.mark.parametrize("order", [("x86_64", "aarch64"), ("aarch64", "x86_64")])
def test_each_architecture_gets_its_own(place: Place, standalone: Any, order: tuple[str, ...]) -> None:
    settings, maker = standalone("both")
    for name in (*order, *order):
        content = maker.file(env(place, name), "full.iso").read_bytes()
        assert [mark in content for mark in MARKS.values()] == [name == other for other in MARKS]
    for name in order:
        cached = payload.cached(settings, name)
        assert cached is not None
        assert cached.iso.name == f"coreos-{name}.iso"
    assert payload.cached(settings, "s390x") is None
    assert payload.cached(settings) is not None
    # Each ISO of its own: one that was removed from the cache is fetched again, the other still is the other.
    kept = payload.cached(settings, order[0])
    assert kept is not None
    kept.iso.unlink()
    assert payload.cached(settings, order[0]) is None
    assert payload.cached(settings, order[1]) is not None
    assert payload.cached(replace(settings, release_image="another")) is None


@needs_xorriso
def test_a_release_of_one_architecture_has_none_for_another(place: Place, standalone: Any) -> None:
    settings, maker = standalone("one")
    words = f"cpu_architecture aarch64: release {place.releases['one']} is for amd64 only"
    for turn in range(2):
        for call in (
            lambda: maker.file(env(place, "aarch64"), "full.iso"),
            lambda: maker.ignition(env(place, "aarch64")),
        ):
            with pytest.raises(BadRequest) as caught:
                call()
            assert caught.value.reason == words
        if not turn:
            # Not before the release was read does the service know.
            architectures.check_known(settings, "aarch64")
            maker.file(env(place, "x86_64"), "full.iso")
    architectures.check_known(settings, "x86_64")
    with pytest.raises(BadRequest) as caught:
        architectures.check_known(settings, "aarch64")
    assert caught.value.reason == words


@needs_xorriso
def test_a_release_that_lacks_the_image_says_so(place: Place, standalone: Any) -> None:
    _, maker = standalone("bare")
    maker.file(env(place, "x86_64"), "full.iso")
    with pytest.raises(BadRequest, match="cpu_architecture aarch64: base ISO for aarch64 not found in release image"):
        maker.file(env(place, "aarch64"), "full.iso")


@needs_xorriso
def test_a_registry_that_refuses_is_not_the_users_fault(place: Place, standalone: Any) -> None:
    _, maker = standalone("both")
    stranger = replace_secret(env(place, "x86_64"))
    with pytest.raises(BadRequest, match=r"read release .*pull secret"):
        maker.file(stranger, "full.iso")


def replace_secret(infra_env: InfraEnv) -> InfraEnv:
    return msgspec.structs.replace(infra_env, pull_secret=PULL_SECRET)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"release": ""}', '{"release": "", "isos": 3}', '{"release": "", "isos": {"x86_64": 7}}'],
)
def test_notes_that_cannot_be_used_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "release.json").write_text(content)
    settings = Settings(work_dir=tmp_path)
    assert payload.cached(settings, "x86_64") is None
    assert payload.cached(settings) is None
    architectures.check_known(settings, "aarch64")


# infra-envs

BODY = {"name": "e", "pull_secret": PULL_SECRET}


def notes(world: World, architecture: str) -> None:
    """As if the release had been read."""
    facts = {"release": world.engine.settings.release_image, "architecture": architecture, "isos": {}}
    (world.engine.settings.work_dir / "release.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("architecture", ["sparc", "amd64", "multi"])
def test_a_text_that_names_no_architecture_is_refused(world: World, architecture: Any) -> None:
    with pytest.raises(BadRequest, match=r"cpu_architecture .* is not one of .*aarch64, arm64, ppc64le, s390x, x86_64"):
        sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": architecture})
    assert world.store.infra_envs() == []


@pytest.mark.parametrize("architecture", [7, ["x86_64"]])
def test_an_architecture_that_is_no_text_is_refused(world: World, architecture: Any) -> None:
    with pytest.raises(BadRequest, match="cpu_architecture must be a text, not a"):
        sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": architecture})


@pytest.mark.parametrize(
    ("architecture", "kept"),
    [("x86_64", "x86_64"), ("aarch64", "aarch64"), ("arm64", "aarch64"), (None, "x86_64"), ("", "x86_64")],
)
def test_an_architecture_has_one_name(world: World, architecture: str | None, kept: str) -> None:
    assert (
        sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": architecture}).cpu_architecture == kept
    )


@pytest.mark.parametrize(
    ("cluster", "architecture", "good"),
    [
        ("x86_64", "x86_64", True),
        ("x86_64", "aarch64", False),
        ("arm64", "aarch64", True),
        ("aarch64", "arm64", True),
        ("aarch64", "x86_64", False),
        ("multi", "aarch64", True),
    ],
)
def test_hosts_are_of_their_clusters_architecture(world: World, cluster: str, architecture: str, good: bool) -> None:
    registered = sent_kit.register_cluster(world.engine, {**CLUSTER, "cpu_architecture": cluster})
    body = {**BODY, "cluster_id": registered.id, "cpu_architecture": architecture}
    if good:
        assert sent_kit.register_infra_env(world.engine, body).cluster_id == registered.id
        return
    with pytest.raises(BadRequest, match="does not match that of cluster ostest, "):
        sent_kit.register_infra_env(world.engine, body)


def test_what_the_release_does_not_offer_is_refused_at_once(world: World) -> None:
    notes(world, "amd64")
    with pytest.raises(BadRequest, match="is for amd64 only"):
        sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": "aarch64"})
    infra_env = sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": "x86_64"})
    with pytest.raises(BadRequest, match='unknown field "cpu_architecture"'):
        sent_kit.update_infra_env(world.engine, infra_env.id, {"cpu_architecture": "s390x"})
    for name in ("aarch64", "multi"):
        with pytest.raises(BadRequest, match=f"Requested CPU architecture {name} is not available"):
            sent_kit.register_cluster(world.engine, {**CLUSTER, "cpu_architecture": name})
    notes(world, "arm64")
    assert (
        sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": "arm64"}).cpu_architecture == "aarch64"
    )
    notes(world, "multi")
    sent_kit.register_infra_env(world.engine, {**BODY, "cpu_architecture": "s390x"})


@pytest.mark.parametrize(("spec", "architecture"), [({}, "x86_64"), ({"cpuArchitecture": "aarch64"}, "aarch64")])
def test_a_cluster_is_of_the_architecture_of_its_hosts_images(spec: dict[str, str], architecture: str) -> None:
    manifests = client_manifests.Manifests(
        cluster_install={"metadata": {"name": "c"}, "spec": {}},
        cluster_deployment={},
        image_set={},
        infra_env={"metadata": {"name": "e"}, "spec": spec},
        nmstate=[],
        pull_secret=PULL_SECRET,
    )
    assert client_manifests.cluster_params(manifests, "r", "v")["cpu_architecture"] == architecture
    assert client_manifests.infra_env_params(manifests, "c", "full-iso", "v")["cpu_architecture"] == architecture


@needs_xorriso
def test_an_image_is_made_anew_when_anything_that_it_is_made_of_changes(place: Place, standalone: Any) -> None:
    _, images = standalone("both")
    first = env(place, "x86_64")
    image = images.file(first, "minimal.iso")
    assert images.file(first, "minimal.iso") == image
    for change in (
        {"image_key": "b" * 64},  # the URL of the root file system is signed with it
        {"kernel_arguments": [KernelArgument(operation="append", value="a=1")]},
        {"ssh_authorized_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop x"},
    ):
        other = msgspec.structs.replace(first, **change)
        again = images.file(other, "minimal.iso")
        assert again != image, change
        assert again.is_file()
        image = images.file(first, "minimal.iso")
    iso = images.payload_of(first).iso
    os.utime(iso, ns=(1, 1))
    assert images.file(first, "minimal.iso") != image


@needs_xorriso
def test_a_base_image_of_ones_own_counts_for_the_start_that_names_it(
    place: Place, standalone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, wanted = tmp_path / "own.iso", env(place, "x86_64")
    shutil.copyfile(build(tmp_path, "2023-07.x86_64"), own)
    for named in (True, False, True, False):
        if named:
            monkeypatch.setenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", str(own))
        else:
            monkeypatch.delenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE")
        settings, images = standalone("both")
        marked = MARKS["x86_64"] in images.file(wanted, "full.iso").read_bytes()
        assert marked is not named
        cached = payload.cached(settings, "x86_64")
        assert cached is None or (cached.iso == own) is named


def test_a_release_tells_its_version_to_the_first_pull_secret(place: Place, world: World, standalone: Any) -> None:
    settings, _ = standalone("one")
    assert catalogue.known(settings) is None

    def adopt(contents: catalogue.Contents) -> None:
        world.engine.adopt(catalogue.adopted(world.engine.settings, contents))

    world.engine.adopt(settings)
    maker = DiscoveryImages(lambda _: world.engine.settings, "token", lambda env: "", adopt)
    # Nobody's credentials but those that are given.
    with pytest.raises(BadRequest, match="openshift_version cannot be judged: read release"):
        maker.learn(PULL_SECRET)
    assert world.engine.settings.openshift_version == ""
    maker.learn(place.server.pull_secret)
    assert world.engine.settings.openshift_version == "4.18.0"
    contents = catalogue.known(settings)
    assert contents is not None
    assert (contents.version, contents.images["AGENT_DOCKER_IMAGE"]) == ("4.18.0", world.engine.settings.agent_image)
    maker.learn(PULL_SECRET)  # what is known is not read again
    named = {"name": "x", "pull_secret": PULL_SECRET}
    for version in ("4.18", "4.18.0", ""):
        infra_env = sent_kit.register_infra_env(world.engine, {**named, "openshift_version": version})
    for version in ("4.19", "4.18.1", "4.1", "x"):
        with pytest.raises(BadRequest, match=f"{version}"):
            sent_kit.register_cluster(world.engine, {**named, "openshift_version": version})
        with pytest.raises(BadRequest, match=f"{version}"):
            sent_kit.register_infra_env(world.engine, {**named, "openshift_version": version})
        with pytest.raises(BadRequest, match=f"{version}"):
            sent_kit.update_infra_env(world.engine, infra_env.id, {"openshift_version": version})
