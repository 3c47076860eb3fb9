"""NetworkPolicies that nothing enforces: each says so itself, and an event does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lab.release.cluster.errors import ApiError
from lab.release.cluster.nodes import policies


def policy(name: str, generation: int) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "generation": generation}
    return {"apiVersion": policies.API, "kind": policies.KIND, "metadata": meta}


class Cluster:
    """Shows policies as they are one after the other, and keeps what is written."""

    def __init__(self, *views: list[dict[str, Any]]) -> None:
        self.views = views
        self.fail = 0
        self.annotated: list[str] = []
        self.events: list[dict[str, Any]] = []

    def watch(self, api_version: str, kind: str, stop: threading.Event) -> Iterator[Any]:
        for view in self.views:
            yield {("shop", each["metadata"]["name"]): each for each in view}

    def merge_patch(self, obj: dict[str, Any], patch: dict[str, Any]) -> None:
        assert patch["metadata"]["annotations"][policies.ANNOTATION].startswith("no: ")
        self.annotated.append(obj["metadata"]["name"])

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        if self.fail:
            self.fail -= 1
            raise ApiError("POST", "/events", 0, "refused")
        self.events.append(obj)
        return obj


def test_each_policy_is_warned_of_once_and_again_when_it_changes() -> None:
    first, changed, other = policy("a", 1), policy("a", 2), policy("b", 1)
    cluster = Cluster([], [first], [first, other], [changed, other], [other])
    policies.follow(cluster, threading.Event())  # type: ignore[arg-type]
    assert cluster.annotated == ["a", "b", "a"]
    about = [(event["involvedObject"]["kind"], event["involvedObject"]["uid"]) for event in cluster.events]
    assert about == [("NetworkPolicy", f"uid-{name}") for name in "aba"]
    event = cluster.events[0]
    assert (event["type"], event["reason"], event["metadata"]["namespace"]) == ("Warning", policies.REASON, "shop")
    assert event["message"] == policies.MESSAGE


def test_a_warning_that_failed_is_tried_again() -> None:
    cluster = Cluster([policy("a", 1)], [policy("a", 1)])
    cluster.fail = 1
    policies.follow(cluster, threading.Event())  # type: ignore[arg-type]
    assert len(cluster.events) == 1
