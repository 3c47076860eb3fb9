"""Conditional changes (If-Match) by two clients over real HTTP: of two that have read one state, one changes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from installer.assisted.auth import Scheme
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import UUID, filled, header, no_brakes, serve

USER = header(Scheme.USER)
HOST = "/infra-envs/{infra_env_id}/hosts/{host_id}"
ROUNDS = 8
Client = TestClient[Any, Any]


def labels(shown: dict[str, Any], mine: str) -> dict[str, Any]:
    known = json.loads(shown.get("node_labels") or "{}")
    return {"node_labels": [{"key": key, "value": value} for key, value in (known | {mine: ""}).items()]}


def appended(name: str) -> Any:
    return lambda shown, mine: {name: ",".join(filter(None, [shown.get(name), mine]))}


CHANGES = [
    (HOST, labels, "node_labels"),
    ("/clusters/{cluster_id}", appended("tags"), "tags"),
    ("/infra-envs/{infra_env_id}", appended("additional_ntp_sources"), "additional_ntp_sources"),
]


@pytest.mark.parametrize(("path", "change", "field"), CHANGES, ids=["host", "cluster", "infra-env"])
def test_nothing_is_lost_when_two_change_one_object_at_once(tmp_path: Path, path: str, change: Any, field: str) -> None:
    statuses: list[int] = []

    async def add(client: Client, url: str, mine: str) -> None:
        while True:
            read = await client.get(url, headers=USER)
            shown = await read.json()
            sent = await client.patch(url, headers=USER | {"If-Match": read.headers["ETag"]}, json=change(shown, mine))
            statuses.append(sent.status)
            if sent.status == 201:
                # Its answer names the state that it has made.
                assert sent.headers["ETag"].rpartition("-")[2] != read.headers["ETag"].rpartition("-")[2]
                return
            body = await sent.json()
            assert (body["kind"], body["code"]) == ("Error", "412")
            assert "changed by somebody else since it was read" in body["reason"]

    async def use(client: Client, fleet: Fleet) -> None:
        url = filled(path, fleet)
        names = [[f"{who}{turn}" for turn in range(ROUNDS)] for who in ("one", "two")]
        for pair in zip(*names, strict=True):
            await asyncio.gather(*(add(client, url, name) for name in pair))
        end = str((await (await client.get(url, headers=USER)).json())[field])
        assert [name for pair in names for name in pair if name not in end] == []

    with no_brakes():
        serve(tmp_path, use)
    assert statuses.count(201) == 2 * ROUNDS
    assert statuses.count(412) > 0


def test_conditions_of_a_change(tmp_path: Path) -> None:
    async def use(client: Client, fleet: Fleet) -> None:
        url = filled(HOST, fleet)

        async def tag() -> str:
            return (await client.get(url, headers=USER)).headers["ETag"]

        async def name(text: str, **condition: str) -> int:
            headers = USER | {key.replace("_", "-"): value for key, value in condition.items()}
            return (await client.patch(url, headers=headers, json={"host_name": text})).status

        first = await tag()
        # Without a condition, and with that of any state, as ever.
        assert [await name("a"), await name("b", If_Match="*")] == [201, 201]
        assert [await name("c", If_Match=wrong) for wrong in (first, '"x"', "", "nonsense")] == [412] * 4
        assert await name("d", If_Match=f'"x", {await tag()}') == 201
        # What an agent reports is no change of what users have set.
        before = await tag()
        store, host = fleet.world.store, fleet.host(fleet.machines[0])
        with store.change():
            store.put_host(msgspec.structs.replace(host, discovery_agent_version="of another image"))
        assert await tag() != before
        assert await name("e", If_Match=before) == 201
        # A refused change has no effect, and the state keeps its name.
        shown = await (await client.get(url, headers=USER)).json()
        assert shown["requested_hostname"] == "e"
        gone = f"{url[:-36]}{UUID}"
        assert (await client.patch(gone, headers=USER | {"If-Match": before}, json={})).status == 404

    with no_brakes():
        serve(tmp_path, use)
