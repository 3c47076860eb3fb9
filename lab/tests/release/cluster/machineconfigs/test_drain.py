"""The pods that a drain has to see gone."""

from __future__ import annotations

from typing import Any

import pytest

from lab.release.cluster.machineconfigs import drain


@pytest.mark.parametrize(
    ("leaving", "state", "waited_for"),
    [
        (False, {"waiting": {}}, True),
        (True, {"running": {}}, True),
        (True, {"terminated": {}}, False),
        (True, {"waiting": {"reason": "ContainerCreating"}}, False),
    ],
)
def test_a_pod_is_waited_for_until_its_containers_have_ended(
    leaving: bool, state: dict[str, Any], waited_for: bool
) -> None:
    meta = {"name": "p", "namespace": "ns"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {})
    pod = {"metadata": meta, "spec": {}, "status": {"phase": "Running", "containerStatuses": [{"state": state}]}}
    assert (drain.movable([pod]) == [pod]) is waited_for
