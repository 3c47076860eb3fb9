"""Damaged descriptions of a release image: one line, never a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.errors import ReleaseError
from installer.release.payload import METADATA, REFERENCES, Content, Release

SPEC = "r.example/release@sha256:" + "1" * 64


class Memory:
    """A cache that has read the release before."""

    def __init__(self, references: Any, metadata: bytes) -> None:
        self.content = Content({REFERENCES: json.dumps(references).encode(), METADATA: metadata}, "amd64")

    def recall(self, pullspec: str) -> Content:
        return self.content

    def keep(self, pullspec: str, content: Content) -> None:
        raise AssertionError("nothing was fetched")


class Access:
    sources = ()


def release(metadata: bytes, image: str = "r.example/a@sha256:2", name: Any = "4.18.0") -> Release:
    tags = [{"name": "a", "from": {"kind": "DockerImage", "name": image}}]
    stream = {"kind": "ImageStream", "metadata": {"name": name}, "spec": {"tags": tags}}
    return Release(SPEC, Access(), Memory(stream, metadata))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"version": "4.18 beta"}', "the version of release .*'4.18 beta', is not one plain word"),
        (b'{"version": "4.18\\nX=1"}', "is not one plain word"),
        (b'{"version": "$(id)"}', "is not one plain word"),
    ],
)
def test_metadata_that_cannot_be_read(metadata: bytes, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        _ = release(metadata).version


def test_a_version_may_come_from_the_image_stream() -> None:
    assert release(b"{}").version == "4.18.0"
    with pytest.raises(ReleaseError, match="is not one plain word"):
        _ = release(b"{}", name=None).version
    assert release(b'{"version": "4.19.0-0.nightly+x", "metadata": []}').architecture == "amd64"


def test_a_component_is_a_plain_pullspec() -> None:
    for image in ("r.example/a@sha256:2", "[fd00::1]:5000/a/b@sha256:2", "r.example:5000/a:v1"):
        assert release(b"{}", image).image_for("a") == image
    for image in ("r.example/a b", "", "a;rm", "a'b"):
        with pytest.raises(ReleaseError, match=r"image a of release .* is not one plain word"):
            release(b"{}", image).image_for("a")
