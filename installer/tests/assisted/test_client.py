"""Each operation of the client is one that the service has, for a caller who may ask for it."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from typing import Any

import pytest

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import LogsState, Stage
from installer.assisted.errors import BadAnswer
from installer.assisted.restclient import RestClient
from installer.rendezvous.api.handlers.routes import ROUTES

VALUES: dict[str, Any] = {
    "cluster_id": "c/1", "infra_env_id": "i", "host_id": "h", "name": "n", "params": {}, "overrides": "{}",
    "content": b"x", "version": "v", "reply": {}, "stage": Stage.DONE, "state": LogsState.COMPLETED,
    "file": io.BytesIO(b"x"), "offset": 3, "endpoint": {},
}  # fmt: skip
#: Operations of others than the user: watchers' here, agents' below.
WATCHED = {"clusters", "cluster", "infra_envs", "hosts", "events", "download_logs"}
AGENTS = {
    "cluster_hosts", "cluster_file", "register_host", "instructions", "reply", "report_progress", "host_ignition",
    "report_logs", "upload_host_logs",
}  # fmt: skip


class Recorder(AssistedClient):
    """Notes what would be asked."""

    def __init__(self) -> None:
        super().__init__(endpoint("http://127.0.0.1:1"), Scheme.USER, "")
        self.asked: list[tuple[str, str]] = []

    def _exchange(self, method: str, path: str, use: Any, **options: Any) -> Any:
        self.asked.append((method, path))
        return None


def operations() -> list[str]:
    return [name for name, _ in inspect.getmembers(AssistedClient, inspect.isfunction)
            if not name.startswith("_") and name not in vars(RestClient)]  # fmt: skip


@pytest.mark.parametrize("name", operations())
def test_an_operation_is_a_route_of_the_service(name: str) -> None:
    client = Recorder()
    operation = getattr(client, name)
    wanted = [p for p in inspect.signature(operation).parameters.values() if p.name in VALUES]
    with contextlib.suppress(BadAnswer):  # the recorder's empty answer is no JSON object
        operation(**{parameter.name: VALUES[parameter.name] for parameter in wanted})
    [(method, path)] = client.asked
    scheme = Scheme.WATCHER if name in WATCHED else Scheme.AGENT if name in AGENTS else Scheme.USER
    matching = [
        schemes
        for route_method, pattern, schemes, _ in ROUTES
        if route_method == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path)
    ]
    assert len(matching) == 1, f"{method} {path}"
    assert scheme in matching[0]
    if "cluster_id" in {parameter.name for parameter in wanted} and name != "register_cluster":
        assert "/clusters/c%2F1" in path


def test_answers_of_another_shape_are_told() -> None:
    class Odd(Recorder):
        def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
            return [1]

    with pytest.raises(BadAnswer, match="GET /clusters: HTTP 200: the answer is not a list of objects"):
        Odd().clusters()
    with pytest.raises(BadAnswer, match="GET /clusters/c: HTTP 200: the answer is not an object"):
        Odd().cluster("c")
    assert Odd().instructions("i", "h", "v") == {}
    assert Recorder().clusters() == []
