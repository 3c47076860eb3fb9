"""JSON that is sent: what is read, what is not, and that the loop turns meanwhile."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted import inventory as inv
from installer.assisted.auth import Scheme
from installer.assisted.errors import LONGEST, BadRequest
from installer.common.formats import jsontext
from installer.common.formats.jsontext import DEEPEST, MOST
from installer.rendezvous.api.bodies import MAX_BODY
from installer.rendezvous.events import make, one_line
from installer.rendezvous.store.links import PeersReport
from installer.rendezvous.validations.hostview import load_json
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import filled, header, serve
from installer.testing.service.lag_kit import LIMIT, measured, quickest
from installer.testing.service.lag_kit import LONGEST as LONGEST_TURN
from installer.testing.service.rendezvous_kit import inventory, running

UUID = "00000000-0000-4000-8000-000000000001"


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_is_read_with_limits() -> None:
    assert jsontext.parsed('{"a": [1, 2.5, null, "x"]}') == jsontext.parsed(b'{"a":[1,2.5,null,"x"]}')
    assert jsontext.parsed(nested(DEEPEST)) == json.loads(nested(DEEPEST))
    assert jsontext.parsed(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    many = "[" + "0," * (MOST - 1) + "0]"
    assert len(jsontext.parsed(many)) == MOST
    with pytest.raises(ValueError, match="more than 65536 values"):
        jsontext.parsed(many.replace("[", "[0,"))
    for depth in (DEEPEST + 1, 900, 5000, 30_000):
        for text in (nested(depth), '{"a":' * depth + "1" + "}" * depth):
            with pytest.raises(ValueError, match="nested deeper than 64"):
                jsontext.parsed(text)
    for text in ("", "{", "nul", '"\\ud800"'):
        with pytest.raises(ValueError, match=r".+"):
            jsontext.parsed(text)
        assert load_json(text) is None
    assert load_json(nested(5000)) is None


@pytest.mark.parametrize("kind", [inv.Inventory, PeersReport])
def test_shapes_that_are_known_have_the_same_limits(kind: Any) -> None:
    # An unknown member is ignored, whatever it holds.
    for odd in (nested(30_000), "[" + "[]," * MOST + "0]"):
        with pytest.raises(msgspec.MsgspecError, match=r"nested deeper|more than"):
            jsontext.typed(f'{{"odd": {odd}}}', kind)
    assert jsontext.typed("{}", kind) == kind()


def test_a_host_with_a_thousand_disks_is_read() -> None:
    document = inventory()
    [disk] = document["disks"]
    every = msgspec.to_builtins(inv.decode(json.dumps({"disks": [{**disk, "holders": "dm-0,dm-1"}]})))["disks"]
    text = json.dumps({**document, "disks": every * 1000})
    assert len(inv.decode(text).disks) == 1000
    reply = json.dumps({"step_type": "inventory", "output": text})
    assert len(reply) < MAX_BODY / 4
    assert jsontext.parsed(reply)["output"] == text


def test_what_is_nested_deeply_is_the_senders_fault(tmp_path: Path) -> None:
    """As the body itself, and as a text in it."""
    user, agent = header(Scheme.USER), header(Scheme.AGENT)

    async def use(client: Any, fleet: Fleet) -> None:
        machine = fleet.machines[0]
        host = f"/infra-envs/{{infra_env_id}}/hosts/{machine.id}"

        def answered(kind: str, output: str) -> dict[str, Any]:
            return {"step_type": kind, "step_id": kind, "exit_code": 0, "output": output, "error": ""}

        for depth in (DEEPEST + 1, 900, 2000, 60_000):
            deep = nested(depth // 2) if depth > 50_000 else nested(depth)
            held = f'{{"ignition": {{"version": "3.2.0"}}, "x": {deep}}}'
            for method, path, body, caller in (
                ("POST", "/clusters", f'{{"name": {deep}}}', user),
                ("PATCH", "/clusters/{cluster_id}", f'{{"name": {deep}}}', user),
                ("PATCH", "/clusters/{cluster_id}/install-config", json.dumps(held), user),
                (
                    "PUT",
                    "/clusters/{cluster_id}/ignored-validations",
                    json.dumps({"host-validation-ids": deep, "cluster-validation-ids": deep}),
                    user,
                ),
                ("PATCH", "/infra-envs/{infra_env_id}", json.dumps({"ignition_config_override": held}), user),
                ("PATCH", f"{host}/ignition", json.dumps({"config": held}), user),
                (
                    "PATCH",
                    "/clusters/{cluster_id}",
                    json.dumps({"disk_encryption": {"enable_on": "all", "mode": "tang", "tang_servers": deep}}),
                    user,
                ),
                ("POST", f"{host}/instructions", json.dumps(answered("ntp-synchronizer", held)), agent),
                ("POST", f"{host}/instructions", json.dumps(answered("domain-resolution", held)), agent),
            ):
                answer = await client.request(method, filled(path, fleet), data=body, headers=caller)
                assert answer.status == 400, (depth, path, answer.status, await answer.text())
            for kind in ("inventory", "connectivity-check"):
                reply = answered(kind, f'{{"odd": {nested(2000)}}}')
                answer = await client.post(filled(f"{host}/instructions", fleet), json=reply, headers=agent)
                assert answer.status == 400, (kind, await answer.text())

    serve(tmp_path, use)


def longest_turn_of_bodies(directory: Path) -> float:
    """Seconds of a service of its own."""
    directory.mkdir()
    with running(directory) as service:
        context = ssl.create_default_context(cafile=str(service.ca))
        token = service.keys.token("agentAuth")

        def send(path: str, body: bytes) -> int:
            headers = {"X-Secret-Key": token, "Content-Type": "application/json"}
            request = urllib.request.Request(f"{service.url}api/assisted-install/v2{path}", body, headers)
            try:
                with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        hosts = f"/infra-envs/{UUID}/hosts"
        room = MAX_BODY - 100
        for body in (
            b'{"x":[' + b"[]," * (room // 3) + b"0]}",
            b'{"x":[' + b'{"a":1},' * (room // 8) + b"0]}",
            b'{"x":[' + b'{"a":1},' * (MOST // 2 - 10) + b"0]}",
            b'{"x":[' + b"[]," * (MOST // 2 - 10) + b"0]}",
            b'{"host_id":"' + b"x" * room + b'"}',
            b'{"host_id":"' + b"password: " * (room // 10) + b'"}',
            b'{"host_id":"' + b"\\u005b" * (room // 6) + b'"}',
        ):
            assert send(hosts, body) in (400, 404), body[:20]
        assert send(hosts, b"[" * (MAX_BODY + 1)) == 413
        return measured(service)[LONGEST_TURN]


def test_no_body_stops_the_loop(tmp_path: Path) -> None:
    """The bodies are the most work for their size, or for the limit."""
    longest = quickest(lambda number: longest_turn_of_bodies(tmp_path / str(number)))
    assert 0 < longest < LIMIT


def test_quoted_texts_are_shortened() -> None:
    """Redacting is dear: about a tenth of a second a megabyte."""
    long = "password: " * 500_000
    assert len(BadRequest(f"{long} is no name").reason) <= LONGEST + 2
    assert len(make("infra_env_registered", name=long).message) <= 4 * LONGEST
    assert len(one_line(long)) <= 3 * 2000
