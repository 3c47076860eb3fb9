"""The graph of a lab's update service, as the version operator reads it."""

import json

from lab import updates
from lab.layout import Layout
from lab.release.cluster.version_operator import graph
from lab.topology import load

RELEASES = [("4.18.0-node0.ff", "r@sha256:1"), ("4.18.1-node0.aa", "r@sha256:2"), ("4.19.0-node0.bb", "r@sha256:3")]


def test_each_release_is_followed_by_all_that_are_newer(tmp_path):
    layout = Layout(tmp_path, load("sno"))
    layout.www.mkdir()
    url = updates.publish(layout, RELEASES)
    document = json.loads((layout.www / url.rpartition("/")[2]).read_text())
    assert url.startswith(layout.http_url)
    for index, (version, _) in enumerate(RELEASES):
        found = graph.following(document, version, "stable-4.18")
        assert [(u["version"], u["image"]) for u in found.updates] == RELEASES[:index:-1]
