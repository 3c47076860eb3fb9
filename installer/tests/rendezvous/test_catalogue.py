"""The choice among several releases, and what stays chosen when there are more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.errors import BadRequest, Gone
from installer.rendezvous import architectures, catalogue
from installer.rendezvous.resources import infra_envs, releases
from installer.rendezvous.store import feed
from installer.rendezvous.store.database import Store
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET

ORDERED = ["4.9.57", "4.17.3", "4.18.0-ec.2", "4.18.0-rc.1", "4.18.0-rc.10", "4.18.0", "4.18.1", "4.18.10", "5.0.0"]
CUT = st.integers(1, 8)


def name(world: World, version: str, architecture: str = "amd64") -> str:
    """Have the service know a release, as if it had read it."""
    image = f"r.example/{architecture}@sha256:{version}"
    file = architectures.notes_file(catalogue.unread(world.engine.settings, image))
    file.parent.mkdir(exist_ok=True)
    notes = {"version": version, "architecture": architecture, "images": {"AGENT_DOCKER_IMAGE": f"agent:{version}"}}
    file.write_text(json.dumps({"release": image, "isos": {}, **notes}))
    settings = world.engine.catalogue.add(image)
    assert settings is not None
    infra_envs.take_release(world.engine, settings)
    return image


@given(st.permutations(ORDERED))
def test_versions_are_sorted_as_they_were_released(versions: list[str]) -> None:
    assert sorted(versions, key=catalogue.newness) == ORDERED


@given(st.sampled_from(ORDERED), st.sampled_from(ORDERED), CUT)
def test_a_version_is_meant_by_its_first_numbers_alone(version: str, other: str, cut: int) -> None:
    part = other[:cut]
    whole = version == part or (version.startswith(part) and version[len(part)] in ".-" and part[-1].isdigit())
    assert catalogue.fits(part, version) is whole


def test_the_newest_release_that_fits_is_chosen(tmp_path: Path) -> None:
    world = World(tmp_path)
    images = {version: name(world, version) for version in ("4.18.0", "4.17.3", "4.19.0-rc.1")}
    images["arm"] = name(world, "4.20.0", "arm64")

    def chosen(version: str, architecture: str = "x86_64") -> str:
        return releases.chosen(world.engine.catalogue, version, architecture).release_image

    assert chosen("") == images["4.19.0-rc.1"]
    assert chosen("4.17") == images["4.17.3"]
    assert chosen("", "arm64") == chosen("4.20", "aarch64") == images["arm"]
    for version, architecture in (("4.16", "x86_64"), ("4.20", "x86_64"), ("4.1", "x86_64")):
        with pytest.raises(BadRequest, match=f"{version} is not supported .* 4.18.0, "):
            chosen(version, architecture)
    world.store.close()


def test_an_infra_env_stays_with_its_release_when_newer_ones_come(tmp_path: Path) -> None:
    world = World(tmp_path)
    body = {"name": "e", "pull_secret": PULL_SECRET}
    early = sent_kit.register_infra_env(world.engine, body).id

    def image(infra_env_id: str) -> str:
        infra_env = world.store.infra_env(infra_env_id)
        cluster = world.store.find_cluster(infra_env.cluster_id or "")
        return world.engine.catalogue.of(cluster, infra_env).release_image

    assert image(early) == ""
    first = name(world, "4.17.3")
    later = sent_kit.register_infra_env(world.engine, body).id
    cluster = sent_kit.register_cluster(world.engine, CLUSTER | {"openshift_version": "4.17"})
    of_cluster = sent_kit.register_infra_env(world.engine, body | {"cluster_id": cluster.id}).id
    name(world, "4.18.0")
    assert [image(item) for item in (early, later, of_cluster)] == [first] * 3
    world.store.close()
    again = World(tmp_path, world.clock)
    assert again.engine.catalogue.of_image(first).agent_image == "agent:4.17.3"
    again.store.close()


def test_the_feed_forgets_what_was_removed_long_ago_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "REMOVED", 3)
    monkeypatch.setattr(feed, "PAGE", 8)
    world = World(tmp_path)
    kept = [sent_kit.register_infra_env(world.engine, {"name": "e", "pull_secret": PULL_SECRET}).id for _ in range(6)]
    _, before = world.store.changes("")
    marks: list[str] = []
    for identity in kept[:5]:
        marks.append(world.store.changes(marks[-1] if marks else before)[1])
        infra_envs.delete(world.engine, identity)
    removed, _ = world.store.changes(marks[2])
    assert [(subject.id, deleted) for subject, deleted in removed] == [(item, True) for item in kept[2:5]]
    world.store.close()
    store = Store(world.store.path)
    for mark in (before, marks[0]):
        with pytest.raises(Gone, match="too old"):
            store.changes(mark)
    # Live objects that have not changed since then are found in pages all the same.
    assert [subject.id for subject, _ in store.changes("")[0]] == kept[5:]
    monkeypatch.setattr(feed, "PAGE", 1)
    found, mark = store.changes("")
    assert [subject.id for subject, _ in found] == kept[5:]
    assert store.changes(mark)[0] == []
    assert store.db.execute("SELECT COUNT(*) FROM changes").fetchone() == (5,)
    store.close()
